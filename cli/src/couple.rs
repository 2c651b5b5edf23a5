//! `uc couple`: the host's controller of guests that couple their own connections. Also `uc guest couple`, the guests'
//! end.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::poll::{PollFd, PollFlags, poll};
use serde::Serialize;
use uc_core::coupling::GroupPolicy;
use uc_guest::coupling::host::{Policy, Share};
use uc_guest::coupling::serve::{Event, Server};
use uc_guest::coupling::sockets::{RemoteSockets, Sockets};
use uc_guest::coupling::{GuestSetup, Place};
use uc_guest::{Across, CoupleEvent, Ctrltcp, Store, cookie_at, couple};
use uc_service::confine::Confined;

use crate::coupling::netns_path;
use uc_program::cancel_on_signal;

/// Maximum number of guests, so that their sockets do not exceed the descriptors that a process may have.
const GUESTS_MAX: usize = 512;
/// Interval, in milliseconds, at which the process that opens sockets checks whether it must end.
const LOOK_EVERY_MS: u16 = 200;

/// Couple the connections of guests that run `uc guest couple`: together the guests compete like one TCP.
/// Each guest gets a share of its window in proportion to the guest's weight, however many connections the
/// guest opens.
///
/// Runs until it is stopped; from then on each guest couples only its own connections.
#[derive(Args)]
pub struct Couple {
    /// A guest: a name for it; the Unix socket of its channel, which QEMU creates for a virtio-serial port;
    /// its weight, 1 to 255 [default: 1]; and `listen` if this command shall create the socket, for a
    /// container. May be given several times
    #[arg(long = "guest", value_name = "NAME=SOCKET[,weight=N][,listen]", required = true,
          value_parser = guest_setup)]
    guests: Vec<GuestSetup>,
    /// Length in bits of the IPv4 remote prefix that identifies a group: connections to addresses with the
    /// same prefix share one window. 0: one group for all of IPv4, and for IPv6 too if --prefix6 is 0 as
    /// well. At most the guests' own --prefix4
    #[arg(long, value_name = "BITS", default_value_t = 32,
          value_parser = clap::value_parser!(u8).range(0..=32))]
    prefix4: u8,
    /// Length in bits of the IPv6 remote prefix that identifies a group; 128: one group per remote host
    #[arg(long, value_name = "BITS", default_value_t = 128,
          value_parser = clap::value_parser!(u8).range(0..=128))]
    prefix6: u8,
    /// Aggressiveness of a group of n connections, in percent: 0 like one TCP, 100 like n TCPs
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    aggressiveness: u8,
    /// Divide the group's rate instead of its window, so that a connection with a longer round-trip time
    /// does not get a smaller share
    #[arg(long)]
    by_rate: bool,
    /// Maximum number of bytes in flight of a group, however many its guests report; 0: 1 GiB
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    window_max: u32,
    /// Interval at which every guest's share is printed, in seconds; 0: only events are printed
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    every: u64,
    /// Print events and shares as JSON objects, one per line
    #[arg(long)]
    json: bool,
    /// Read the guests' reports without capabilities; the process at the other end of standard input opens
    /// the sockets. The command starts itself with this option
    #[arg(long, hide = true)]
    confined: bool,
}

/// Let the host couple this guest's groups of connections with those of the host's other guests.
///
/// Runs until it is stopped. Without this command, or one retransmission timeout after the host's last
/// answer, the groups share windows only within this guest, as after `uc guest load ctrltcp` alone.
#[derive(Args)]
pub struct GuestCouple {
    /// Virtio-serial port, or Unix socket, whose other end is `uc couple` on the host
    #[arg(long, value_name = "PATH", default_value = "/dev/virtio-ports/uc.ccc")]
    channel: PathBuf,
    /// Couple only the groups of this network namespace (after `uc guest load ctrltcp --apart`): a
    /// name of `ip netns`, a process id, or a path
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// Name of the congestion control: the --name that was given to `uc guest load ctrltcp`
    #[arg(long, value_name = "NAME", default_value = Ctrltcp::NAME)]
    name: String,
}

/// Parses the argument `NAME=SOCKET[,weight=N][,listen]` of `--guest`. Without `weight` the weight is 1.
fn guest_setup(text: &str) -> Result<GuestSetup, String> {
    let (name, rest) = text.split_once('=').unwrap_or(("", text));
    let mut parts = rest.split(',');
    let path = PathBuf::from(parts.next().unwrap_or_default());
    if name.is_empty() || path.as_os_str().is_empty() {
        return Err(
            "expected a guest's name and its socket: NAME=SOCKET[,weight=N][,listen]".into(),
        );
    }
    let (mut given, mut listens) = (None, false);
    for part in parts {
        match part.split_once('=') {
            Some(("weight", weight)) => {
                let weight: Option<u8> = weight.parse().ok().filter(|&weight| weight > 0);
                let weight =
                    weight.ok_or("the guest's weight is not a whole number from 1 to 255")?;
                if given.replace(weight).is_some() {
                    return Err("the weight is given twice; remove one".into());
                }
            }
            None if part == "listen" => listens = true,
            _ => {
                return Err(format!(
                    "'{part}' after the socket is neither weight=N nor listen; write one of these"
                ));
            }
        }
    }
    Ok(GuestSetup {
        name: name.into(),
        place: if listens {
            Place::Listen(path)
        } else {
            Place::Connect(path)
        },
        weight: given.unwrap_or(1),
    })
}

/// Refuses two guests with the same name or the same socket: equal names could not be told apart, and a socket belongs
/// to one guest.
fn check_guests(guests: &[GuestSetup]) -> Result<()> {
    let path = |guest: &GuestSetup| match &guest.place {
        Place::Connect(path) | Place::Listen(path) => path.clone(),
    };
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for guest in guests {
        let path = path(guest);
        if !names.insert(&guest.name) {
            let name = &guest.name;
            bail!("two guests are called '{name}': give each a name of its own");
        }
        if !paths.insert(path.clone()) {
            let path = path.display();
            bail!("two guests have the socket {path}: give each one of its own");
        }
    }
    Ok(())
}

/// A line that `uc couple` prints: an event or a guest's share.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Event {
        guest: &'a str,
        coupled: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        because: Option<String>,
    },
    Share {
        guest: &'a str,
        remote: String,
        window_bytes: u32,
        share_bytes: u64,
        /// Number of times that the guest's losses reduced the window.
        cuts: u64,
    },
}

impl<'a> Line<'a> {
    fn of_event(guest: &'a str, event: &Event<'_>) -> Self {
        let because = match event {
            Event::Coupled => None,
            Event::Waiting { path, source } => Some(format!(
                "can't connect to {} ({source}); tried five times a second until its machine is \
                 there",
                path.display()
            )),
            Event::Gone => Some("the other end of its channel is closed".into()),
            Event::LeftOut(refusal) => Some(refusal.to_string()),
        };
        Self::Event {
            guest,
            coupled: because.is_none(),
            because,
        }
    }

    fn of_share(guest: &'a str, share: &Share) -> Self {
        Self::Share {
            guest,
            remote: share.remote.to_canonical().to_string(),
            window_bytes: share.window_bytes,
            share_bytes: share.given_bytes,
            cuts: share.cuts,
        }
    }

    /// Prints the line. A closed standard output is no error.
    fn print(&self, json: bool) {
        let text = match self {
            _ if json => serde_json::json!(self).to_string(),
            Self::Event {
                guest,
                because: None,
                ..
            } => format!("{guest}: coupled"),
            Self::Event {
                guest,
                because: Some(because),
                ..
            } => format!("{guest}: on its own; {because}"),
            Self::Share {
                guest,
                remote,
                window_bytes,
                share_bytes,
                cuts,
            } => format!("{guest}: {share_bytes} of {window_bytes} bytes to {remote}, {cuts} cuts"),
        };
        let mut out = std::io::stdout().lock();
        let _nobody_reads = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}

impl Couple {
    /// Couples the guests until the command is stopped.
    pub fn execute(self) -> Result<bool> {
        if self.guests.len() > GUESTS_MAX {
            bail!(
                "{} guests are given, but one process couples at most {GUESTS_MAX}; give fewer",
                self.guests.len()
            );
        }
        check_guests(&self.guests)?;
        if self.confined {
            self.couple()
        } else {
            self.open()
        }
    }

    /// Opens the guests' sockets, and passes them to a process without capabilities, which reads them.
    fn open(self) -> Result<bool> {
        let stop = cancel_on_signal()?;
        let mut sockets = Sockets::new(&self.guests)?;
        let own = std::env::args_os().skip(1);
        let confined = Confined::start(own.chain(["--confined".into()]))?;
        while !stop.load(Ordering::Relaxed) {
            let mut asked = [PollFd::new(confined.as_fd(), PollFlags::POLLIN)];
            // Nothing to read within that time, or a signal.
            if !matches!(poll(&mut asked, LOOK_EVERY_MS), Ok(1..)) {
                continue;
            }
            let answered = sockets.answer(&confined);
            if !answered.context(
                "the confined process that reads the guests' reports sent an invalid request; \
                     run the command again",
            )? {
                let status = confined.status()?;
                bail!(
                    "the confined process that reads the guests' reports has ended ({status}); \
                     run the command again"
                );
            }
        }
        Ok(true)
    }

    /// Couples the guests in this process, which gives up its capabilities first.
    fn couple(self) -> Result<bool> {
        uc_service::confine::enter()?;
        let sockets = RemoteSockets(uc_service::confine::parent()?);
        let policy = self.policy();
        let json = self.json;
        let mut server = Server::through(policy, self.guests, sockets);
        let every = Duration::from_secs(self.every);
        let mut printed = Instant::now();
        loop {
            uc_service::confine::gets_on()?;
            server.turn(&mut |guest, event| Line::of_event(guest, &event).print(json))?;
            if !every.is_zero() && printed.elapsed() >= every {
                printed = Instant::now();
                for (guest, share) in server.shares() {
                    Line::of_share(guest, &share).print(json);
                }
            }
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            group: GroupPolicy {
                aggressiveness_q16: u32::from(self.aggressiveness) * 65_536 / 100,
                shares: self.by_rate.into(),
                window_max_bytes: self.window_max,
                ..Policy::default().group
            },
            prefix4: self.prefix4,
            prefix6: self.prefix6,
        }
    }
}

impl GuestCouple {
    /// Lets the host couple this guest until the command is stopped.
    pub fn execute(self, store: &Store) -> Result<bool> {
        let groups = store.groups(&self.name)?;
        let netns = self.netns.as_deref().map(netns_path);
        let netns = netns.map(|path| cookie_at(&path)).transpose()?;
        let across = Across::new(&groups, netns);
        let stop = cancel_on_signal()?;
        let mut tell = |event: CoupleEvent<'_>| {
            let text = match event {
                CoupleEvent::Coupled => "coupled by the host".into(),
                CoupleEvent::Alone(alone) => format!("on its own; {alone}"),
            };
            let mut out = std::io::stdout().lock();
            let _nobody_reads = writeln!(out, "{text}").and_then(|()| out.flush());
        };
        couple(&across, &self.channel, &stop, &mut tell)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_a_name_a_socket_and_perhaps_a_weight() {
        let red = guest_setup("red=/run/red.sock").unwrap();
        assert_eq!((red.name.as_str(), red.weight), ("red", 1));
        assert_eq!(red.place, Place::Connect("/run/red.sock".into()));
        let blue = guest_setup("blue=b.sock,listen,weight=255").unwrap();
        assert_eq!(blue.weight, 255);
        assert_eq!(blue.place, Place::Listen("b.sock".into()));
        for refused in [
            "",
            "red",
            "red=",
            "=/run/red.sock",
            "red=a,weight=0",
            "red=a,weight=256",
            "red=a,wait",
            "red=a,listen=1",
            "red=a,weight=2,weight=3",
        ] {
            assert!(guest_setup(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn duplicate_names_or_sockets_of_guests_are_refused() {
        let guests = |texts: [&str; 2]| texts.map(|text| guest_setup(text).unwrap());
        assert!(check_guests(&guests(["red=a", "blue=b"])).is_ok());
        let error = check_guests(&guests(["red=a", "red=b"])).unwrap_err();
        assert!(error.to_string().contains("called 'red'"), "{error}");
        let error = check_guests(&guests(["red=a", "blue=a,listen"])).unwrap_err();
        assert!(error.to_string().contains("the socket a"), "{error}");
    }
}

//! `uc couple`: the host's controller of guests that couple their own connections; and `uc guest
//! couple`, the guests' end.

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

/// Maximum number of guests: their sockets must not exceed the descriptors that a process may have.
const GUESTS_MAX: usize = 512;
/// Interval at which the process that opens sockets looks whether it is to end.
const LOOK_EVERY_MS: u16 = 200;

/// Couple guests that run `uc guest couple`: together they compete like one TCP, of which each gets
/// a share by its weight, however many connections it opens.
///
/// Runs until it is stopped; from then on each guest is coupled on its own.
#[derive(Args)]
pub struct Couple {
    /// A guest: its name, QEMU's socket of its virtio-serial port, its weight (1 to 255, 1 by
    /// default), and `listen` to create the socket here, for containers
    #[arg(long = "guest", value_name = "NAME=SOCKET[,weight=N][,listen]", required = true,
          value_parser = guest_setup)]
    guests: Vec<GuestSetup>,
    /// Bits of an IPv4 remote address that identify a group: traffic to addresses that agree in
    /// them shares one window. 0: one group for all of IPv4, and for IPv6 too if both are 0. At
    /// most the guests' own prefix length
    #[arg(long, value_name = "BITS", default_value_t = 32,
          value_parser = clap::value_parser!(u8).range(0..=32))]
    prefix4: u8,
    /// Bits of an IPv6 remote address that identify a group; 128: one group per remote host
    #[arg(long, value_name = "BITS", default_value_t = 128,
          value_parser = clap::value_parser!(u8).range(0..=128))]
    prefix6: u8,
    /// Aggressiveness of a group of n: 0 like one TCP, 100 like n TCPs
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    aggressiveness: u8,
    /// Divide the rate, not the window: a longer round trip does not mean a smaller share
    #[arg(long)]
    by_rate: bool,
    /// Maximum bytes in flight of a group, whatever guests report; 0: 1 GiB
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    window_max: u32,
    /// Interval at which every guest's share is printed; 0: only events are printed
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    every: u64,
    /// Print JSON objects, one per line
    #[arg(long)]
    json: bool,
    /// Couple without capabilities; the process at the other end of standard input opens the
    /// sockets
    #[arg(long, hide = true)]
    confined: bool,
}

/// Let a host couple this guest's groups with those of its other guests.
///
/// Runs until it is stopped. Without it, or one retransmission timeout after the last answer, the
/// groups are uncoupled from other guests, as after `uc guest load ctrltcp` alone.
#[derive(Args)]
pub struct GuestCouple {
    /// The virtio-serial port or socket whose other end is `uc couple`
    #[arg(long, value_name = "PATH", default_value = "/dev/virtio-ports/uc.ccc")]
    channel: PathBuf,
    /// Couple only the groups of this network namespace (after `uc guest load ctrltcp --apart`): a
    /// name of `ip netns`, a process id, or a path
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// The --name that was given to `uc guest load ctrltcp`
    #[arg(long, value_name = "NAME", default_value = Ctrltcp::NAME)]
    name: String,
}

/// Parses `NAME=SOCKET[,weight=N][,listen]`.
fn guest_setup(text: &str) -> Result<GuestSetup, String> {
    let (name, rest) = text.split_once('=').unwrap_or(("", text));
    let mut parts = rest.split(',');
    let path = PathBuf::from(parts.next().unwrap_or_default());
    if name.is_empty() || path.as_os_str().is_empty() {
        return Err("write NAME=SOCKET[,weight=N][,listen]".into());
    }
    let (mut given, mut listens) = (None, false);
    for part in parts {
        match part.split_once('=') {
            Some(("weight", weight)) => {
                let weight: Option<u8> = weight.parse().ok().filter(|&weight| weight > 0);
                let weight = weight.ok_or("the weight is not a number from 1 to 255")?;
                if given.replace(weight).is_some() {
                    return Err("the weight is given twice; remove one".into());
                }
            }
            None if part == "listen" => listens = true,
            _ => {
                return Err(format!(
                    "'{part}' is neither weight=N nor listen; write one of them"
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

/// Checks that names and sockets are unique: equal names could not be told apart, and one socket is
/// one guest.
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

/// A line of `uc couple`'s output.
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
        /// Number of window reductions that its losses caused.
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

    /// Prints the line; goes on if standard output is closed.
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
    /// Runs until it is stopped.
    pub fn execute(self) -> Result<bool> {
        if self.guests.len() > GUESTS_MAX {
            bail!(
                "{} guests; one process couples {GUESTS_MAX}",
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

    /// Opens the guests' sockets, and passes them to a process without rights, which reads them.
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
            if !answered
                .context("the process that reads the guests' reports sent what it may not send")?
            {
                let status = confined.status()?;
                bail!("the process that reads the guests' reports has ended ({status})");
            }
        }
        Ok(true)
    }

    /// Couples the guests, without rights.
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
    /// Runs until it is stopped.
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

//! `uc watch`: HWatch's control of flow starts at ports of this host, as a process in the foreground.

mod tasks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};
use serde::Serialize;
use uc_core::rule::Prefix;
use uc_core::watch::StartPolicy;
use uc_law::{Chosen, Kind, Table, Value, start_keys, watch_policy};
use uc_port::AttachVia;
use uc_program::cancel_on_signal;
use uc_watch::{
    Asker, Data, Duties, Events, GranterHost, Injector, Keeper, Next, ProbeKey, ProbeKeys,
    Programs, Settings, Watched,
};
use uc_words::BitsPerSec;

use self::tasks::Tasks;
use super::options::{chosen, long, option};
use super::pace::{self, Pace};

/// Have flows start as fast as the network can take them: HWatch.
///
/// Before a flow of a guest starts, this host sends probe packets to see how full the path is. The far
/// end's host, which must run `uc watch` too, sets the flow's first windows from the number of probes
/// that arrive marked. Handshakes wait for their probes in this process. The command stays in the
/// foreground; when it ends, its programs are removed from the ports and every connection goes on.
#[derive(Args)]
pub struct Watch {
    /// Interfaces of this host: the host's sides of guests' interfaces
    #[arg(required_unless_present_any = ["make_key", "settings_on_stdin", "grant"],
          value_name = "PORT")]
    ports: Vec<String>,
    /// Prefix of guests on other hosts that run `uc watch` too, such as 10.0.0.0/8; probes go only
    /// to these addresses
    #[arg(
        long = "peer",
        required_unless_present_any = ["make_key", "grant"],
        value_name = "PREFIX"
    )]
    peers: Vec<Prefix>,
    /// File with the key of the probes, the same on every host that runs `uc watch`
    #[arg(long, required_unless_present = "make_key", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Write a new random key to this file, and do nothing else
    #[arg(long, value_name = "FILE", exclusive = true)]
    make_key: Option<PathBuf>,
    /// End of a connection that sends the data for which probes are sent
    #[arg(long, value_enum, default_value = "both")]
    data: DataName,
    #[command(flatten)]
    start: StartOptions,
    /// Rate at which the first windows of a port's flows are paced, one after the other: `auto`, the rate of
    /// the port's uplink; a rate such as 10Gbit; or `none`, no pacing
    #[arg(
        long = "pace",
        value_name = "RATE",
        default_value = "auto",
        help_heading = "The start"
    )]
    turns: Pace,
    /// Address and UDP port of the granter, such as 10.0.0.5:6654: a `uc watch --grant` that grants first
    /// windows on a link that several hosts share. If the granter does not answer within 1 ms, the flow
    /// starts as without this option, but with its whole window
    #[arg(long, value_name = "ADDRESS:PORT")]
    granter: Option<SocketAddr>,
    /// Run as the granter: listen at the address that --granter names, and grant first windows at the rate
    /// of the shared link, such as 10Gbit. Watches no port. Only --granter, --key-file, --burst, --wait and
    /// --json have an effect together with this option
    #[arg(long, value_name = "RATE", requires = "granter", value_parser = pace::rate,
          conflicts_with_all = ["ports", "peers", "data", "turns", "per_second", "at_once", "via"])]
    grant: Option<BitsPerSec>,
    /// Maximum number of handshakes of one port per second that are watched; further ones pass
    /// unwatched
    #[arg(long, value_name = "N", default_value_t = Settings::default().per_second,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_second: u32,
    /// Burst that --per-second allows: maximum number of handshakes of one port that are watched even if they begin at
    /// the same moment
    #[arg(long, value_name = "N", default_value_t = Settings::default().burst,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    at_once: u32,
    /// Kernel interface through which the programs are attached to the port
    #[arg(long, value_enum, default_value = "auto")]
    via: crate::ports::Via,
    /// Read the ports and their settings as JSON from a line of standard input, and again from each further
    /// line, until its end. The agent starts the command with this option
    #[arg(long, hide = true, conflicts_with_all = ["ports", "data", "turns", "granter", "per_second", "at_once"])]
    settings_on_stdin: bool,
    /// At the end, print the counts of watched handshakes and probes as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DataName {
    /// The end that opens the connection
    Client,
    /// The end that accepts the connection
    Server,
    /// Both ends
    Both,
}

/// The settings of the start-up control of flows.
struct StartOptions(Chosen<StartPolicy>);

impl Args for StartOptions {
    fn augment_args(mut command: Command) -> Command {
        let usual = Settings::default().policy;
        // `--pace` has words beside rates, and is an option of its own, which is not a row's.
        let rows = StartPolicy::rows().iter();
        for row in rows.filter(|row| row.key != start_keys::PACE) {
            let mut option = option(row, "The start");
            let number = row.get(&usual);
            if row.kind != Kind::Flag && row.range.contains(&number) {
                option = option.default_value(Value::of_field(row, number).text(row));
            }
            command = command.arg(option);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StartOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(chosen(matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The ports that a command in the foreground watches, by name.
struct AtPorts(Vec<(String, Watched)>);

impl Duties for AtPorts {
    fn each_second(&mut self) -> Next {
        self.0.retain(|(port, watched)| {
            let gone = watched.is_gone();
            if gone {
                errln!("uc: {port} is gone, and is watched no more");
            }
            !gone
        });
        match self.0.is_empty() {
            true => Next::End,
            false => Next::GoOn,
        }
    }
}

#[derive(Serialize)]
struct Summary {
    holders: u32,
    events: Vec<EventRow>,
}

#[derive(Serialize)]
struct EventRow {
    event: &'static str,
    count: u64,
    meaning: &'static str,
}

impl Watch {
    /// Watches the ports until a signal arrives.
    pub fn execute(self) -> Result<bool> {
        if let Some(path) = &self.make_key {
            ProbeKey::make(path)?;
            outln!("{}: a new key; copy it to every host", path.display());
            return Ok(true);
        }
        let settings = self.settings()?;
        let Some(key_file) = &self.key_file else {
            bail!("give --key-file; make one: uc watch --make-key FILE");
        };
        let keys = ProbeKeys::read(key_file)?;
        if let (Some(rate), Some(address)) = (self.grant, self.granter) {
            return self.grant(rate, address, keys, settings.policy);
        }
        let asker = |granter| Asker::new(granter, keys, settings.policy);
        let asker = self.granter.map(asker).transpose()?;
        let programs = Programs::load(keys)?;
        for peer in &self.peers {
            programs.add_peer(*peer)?;
        }
        let injector = Injector::new(&programs)?;
        let keeper = Keeper::new(&programs, &injector)?.asking(asker.as_ref());
        if self.settings_on_stdin {
            let mut tasks = Tasks::start(&programs)?;
            keeper.run(&mut tasks)?;
            return tasks.ended();
        }
        let mut watched = AtPorts(self.attach(&programs, &settings)?);
        let holders = keeper.run(&mut watched)?;
        self.print(holders, &programs.events()?)?;
        if watched.0.is_empty() {
            bail!(
                "no interface is left to watch; start `uc watch` again when the interfaces exist"
            );
        }
        Ok(true)
    }

    /// Grants first windows at the rate of a shared link until a signal arrives.
    fn grant(
        &self,
        rate: BitsPerSec,
        address: SocketAddr,
        keys: ProbeKeys,
        mut policy: StartPolicy,
    ) -> Result<bool> {
        if policy.observe != 0 || policy.wait_us == 0 {
            bail!(
                "--grant paces first windows, and --observe and --wait 0s turn pacing off; remove \
                 --grant, or these options"
            );
        }
        policy.pace_bytes_per_s = rate.0 / 8;
        let granter = GranterHost::new(address, keys, policy)?;
        let stop = cancel_on_signal()?;
        outln!("{address}: grants first windows at {rate}");
        let seen = granter.run(|| stop.load(Ordering::Relaxed));
        if self.json {
            outln!("{}", serde_json::to_string(&seen)?);
            return Ok(true);
        }
        outln!("{:>10}  first windows granted", seen.granted);
        outln!(
            "{:>10}  of these, flows that were told to wait",
            seen.waited
        );
        outln!(
            "{:>10}  datagrams refused: another key, a clock more than 2 s off, or no question",
            seen.refused
        );
        Ok(true)
    }

    fn settings(&self) -> Result<Settings> {
        if let Some((key, message)) = self.start.0.faults().into_iter().next() {
            bail!("--{}: {message}", long(key));
        }
        let data = match self.data {
            DataName::Client => Data::FromClient,
            DataName::Server => Data::FromServer,
            DataName::Both => Data::FromBoth,
        };
        Ok(Settings {
            policy: watch_policy(&self.start.0, &Settings::default().policy),
            sends: data,
            receives: data,
            per_second: self.per_second,
            burst: self.at_once,
        })
    }

    /// Attaches the programs to all ports, or to none if one fails. Prints which ports are watched, and the
    /// rate that paces each.
    fn attach(&self, programs: &Programs, settings: &Settings) -> Result<Vec<(String, Watched)>> {
        let via = AttachVia::from(self.via);
        let (mut watched, mut uplinks) = (Vec::new(), Vec::new());
        for port in crate::ports::distinct(self.ports.clone()) {
            let ifindex = uc_port::interface_index(&port)?;
            let mut settings = *settings;
            uplinks.push(self.turns.set(&mut settings.policy, ifindex)?);
            let port_watched = programs.watch(ifindex, &settings, via)?;
            watched.push((port, port_watched));
        }
        for ((port, _), uplink) in watched.iter().zip(uplinks) {
            match &uplink {
                Some(uplink) => outln!(
                    "{port}: watched; first windows are given at {}, the rate of {}",
                    uplink.rate,
                    uplink.name
                ),
                None => outln!("{port}: watched"),
            }
            self.turns.warn(port, uplink.as_ref(), &settings.policy);
        }
        Ok(watched)
    }

    fn print(&self, holders: u32, events: &Events) -> Result<()> {
        let rows = events.iter().map(|(event, count)| EventRow {
            event: event.label(),
            count,
            meaning: event.meaning(),
        });
        let summary = Summary {
            holders,
            events: rows.collect(),
        };
        if self.json {
            outln!("{}", serde_json::to_string(&summary)?);
            return Ok(());
        }
        for row in summary.events.iter().filter(|row| row.count > 0) {
            outln!("{:>10}  {}", row.count, row.meaning);
        }
        Ok(())
    }
}

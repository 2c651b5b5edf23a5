//! `uc watch`: HWatch's start on ports of this host, as a process in the foreground.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use uc_core::rule::Prefix;
use uc_core::watch::StartPolicy;
use uc_experiment::{BitsPerSec, Bytes, Nanos, Watch as Start};
use uc_port::AttachVia;
use uc_watch::{Data, Events, Injector, Keeper, ProbeKey, Programs, Settings, Watched};

/// Have flows start as fast as the network can take them: HWatch.
///
/// Before a flow of a guest starts, this host sends probes to see how full the path is; the other
/// host, which runs `uc watch` too, sets the flow's first windows by how many arrive marked.
/// Handshakes wait for their probes in this process. It stays in the foreground; when it ends,
/// however, the ports are left alone and every connection goes on.
#[derive(Args)]
pub struct Watch {
    /// Interfaces of this host: the host's sides of guests' interfaces
    #[arg(required_unless_present = "make_key", value_name = "PORT")]
    ports: Vec<String>,
    /// Addresses of hosts' guests that are watched too, as 10.0.0.0/8; probes go nowhere else
    #[arg(
        long = "peer",
        required_unless_present = "make_key",
        value_name = "PREFIX"
    )]
    peers: Vec<Prefix>,
    /// The file with the key that all these hosts have
    #[arg(long, required_unless_present = "make_key", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Make such a file, and do nothing else
    #[arg(long, value_name = "FILE", exclusive = true)]
    make_key: Option<PathBuf>,
    /// Which end of a connection sends the data whose start is watched
    #[arg(long, value_enum, default_value = "both")]
    data: DataName,
    #[command(flatten, next_help_heading = "The start")]
    start: StartOptions,
    /// Handshakes of one port that are watched in a second; more of them pass
    #[arg(long, value_name = "N", default_value_t = Settings::default().per_second,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_second: u32,
    /// How many of them at once
    #[arg(long, value_name = "N", default_value_t = Settings::default().burst,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    at_once: u32,
    /// How to attach
    #[arg(long, value_enum, default_value = "auto")]
    via: crate::host::ports::Via,
    /// At the end, print the counts as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DataName {
    /// The one that opens it
    Client,
    /// The one that is called
    Server,
    /// Either
    Both,
}

/// The numbers of `core/watch/policy.h`.
#[derive(Args)]
struct StartOptions {
    /// Probes before a flow
    #[arg(long, value_name = "N", default_value_t = usual().probes,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(Start::PROBES_MAX)))]
    probes: u8,
    /// All of them leave within this, and within a small part of the path's round-trip time
    #[arg(long, value_name = "TIME", value_parser = a_span,
          default_value_t = time(Settings::default().policy.span_us))]
    span: Nanos,
    /// Which part of it: 2 is the half
    #[arg(long, value_name = "N", default_value_t = usual().span_part,
          value_parser = clap::value_parser!(u8).range(1..))]
    part: u8,
    /// Of probes that were marked this part of segments comes at once, and as much a round later: 2
    /// is the half
    #[arg(long, value_name = "N", default_value_t = usual().marked_part,
          value_parser = clap::value_parser!(u8).range(2..))]
    marked_part: u8,
    /// No window that is set is smaller, in segments
    #[arg(long, value_name = "N", default_value_t = usual().least_segments,
          value_parser = clap::value_parser!(u8)
              .range(i64::from(*Start::LEAST.start())..=i64::from(*Start::LEAST.end())))]
    least: u8,
    /// After so many rounds of data a start is over at the latest
    #[arg(long, value_name = "N", default_value_t = usual().rounds,
          value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// So long after it was measured a path isn't probed again
    #[arg(long, value_name = "TIME", value_parser = a_records_age,
          default_value_t = time(usual().fresh_us))]
    fresh: Nanos,
    /// The same, of a path that was found without a mark
    #[arg(long, value_name = "TIME", value_parser = a_records_age,
          default_value_t = time(usual().idle_us))]
    idle: Nanos,
    /// The rate of a guest's own link: first windows are given no faster; without it, at once
    #[arg(long, value_name = "RATE", value_parser = a_pace)]
    pace: Option<BitsPerSec>,
    /// First windows may be given so far ahead of that rate
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(usual().burst_bytes))]
    burst: Bytes,
    /// The longest that a first window waits for that rate
    #[arg(long, value_name = "TIME", value_parser = a_wait,
          default_value_t = time(usual().wait_us))]
    wait: Nanos,
    /// A probe that took so much longer than another of its flow counts as marked; 0s: none does
    #[arg(long, value_name = "TIME", value_parser = a_delay, default_value = "0s")]
    late: Nanos,
    /// Send and count probes, and write no window
    #[arg(long)]
    observe: bool,
}

fn usual() -> StartPolicy {
    StartPolicy::usual()
}

fn time(us: u32) -> Nanos {
    Nanos(u64::from(us) * 1_000)
}

fn up_to(text: &str, most: Nanos) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if time > most {
        return Err(format!("is more than {most}; give at most that"));
    }
    Ok(time)
}

fn a_span(text: &str) -> Result<Nanos, String> {
    let (least, most) = Start::SPAN.into_inner();
    let span = up_to(text, most)?;
    if span < least {
        return Err(format!(
            "is below {least}; give that or more, or --probes 0"
        ));
    }
    Ok(span)
}

fn a_wait(text: &str) -> Result<Nanos, String> {
    up_to(text, Start::WAIT_MAX)
}

fn a_delay(text: &str) -> Result<Nanos, String> {
    up_to(text, Start::LATE_MAX)
}

fn a_records_age(text: &str) -> Result<Nanos, String> {
    up_to(text, Start::RECORD_MAX)
}

fn a_pace(text: &str) -> Result<BitsPerSec, String> {
    let pace: BitsPerSec = text.parse().map_err(|error| format!("{error}"))?;
    let least = Start::PACE_MIN;
    if pace < least {
        return Err(format!(
            "is below {least}, where nothing would start; give more, or leave it out"
        ));
    }
    Ok(pace)
}

/// Whole microseconds, at least one of anything.
fn microseconds(time: Nanos) -> u32 {
    u32::try_from(time.0.div_ceil(1_000)).unwrap_or(u32::MAX)
}

impl StartOptions {
    fn policy(&self) -> StartPolicy {
        StartPolicy {
            probes: self.probes,
            least_segments: self.least,
            rounds: self.rounds,
            observe: u8::from(self.observe),
            span_us: microseconds(self.span),
            fresh_us: microseconds(self.fresh),
            idle_us: microseconds(self.idle),
            wait_us: microseconds(self.wait),
            burst_bytes: self.burst.0,
            late_ns: self.late.0 as u32,
            span_part: self.part,
            marked_part: self.marked_part,
            pad: [0; 2],
            pace_bytes_per_s: self.pace.map_or(0, |rate| rate.0 / 8),
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
    /// Watches until a signal comes.
    pub fn execute(self) -> Result<bool> {
        if let Some(path) = &self.make_key {
            ProbeKey::make(path)?;
            outln!("{}: a new key; copy it to every host", path.display());
            return Ok(true);
        }
        let Some(key_file) = &self.key_file else {
            bail!("give --key-file; make one: uc watch --make-key FILE");
        };
        let programs = Programs::load(ProbeKey::read(key_file)?)?;
        for peer in &self.peers {
            programs.add_peer(*peer)?;
        }
        let injector = Injector::new(&programs)?;
        let keeper = Keeper::new(&programs, &injector)?;
        let mut watched = self.attach(&programs)?;
        for (port, _) in &watched {
            outln!("{port}: watched");
        }
        let holders = keeper.run(&mut || {
            watched.retain(|(port, watched)| {
                let gone = watched.is_gone();
                if gone {
                    errln!("uc: {port} is gone, and is watched no more");
                }
                !gone
            });
            watched.is_empty()
        })?;
        self.print(holders, &programs.events()?)?;
        if watched.is_empty() {
            bail!("no port is left to watch; start `uc watch` again when they are there");
        }
        Ok(true)
    }

    /// All of the ports, or none.
    fn attach(&self, programs: &Programs) -> Result<Vec<(String, Watched)>> {
        let data = match self.data {
            DataName::Client => Data::FromClient,
            DataName::Server => Data::FromServer,
            DataName::Both => Data::FromBoth,
        };
        let settings = Settings {
            policy: self.start.policy(),
            sends: data,
            receives: data,
            per_second: self.per_second,
            burst: self.at_once,
        };
        let via = AttachVia::from(self.via);
        let mut watched = Vec::new();
        for port in crate::host::ports::distinct(self.ports.clone()) {
            let ifindex = uc_port::interface_index(&port)?;
            let port_watched = programs.watch(ifindex, &settings, via)?;
            watched.push((port, port_watched));
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

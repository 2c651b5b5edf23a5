//! `uc dupack`: this host sends a guest duplicate ACKs when the last segments of its flow are lost.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use uc_hold::Running;
use uc_hold::dupack::{CAVEAT, Counts, PortSetup, Sender, Setup, Status};
use uc_port::interface_index;

use crate::tasks::follow;
use uc_program::cancel_on_signal;

/// Send guests duplicate ACKs when a flow of theirs has gone silent with data in flight, so that they
/// retransmit in about a round trip instead of waiting for their timers (200 ms or more).
///
/// The ports must be attached by `uc attach --no-sack --no-timestamps` with a law: guests that use SACK or
/// timestamps ignore the host's ACKs. The command runs until it is stopped or killed, and leaves nothing
/// behind. A network namespace has at most one such process.
#[derive(Args)]
pub struct Dupack {
    /// Interfaces on the host's side of guests, such as tap0 or veth1
    #[arg(required_unless_present_any = ["status", "settings_on_stdin"], value_name = "PORT")]
    ports: Vec<String>,
    /// Shortest silence of a flow, in milliseconds, after which the guest gets duplicate ACKs. Where srtt +
    /// 4 · rttvar (RFC 6298) is longer, the silence must last that long
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    least: u64,
    /// Send three duplicate ACKs also for flows with fewer than four segments in flight. With one segment in
    /// flight, wait for this much longer: the longest time for which receivers delay an ACK. Not for
    /// Linux guests, which take more duplicate ACKs than segments in flight for reordering
    #[arg(long, value_name = "MILLISECONDS",
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    short_tails: Option<u64>,
    /// Print the ports at which the running command sends, and how many duplicate ACKs it has sent; do
    /// nothing else
    #[arg(long, conflicts_with_all = ["ports", "least", "short_tails"])]
    status: bool,
    /// Read the ports and their settings as JSON from a line of standard input, and again from each further
    /// line, until its end. The agent starts the command with this option
    #[arg(long, hide = true, conflicts_with_all = ["ports", "least", "short_tails", "status"])]
    settings_on_stdin: bool,
    /// Print the counters of duplicate ACKs as a JSON object, at the start and at the end; with --status also
    /// the ports
    #[arg(long)]
    json: bool,
}

impl Dupack {
    /// Sends duplicate ACKs until the command is stopped, or prints the status.
    pub fn execute(self) -> Result<bool> {
        if self.status {
            print_status(&Status::ask()?, self.json)?;
            return Ok(true);
        }
        let stop = cancel_on_signal()?;
        let stops = || stop.load(Ordering::Relaxed);
        if self.settings_on_stdin {
            return follow::<Sender>(stops, BTreeMap::new);
        }
        let mut running = Running::<Sender>::start(self.setup()?, BTreeMap::new)?;
        if let Some(error) = running.worker().take_refusal() {
            return Err(error.into());
        }
        if self.json {
            print(running.worker().status(None).done.total(), true)?;
        } else {
            outln!(
                "{}: duplicate ACKs to flows that are silent for {} ms and longer than their path explains",
                self.ports.join(", "),
                self.least
            );
            outln!("caution: {CAVEAT}");
        }
        uc_program::out::flush();
        while !stops() {
            running.step()?;
        }
        print(running.worker().status(None).done.total(), self.json)?;
        Ok(true)
    }

    /// Returns the ports of the command line with their interface indices, each once.
    fn setup(&self) -> Result<Setup> {
        let mut setup = Setup::default();
        let short_tails = self.short_tails.map(Duration::from_millis);
        for name in &self.ports {
            let ifindex = interface_index(name)?;
            if setup.ports.iter().all(|port| port.ifindex != ifindex) {
                let least = Duration::from_millis(self.least);
                let port = PortSetup::new(name, ifindex, least, short_tails);
                setup.ports.push(port);
            }
        }
        Ok(setup)
    }
}

fn in_words(counts: Counts) -> String {
    format!(
        "{} duplicate ACKs in {} rounds; {} rounds for guests of unknown address",
        counts.duplicate_acks, counts.rounds, counts.unknown_guests
    )
}

fn print(counts: Counts, json: bool) -> Result<()> {
    match json {
        true => outln!("{}", serde_json::to_string(&counts)?),
        false => outln!("{}", in_words(counts)),
    }
    Ok(())
}

fn print_status(status: &Status, json: bool) -> Result<()> {
    if json {
        outln!("{}", serde_json::to_string(status)?);
        return Ok(());
    }
    let Status { setup, done, .. } = status;
    for PortSetup {
        name,
        least_us,
        short_tails_us,
        ..
    } in &setup.ports
    {
        let ms = |us: u64| us as f64 / 1000.0;
        let short = short_tails_us.map_or_else(String::new, |us| {
            format!(
                ", to short tails, too, and to lone segments {} ms later",
                ms(us)
            )
        });
        let result = match (done.refused.get(name), done.counts.get(name)) {
            (Some(why), _) => format!("none, because {why}"),
            (None, counts) => in_words(counts.copied().unwrap_or_default()),
        };
        outln!(
            "{name}: after {} ms of silence{short}: {result}",
            ms(*least_us)
        );
    }
    Ok(())
}

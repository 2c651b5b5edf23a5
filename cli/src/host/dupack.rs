//! `uc dupack`: this host sends guests duplicate ACKs when their last segments are lost.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use uc_core::dupack::Policy;
use uc_dupack::{CAVEAT, Counts, Sender};
use uc_port::Store;

use crate::research::batch::cancel_on_signal;

/// Send guests duplicate ACKs when a flow of theirs has gone silent with data in flight, so that they
/// retransmit in about a round trip and not by their timers, of 200 ms or more.
///
/// The ports are attached, and their law removes SACK and timestamps: guests that have them ignore the
/// host's ACKs. The command runs until it is stopped or killed, and leaves nothing behind.
#[derive(Args)]
pub struct Dupack {
    /// Ports of the guests
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<String>,
    /// Shortest silence of a flow before it gets duplicate ACKs; on longer paths it is by RFC 6298:
    /// srtt + 4 · rttvar
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    least: u64,
    /// Send three also where fewer than four segments are in flight, and where one is, so much later: the
    /// longest time that receivers delay an ACK. Not for Linux guests, which count segments, too
    #[arg(long, value_name = "MILLISECONDS",
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    short_tails: Option<u64>,
    /// Print the numbers as a JSON object, at the start and at the end
    #[arg(long)]
    json: bool,
}

impl Dupack {
    /// Sends duplicate ACKs until it is stopped.
    pub fn execute(self) -> Result<bool> {
        let Some(programs) = Store::default().open()? else {
            bail!(
                "no port is attached; `uc attach PORT --no-sack --no-timestamps` attaches one for this command"
            );
        };
        let policy = Policy::new(
            Duration::from_millis(self.least),
            self.short_tails.map(Duration::from_millis),
        );
        let stop = cancel_on_signal()?;
        let mut sender = Sender::new(programs, &self.ports, policy)?;
        if self.json {
            print(sender.counts(), true)?;
        } else {
            outln!(
                "{}: duplicate ACKs to flows that are silent for {} ms and longer than their path explains",
                self.ports.join(", "),
                self.least
            );
            outln!("caution: {CAVEAT}");
        }
        crate::out::flush();
        while !stop.load(Ordering::Relaxed) {
            sender.walk()?;
            thread::sleep(sender.pause());
        }
        print(sender.counts(), self.json)?;
        Ok(true)
    }
}

fn print(counts: Counts, json: bool) -> Result<()> {
    if json {
        outln!("{}", serde_json::to_string(&counts)?);
        return Ok(());
    }
    outln!(
        "{} duplicate ACKs in {} rounds; {} rounds for guests of unknown address",
        counts.duplicate_acks,
        counts.rounds,
        counts.unknown_guests
    );
    Ok(())
}

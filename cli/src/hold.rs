//! `uc hold`: this host holds packets of guests' connections, to spread ACKs over time or to retransmit data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use serde_json::Value;
use uc_hold::{CAVEAT, Counts, Holder, PortSetup, Work};
use uc_hold_core::Settings;
use uc_port::interface_index;
use uc_words::Bytes;

use crate::tasks::follow;
use uc_program::cancel_on_signal;

/// Hold packets of guests' connections in this process: spread ACKs over a round trip (--pace), or keep the
/// guests' data and retransmit it after a timeout that fits the path (--buffer).
///
/// Only connections that begin after the start of this command are held; others pass. The command runs until
/// it is stopped or killed, and leaves nothing behind: all connections go on without it. It needs Linux 6.6
/// or newer.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["pace", "buffer", "settings_on_stdin"])))]
pub struct Hold {
    /// Interfaces on the host's side of guests, such as tap0 or veth1
    #[arg(required_unless_present = "settings_on_stdin", value_name = "PORT")]
    ports: Vec<String>,
    /// Spread the ACKs to the guest over a round trip, so that the guest sends no bursts. An ACK for many
    /// segments becomes several. The port needs no law
    #[arg(long)]
    pace: bool,
    /// Keep the guest's data until it is acknowledged, and retransmit what is lost. Applies only to flows
    /// that a law of the port translates: the guest does not see the losses, so the law must slow it down
    #[arg(long)]
    buffer: bool,
    /// With --buffer: minimum timeout, in milliseconds, after which this host retransmits the guest's data
    #[arg(long, value_name = "MS", default_value_t = 10, requires = "buffer",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rto_min: u64,
    /// Maximum memory for the packets of each port, such as 64MB; what does not fit passes without being
    /// held. The ring buffer that brings packets to this process takes up to a quarter more, at least 1 MiB
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(Settings::BYTES_MAX as u32))]
    memory: Bytes,
    /// Read the ports and their settings as JSON from a line of standard input, and again from each further
    /// line, until its end. The agent starts the command with this option
    #[arg(long, hide = true, conflicts_with_all = ["ports", "pace", "buffer", "rto_min", "memory", "json"])]
    settings_on_stdin: bool,
    /// Print the counters of held and retransmitted packets as a JSON object, at the start and at the end
    #[arg(long)]
    json: bool,
}

impl Hold {
    /// Holds packets of the ports' guests until the command is stopped.
    pub fn execute(self) -> Result<bool> {
        let stop = cancel_on_signal()?;
        if self.settings_on_stdin {
            return follow::<Holder>(|| stop.load(Ordering::Relaxed), reserved);
        }
        self.check_others()?;
        let mut holder = Holder::start(&self.setups()?)?;
        if self.json {
            print(holder.counts()?, true)?;
        } else {
            outln!(
                "{}: connections that begin from now on are held",
                self.ports.join(", ")
            );
            outln!("caution: {CAVEAT}");
        }
        uc_program::out::flush();
        let mut ended = Ok(());
        while ended.is_ok() && !stop.load(Ordering::Relaxed) {
            ended = holder.step().map(drop);
        }
        // Held packets are released also after an error.
        holder.finish()?;
        ended?;
        print(holder.counts()?, self.json)?;
        Ok(true)
    }

    /// Returns the settings with which each port's packets are held.
    fn setups(&self) -> Result<Vec<PortSetup>> {
        let rto_min = self.buffer.then(|| Duration::from_millis(self.rto_min));
        let memory_bytes = u64::from(self.memory.0);
        let setup = |name: String| {
            let ifindex = interface_index(&name)?;
            Ok(PortSetup::new(
                &name,
                ifindex,
                self.pace,
                rto_min,
                memory_bytes,
            ))
        };
        let ports = crate::ports::distinct(self.ports.clone());
        ports.into_iter().map(setup).collect()
    }

    /// Refuses a port at which another command works that can't work together with `uc hold`.
    fn check_others(&self) -> Result<()> {
        let mut others = reserved();
        if let Ok(status) = uc_hold::Status::ask() {
            let why = format!(
                "the agent's `uc hold` (process {}) holds its packets; change `hold` in the policy instead",
                status.pid
            );
            let ports = status.setup.ports.into_iter();
            others.extend(ports.map(|port| (port.name, why.clone())));
        }
        match self
            .ports
            .iter()
            .find_map(|port| Some((port, others.get(port)?)))
        {
            Some((port, why)) => bail!("port {port}: {why}"),
            None => Ok(()),
        }
    }
}

/// Returns the ports at which a command works that can't work together with `uc hold`, each with the reason.
fn reserved() -> BTreeMap<String, String> {
    let mut reserved = BTreeMap::new();
    if let Ok(status) = uc_split::Status::ask() {
        let why = format!(
            "`uc split` (process {}) ends the port's connections on this host, so `uc hold` has \
             no packets to hold; \
             end one of the two for this port",
            status.pid
        );
        let ports = status.setup.interfaces.into_iter();
        reserved.extend(ports.map(|port| (port, why.clone())));
    }
    if let Ok(status) = uc_hold::dupack::Status::ask() {
        let why = format!(
            "`uc dupack` (process {}) sends the port's guest duplicate ACKs, and both commands \
             repair lost tails; \
             end one of the two for this port",
            status.pid
        );
        let ports = status.setup.ports.into_iter();
        reserved.extend(ports.map(|port| (port.name, why.clone())));
    }
    reserved
}

fn print(counts: Counts, json: bool) -> Result<()> {
    if json {
        let named = counts
            .named()
            .map(|(name, count)| (name.into(), count.into()));
        outln!("{}", Value::Object(named.collect()));
        return Ok(());
    }
    outln!("{}", sentence(&counts));
    Ok(())
}

/// Describes the counters of held packets in one sentence.
fn sentence(counts: &Counts) -> String {
    let of = counts.decisions;
    format!(
        "{} packets went through this process: {} ACKs paced and {} added; {} retransmissions, and {} timeouts of the \
         host's timer; {} packets passed for want of time, {} for want of memory; {} connections not held",
        counts.packets,
        of.acks_paced,
        of.acks_added,
        of.retransmits,
        of.timeouts,
        counts.passed,
        of.packets_unheld,
        counts.flows_unheld + counts.syns_passed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_not_called_retransmissions() {
        // A timeout may retransmit many segments, and segments are retransmitted without one.
        let counts = Counts {
            decisions: uc_hold_core::Counts {
                retransmits: 80,
                timeouts: 10,
                ..Default::default()
            },
            flows_unheld: 1,
            syns_passed: 2,
            ..Counts::default()
        };
        let sentence = sentence(&counts);
        assert!(sentence.contains("80 retransmissions, and 10 timeouts of the host's timer;"));
        assert!(sentence.ends_with("; 3 connections not held"));
    }
}

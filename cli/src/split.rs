//! `uc split`: this host terminates guests' TCP connections and opens its own to the far ends.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use uc_split::{
    CAVEAT, Limits, PortRange, ServiceError, Setup, Split as Running, Status, clean, limits,
};

use crate::tasks::tasks_on_stdin;
use uc_program::cancel_on_signal;

/// Interval at which the process checks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Split guests' TCP connections: this host ends them itself and opens a second one to the far end,
/// with any congestion control of its kernel or with Multipath TCP. Both ends see each other's
/// addresses and ports.
///
/// Connections that guests open, and with --inbound those that others open to them, are split if they
/// begin after this command. It runs until it is stopped;
/// then, also if it is killed, split connections are reset, and new ones pass unsplit.
#[derive(Args)]
pub struct Split {
    /// Interfaces whose packets this host routes: the host's sides of guests' interfaces, or a bridge
    /// with the address that is the guests' gateway
    #[arg(required_unless_present_any = ["status", "clean", "settings_on_stdin"], value_name = "PORT")]
    ports: Vec<String>,
    /// Congestion control of the connections to the far ends, one that the sysctl
    /// net.ipv4.tcp_available_congestion_control lists [default: the host's default]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Offer the far end Multipath TCP; a far end without it gets plain TCP. Add the addresses of
    /// further uplinks by `ip mptcp endpoint`
    #[arg(long)]
    mptcp: bool,
    /// Split connections that far ends open to the guests, too; the host uses plain TCP to these far ends, never
    /// Multipath TCP
    #[arg(long)]
    inbound: bool,
    /// Split only connections to these TCP ports, such as 80,8000-8999 [default: all]
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    tcp_ports: Vec<PortRange>,
    /// Maximum number of split connections at once; further ones are reset. Each takes two file descriptors
    /// [default: as many as the process's limit of descriptors allows, at most 65,536]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500_000))]
    connections_max: Option<u32>,
    /// Maximum number of split connections of one guest at once, where a guest is an IPv4 address or an IPv6
    /// prefix of 64 bits [default: half of --connections-max]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500_000))]
    guest_max: Option<u32>,
    /// Number of threads that copy the connections' bytes [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// When stopped, let new connections pass unsplit and wait up to this many seconds for the
    /// split ones to end; a second signal ends the wait
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    drain: u32,
    /// Print the settings and counters of the `uc split` that runs in this network namespace, and do nothing
    /// else
    #[arg(long, conflicts_with_all = ["ports", "clean"])]
    status: bool,
    /// Remove the nft table and the route that a killed `uc split` left behind, and do nothing else
    #[arg(long, conflicts_with = "ports")]
    clean: bool,
    /// Read the settings as JSON from a line of standard input, and again from each further line, until its
    /// end. The agent starts the command with this option
    #[arg(long, hide = true, conflicts_with_all = ["ports", "clean", "status", "drain"])]
    settings_on_stdin: bool,
    /// Print the status as a JSON object: with --status once, otherwise at the start and at the end
    #[arg(long)]
    json: bool,
}

impl Split {
    /// Splits connections until the command is stopped; or prints the status, or cleans up.
    pub fn execute(self) -> Result<bool> {
        if self.clean {
            return self.clean_up();
        }
        if self.status {
            print(&Status::ask()?, self.json)?;
            return Ok(true);
        }
        let stop = cancel_on_signal()?;
        if self.settings_on_stdin {
            return self.follow(|| stop.load(Ordering::Relaxed));
        }
        let mut running = Running::start(self.setup(), self.limits()?)?;
        let has_ipv6 = running.has_ipv6();
        print(&running.status(), self.json)?;
        if !self.json {
            if !has_ipv6 {
                outln!("IPv6 is off here, so only connections over IPv4 are split");
            }
            outln!("caution: {CAVEAT}");
        }
        uc_program::out::flush();
        while running.is_running() && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        if self.drain > 0 && stop.swap(false, Ordering::Relaxed) {
            let until = Instant::now() + Duration::from_secs(self.drain.into());
            running.drain(|| stop.load(Ordering::Relaxed) || Instant::now() >= until)?;
        }
        let status = running.status();
        running.finish()?;
        print(&status, self.json)?;
        Ok(true)
    }

    /// Splits connections by the settings in the newest line of standard input, until the input ends or `stops` returns
    /// true.
    fn follow(&self, stops: impl Fn() -> bool) -> Result<bool> {
        let setups = tasks_on_stdin();
        let Ok(first) = setups.recv() else {
            return Ok(true);
        };
        let mut running = Running::start(first?, self.limits()?)?;
        while running.is_running() && !stops() {
            match setups.recv_timeout(LOOK_EVERY) {
                Ok(setup) => {
                    if let Err(error) = running.change(setup?) {
                        errln!("what is split stays as it was: {error}");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        running.finish()?;
        Ok(true)
    }

    fn clean_up(&self) -> Result<bool> {
        match Status::ask() {
            Err(ServiceError::Nobody { .. }) => {}
            Ok(status) => anyhow::bail!(
                "`uc split` (process {}) runs in this network namespace and uses the nft table \
                 and the route that --clean would remove: end that process first",
                status.pid
            ),
            // It may run, and lose its table.
            Err(error) => {
                return Err(error)
                    .context("removed nothing, because a running `uc split` may use it");
            }
        }
        let found = clean()?;
        if self.json {
            outln!("{}", serde_json::json!({ "removed": found }));
        } else if found {
            outln!("removed the table and the route of `uc split`");
        } else {
            outln!("nothing of `uc split` is left here");
        }
        Ok(true)
    }

    fn setup(&self) -> Setup {
        let mut interfaces = self.ports.clone();
        interfaces.sort();
        interfaces.dedup();
        Setup {
            interfaces,
            tcp_ports: self.tcp_ports.clone(),
            inbound: self.inbound,
            congestion_control: self.congestion_control.clone(),
            mptcp: self.mptcp,
        }
    }

    fn limits(&self) -> Result<Limits> {
        let number = |most: Option<u32>| most.map(|most| most as usize);
        Ok(limits(
            number(self.connections_max),
            number(self.guest_max),
            self.threads.map(usize::from),
        )?)
    }
}

/// Prints the status as text or as a line of JSON.
fn print(status: &Status, json: bool) -> Result<()> {
    if json {
        outln!("{}", serde_json::to_string(status)?);
        return Ok(());
    }
    let (setup, totals) = (&status.setup, &status.done.totals);
    let ports: Vec<String> = setup.tcp_ports.iter().map(PortRange::to_string).collect();
    let ports = match ports.as_slice() {
        [] => "all TCP ports".into(),
        ports => format!("TCP ports {}", ports.join(", ")),
    };
    let control = setup.congestion_control.as_deref();
    let protocol = if setup.mptcp { "Multipath TCP" } else { "TCP" };
    outln!(
        "{}: {}, {ports}; {protocol} with {} towards far ends",
        setup.interfaces.join(", "),
        if setup.inbound {
            "connections of guests and to guests"
        } else {
            "connections of guests"
        },
        control.unwrap_or("the host's congestion control")
    );
    outln!(
        "connections: {} open of {}; {} split, {} closed by both ends, {} reset, {} refused, {} too many",
        totals.open,
        status.done.limits.connections_max,
        totals.split,
        totals.orderly,
        totals.reset,
        totals.refused,
        totals.too_many
    );
    if setup.mptcp {
        outln!(
            "with Multipath TCP: {} of {}",
            totals.multipath,
            totals.split
        );
    }
    outln!(
        "bytes: {} to far ends, {} to guests",
        totals.bytes_to_far_ends,
        totals.bytes_to_guests
    );
    Ok(())
}

//! `uc flows --truth`: reads the kernel's values of guests' sockets, and prints them next to those of the flows'
//! shadows.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use uc_guest::sockets::{KernelSocket, Tenants};
use uc_port::{Programs, Store};

use crate::seen::shadow::Values;
use crate::seen::truth::{AbsentRow, Ratios, Spread, TruthRow, TruthSummary};
use crate::seen::{FlowRow, Seen};

/// Maximum number of times that a flow is read again because its shadow changed while its socket was read.
const TRIES: usize = 5;

/// Adds the kernel's values to the flows whose guests share this host's kernel.
pub fn read(store: &Store, seen: &mut Seen) -> Result<()> {
    let Some(programs) = store.open()? else {
        return Ok(());
    };
    let ports: BTreeSet<u32> = seen.flows.iter().map(|flow| flow.ifindex).collect();
    let tenants = Tenants::find(&ports)?;
    for flow in &mut seen.flows {
        let read = compare(&programs, &tenants, flow);
        flow.truth = read.with_context(|| format!("could not read the socket of {}", flow.name))?;
    }
    let name = |ifindex: u32| {
        let port = seen.ports.iter().find(|port| port.ifindex == ifindex);
        let name = port.and_then(|port| port.name.clone());
        name.unwrap_or_else(|| ifindex.to_string())
    };
    let absent = tenants.absent().map(|(port, why)| AbsentRow {
        port: name(port),
        why: why.to_string(),
    });
    let absent = absent.collect();
    let rows = seen.flows.iter();
    let rows = rows.filter_map(|flow| Some((flow.name.as_str(), flow.truth.as_ref()?)));
    seen.truth = Some(TruthSummary::of(rows, absent));
    Ok(())
}

/// Reads a flow's socket between two readings of its shadow, until both readings are equal: then no ACK came in
/// between. After [`TRIES`] unequal readings, socket and shadow are from two moments, microseconds apart. Returns
/// `None` if socket or flow is gone.
fn compare(programs: &Programs, tenants: &Tenants, flow: &FlowRow) -> Result<Option<TruthRow>> {
    let shadow = || -> Result<Option<Values>> {
        let flow = programs.flow(flow.ifindex, flow.guest, flow.remote)?;
        Ok(flow.map(|flow| Values::of_shadow(&flow.state)))
    };
    let mut last = None;
    for _ in 0..TRIES {
        let before = shadow()?;
        let socket = tenants.socket(flow.ifindex, flow.guest, flow.remote)?;
        let (Some(socket), Some(after)) = (socket, shadow()?) else {
            return Ok(None);
        };
        let rests = before.as_ref() == Some(&after);
        last = Some(row(socket, after));
        if rests {
            break;
        }
    }
    Ok(last)
}

fn row(socket: KernelSocket, shadow: Values) -> TruthRow {
    let bytes = |segments: u32| u64::from(segments) * u64::from(socket.mss_bytes);
    let kernel = Values {
        cwnd_bytes: Some(bytes(socket.cwnd_segments)),
        ssthresh_bytes: socket.ssthresh_segments.map(bytes),
        srtt_us: Some(socket.srtt_us).filter(|us| *us > 0),
    };
    TruthRow {
        congestion_control: socket.congestion_control,
        cwnd_segments: socket.cwnd_segments,
        mss_bytes: socket.mss_bytes,
        rto_us: socket.rto_us,
        ratio: Ratios::of(&shadow, &kernel),
        kernel,
        shadow,
    }
}

/// Prints a line for each flow, then the summary.
pub fn print(flows: &[FlowRow], summary: &TruthSummary) {
    outln!(
        "{:<10} {:<28} {:<28} {:<7} {:<10} {:>11} {:>10} {:>6} {:>11} {:>10} {:>6} {:>8} {:>9} {:>6}",
        "port",
        "guest",
        "remote",
        "law",
        "control",
        "cwnd B",
        "kernel B",
        "ratio",
        "ssthresh B",
        "kernel B",
        "ratio",
        "RTT us",
        "kernel us",
        "ratio"
    );
    for flow in flows {
        print_flow(flow);
    }
    outln!();
    for (quantity, spread) in [
        ("cwnd", &summary.cwnd),
        ("ssthresh", &summary.ssthresh),
        ("RTT", &summary.srtt),
    ] {
        print_spread(quantity, spread.as_ref());
    }
    let missing = flows.len() - summary.flows;
    if missing > 0 {
        outln!(
            "{missing} of {} flows have no socket that can be read",
            flows.len()
        );
    }
    for absent in &summary.absent {
        outln!("{}: {}", absent.port, absent.why);
    }
}

fn print_flow(flow: &FlowRow) {
    let none = Values::default();
    let truth = flow.truth.as_ref();
    let (shadow, kernel) = truth.map_or((&none, &none), |row| (&row.shadow, &row.kernel));
    let ratio = truth.map(|row| row.ratio.clone()).unwrap_or_default();
    outln!(
        "{:<10} {:<28} {:<28} {:<7} {:<10} {:>11} {:>10} {:>6} {:>11} {:>10} {:>6} {:>8} {:>9} {:>6}",
        flow.port,
        flow.guest,
        flow.remote,
        flow.law,
        truth.map_or("-", |row| &row.congestion_control),
        number(shadow.cwnd_bytes),
        number(kernel.cwnd_bytes),
        quotient(ratio.cwnd),
        number(shadow.ssthresh_bytes),
        number(kernel.ssthresh_bytes),
        quotient(ratio.ssthresh),
        number(shadow.srtt_us),
        number(kernel.srtt_us),
        quotient(ratio.srtt)
    );
}

fn print_spread(quantity: &str, spread: Option<&Spread>) {
    let Some(spread) = spread else { return };
    outln!(
        "{quantity}, shadow / kernel: median {:.3}, worst {:.3} ({}), n = {}",
        spread.median,
        spread.worst,
        spread.worst_flow,
        spread.flows
    );
}

fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn quotient(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

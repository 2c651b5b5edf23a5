//! What commands about ports have in common: options, and how they name ports and count flows.

use std::collections::BTreeSet;

use clap::ValueEnum;
use uc_port::{AttachVia, Attached};

/// How programs are attached to a port.
#[derive(Clone, Copy, ValueEnum)]
pub enum Via {
    /// TCX if the kernel has it (6.6 and later), otherwise clsact
    Auto,
    /// TCX only
    Tcx,
    /// A filter on a clsact qdisc
    Clsact,
}

impl From<Via> for AttachVia {
    fn from(via: Via) -> AttachVia {
        match via {
            Via::Auto => AttachVia::Auto,
            Via::Tcx => AttachVia::Tcx,
            Via::Clsact => AttachVia::Clsact,
        }
    }
}

/// Returns the names without duplicates, in the same order.
pub fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names
        .into_iter()
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// Returns a number of flows in words.
pub fn flows(count: usize) -> String {
    match count {
        1 => "1 flow".to_owned(),
        _ => format!("{count} flows"),
    }
}

/// Returns the port's name; of an interface in another network namespace, its number there.
pub fn port_name(port: &Attached) -> String {
    let elsewhere = || format!("interface {} (in another network namespace)", port.ifindex);
    port.name.clone().unwrap_or_else(elsewhere)
}

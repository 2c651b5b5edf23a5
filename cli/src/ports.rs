//! Common code of commands about ports: options, names of ports, and numbers of flows in words.

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

/// Returns the names without duplicates, in the order of their first occurrence.
pub fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names
        .into_iter()
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// Returns a number of flows in words, such as "1 flow" or "3 flows".
pub fn flows(count: usize) -> String {
    match count {
        1 => "1 flow".to_owned(),
        _ => format!("{count} flows"),
    }
}

/// Returns the name of the port's interface; for an interface in another network namespace, its index
/// there.
pub fn port_name(port: &Attached) -> String {
    let elsewhere = || format!("interface {} (in another network namespace)", port.ifindex);
    port.name.clone().unwrap_or_else(elsewhere)
}

//! `uc guest`: what a cooperating guest loads, by hand.

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use uc_guest::{Ctrltcp, Dctcp, Store};

use crate::couple::GuestCouple;
use crate::coupling::{CouplingOptions, CouplingRow, Priority};

/// Load what a cooperating guest can use: congestion controls that its kernel lacks.
///
/// A congestion control is the machine's: every network namespace can choose it then, by its
/// sysctl net.ipv4.tcp_congestion_control or by a socket's TCP_CONGESTION.
#[derive(Args)]
pub struct Guest {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(Load),
    List(List),
    Priority(Priority),
    Couple(GuestCouple),
    Unload(Unload),
}

/// Register a congestion control until it is unloaded or the machine restarts.
///
/// Needs Linux 6.4 or newer with BTF.
#[derive(Args)]
struct Load {
    /// Which one
    #[arg(value_enum)]
    control: ControlName,
    /// The name that the kernel gets, of at most 15 characters; of `ctrltcp` the beginning of its
    /// two names, of at most 10
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten, next_help_heading = "For ctrltcp")]
    coupling: CouplingOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum ControlName {
    /// DCTCP (RFC 8257); it asks for ECN whatever tcp_ecn says
    Dctcp,
    /// Reno and CUBIC whose connections to one host share a window (ctrlTCP): uc_ctrltcp and
    /// uc_ctrlcubic
    Ctrltcp,
}

/// Show what was loaded, and who shares which window.
#[derive(Args)]
struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Take congestion controls off the kernel's list. Connections that have one keep it.
#[derive(Args)]
struct Unload {
    /// The names that were given
    #[arg(required_unless_present = "all", value_name = "NAME")]
    names: Vec<String>,
    /// Everything that was loaded
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl Guest {
    /// Loads, lists or unloads.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        match self.command {
            Command::Load(load) => load.execute(&store),
            Command::List(list) => list.execute(&store),
            Command::Priority(priority) => priority.execute(&store),
            Command::Couple(couple) => couple.execute(&store),
            Command::Unload(unload) => unload.execute(&store),
        }
    }
}

impl Load {
    fn execute(self, store: &Store) -> Result<bool> {
        let name = |default: &str| self.name.clone().unwrap_or_else(|| default.into());
        let names = match self.control {
            ControlName::Dctcp => {
                let name = name(Dctcp::NAME);
                store.load_dctcp(&name)?;
                vec![name]
            }
            ControlName::Ctrltcp => {
                store.load_ctrltcp(&name(Ctrltcp::NAME), &self.coupling.policy())?
            }
        };
        for name in names {
            println!("{name}: loaded; new connections can choose it");
        }
        Ok(true)
    }
}

impl List {
    fn execute(self, store: &Store) -> Result<bool> {
        let names = store.names()?;
        let couplings = CouplingRow::all(store)?;
        if self.json {
            let all = serde_json::json!({
                "congestion_controls": names,
                "couplings": couplings,
            });
            println!("{all}");
        } else if names.is_empty() {
            println!("nothing is loaded");
        } else {
            println!("{}", names.join("\n"));
        }
        if !self.json {
            couplings.iter().for_each(CouplingRow::print);
        }
        Ok(true)
    }
}

impl Unload {
    fn execute(self, store: &Store) -> Result<bool> {
        let loaded = store.names()?;
        let names = if self.all { &loaded } else { &self.names };
        if let Some(missing) = names.iter().find(|name| !loaded.contains(name)) {
            bail!(
                "no congestion control '{missing}' was loaded; `uc guest list` shows those that were"
            );
        }
        if names.is_empty() {
            println!("nothing is loaded");
        }
        for name in names {
            store.unload(name)?;
            println!("{name}: unloaded; connections that have it keep it");
        }
        Ok(true)
    }
}

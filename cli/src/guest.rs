//! `uc guest`: loads, lists and unloads congestion controls for a cooperating guest.

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use uc_guest::{Ctrltcp, Dctcp, Pvtcp, Store};

use crate::couple::GuestCouple;
use crate::coupling::{CouplingOptions, CouplingRow, Priority};
use crate::least_timeout::{LeastTimeoutOptions, LeastTimeoutRow};

/// Load congestion controls that this guest's kernel lacks.
///
/// A congestion control belongs to the whole machine: every network namespace can choose it by its
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

/// Load one congestion control until it is unloaded or the machine restarts.
///
/// A congestion control needs Linux 6.4 or newer with BTF, `pvtcp` 5.10 with BTF.
#[derive(Args)]
struct Load {
    /// Congestion control, or `pvtcp`, to load
    #[arg(value_enum)]
    control: ControlName,
    /// Name of the congestion control in the kernel, at most 15 characters. `ctrltcp` registers two, whose
    /// names begin with NAME, at most 10 characters
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten, next_help_heading = "For ctrltcp")]
    coupling: CouplingOptions,
    #[command(flatten, next_help_heading = "For pvtcp")]
    least_timeout: LeastTimeoutOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControlName {
    /// DCTCP (RFC 8257). Its connections ask for ECN, whatever the sysctl net.ipv4.tcp_ecn is
    Dctcp,
    /// Two congestion controls, Reno (uc_ctrltcp) and CUBIC (uc_ctrlcubic), whose connections to one host
    /// share a window (ctrlTCP)
    Ctrltcp,
    /// No congestion control: programs that give new connections a small minimum RTO, which is raised while
    /// the host stalls the guest's CPUs (PVTCP without its kernel module)
    Pvtcp,
}

/// Show the congestion controls that `uc guest load` loaded, and the groups of connections that share windows.
#[derive(Args)]
struct List {
    /// Print the list as one JSON object
    #[arg(long)]
    json: bool,
}

/// Unregister congestion controls, or remove the kernel module pvtcp. Existing connections keep
/// their congestion control.
#[derive(Args)]
struct Unload {
    /// Names under which `uc guest load` registered congestion controls, or `pvtcp`
    #[arg(required_unless_present = "all", value_name = "NAME")]
    names: Vec<String>,
    /// Unload everything that `uc guest load` loaded
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl Guest {
    /// Runs the chosen subcommand: loads, lists or unloads congestion controls.
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
        self.check_options()?;
        let names = match self.control {
            ControlName::Dctcp => {
                let name = name(Dctcp::NAME);
                store.load_dctcp(&name)?;
                vec![name]
            }
            ControlName::Ctrltcp => {
                store.load_ctrltcp(&name(Ctrltcp::NAME), &self.coupling.policy())?
            }
            ControlName::Pvtcp => {
                self.least_timeout.load(store)?;
                outln!("{}: loaded; new connections follow it", Pvtcp::NAME);
                Vec::new()
            }
        };
        for name in names {
            outln!("{name}: loaded; new connections can choose it");
        }
        Ok(true)
    }

    /// Refuses options that the chosen congestion control does not use.
    fn check_options(&self) -> Result<()> {
        let is = |control: ControlName| self.control == control;
        let wrong = [
            ("ctrltcp", is(ControlName::Ctrltcp), self.coupling.given()),
            ("pvtcp", is(ControlName::Pvtcp), self.least_timeout.given()),
        ];
        for (whose, is_it, given) in wrong {
            if let Some(option) = given.filter(|_| !is_it) {
                bail!(
                    "--{option} has an effect with {whose} only: remove the option, or load {whose}"
                );
            }
        }
        if is(ControlName::Pvtcp) && self.name.is_some() {
            bail!("--name renames a congestion control, and pvtcp is not one: remove --name");
        }
        Ok(())
    }
}

impl List {
    fn execute(self, store: &Store) -> Result<bool> {
        let names = store.names()?;
        let couplings = CouplingRow::all(store)?;
        let least_timeout = LeastTimeoutRow::of(store)?;
        if self.json {
            let all = serde_json::json!({
                "congestion_controls": names,
                "couplings": couplings,
                "pvtcp": least_timeout,
            });
            outln!("{all}");
        } else if names.is_empty() && least_timeout.is_none() {
            outln!("nothing is loaded");
        } else {
            names.iter().for_each(|name| outln!("{name}"));
        }
        if !self.json {
            couplings.iter().for_each(CouplingRow::print);
            least_timeout.iter().for_each(LeastTimeoutRow::print);
        }
        Ok(true)
    }
}

impl Unload {
    fn execute(self, store: &Store) -> Result<bool> {
        let mut loaded = store.names()?;
        if store.pvtcp()?.is_some() {
            loaded.push(Pvtcp::NAME.into());
        }
        let names = if self.all { &loaded } else { &self.names };
        if let Some(missing) = names.iter().find(|name| !loaded.contains(name)) {
            bail!("'{missing}' was not loaded; `uc guest list` shows what was");
        }
        if names.is_empty() {
            outln!("nothing is loaded");
        }
        for name in names {
            if name == Pvtcp::NAME {
                store.unload_pvtcp()?;
                outln!("{name}: unloaded; existing connections keep their minimum RTO");
                continue;
            }
            store.unload(name)?;
            outln!("{name}: unloaded; existing connections keep it");
        }
        Ok(true)
    }
}

//! `uc attach`: attaches ports by hand, on any interface.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use uc_core::Policy;
use uc_law::{Law, Profile, keys};
use uc_port::{AttachVia, DEFAULT_FLOWS_MAX, PortPlan, interface_index, is_bridge, law_named};

use crate::agent;
use crate::laws;
use crate::options;
use crate::parameters::{CoupledArguments, ParameterArguments};
use crate::ports::{Via, distinct};

/// Maximum capacity of the flow table, in entries. A table of this size takes 8.6 GB of kernel memory; more is probably
/// a mistake.
const FLOWS_MAX_LIMIT: i64 = 1 << 24;

/// Translate the new flows of these ports from now on.
///
/// PORT is the host's side of a guest's interface: a VM's tap, a container's veth. Flows that are under way pass
/// unmodified, except at a port that drains; new flows are translated. The programs are pinned: they stay when this
/// command has ended, until `uc detach`.
///
/// If an agent runs, this command returns to the agent a port that `uc detach` removed. The agent attaches it as its
/// policy says; options are then refused.
#[derive(Args)]
pub struct Attach {
    /// Interfaces on the host's side of guests, such as tap0 or veth1
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<String>,
    /// The congestion control law that the network sees
    #[arg(long, value_parser = options::LawName, default_value = "ecn")]
    law: String,
    /// Run the programs that `uc law build` made in this folder on all ports of this host; --law can then name a law of
    /// the folder
    ///
    /// Flows under way go on. The programs stay in force until the last port is detached; afterwards give the option
    /// again. Refused if ports already run laws of your own and these are not the first laws of the folder. An agent
    /// needs the same --laws: without the option it attaches nothing while ports run these programs.
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// TCP sender that the law's shadow, the host's copy of the sender's state, imitates
    #[arg(long, value_parser = options::profile(), default_value = "linux")]
    profile: Profile,
    /// Number of SYNs of a flow that ask for ECN; if all stay unanswered, further SYNs do not ask (RFC 3168
    /// §6.1.1.1). 255: all SYNs ask
    #[arg(long, value_name = "N", default_value_t = 2)]
    ecn_syns: u8,
    /// Number of entries of the host's flow table. A flow takes one entry, or two under law `delay` or
    /// `coupled` or with --share. Fixed when the first port is attached, until all are detached
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FLOWS_MAX,
          value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX_LIMIT))]
    flows_max: u32,
    /// Kernel interface through which the programs are attached to the port
    #[arg(long, value_enum, default_value = "auto")]
    via: Via,
    /// Position of the programs among those that other software attaches to the port
    #[arg(long, value_enum, default_value = "before")]
    order: Order,
    #[command(flatten)]
    parameters: ParameterArguments,
    #[command(flatten)]
    coupled: CoupledArguments,
}

/// Position of a port's programs among programs that other software attaches to the port.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Before other programs, which then cannot hide packets from Undercurrent
    Before,
    /// After other programs: Undercurrent sees only packets that these let through
    After,
}

impl Attach {
    /// Attaches all of the ports, or none. `given`: names of the options on the command line.
    pub fn execute(self, given: &[String]) -> Result<bool> {
        let store = laws::store(self.laws.as_deref())?;
        let (law, profile) = (law_named(&self.law)?, self.profile);
        let via = AttachVia::from(self.via);
        let parameters = self.parameters.parameters(law)?;
        let coupling = self.coupled.coupling(law)?;
        if parameters.has(keys::OBSERVE) && coupling.is_some() {
            bail!(
                "--observe writes no windows, so --share has none to divide; remove --observe or \
                 --share"
            );
        }
        let policy = Policy {
            ecn_syns: self.ecn_syns,
            ..uc_law::policy(law, profile, &parameters)
        };
        let plan = PortPlan {
            after_others: self.order == Order::After,
            ..PortPlan::of_all(policy, coupling)
        };
        let ports = distinct(self.ports);
        if let Some(released) = agent::release(&ports, given)? {
            for port in &released {
                outln!("{port}: the agent has it back, as its policy says");
            }
            return Ok(true);
        }
        let programs = store.open().ok().flatten();
        let draining =
            programs.map_or_else(|| Ok(BTreeSet::new()), |programs| programs.leaving())?;
        let upgrade = store.attach_all(&ports, &plan, via, self.flows_max)?;
        for loss in upgrade.losses() {
            errln!("uc: {loss}");
        }
        // otherwise the next agent would detach them
        uc_agent::give_back(uc_client::Client::of_host().socket(), &ports)?;
        let follows = match law {
            Law::PASS => "all flows pass and are counted",
            _ if parameters.has(keys::OBSERVE) => "new flows are observed, nothing is written",
            _ => "new flows are translated, those under way pass",
        };
        for port in &ports {
            match interface_index(port).is_ok_and(|ifindex| draining.contains(&ifindex)) {
                true => outln!("{port}: attached again; its flows go on as before it drained"),
                false => outln!("{port}: attached; {follows}"),
            }
        }
        let is_bridge = |port: &&String| interface_index(port).is_ok_and(is_bridge);
        for bridge in ports.iter().filter(is_bridge) {
            errln!(
                "uc: {bridge} is a bridge, and what it forwards does not pass its programs; attach its \
                 guests' ports instead: `ip link show master {bridge}` lists them"
            );
        }
        Ok(true)
    }
}

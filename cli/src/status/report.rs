//! The report of `uc status`: whether what the operator wants is in force, and each problem, from the agent's state and
//! the kernel's.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use anyhow::{Context, Result};
use serde::Serialize;
use uc_client::state::{CommandState, PortState};
use uc_client::{AgentError, AgentState, Client};
use uc_core::Reason;
use uc_port::{Ahead, Direction, PortError, PortView, Store};

use super::rules::{LawLine, address_caution, is_guarded, laws_of};
use crate::ports::port_name;
use crate::seen::{PacketRow, packet_rows};

/// What `uc status --json` prints. The form is stable: fields are added, none is renamed or removed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Whether everything that the policy wants is in force.
    pub in_force: bool,
    /// The problems of agent and ports, each with its cause and remedy.
    pub amiss: Vec<String>,
    /// Assumptions of the guards that no operator has confirmed in the policy, each with the ports and the remedy.
    pub cautions: Vec<String>,
    /// The agent's state; `None` if none runs.
    pub agent: Option<AgentState>,
    /// Whether an agent listens on its socket but does not answer.
    #[serde(skip)]
    pub is_silent: bool,
    /// The ports that the policy wants or that are attached.
    pub ports: Vec<PortLine>,
    /// Packets since the programs were loaded, by reason.
    pub packets: Vec<PacketRow>,
}

/// One port in the report of `uc status`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PortLine {
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Name of the port's interface.
    pub name: String,
    /// Name of the port's tenant; `None` if no agent answers or the port has no tenant.
    pub tenant: Option<String>,
    /// Whether the port has the programs.
    pub attached: bool,
    /// Whether an operator has detached the port: the agent does not attach it again.
    pub withdrawn: bool,
    /// Copy of `withdrawn`, under the field's former name.
    pub held: bool,
    /// Number of the policy's rules that apply to the port; `None` without an agent.
    pub rules: Option<u32>,
    /// Number of rules in the port's plan.
    pub rules_in_force: u32,
    /// Laws of the plan's rules, each once, in the order of the rules.
    pub laws: Vec<LawLine>,
    /// Whether a rule of the plan has a guard; strict mode implies one.
    pub guarded: bool,
    /// Whether the policy says that other software drops what the guest sends from addresses that are not its
    /// own.
    pub filtered_addresses: bool,
    /// Number of the port's flows in the flow table.
    pub flows: u64,
    /// Number of flows whose peer has not acknowledged the guest's SYN or SYN-ACK yet; included in `flows`.
    pub half_open: u64,
    /// Number of half-open flows that newer half-open flows have displaced from the table so far.
    pub displaced: u64,
    /// Number of new flows that passed so far because the port's quota or the table was full.
    pub refused: u64,
    /// Number of packets that the port translated.
    pub translated: u64,
    /// Number of packets that passed the port unmodified.
    pub passed: u64,
    /// Number of packets that the port dropped.
    pub dropped: u64,
    /// Number of packets from the guest that the port's program saw.
    pub seen_from_guest: u64,
    /// Number of packets to the guest that the port's program saw.
    pub seen_to_guest: u64,
    /// Direction (`from_guest` or `to_guest`) whose packets do not reach the port's program; `None`: both reach it.
    pub half_blind: Option<&'static str>,
    /// Programs of other software that run before ours at the port.
    pub ahead: Vec<AheadLine>,
    /// Maximum number of the port's flows that are not half-open; 0: as many as the table has free entries.
    pub flows_max: u32,
    /// Number of the port's flows whose peers may send ECT, if the port drains; `None`: it does not.
    pub draining: Option<u64>,
    /// Why the port is not as the policy wants it; `None` if it is.
    pub error: Option<String>,
}

/// A program of other software that runs before ours at a hook of the port.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AheadLine {
    /// The hook at which the other program runs first: `from_guest` or `to_guest`.
    pub direction: &'static str,
    /// Name of the program, or kind of the filter.
    pub name: String,
    /// Number of the program in the kernel; `None` for a filter that is no BPF program.
    pub id: Option<u32>,
    /// Priority of the clsact filter; `None` for a program attached through TCX.
    pub priority: Option<u32>,
}

/// The result of asking the agent for its state; both fields are `None` if no agent runs.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// State that the agent reported; `None` if no agent answered.
    pub state: Option<AgentState>,
    /// Why an agent that listens does not answer; `None`: it answered, or no agent listens.
    pub silent: Option<String>,
}

/// Asks the agent for its state.
///
/// # Errors
/// This process may not ask the agent.
pub fn ask(client: &Client) -> Result<Asked> {
    let mut asked = Asked::default();
    match client.status() {
        Ok(state) => asked.state = Some(state),
        Err(error @ AgentError::Silent { .. }) if nix::unistd::geteuid().is_root() => {
            asked.silent = Some(error.to_string());
        }
        Err(AgentError::NoAgent { source, .. })
            if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&source.kind()) => {}
        Err(error) => return Err(error).context("could not ask the agent for its status"),
    }
    Ok(asked)
}

impl Report {
    /// Asks the agent for its state, and reads the ports' state from the kernel.
    ///
    /// # Errors
    /// This process may not ask the agent, or the kernel refuses a read.
    pub fn read(store: &Store, client: &Client) -> Result<Report> {
        let Asked {
            state: agent,
            silent,
        } = ask(client)?;
        let mut ports: BTreeMap<u32, PortLine> = agent
            .iter()
            .flat_map(|agent| &agent.ports)
            .map(|port| (port.ifindex, wanted(port)))
            .collect();
        let mut packets = Vec::new();
        if let Some(programs) = store.open()? {
            packets = packet_rows(&programs.counters()?);
            let views = programs.ports()?.into_iter();
            let views: BTreeMap<u32, PortView> = views.map(|port| (port.ifindex, port)).collect();
            for port in store.attached(&programs)? {
                let line = ports.entry(port.ifindex).or_default();
                line.ifindex = port.ifindex;
                line.name = port_name(&port);
                line.attached = true;
                if let Some(plan) = programs.plan(port.ifindex)? {
                    line.laws = laws_of(&plan);
                    line.guarded = is_guarded(&plan);
                }
                if let Some(view) = views.get(&port.ifindex) {
                    line.see(view);
                    // the kernel lists the programs of this network namespace only
                    let here = port.name.is_some();
                    line.look_ahead(view, |direction| match here {
                        true => store.ahead(port.ifindex, direction),
                        false => Ok(Vec::new()),
                    })?;
                }
            }
        }
        let mut ports: Vec<PortLine> = ports.into_values().collect();
        let draining = ports.iter_mut().filter(|port| port.draining.is_some());
        if agent.is_none() && !store.is_drain_watched().unwrap_or(true) {
            draining.for_each(PortLine::lack_a_watcher);
        }
        let amiss = match &silent {
            Some(silent) => vec![silent.clone()],
            None => amiss(agent.as_ref(), &ports),
        };
        let unfiltered: Vec<&str> = ports.iter().filter_map(PortLine::unfiltered).collect();
        Ok(Report {
            in_force: amiss.is_empty() && agent.as_ref().is_none_or(AgentState::is_in_force),
            amiss,
            cautions: address_caution(&unfiltered),
            agent,
            is_silent: silent.is_some(),
            ports,
            packets,
        })
    }
}

impl PortLine {
    /// Returns a sentence on how many of the port's flows lacked room in the flow table; `None` if none did.
    pub fn pressure(&self) -> Option<String> {
        let signs = [
            (
                self.refused,
                "new flows passed because its quota or the table was full",
            ),
            (
                self.displaced,
                "half-open flows lost their places to newer ones",
            ),
        ];
        let signs = signs.into_iter().filter(|(flows, _)| *flows > 0);
        let signs: Vec<String> = signs
            .map(|(flows, what)| format!("{flows} {what}"))
            .collect();
        (!signs.is_empty()).then(|| format!("port {}: {}", self.name, signs.join("; ")))
    }

    /// Returns the port's name if it has a guard and no stated filter of its guest's addresses; otherwise `None`.
    fn unfiltered(&self) -> Option<&str> {
        (self.attached && self.guarded && !self.filtered_addresses).then_some(&*self.name)
    }

    /// Records as the port's error that it drains and no process waits to detach it.
    fn lack_a_watcher(&mut self) {
        let text = format!(
            "it drains, and no process waits for its flows to end; run `uc detach {}` again",
            self.name
        );
        self.error.get_or_insert(text);
    }

    /// Adds the port's state from the kernel's maps.
    fn see(&mut self, view: &PortView) {
        let packets = |is: fn(Reason) -> bool| {
            let counted = view.counters.iter().filter(|(reason, _)| is(*reason));
            counted.map(|(_, packets)| packets).sum()
        };
        self.flows = view.flows.into();
        self.half_open = view.half_open.into();
        self.displaced = view.displaced;
        self.refused = view.refused();
        self.rules_in_force = view.rules;
        self.flows_max = view.flows_max;
        self.draining = view.draining.map(|flows| flows as u64);
        self.seen_from_guest = view.counters.seen(Direction::FromGuest);
        self.seen_to_guest = view.counters.seen(Direction::ToGuest);
        self.translated = packets(Reason::is_under_law);
        self.dropped = packets(Reason::drops);
        self.passed = packets(|reason| !reason.is_under_law() && !reason.drops());
    }

    /// Adds other software's programs that run before the port's own, and whether one direction's packets bypass these.
    fn look_ahead(
        &mut self,
        view: &PortView,
        ahead: impl Fn(Direction) -> Result<Vec<Ahead>, PortError>,
    ) -> Result<()> {
        let [from_guest, to_guest] = Direction::BOTH.map(ahead);
        let (from_guest, to_guest) = (from_guest?, to_guest?);
        let at = |direction| match direction {
            Direction::FromGuest => &from_guest,
            Direction::ToGuest => &to_guest,
        };
        let lines = Direction::BOTH.into_iter().flat_map(|direction| {
            at(direction).iter().map(move |program| AheadLine {
                direction: direction.label(),
                name: program.name.clone(),
                id: program.id,
                priority: program.priority,
            })
        });
        self.ahead = lines.collect();
        let Some(blind) = view.half_blind_behind(|direction| at(direction).clone()) else {
            return Ok(());
        };
        self.half_blind = Some(blind.label());
        let which = match blind {
            Direction::FromGuest => "from the guest",
            Direction::ToGuest => "to the guest",
        };
        let others: Vec<String> = at(blind).iter().map(Ahead::to_string).collect();
        let why = match others.is_empty() {
            true => {
                "no other program runs before it, so packets go past its hook, by a redirection \
                     or another port"
                    .to_owned()
            }
            false => format!(
                "before it runs {}; let that return TCX_NEXT (TC_ACT_UNSPEC), or place ours first \
                 (`order`)",
                others.join(", ")
            ),
        };
        let text = format!("its program sees no packets {which}: {why}");
        self.error.get_or_insert(text);
        Ok(())
    }
}

/// The problem of a host on which nothing has been set up, and its remedy.
const NOTHING: &str = "there is no agent and no port is attached in this network namespace, with \
                       this BPF file system; start one (`systemctl start undercurrent`), or run \
                       `uc attach PORT`";

/// Problem of a port whose programs were removed while an agent runs.
const NOT_ON_IT: &str =
    "the programs are not on it; the agent attaches them again within half a minute";

fn wanted(port: &PortState) -> PortLine {
    PortLine {
        ifindex: port.ifindex,
        name: port.name.clone(),
        tenant: port.tenant.clone(),
        withdrawn: port.withdrawn,
        held: port.withdrawn,
        rules: Some(port.rules),
        flows_max: port.flows_max,
        filtered_addresses: port.filtered_addresses,
        error: port.error.clone(),
        ..PortLine::default()
    }
}

/// Lists the differences between policy and host. Whether a port is attached comes from the kernel, not from the agent.
fn amiss(agent: Option<&AgentState>, ports: &[PortLine]) -> Vec<String> {
    let Some(agent) = agent else {
        let none = ports.is_empty();
        let none = none.then(|| NOTHING.to_owned());
        let error = |port: &PortLine| Some(format!("port {}: {}", port.name, port.error.as_ref()?));
        return none
            .into_iter()
            .chain(ports.iter().filter_map(error))
            .collect();
    };
    let mut amiss = Vec::new();
    amiss.extend(agent.error.clone());
    if agent.policy.generation == 0 {
        amiss.push("no policy is in force".to_owned());
    } else if agent.counts.reconciles == 0 {
        let text = "the agent has just started and not yet compared the ports";
        amiss.push(text.to_owned());
    }
    for read in agent.reads() {
        let Some(why) = read.errors.first() else {
            continue;
        };
        let place = &read.place;
        amiss.push(match why.strip_prefix(place.as_str()) {
            Some(_) => format!("the policy was refused: {why}"),
            None => format!("the policy in {place} was refused: {why}"),
        });
    }
    for port in ports
        .iter()
        .filter(|port| port.rules.is_some() && !port.withdrawn)
    {
        if let Some(error) = &port.error {
            amiss.push(format!("port {}: {error}", port.name));
        } else if !port.attached {
            amiss.push(format!("port {}: {NOT_ON_IT}", port.name));
        }
    }
    amiss.extend(agent.metrics_error.clone());
    for watch in agent.watches.iter().filter(|watch| watch.pid.is_none()) {
        let why = watch.error.as_deref().unwrap_or("it does not run");
        amiss.push(format!("watching {}: {why}", watch.ports.join(", ")));
    }
    if let Some(split) = &agent.split {
        amiss.extend(undone("splitting", split));
    }
    if let Some(dupack) = &agent.dupack {
        amiss.extend(undone("duplicate ACKs for", dupack));
    }
    if let Some(hold) = &agent.hold {
        amiss.extend(undone("holding packets of", hold));
    }
    if let Some(tune) = &agent.tune {
        amiss.extend(
            tune.error
                .iter()
                .map(|why| format!("tuning containers: {why}")),
        );
        let refused = tune.refused.iter();
        amiss.extend(refused.map(|(cgroup, why)| format!("tuning {cgroup}: {why}")));
    }
    amiss
}

/// Lists the ports at which a command of the agent does not do `what` the policy wants.
fn undone<S>(what: &str, state: &CommandState<S>) -> Vec<String> {
    let refused = state.refused.iter();
    let mut amiss: Vec<String> = refused
        .map(|(port, why)| format!("{what} {port}: {why}"))
        .collect();
    if !state.ports.is_empty() && state.process.is_none() {
        let why = state
            .error
            .as_deref()
            .unwrap_or("it has just been started or changed");
        amiss.push(format!("{what} {}: {why}", state.ports.join(", ")));
    }
    amiss
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_client::state::SplitState;

    fn agent() -> AgentState {
        let mut agent = AgentState::default();
        agent.policy.generation = 1;
        agent.reload.accepted = true;
        agent.counts.reconciles = 1;
        agent
    }

    fn port(attached: bool) -> PortLine {
        PortLine {
            name: "vnet3".to_owned(),
            rules: Some(1),
            attached,
            ..PortLine::default()
        }
    }

    #[test]
    fn a_detached_port_is_a_problem_whatever_the_agent_reports() {
        assert_eq!(amiss(Some(&agent()), &[port(true)]), [] as [&str; 0]);
        let lost = amiss(Some(&agent()), &[port(false)]);
        assert_eq!(lost, [format!("port vnet3: {NOT_ON_IT}")]);
        let mut held = port(false);
        held.withdrawn = true;
        assert_eq!(amiss(Some(&agent()), &[held]), [] as [&str; 0]);
    }

    #[test]
    fn ports_that_are_not_split_are_problems_with_the_reasons() {
        let mut agent = agent();
        agent.split = Some(SplitState {
            ports: vec!["vnet3".to_owned(), "vnet4".to_owned()],
            refused: [("vnet5".to_owned(), "no bbr".to_owned())].into(),
            error: Some("it ended".to_owned()),
            ..SplitState::default()
        });
        let lines = amiss(Some(&agent), &[]);
        assert_eq!(
            lines,
            [
                "splitting vnet5: no bbr",
                "splitting vnet3, vnet4: it ended"
            ]
        );
        assert!(!agent.is_in_force());
        let split = agent.split.as_mut().unwrap();
        (split.process, split.refused) = (Some(uc_split::Status::default()), BTreeMap::new());
        assert_eq!(amiss(Some(&agent), &[]), [] as [&str; 0]);
    }

    #[test]
    fn a_guarded_port_lacks_a_filter_of_addresses_unless_it_is_stated() {
        let mut line = port(true);
        assert_eq!(line.unfiltered(), None);
        line.guarded = true;
        assert_eq!(line.unfiltered(), Some("vnet3"));
        line.filtered_addresses = true;
        assert_eq!(line.unfiltered(), None);
    }

    #[test]
    fn a_port_whose_flows_lack_room_is_under_pressure() {
        let mut line = port(true);
        assert_eq!(line.pressure(), None);
        (line.refused, line.displaced) = (3, 40);
        let text = line.pressure().unwrap();
        let parts = [
            "port vnet3: 3 new flows passed",
            "; 40 half-open flows lost",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }

    #[test]
    fn a_refused_policy_is_a_problem_with_its_first_error() {
        let mut agent = agent();
        agent.reload.accepted = false;
        agent.reload.place = "/etc/a.toml".to_owned();
        agent.reload.errors = vec!["a.toml:3:1: no key 'lwa'".to_owned()];
        let lines = amiss(Some(&agent), &[]);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].ends_with("refused: a.toml:3:1: no key 'lwa'"),
            "{lines:?}"
        );
    }

    #[test]
    fn without_an_agent_only_the_lack_of_ports_is_a_problem() {
        assert_eq!(amiss(None, &[port(true)]).len(), 0);
        assert_eq!(amiss(None, &[]).len(), 1);
    }
}

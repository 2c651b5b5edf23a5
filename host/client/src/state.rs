//! What the agent knows of itself and its ports: the answer to `GET /status` on its socket. Readers
//! ignore fields that they do not know, which later versions add.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uc_service::commands::{dupack, hold, split};

/// The state of an agent and its ports at one moment, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// Version of the agent's program.
    pub version: String,
    /// Process id of the agent.
    pub pid: u32,
    /// When the agent started, in seconds of Unix time.
    pub started_unix_s: u64,
    /// The policy in force.
    pub policy: PolicyState,
    /// The result of the last attempt to read the configuration. For the fleet's policy, see [`EtcdState::reload`].
    pub reload: ReloadState,
    /// The connection to the fleet's etcd; `None` if the configuration does not name one.
    pub etcd: Option<EtcdState>,
    /// The rollout of the fleet's newest policy; `None` if that policy names no canaries.
    #[serde(default)]
    pub canary: Option<CanaryState>,
    /// The ports that the policy names, in the order of their indices.
    pub ports: Vec<PortState>,
    /// Names of ports that an operator detached; `*`: every port.
    #[serde(flatten, with = "former")]
    pub withdrawn: Vec<String>,
    /// If an operator detached all ports: names of the ports that were given back to the agent since. Every other port
    /// stays detached.
    #[serde(default)]
    pub given_back: Vec<String>,
    /// Why the agent can attach no port at all, for instance a missing BPF file system; `None` if it can.
    pub error: Option<String>,
    /// Conditions in which everything works but which should be changed, each with its remedy.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Why metrics are not served, although the policy has an address for them; `None` if they are served or the
    /// policy has no address.
    #[serde(default)]
    pub metrics_error: Option<String>,
    /// The processes of `uc watch`, one for each setting that rules with `start = "watch"` ask for.
    pub watches: Vec<WatchState>,
    /// Split connections; `None` if the policy splits no port and no connection is split any more.
    #[serde(default)]
    pub split: Option<SplitState>,
    /// Duplicate ACKs that the host sends; `None` if the policy wants them at no port and the process has ended.
    #[serde(default)]
    pub dupack: Option<DupackState>,
    /// Packets that the host holds; `None` if the policy holds packets at no port and the process has ended.
    #[serde(default)]
    pub hold: Option<HoldState>,
    /// Containers' control groups that the policy tunes; `None` if it names none.
    #[serde(default)]
    pub tune: Option<TuneState>,
    /// Counters since the agent's start.
    pub counts: Counts,
}

/// The policy in force, and where it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// The kind of place from which the policy came.
    pub source: PolicySource,
    /// Path of the policy file, or key in etcd.
    pub place: String,
    /// Etcd's revision of the policy; `None` for a policy from a file.
    pub revision: Option<i64>,
    /// Checksum of the policy's text (FNV-1a, 64 bits), to compare the hosts of a fleet.
    pub hash: String,
    /// Number of the policy among those that the agent has put into force; 0: none was.
    pub generation: u64,
    /// When the policy was put into force, in seconds of Unix time.
    pub since_unix_s: u64,
    /// Generation of the policy's plans in the programs ([`uc_port::Programs::plan_generation`]); `None`:
    /// the programs do not have the policy yet.
    pub plan: Option<u32>,
    /// Numbers of the lines where the policy's rules begin: of `[defaults]`, which is rule 0, then of each `[[rule]]`.
    #[serde(default)]
    pub rule_lines: Vec<usize>,
}

/// The kind of place from which a policy came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// No policy was read yet.
    #[default]
    None,
    /// The policy file of this host.
    File,
    /// The fleet's etcd.
    Etcd,
    /// The stored copy of the last policy from etcd.
    Kept,
}

/// The result of the last attempt to read a policy from its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadState {
    /// Time of reading, in seconds of Unix time.
    pub at_unix_s: u64,
    /// The file or key that was read.
    pub place: String,
    /// Whether the policy that was read is in force; if not, the policy before it still is.
    pub accepted: bool,
    /// Errors of the policy, each with its line and column.
    pub errors: Vec<String>,
}

/// The connection to the fleet's etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdState {
    /// Addresses of the etcd servers.
    pub endpoints: Vec<String>,
    /// Key in etcd that has the policy.
    pub key: String,
    /// Whether the agent follows the key at this moment.
    pub connected: bool,
    /// The newest revision that etcd has reported.
    pub revision: i64,
    /// Why the agent does not follow the policy's key in etcd; `None` while it does.
    pub error: Option<String>,
    /// The result of reading etcd's last policy, or the stored copy of it.
    #[serde(default)]
    pub reload: ReloadState,
}

/// The rollout of a fleet's policy, as this host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryState {
    /// Name of this host, as canaries are named in the policy.
    pub host: String,
    /// Names of the hosts that try the policy first.
    pub hosts: Vec<String>,
    /// How far this host has come with the policy.
    pub stage: CanaryStage,
    /// Checksum of the text of the policy that is tried or waits.
    pub hash: String,
    /// Why the policy is not in force on this host; `None` if it is.
    pub why: Option<String>,
    /// Verdicts of this host, as a canary, on the latest policies that it tried.
    pub said: Vec<Verdict>,
}

/// How far a host has come with a policy that names canaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryStage {
    /// The policy that was tried is in force on this host.
    #[default]
    InForce,
    /// The policy is in force, and this host, a canary, counts packets under it.
    Tries,
    /// The policy waits: the one before it stays in force until the canaries have tried it.
    Waits,
    /// A canary found the policy worse than the one before, which is in force.
    Worse,
}

/// A canary's verdict on a policy that it has tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Checksum of the text of the judged policy.
    pub hash: String,
    /// Why the policy is worse than the one before it; `None`: it is good. The key must be present: a
    /// verdict without it is not read as good.
    #[serde(deserialize_with = "Option::deserialize")]
    pub worse: Option<String>,
}

/// A port that the policy names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Name of the port's interface.
    pub name: String,
    /// The name of the port that the policy's pattern matched: the interface's name, an alternative name,
    /// or the name that libvirt or CNI gives the guest.
    pub matched: String,
    /// Name of the port's tenant; `None`: no tenant.
    pub tenant: Option<String>,
    /// Whether the port has the programs now.
    pub attached: bool,
    /// Whether an operator has detached the port (`uc detach`), so that the agent leaves it
    /// detached.
    #[serde(flatten, with = "former")]
    pub withdrawn: bool,
    /// Number of the policy's rules that apply to the port, `[defaults]` included.
    pub rules: u32,
    /// Maximum number of the port's flows that are not half-open; 0: as many as the table has free entries.
    pub flows_max: u32,
    /// Whether the policy says that other software drops what the port's guest sends from addresses that are
    /// not its own.
    #[serde(default)]
    pub filtered_addresses: bool,
    /// Why the port is not as the policy wants it; `None` if it is.
    pub error: Option<String>,
}

/// A `uc watch` process of the agent, which probes paths before flows start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchState {
    /// Names of the ports that the process watches.
    pub ports: Vec<String>,
    /// Process id of `uc watch`; `None` while it does not run.
    pub pid: Option<u32>,
    /// Number of times that the agent started the process.
    pub starts: u64,
    /// Why the process does not run; `None` if it runs.
    pub error: Option<String>,
}

/// A command that the agent runs for ports of its policy; `Status` is the type of the status that its
/// process reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandState<Status> {
    /// Names of the ports for which the command works.
    pub ports: Vec<String>,
    /// Reason and remedy for each port that the command can't serve, or not with the policy's settings; keyed by the
    /// port's name.
    pub refused: BTreeMap<String, String>,
    /// Status that the process reports; `None` until it does what the policy wants.
    pub process: Option<Status>,
    /// Number of times that the agent started the process.
    pub starts: u64,
    /// Why the process doesn't run, or ended shortly before; `None` if neither.
    pub error: Option<String>,
}

/// The connections that `uc split` splits for the agent.
pub type SplitState = CommandState<split::Status>;

/// The duplicate ACKs that `uc dupack` sends for the agent.
pub type DupackState = CommandState<dupack::Status>;

/// The packets that `uc hold` holds for the agent.
pub type HoldState = CommandState<hold::Status>;

impl<Status> CommandState<Status> {
    /// Returns true if the command works for all ports for which the policy wants it.
    pub fn is_in_force(&self) -> bool {
        self.refused.is_empty() && (self.ports.is_empty() || self.process.is_some())
    }
}

/// The control groups whose new connections are tuned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneState {
    /// The control groups that the policy tunes, sorted by path.
    pub groups: Vec<TunedGroup>,
    /// Reason and remedy for each control group that the policy tunes and that can't be tuned, keyed by path.
    pub refused: BTreeMap<String, String>,
    /// Why no control group can be tuned at all; `None` if they can.
    pub error: Option<String>,
}

/// A control group whose new connections are tuned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedGroup {
    /// Path of the control group's folder.
    pub cgroup: String,
    /// Name of the tenant to which the group's containers belong.
    pub tenant: String,
    /// Number of connections that the group has opened or accepted since it is tuned.
    pub connections: u64,
    /// Number of times that the kernel refused a setting to a new connection.
    pub refused: u64,
}

impl TuneState {
    /// Returns true if all control groups that the policy names are tuned.
    pub fn is_in_force(&self) -> bool {
        self.error.is_none() && self.refused.is_empty()
    }
}

/// Counters of the agent since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of policies that the agent put into force.
    pub reloads: u64,
    /// Number of policies that the agent refused.
    pub reloads_refused: u64,
    /// Number of times that the agent compared the ports with the policy.
    pub reconciles: u64,
    /// Number of times that netlink lost notifications and all interfaces were read again.
    pub netlink_overruns: u64,
    /// Number of times that the agent attached a port.
    pub attached: u64,
    /// Number of times that the agent detached a port.
    pub detached: u64,
    /// Number of failed attempts to attach or detach a port.
    pub failures: u64,
    /// Number of connections to etcd that were lost or could not be made.
    pub etcd_losses: u64,
}

impl AgentState {
    /// Returns the result of reading each policy: that of the file, and that of the fleet if there is one.
    pub fn reads(&self) -> impl Iterator<Item = &ReloadState> {
        std::iter::once(&self.reload).chain(self.etcd.as_ref().map(|etcd| &etcd.reload))
    }

    /// Returns true if everything that the policy wants is in force; false until the ports were compared
    /// once.
    pub fn is_in_force(&self) -> bool {
        let port = |port: &PortState| port.withdrawn || port.attached && port.error.is_none();
        let watch = |watch: &WatchState| watch.pid.is_some();
        self.error.is_none()
            && self.policy.generation > 0
            && self.counts.reconciles > 0
            && self.reads().all(|read| read.accepted)
            && self.ports.iter().all(port)
            && self.watches.iter().all(watch)
            && self.split.as_ref().is_none_or(SplitState::is_in_force)
            && self.dupack.as_ref().is_none_or(DupackState::is_in_force)
            && self.hold.as_ref().is_none_or(HoldState::is_in_force)
            && self.tune.as_ref().is_none_or(TuneState::is_in_force)
    }
}

/// The field `withdrawn` in JSON. It is also written as `held`, its former name, and read from that: this program
/// and the agent may be of two releases.
mod former {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    struct Names<T> {
        withdrawn: Option<T>,
        held: Option<T>,
    }

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let (withdrawn, held) = (Some(value), Some(value));
        Names { withdrawn, held }.serialize(to)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let Names { withdrawn, held } = Names::deserialize(from)?;
        let value = withdrawn.or(held);
        value.ok_or_else(|| de::Error::missing_field("withdrawn"))
    }
}

/// Returns the current time in seconds of Unix time; 0 if the clock shows a time before 1970.
pub fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> AgentState {
        AgentState {
            policy: PolicyState {
                generation: 1,
                ..PolicyState::default()
            },
            reload: ReloadState {
                accepted: true,
                ..ReloadState::default()
            },
            ports: vec![PortState {
                attached: true,
                ..PortState::default()
            }],
            counts: Counts {
                reconciles: 1,
                ..Counts::default()
            },
            ..AgentState::default()
        }
    }

    #[test]
    fn nothing_is_in_force_before_the_ports_were_looked_at() {
        let mut state = content();
        state.counts.reconciles = 0;
        state.ports.clear();
        assert!(!state.is_in_force());
    }

    #[test]
    fn a_port_that_is_not_attached_is_not_in_force_unless_it_is_withdrawn() {
        assert!(content().is_in_force());
        let mut state = content();
        state.ports[0].attached = false;
        assert!(!state.is_in_force());
        state.ports[0].withdrawn = true;
        assert!(state.is_in_force());
    }

    #[test]
    fn a_refused_policy_is_not_in_force_though_the_old_one_still_is() {
        let mut state = content();
        state.reload.accepted = false;
        assert!(!state.is_in_force());
    }

    #[test]
    fn the_state_is_read_as_it_was_written() {
        let text = serde_json::to_string(&content()).unwrap();
        assert_eq!(
            serde_json::from_str::<AgentState>(&text).unwrap(),
            content()
        );
    }
    #[test]
    fn withdrawn_ports_are_written_under_both_names_and_read_under_either() {
        let mut state = content();
        state.withdrawn = vec!["tap0".into()];
        state.ports[0].withdrawn = true;
        let whole = serde_json::to_value(&state).unwrap();
        for name in ["withdrawn", "held"] {
            assert_eq!(whole[name][0], "tap0");
            assert_eq!(whole["ports"][0][name], true);
            let mut one = whole.clone();
            one.as_object_mut().unwrap().remove(name);
            one["ports"][0].as_object_mut().unwrap().remove(name);
            assert_eq!(serde_json::from_value::<AgentState>(one).unwrap(), state);
        }
    }
}

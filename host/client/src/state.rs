//! What the agent knows of itself and its ports: the answer to `GET /status` on its socket. Readers
//! ignore fields that they do not know, which later versions add.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uc_service::commands::{dupack, hold, split};

/// The agent's state at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// The agent's version.
    pub version: String,
    /// The agent's process number.
    pub pid: u32,
    /// When it started, in seconds of Unix time.
    pub started_unix_s: u64,
    /// The policy in force.
    pub policy: PolicyState,
    /// The result of reading the configuration last. The fleet's policy has [`EtcdState::reload`].
    pub reload: ReloadState,
    /// The fleet's store, where the configuration names one.
    pub etcd: Option<EtcdState>,
    /// The rollout of the fleet's newest policy, if that names canaries.
    #[serde(default)]
    pub canary: Option<CanaryState>,
    /// The ports that the policy names, in the order of their indices.
    pub ports: Vec<PortState>,
    /// Names of ports that an operator detached; `*`: every port.
    #[serde(flatten, with = "former")]
    pub withdrawn: Vec<String>,
    /// Names of ports that were given back while every other port is withdrawn.
    #[serde(default)]
    pub given_back: Vec<String>,
    /// Why the agent can attach no port at all, for instance a missing BPF file system.
    pub error: Option<String>,
    /// What works, but should not be left so, each with its remedy.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Why metrics are not served though the configuration has an address for them.
    #[serde(default)]
    pub metrics_error: Option<String>,
    /// The processes of `uc watch`, one for each setting that rules with `start = "watch"` ask for.
    pub watches: Vec<WatchState>,
    /// Split connections, while the policy splits a port or connections are still split.
    #[serde(default)]
    pub split: Option<SplitState>,
    /// Duplicate ACKs of the host, while the policy wants them at a port or the process still runs.
    #[serde(default)]
    pub dupack: Option<DupackState>,
    /// Packets that the host holds, while the policy wants it at a port or the process still runs.
    #[serde(default)]
    pub hold: Option<HoldState>,
    /// Control groups of containers that the policy has tuned, while it names some.
    #[serde(default)]
    pub tune: Option<TuneState>,
    /// How often things happened in this agent's life.
    pub counts: Counts,
}

/// The policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// Where the policy came from.
    pub source: PolicySource,
    /// The file, or the key.
    pub place: String,
    /// Etcd's revision of the policy; none for one from a file.
    pub revision: Option<i64>,
    /// A checksum of its text (FNV-1a of 64 bits), which compares the hosts of a fleet.
    pub hash: String,
    /// Counts the policies that were put into force; 0: none was.
    pub generation: u64,
    /// When it was put into force, in seconds of Unix time.
    pub since_unix_s: u64,
    /// What the programs call it ([`uc_port::Programs::plan_generation`]); none: they weren't told
    /// yet.
    pub plan: Option<u32>,
    /// The lines where its rules stand: of `[defaults]`, which is rule 0, then of each `[[rule]]`.
    #[serde(default)]
    pub rule_lines: Vec<usize>,
}

/// Where a policy came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// No policy was read yet.
    #[default]
    None,
    /// The configuration file.
    File,
    /// Etcd.
    Etcd,
    /// The stored copy of the last policy from etcd.
    Kept,
}

/// The result of reading a policy.
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

/// The fleet's store, etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdState {
    /// Addresses of the servers.
    pub endpoints: Vec<String>,
    /// The key of the policy.
    pub key: String,
    /// Whether the agent follows the key at this moment.
    pub connected: bool,
    /// The newest revision that etcd has reported.
    pub revision: i64,
    /// Why the agent does not follow the key; `None` while it does.
    pub error: Option<String>,
    /// The result of reading etcd's last policy, or the stored copy of it.
    #[serde(default)]
    pub reload: ReloadState,
}

/// The rollout of a fleet's policy, as this host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryState {
    /// This host's name.
    pub host: String,
    /// Names of the hosts that try the policy first.
    pub hosts: Vec<String>,
    /// What this host does about the policy.
    pub stage: CanaryStage,
    /// Checksum of the policy's text.
    pub hash: String,
    /// Why the policy is not in force on this host; `None` if it is.
    pub why: Option<String>,
    /// This host's verdicts, as a canary, on the last policies.
    pub said: Vec<Verdict>,
}

/// What a host does about a policy that names canaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryStage {
    /// The policy is in force.
    #[default]
    InForce,
    /// The policy is in force, and this host, a canary, counts packets under it.
    Tries,
    /// The policy before is in force until the canaries have tried this one.
    Waits,
    /// A canary found the policy worse than the one before, which is in force.
    Worse,
}

/// A canary's verdict on a policy that it has tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Checksum of the policy's text.
    pub hash: String,
    /// Why it is worse than the policy before it; `None`: it is good. Must be given: what says
    /// nothing of it must not be read as good.
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
    /// The name that the policy's pattern matched: that one, an alternative name, or what libvirt
    /// or CNI calls the guest.
    pub matched: String,
    /// Name of the port's tenant; `None`: no tenant.
    pub tenant: Option<String>,
    /// Whether the port has the programs.
    pub attached: bool,
    /// Whether an operator has detached the port (`uc detach`), so that the agent leaves it
    /// detached.
    #[serde(flatten, with = "former")]
    pub withdrawn: bool,
    /// Number of the policy's rules that apply to the port, `[defaults]` included.
    pub rules: u32,
    /// Maximum number of the port's flows that are not half-open; 0: as many as the table has free
    /// places.
    pub flows_max: u32,
    /// Whether the policy says that other software drops what the port's guest sends from addresses that are
    /// not its own.
    #[serde(default)]
    pub filtered_addresses: bool,
    /// Why the port is not as the policy wants it; `None` if it is.
    pub error: Option<String>,
}

/// A process that watches flows start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchState {
    /// Names of the ports that the process watches.
    pub ports: Vec<String>,
    /// The process number; none while it does not run.
    pub pid: Option<u32>,
    /// How often it was started.
    pub starts: u64,
    /// Why it doesn't run.
    pub error: Option<String>,
}

/// A command that the agent runs for ports of its policy; `Status` is what its process answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandState<Status> {
    /// Names of the ports for which it works.
    pub ports: Vec<String>,
    /// Ports for which it is to work and this host can't or not so, each with the reason and the remedy.
    pub refused: BTreeMap<String, String>,
    /// What the process says of itself; none until it does what the policy wants.
    pub process: Option<Status>,
    /// How often it was started.
    pub starts: u64,
    /// Why it doesn't run, or ended a short while ago.
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
    /// The groups, by their paths.
    pub groups: Vec<TunedGroup>,
    /// Groups that are to be tuned and can't be, by their paths, each with the reason and the remedy.
    pub refused: BTreeMap<String, String>,
    /// Why no group can be tuned.
    pub error: Option<String>,
}

/// A control group whose new connections are tuned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedGroup {
    /// Path of the group's folder.
    pub cgroup: String,
    /// Name of the tenant whose containers it has.
    pub tenant: String,
    /// Connections that were opened or accepted since it is tuned.
    pub connections: u64,
    /// How often the kernel refused a setting to one of them.
    pub refused: u64,
}

impl TuneState {
    /// Returns true if all control groups that the policy names are tuned.
    pub fn is_in_force(&self) -> bool {
        self.error.is_none() && self.refused.is_empty()
    }
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Policies that were put into force.
    pub reloads: u64,
    /// Policies that were refused.
    pub reloads_refused: u64,
    /// Times that desired and actual were compared.
    pub reconciles: u64,
    /// Times that netlink lost notifications and all interfaces were read again.
    pub netlink_overruns: u64,
    /// Times that a port was attached.
    pub attached: u64,
    /// Times that a port was detached.
    pub detached: u64,
    /// Ports that could not be attached or detached, each time.
    pub failures: u64,
    /// Connections to etcd that were lost or could not be made.
    pub etcd_losses: u64,
}

impl AgentState {
    /// Returns the result of reading each policy: the file's, and the fleet's if there is one.
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

/// Seconds of Unix time; 0 where the clock stands before that began.
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

//! PVTCP as the BPF programs of `guest/pvtcp.bpf.c`, without the kernel module.

use std::path::Path;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use zerocopy::IntoBytes;

use crate::cgroup::Cgroup;
use crate::control::{map_of, quieten};
use crate::error::{GuestError, Linux};
use crate::layout::{uc_pvtcp_counts, uc_pvtcp_policy, uc_pvtcp_stalls};
use crate::pins;

/// The object that clang compiled from `guest/pvtcp.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pvtcp.bpf.o"));
/// Oldest kernel on which the programs were tested.
const NEEDED: Linux = Linux(5, 10);
const TICK: &str = "uc_pvtcp_tick";
const SOCKET: &str = "uc_pvtcp_socket";
/// Maps that are pinned in addition to the two programs' links; other processes read the state from them.
const SHOWN: [&str; 3] = ["policies", "stalls", "counts"];
/// Minimum delay of a timer tick that counts as a stall, however short the minimum RTO is.
const LATE_LEAST: Duration = Duration::from_millis(1);

/// The minimum RTO of a guest's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTimeout {
    /// Minimum RTO while the hypervisor doesn't stall the guest, from two ticks of the guest's
    /// kernel to 200 ms.
    pub least: Duration,
    /// Time for which the minimum RTO stays raised after a stall.
    pub hold: Duration,
}

impl Default for LeastTimeout {
    fn default() -> Self {
        Self {
            least: Duration::from_millis(10),
            hold: Duration::from_secs(10),
        }
    }
}

impl LeastTimeout {
    /// Maximum of `least`, at which the kernel's own minimum RTO applies.
    pub const MOST: Duration = Duration::from_micros(crate::layout::UC_PVTCP_MOST_US as u64);

    fn raw(&self) -> uc_pvtcp_policy {
        let bounded = |time: u128| u32::try_from(time).unwrap_or(u32::MAX);
        // A shorter stall alone doesn't make a timer of that length expire.
        let late = (self.least / 2).max(LATE_LEAST);
        uc_pvtcp_policy {
            least_us: bounded(self.least.min(Self::MOST).as_micros()),
            hold_ms: bounded(self.hold.as_millis()),
            late_us: bounded(late.as_micros()),
            ..uc_pvtcp_policy::default()
        }
    }
}

/// The state and counters of PVTCP since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTimeoutState {
    /// The settings that the programs apply.
    pub policy: LeastTimeout,
    /// Number of delayed timer ticks, which show that the host stalled the guest.
    pub stalls: u64,
    /// Duration of the longest recent stall; it decreases gradually while stalls are shorter.
    pub longest: Duration,
    /// Number of connections whose minimum RTO the programs have set.
    pub sockets: u64,
    /// How often a minimum RTO was raised.
    pub raised: u64,
    /// How often a minimum RTO was lowered again.
    pub lowered: u64,
    /// Number of retransmission timeouts of connections under PVTCP.
    pub timeouts: u64,
    /// Number of these retransmission timeouts that occurred within 20 ms of a stall's end.
    pub after_stall: u64,
    /// Number of times that the kernel refused a minimum RTO.
    pub refused: u64,
}

/// The two programs, attached for every connection that begins in a control group or in groups below it.
#[derive(Debug)]
pub struct Pvtcp {
    object: Object,
    links: [(&'static str, Link); 2],
}

impl Pvtcp {
    /// Name of PVTCP in the list of `uc guest`.
    pub const NAME: &str = "uc_pvtcp";

    /// Loads both programs and attaches them to the control group; with `None`, to all.
    ///
    /// # Errors
    /// The path is no control group; and the errors of loading programs.
    pub fn attach(policy: &LeastTimeout, cgroup: Option<&Path>) -> Result<Self, GuestError> {
        let cgroup = Cgroup::open(cgroup)?;
        let failed = |error| GuestError::from_loading("load PVTCP's programs", &error, NEEDED);
        quieten();
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(failed)?;
        let object = open.load().map_err(failed)?;
        let raw = policy.raw();
        let policies = map_of(&object, "policies")?;
        let written = policies.update(&[0; 4], raw.as_bytes(), MapFlags::ANY);
        written.map_err(|error| GuestError::from_libbpf("write PVTCP's settings", &error))?;
        let attach = |name: &'static str| -> Result<_, GuestError> {
            let mut programs = object.progs_mut();
            let program = programs.find(|program| program.name() == name);
            let program = program.ok_or_else(|| crate::control::missing(name))?;
            if name == SOCKET {
                return Ok((name, cgroup.attach(&program, NEEDED)?));
            }
            let failed = |error| GuestError::from_loading(format!("attach {name}"), &error, NEEDED);
            Ok((name, program.attach().map_err(failed)?))
        };
        let links = [attach(TICK)?, attach(SOCKET)?];
        Ok(Self { object, links })
    }

    /// Pins the links, and the maps from which other processes read the state.
    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), GuestError> {
        pins::pin(folder, &mut self.links, &self.object, &SHOWN)
    }

    /// Returns the state of the PVTCP that is pinned in this folder.
    pub(crate) fn state_at(folder: &Path) -> Result<LeastTimeoutState, GuestError> {
        let policy: uc_pvtcp_policy = pins::read(&folder.join("policies"))?;
        let stalls: uc_pvtcp_stalls = pins::read(&folder.join("stalls"))?;
        let counts: uc_pvtcp_counts = pins::read(&folder.join("counts"))?;
        Ok(LeastTimeoutState {
            policy: LeastTimeout {
                least: Duration::from_micros(policy.least_us.into()),
                hold: Duration::from_millis(policy.hold_ms.into()),
            },
            stalls: stalls.count,
            longest: Duration::from_micros(stalls.longest_us),
            sockets: counts.sockets,
            raised: counts.raised,
            lowered: counts.lowered,
            timeouts: counts.timeouts,
            after_stall: counts.after_stall,
            refused: counts.refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_limited_to_what_the_kernel_accepts() {
        let long = LeastTimeout {
            least: Duration::from_secs(1),
            hold: Duration::MAX,
        };
        let raw = long.raw();
        assert_eq!((raw.least_us, raw.hold_ms), (200_000, u32::MAX));
        let short = LeastTimeout {
            least: Duration::from_millis(1),
            ..long
        };
        assert_eq!((short.raw().least_us, short.raw().late_us), (1_000, 1_000));
        assert_eq!(LeastTimeout::default().raw().late_us, 5_000);
    }

    #[test]
    fn a_folder_outside_the_unified_hierarchy_is_refused() {
        let refusal = Pvtcp::attach(&LeastTimeout::default(), Some(Path::new("/proc")));
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal.contains("/proc") && refusal.contains("cgroup2"),
            "{refusal}"
        );
    }
}

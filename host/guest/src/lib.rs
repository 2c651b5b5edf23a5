//! Guests: congestion controls in BPF that a cooperating guest loads, for kernels that lack them, and what
//! the kernel knows of guests' sockets.
//!
//! - [`Dctcp`]: RFC 8257 as a guest's own congestion control, and its state of a connection;
//! - [`Ctrltcp`]: Reno and CUBIC whose connections share windows (ctrlTCP), and their [`Groups`];
//! - [`Pvtcp`]: minimum RTOs that follow the stalls of the guest's CPUs;
//! - [`Across`]: the groups' channel to a host that couples its guests;
//! - [`Tuning`]: congestion control, initial window and minimum RTO of a container's connections, and
//!   [`Tunings`], those that are pinned;
//! - [`Store`]: the pins in bpffs, with which a congestion control outlives the process;
//! - [`coupling`]: the channel between coupled guests and their host, and the host's groups;
//! - [`sockets`]: the kernel's values of the sockets of guests that share it.
//!
//! A congestion control belongs to the whole machine: registered once, it can be chosen in every
//! network namespace, by `setsockopt(TCP_CONGESTION)` or by the namespace's sysctl.

mod across;
mod cgroup;
mod clock;
mod control;
mod couple;
pub mod coupling;
mod ctrltcp;
mod dctcp;
mod error;
mod groups;
mod netns;
mod pins;
mod pvtcp;
pub mod sockets;
mod store;
mod tune;
mod tunings;

pub use across::Across;
pub use cgroup::hierarchy;
pub use couple::{Alone, CoupleEvent, couple};
pub use ctrltcp::{CoupledState, CouplingPolicy, Ctrltcp};
pub use dctcp::{Dctcp, DctcpState};
pub use error::{GuestError, Linux};
pub use groups::{GroupState, Groups, GuestState};
pub use netns::{cookie, cookie_at};
pub use pvtcp::{LeastTimeout, LeastTimeoutState, Pvtcp};
pub use store::Store;
pub use tune::{Tuning, TuningState};
pub use tunings::Tunings;

/// The types that bindgen generates from the state in `guest/`.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    use uc_core::coupling::Group as uc_ccc;
    use uc_core::coupling::across::Link as uc_ccc_link;
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

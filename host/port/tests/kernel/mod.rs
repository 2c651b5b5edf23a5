//! Common parts of the tests of the port programs: the programs in the kernel, frames, and a parser
//! of frames independent of the programs' own.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

pub mod frame;
pub mod host;
pub mod reading;
pub mod table;
pub mod tap;

use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uc_core::{Policy, Reason, consts};
use uc_port::{PacketContext, Programs};

/// Gives the calling thread a BPF file system of its own, and whatever else `unshared` names;
/// returns the folder for a store in it.
pub fn own_bpffs(unshared: CloneFlags) -> PathBuf {
    unshare(CloneFlags::CLONE_NEWNS | unshared).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let (bpf, bpffs) = (Some("bpf"), "/sys/fs/bpf");
    let mode = Some("mode=700");
    mount(bpf, bpffs, bpf, MsFlags::empty(), mode).unwrap();
    Path::new(bpffs).join("undercurrent")
}

/// Index of the loopback interface in any network namespace; nothing is attached to it.
pub const IFINDEX: u32 = 1;

/// Loads the programs; `None` if this machine can't.
pub fn programs(flows_max: u32) -> Option<Programs> {
    uc_live::or_skip(Programs::load(flows_max))
}

pub fn policy() -> Policy {
    Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
}

pub fn context() -> PacketContext {
    PacketContext {
        ifindex: IFINDEX,
        gso_segs: 0,
        gso_size: 0,
        repeat: 1,
    }
}

/// Returns the reason with this label.
pub fn reason(label: &str) -> Reason {
    Reason::all()
        .find(|reason| reason.label() == label)
        .expect("a label of the core's list")
}

/// Returns the time by the clock that the programs read.
pub fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

//! The safe Rust interface of Undercurrent's core (`core/*.h`, compiled natively).
//!
//! The types are the C contract's own, made by bindgen; the entry points are those of [`Core`].
//! What the core decides here, the tenant-port programs decide in the kernel: it is the same source.

mod contract;
pub mod coupling;
pub mod dupack;
mod entry;
pub mod hooks;
pub mod law;
#[cfg(feature = "serde")]
mod law_file;
#[cfg(feature = "loaded")]
mod loaded;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod parameter;
mod reason;
pub mod remote;
pub mod rule;
pub mod slot;
pub mod steal;
mod sys;
pub mod unanswered;
pub mod watch;

pub use contract::{
    Annex, DctcpParameters, DelayParameters, Edit, Flow, FlowState, Policy, Segment,
};
pub use entry::{Asked, Awaits, COMPILED, Core, LIBRARY, Step};
pub use law::{Law, LawRow};
#[cfg(feature = "loaded")]
pub use loaded::LibraryError;
pub use reason::Reason;
pub use sys::LAYOUT;

/// Constants of the contract under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_ACK as ACK, UC_BETA_ONE_Q7 as BETA_ONE_Q7, UC_CA_CWR as CA_CWR, UC_CA_LOSS as CA_LOSS,
        UC_CA_OPEN as CA_OPEN, UC_CA_RECOVERY as CA_RECOVERY, UC_CE as CE, UC_CWR as CWR,
        UC_ECE as ECE, UC_ECHO_CLASSIC as ECHO_CLASSIC, UC_ECHO_EXACT as ECHO_EXACT,
        UC_ECN_SYNS_ALWAYS as ECN_SYNS_ALWAYS, UC_ECT0 as ECT0, UC_ECT1 as ECT1,
        UC_FEEDBACK_REDUCED as FEEDBACK_REDUCED, UC_FIN as FIN, UC_FLOW_BLIND as FLOW_BLIND,
        UC_FLOW_BULK as FLOW_BULK, UC_FLOW_GUEST_ASKED as FLOW_GUEST_ASKED,
        UC_FLOW_NODELAY as FLOW_NODELAY, UC_FLOW_PAIRS as FLOW_PAIRS,
        UC_FLOW_PEER_ASKED as FLOW_PEER_ASKED, UC_FLOW_PROBED as FLOW_PROBED,
        UC_FLOW_RUNTS as FLOW_RUNTS, UC_FLOW_SACK as FLOW_SACK,
        UC_FLOW_TIMESTAMPS as FLOW_TIMESTAMPS, UC_FROM_GUEST as FROM_GUEST,
        UC_GUEST_ECN_PASS as GUEST_ECN_PASS, UC_GUEST_ECN_TRANSLATE as GUEST_ECN_TRANSLATE,
        UC_IDLE_ANSWERED_NS as IDLE_ANSWERED_NS, UC_IDLE_CLOSED_NS as IDLE_CLOSED_NS,
        UC_IDLE_CLOSING_NS as IDLE_CLOSING_NS, UC_IDLE_HANDSHAKE_NS as IDLE_HANDSHAKE_NS,
        UC_IDLE_OWING_NS as IDLE_OWING_NS, UC_IDLE_TRANSLATED_NS as IDLE_TRANSLATED_NS,
        UC_IDLE_UNACKED_NS as IDLE_UNACKED_NS, UC_INFINITE_SSTHRESH as INFINITE_SSTHRESH,
        UC_LAW_COUPLED as LAW_COUPLED, UC_LAW_DCTCP as LAW_DCTCP, UC_LAW_DELAY as LAW_DELAY,
        UC_LAW_ECN as LAW_ECN, UC_LAW_PASS as LAW_PASS, UC_LOST_DOUBT as LOST_DOUBT,
        UC_LOST_ONCE as LOST_ONCE, UC_MODE_NO_ECT as MODE_NO_ECT, UC_MODE_OBSERVE as MODE_OBSERVE,
        UC_MODE_PASS_UNANSWERED as MODE_PASS_UNANSWERED, UC_MODE_STRICT as MODE_STRICT,
        UC_MODE_TRUST_ECN as MODE_TRUST_ECN, UC_MSS_MIN_BYTES as MSS_MIN_BYTES,
        UC_NOT_ECT as NOT_ECT, UC_OPT_AE as OPT_AE, UC_OPT_BROKEN as OPT_BROKEN,
        UC_OPT_MPTCP as OPT_MPTCP, UC_OPT_MSS as OPT_MSS, UC_OPT_SACK as OPT_SACK,
        UC_OPT_SIGNED as OPT_SIGNED, UC_OPT_TIMESTAMPS as OPT_TIMESTAMPS,
        UC_OPT_WSCALE as OPT_WSCALE, UC_PROFILE_LINUX as PROFILE_LINUX,
        UC_PROFILE_RFC as PROFILE_RFC, UC_PSH as PSH, UC_REBASE_NS as REBASE_NS, UC_RST as RST,
        UC_SYN as SYN, UC_SYN_RECEIVED as SYN_RECEIVED, UC_SYN_SENT as SYN_SENT,
        UC_TO_GUEST as TO_GUEST, UC_TRANSLATING as TRANSLATING, UC_TRIAL_LOST as TRIAL_LOST,
        UC_TRIAL_MARKED as TRIAL_MARKED, UC_TRIAL_VERDICT as TRIAL_VERDICT,
        UC_WITHHELD_ANY as WITHHELD_ANY, UC_WITHHELD_SACK as WITHHELD_SACK,
        UC_WITHHELD_SHIFT as WITHHELD_SHIFT, UC_WITHHELD_TIMESTAMPS as WITHHELD_TIMESTAMPS,
        UC_WITHHELD_WSCALE as WITHHELD_WSCALE,
    };
}

impl Policy {
    /// Returns the policy of a law ([`consts::LAW_ECN`], …) in a profile. Every SYN asks for ECN, a flow
    /// begins with ten segments, and every parameter of the law has its usual value
    /// ([`parameter::parameters`]); law `delay`, whose target has no usual value, keeps to a round-trip
    /// time of 1 ms.
    pub fn new(law: u32, profile: u32) -> Policy {
        let mut policy = Policy {
            law: law as u8,
            profile: profile as u8,
            ecn_syns: consts::ECN_SYNS_ALWAYS as u8,
            initial_window_segments: 10,
            ..Policy::default()
        };
        let law = Law::of(&policy);
        for row in parameter::parameters().iter().filter(|row| row.is_of(law)) {
            row.set(&mut policy, row.usual.unwrap_or(1_000));
        }
        policy
    }
}

/// Stores what the SACK blocks of a segment to the guest report, in the order of the option; each block is its first
/// sequence number and the one behind its last. Only the first two blocks count. The segment's ACK number must be set.
pub fn set_sack(segment: &mut Segment, blocks: &[(u32, u32)]) {
    let block = |at: usize| blocks.get(at).copied().unwrap_or_default();
    let sack = sys::uc_sack {
        left: block(0).0,
        right: block(0).1,
        next_left: block(1).0,
        next_right: block(1).1,
    };
    // SAFETY: both pointers are valid for the call and the C side keeps neither.
    unsafe { sys::uc_shim_set_sack(segment, &sack) };
}

/// Returns the edit that changes nothing.
pub fn no_edit(segment: &Segment) -> Edit {
    Edit {
        window: segment.window,
        flags: segment.flags,
        ecn: segment.ecn,
        ..Edit::default()
    }
}

/// Returns whether a policy lets no flow go untranslated.
pub fn is_strict(policy: &Policy) -> bool {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_is_strict(policy) != 0 }
}

/// Returns whether the peer has not acknowledged the guest's SYN or SYN-ACK yet.
pub fn is_half_open(flow: &Flow) -> bool {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_is_half_open(flow) != 0 }
}

/// Returns whether a flow has been idle for so long that its place may be reused.
pub fn is_stale(flow: &Flow, now_ns: u64) -> bool {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_is_stale(flow, now_ns) != 0 }
}

/// Returns how long a flow in its present state may be idle before it is stale.
pub fn idle_max_ns(flow: &Flow) -> u64 {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_idle_max_ns(flow) }
}

/// Returns what becomes of a segment that begins a flow for which the flow table has no room: the reason, and an edit
/// that changes nothing. `reason`: [`Reason::TABLE_FULL`] or [`Reason::QUOTA_FULL`].
pub fn without_room(policy: &Policy, segment: &Segment, reason: Reason) -> (Reason, Edit) {
    let mut edit = Edit::default();
    // SAFETY: all pointers are valid for the call and the C side keeps none of them.
    let code = unsafe { sys::uc_shim_step_without_room(policy, segment, reason.code(), &mut edit) };
    (Reason::from_code(code), edit)
}

/// Returns whether the host has seen the end of the connection: a reset, or a FIN of both ends.
pub fn is_closed(flow: &Flow) -> bool {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_is_closed(flow) != 0 }
}

/// Returns whether a coupled flow leaves its group: its connection has ended. Under a guard a flow never
/// leaves.
pub fn leaves_group(flow: &Flow) -> bool {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_leaves_group(flow) != 0 }
}

/// Returns the state of a flow's handshake as a label.
pub fn stage_label(flow: &Flow) -> &'static str {
    match u32::from(flow.stage) {
        consts::SYN_SENT => "syn-sent",
        consts::SYN_RECEIVED => "syn-received",
        _ => "translating",
    }
}

/// Returns whether a segment is a SYN-ACK: [`Core::known`] handles it if its flow is known.
pub fn is_answer(segment: &Segment) -> bool {
    use consts::{ACK, FIN, RST, SYN};
    u32::from(segment.flags) & (SYN | ACK | RST | FIN) == SYN | ACK
}

/// Returns whether a segment is a SYN without ACK: [`Core::known`] or [`Core::unknown`] handles it.
pub fn is_syn(segment: &Segment) -> bool {
    use consts::{ACK, FIN, RST, SYN};
    u32::from(segment.flags) & (SYN | ACK | RST | FIN) == SYN
}

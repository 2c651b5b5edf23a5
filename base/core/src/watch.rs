//! HWatch's control of flow starts: probes measure a path before a flow begins, and the receiving
//! host sets the flow's first windows by what it counted. `core/watch.h` says which function a
//! platform calls when.

use crate::{Segment, sys};

/// The operator's settings of the start-up control of flows; the hosts of both ends must have the same.
pub type StartPolicy = sys::uc_watch_policy;
/// A host's record of the path to a peer; all zero: never measured.
pub type Path = sys::uc_watch_path;
/// State of one flow's start at the receiving host; all zero: nothing seen yet.
pub type Start = sys::uc_watch_flow;
/// The bucket that paces first windows on a receiving host's link.
pub type Bucket = sys::uc_watch_bucket;
/// A flow's grant at the host that asks for it; all zero: not asked for.
pub type Grant = sys::uc_watch_grant;
/// What a host that asks for grants knows of the granter, the host that gives pacing slots; all zero: nothing.
pub type Granter = sys::uc_watch_granter;
/// The window to write into a segment of the receiving guest, and the bytes to charge to the bucket or to correct
/// there.
pub type Answer = sys::uc_watch_answer;

/// Constants of the contract under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_WATCH_ASK_MAX_BYTES as ASK_MAX_BYTES, UC_WATCH_COUNTING as COUNTING,
        UC_WATCH_LEFT as LEFT, UC_WATCH_PROBES_MAX as PROBES_MAX, UC_WATCH_ROUNDS as ROUNDS,
        UC_WATCH_SPAN_MAX_US as SPAN_MAX_US, UC_WATCH_WAIT_MAX_US as WAIT_MAX_US,
    };
}

impl StartPolicy {
    /// Returns the number of probes to send before a flow starts on this path; 0: its first packet passes
    /// at once. If the number is positive, the measurement has begun at `now_ns`, so that the next flow
    /// does not start another one.
    pub fn probes(&self, path: &mut Path, now_ns: u64) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_probes(self, path, now_ns) }
    }

    /// Returns by how many ns the probes delay the flow's first packet.
    pub fn span_ns(&self, path: &Path) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_span_ns(self, path) }
    }
}

/// Returns the time at which probe `index` of `probes` leaves, in ns from the start of the span. `random`:
/// 32 random bits, the same for all probes of a flow.
pub fn offset_ns(span_ns: u32, probes: u32, index: u32, random: u32) -> u32 {
    // SAFETY: no pointers.
    unsafe { sys::uc_shim_watch_offset_ns(span_ns, probes, index, random) }
}

impl Path {
    /// Updates the sending host's record when the flow's first packet is answered, after `rtt_ns`.
    /// `window_bytes`: the window of a SYN-ACK; 0: the answer is an ACK.
    pub fn answered(
        &mut self,
        policy: &StartPolicy,
        window_bytes: u32,
        mss_bytes: u16,
        rtt_ns: u64,
    ) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_answered(policy, self, window_bytes, mss_bytes, rtt_ns) }
    }

    /// Records an echoed mark at the sending host.
    pub fn echoed(&mut self) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_watch_echoed(self) }
    }
}

impl Start {
    /// Counts probe `index` of `probes` at the receiving host. Returns false if the probe's numbers
    /// contradict each other or those of earlier probes.
    pub fn probe(&mut self, index: u8, probes: u8, ecn: u8) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_watch_probe(self, index, probes, ecn) != 0 }
    }

    /// Returns the ECN codepoint by which to count a probe that left at `sent_ns`, by any clock
    /// that the flow's probes share. To be called before [`Start::probe`].
    pub fn timed(&mut self, policy: &StartPolicy, ecn: u8, sent_ns: u32, now_ns: u64) -> u8 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_timed(self, policy, ecn, sent_ns, now_ns) }
    }

    /// Counts a segment to the receiving guest, with the ECN codepoint that the network left on it. Returns false for a
    /// segment that the guest does not accept, which changes nothing.
    pub fn arrives(&mut self, segment: &Segment) -> bool {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_to_guest(self, segment) != 0 }
    }

    /// Returns whether a segment to the guest lies beyond the flow's first window; then it is
    /// `steady` for [`Bucket::heard`].
    pub fn is_steady(&self, segment: &Segment) -> bool {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_is_steady(self, segment) != 0 }
    }

    /// Handles a segment of the receiving guest. Returns its window, and the charge if it grants
    /// the first one.
    pub fn leaves(
        &mut self,
        policy: &StartPolicy,
        (path, bucket): (&mut Path, &Bucket),
        segment: &Segment,
        now_ns: u64,
        random: u32,
    ) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe {
            sys::uc_shim_watch_from_guest(
                self,
                policy,
                path,
                bucket,
                segment,
                now_ns,
                random,
                &mut answer,
            );
        }
        answer
    }
}

impl Bucket {
    /// Counts `bytes` of any flow that have arrived at the link's host; `steady`: the flow is past
    /// its start.
    pub fn heard(&mut self, policy: &StartPolicy, bytes: u32, steady: bool, now_ns: u64) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_heard(self, policy, bytes, steady.into(), now_ns) }
    }

    /// Corrects the charge of a flow that used `bytes` more than it was charged for; negative:
    /// fewer.
    pub fn settle(&mut self, policy: &StartPolicy, bytes: i32) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_settle(self, policy, bytes) }
    }

    /// Returns how long (ns) the packet waits that grants a first window of `grant_bytes`, and charges the bucket for
    /// them.
    pub fn wait_ns(&mut self, policy: &StartPolicy, grant_bytes: u32, now_ns: u64) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_wait_ns(self, policy, grant_bytes, now_ns) }
    }

    /// Answers, at the granter, a question for `bytes` of the link: returns how long (ns) the flow waits, and charges
    /// the bucket.
    pub fn grant_ns(&mut self, policy: &StartPolicy, bytes: u32, now_ns: u64) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_grant_ns(self, policy, bytes, now_ns) }
    }
}

/// Returns the number of bytes for which a receiving host that grants a first window of `grant_bytes` asks
/// the granter; 0: it grants none. `settle_bytes`: the bytes that a flow has used beyond its charge.
/// `owed_bytes`: the sum of these bytes that no question has included yet.
pub fn ask_for(owed_bytes: &mut i32, grant_bytes: u32, settle_bytes: i32) -> u32 {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    unsafe { sys::uc_shim_watch_ask_for(owed_bytes, grant_bytes, settle_bytes) }
}

impl Grant {
    /// Creates the grant of a flow for which a receiving host asks ([`ask_for`]).
    pub fn asked() -> Grant {
        Grant {
            asked: 1,
            ..Grant::default()
        }
    }

    /// Handles the guest's first packet. Returns for how many bytes of the link to ask the granter;
    /// 0: the flow has asked before.
    pub fn ask(&mut self, granter: &Granter, policy: &StartPolicy, segment: &Segment) -> u32 {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_watch_ask(self, granter, policy, segment) }
    }

    /// Handles the granter's answer: the flow waits for `wait_ns`.
    pub fn granted(
        &mut self,
        granter: &mut Granter,
        policy: &StartPolicy,
        wait_ns: u64,
        now_ns: u64,
    ) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_watch_granted(self, granter, policy, wait_ns, now_ns) }
    }

    /// Returns how much longer (ns) a packet waits that has been waiting since `answered_ns`: at a sending host the
    /// peer's answer to the guest's first packet, at a receiving host the guest's first packet. To be called again
    /// after that time, and when the granter's answer arrives before.
    pub fn wait_ns(&self, granter: &Granter, answered_ns: u64, now_ns: u64) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_grant_wait_ns(self, granter, answered_ns, now_ns) }
    }

    /// Records that the flow starts without the granter's answer, if none has arrived.
    pub fn unanswered(&self, granter: &mut Granter) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_unanswered(self, granter) }
    }

    /// Learns from a segment of the guest how much of their first windows flows use.
    pub fn sent(&mut self, granter: &mut Granter, policy: &StartPolicy, segment: &Segment) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_watch_note_sent(self, granter, policy, segment) }
    }
}

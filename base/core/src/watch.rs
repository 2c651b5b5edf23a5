//! HWatch's start (`core/watch.h`): probes measure a path before a flow begins, and the receiving
//! host sets the flow's first windows by what it counted. `docs/hwatch.md` says what each home calls
//! when.

use crate::{Segment, sys};

/// What the operator wants of a start; both ends' hosts have the same.
pub type StartPolicy = sys::uc_watch_policy;
/// What a host remembers of a peer's path; all zero: never measured.
pub type Path = sys::uc_watch_path;
/// What the receiving host knows of one flow; all zero: nothing seen yet.
pub type Start = sys::uc_watch_flow;
/// The turns of first windows on a receiving host's link.
pub type Bucket = sys::uc_watch_bucket;
/// What becomes of a segment of the receiving guest.
pub type Answer = sys::uc_watch_answer;

/// Constants of the contract under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_WATCH_COUNTING as COUNTING, UC_WATCH_LEFT as LEFT, UC_WATCH_PROBES_MAX as PROBES_MAX,
        UC_WATCH_ROUNDS as ROUNDS, UC_WATCH_SPAN_MAX_US as SPAN_MAX_US,
        UC_WATCH_WAIT_MAX_US as WAIT_MAX_US,
    };
}

impl StartPolicy {
    /// The paper's ten probes, within less than its half of a round trip (`docs/hwatch.md` has the
    /// measurements). No turns: only the operator knows the rate of a link.
    pub fn usual() -> StartPolicy {
        StartPolicy {
            probes: 10,
            least_segments: 2,
            rounds: 8,
            observe: 0,
            span_us: 16,
            fresh_us: 100_000,
            idle_us: 1_000_000,
            wait_us: 800_000,
            burst_bytes: 32 * 1_514,
            late_ns: 0,
            span_part: 32,
            marked_part: 4,
            pad: [0; 2],
            pace_bytes_per_s: 0,
        }
    }

    /// How many probes go before a flow on this path; 0: its first packet passes. The path counts as
    /// measured from now on.
    pub fn probes(&self, path: &mut Path, now_ns: u64) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_probes(self, path, now_ns) }
    }

    /// How much later the flow's first packet leaves for them.
    pub fn span_ns(&self, path: &Path) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_span_ns(self, path) }
    }
}

/// When probe `index` of `probes` leaves within the span; `random` is one word for all of them.
pub fn offset_ns(span_ns: u32, probes: u32, index: u32, random: u32) -> u32 {
    // SAFETY: no pointers.
    unsafe { sys::uc_shim_watch_offset_ns(span_ns, probes, index, random) }
}

impl Path {
    /// At the sending host: the flow's first packet was answered, after `rtt_ns`. `window_bytes` of
    /// a SYN-ACK, 0 of an ACK.
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

    /// At the sending host: an echo of a mark.
    pub fn echoed(&mut self) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_watch_echoed(self) }
    }
}

impl Start {
    /// At the receiving host: probe `index` of `probes` has come. False: it makes no sense.
    pub fn probe(&mut self, index: u8, probes: u8, ecn: u8) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_watch_probe(self, index, probes, ecn) != 0 }
    }

    /// By which codepoint to count a probe that left at `sent_ns`, by any clock that the flow's
    /// probes share. To be asked before [`Start::probe`].
    pub fn timed(&mut self, policy: &StartPolicy, ecn: u8, sent_ns: u32, now_ns: u64) -> u8 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_timed(self, policy, ecn, sent_ns, now_ns) }
    }

    /// A segment on its way to the receiving guest, with the codepoint that the network left on it.
    pub fn arrives(&mut self, segment: &Segment) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_to_guest(self, segment) }
    }

    /// Whether that segment is behind the flow's first window: its link hears of it as steady.
    pub fn is_steady(&self, segment: &Segment) -> bool {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_is_steady(self, segment) != 0 }
    }

    /// A segment of the receiving guest: its window, and whether it gives the first one.
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
    /// `bytes` have come to the link's host, of whatever flow; `steady`: of one past its start.
    pub fn heard(&mut self, policy: &StartPolicy, bytes: u32, steady: bool, now_ns: u64) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_heard(self, policy, bytes, steady.into(), now_ns) }
    }

    /// So many bytes more came by a first window than its turn was for, or less.
    pub fn settle(&mut self, policy: &StartPolicy, bytes: i32) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_settle(self, policy, bytes) }
    }

    /// How long the packet waits that gives a first window of `grant_bytes`.
    pub fn wait_ns(&mut self, policy: &StartPolicy, grant_bytes: u32, now_ns: u64) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_watch_wait_ns(self, policy, grant_bytes, now_ns) }
    }
}

//! What flows show of their remote addresses, and what a platform remembers of one: where ECN is refused,
//! lost, or marked without congestion, flows go without it for an hour (`core/distrust.h`).

use crate::{Flow, Policy, Segment, consts, sys};

pub use crate::sys::uc_remote as Remote;

/// Evidence about the ECN behaviour of a flow's remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A host at the remote address agreed to use ECN.
    Agreed,
    /// The address reset a SYN without an offer of ECN.
    Cleared,
    /// The address reset a SYN that asked for ECN, or answered only one that did not.
    Refused,
    /// Data that was sent with ECT did not arrive.
    Lost,
    /// All data was marked although nothing was congested.
    Marked,
}

impl News {
    /// Returns the evidence with this number of the core's `enum uc_remote_news`; `None`: no evidence, or no such
    /// number.
    pub fn of(code: u32) -> Option<News> {
        match code {
            sys::UC_REMOTE_AGREED => Some(News::Agreed),
            sys::UC_REMOTE_CLEARED => Some(News::Cleared),
            sys::UC_REMOTE_REFUSED => Some(News::Refused),
            sys::UC_REMOTE_LOST => Some(News::Lost),
            sys::UC_REMOTE_MARKED => Some(News::Marked),
            _ => None,
        }
    }

    /// Returns the name in output for programs.
    pub fn label(self) -> &'static str {
        match self {
            News::Agreed => "agreed",
            News::Cleared => "cleared",
            News::Refused => "refused",
            News::Lost => "lost",
            News::Marked => "marked",
        }
    }
}

/// Returns what a flow has shown so far of how its remote address handles ECN; `None`: nothing.
pub fn news(flow: &Flow) -> Option<News> {
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    News::of(unsafe { sys::uc_shim_remote_news_of(flow) })
}

impl Remote {
    /// Records what a flow has shown of the remote address, at `now_ns` of the platform's clock.
    pub fn remember(&mut self, flow: &Flow, now_ns: u64) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_remember(self, flow, now_ns) };
    }

    /// Returns the policy of a flow that begins now: without ECN if the address is distrusted, or if the
    /// port may be half-blind and is strict.
    #[must_use]
    pub fn policy(&self, policy: &Policy, segment: &Segment, now_ns: u64) -> Policy {
        // SAFETY: all pointers are valid for the call and the C side keeps none.
        let avoids = unsafe { sys::uc_shim_avoids_ecn(self, policy, segment, now_ns) != 0 };
        let mut policy = *policy;
        if avoids {
            policy.modes |= consts::MODE_NO_ECT as u8;
        }
        policy
    }
}

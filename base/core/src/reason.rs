//! Why a segment was treated as it was: the core's one list, with labels and meanings.

use std::ffi::CStr;
use std::fmt;

use crate::sys;

/// Why the core translated, passed or dropped a packet (`core/reason.h`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(u32);

impl Reason {
    /// The segment belongs to a translated flow.
    pub const TRANSLATED: Reason = Reason(sys::UC_TRANSLATED);
    /// A flow that isn't in the table: its handshake was not seen whole, or passed by a rule.
    pub const NO_HANDSHAKE: Reason = Reason(sys::UC_NO_HANDSHAKE);
    /// No rule of this port matches the flow, or its policy says pass.
    pub const NO_POLICY: Reason = Reason(sys::UC_NO_POLICY);
    /// The guest negotiates ECN itself.
    pub const GUEST_SPEAKS_ECN: Reason = Reason(sys::UC_GUEST_SPEAKS_ECN);
    /// The other end does not negotiate ECN.
    pub const PEER_REFUSED_ECN: Reason = Reason(sys::UC_PEER_REFUSED_ECN);
    /// The segment is signed (TCP MD5 or TCP-AO).
    pub const SIGNED: Reason = Reason(sys::UC_SIGNED);
    /// The SYN offers Multipath TCP.
    pub const MPTCP: Reason = Reason(sys::UC_MPTCP);
    /// The flow's windows can't be written: the port only echoes its marks.
    pub const COARSE_WINDOW: Reason = Reason(sys::UC_COARSE_WINDOW);
    /// The flow table had no free place.
    pub const TABLE_FULL: Reason = Reason(sys::UC_TABLE_FULL);
    /// The port has as many settled flows as its quota allows.
    pub const QUOTA_FULL: Reason = Reason(sys::UC_QUOTA_FULL);
    /// The port's guard drops data beyond the advertised window.
    pub const BEYOND_EDGE: Reason = Reason(sys::UC_BEYOND_EDGE);
    /// The segment is translated, although the port had missed earlier segments of the flow.
    pub const RESYNCED: Reason = Reason(sys::UC_RESYNCED);
    /// The peer's SYN offers `AccECN`; the host agrees to classic ECN.
    pub const ACCURATE_ECN: Reason = Reason(sys::UC_ACCURATE_ECN);
    /// Flows of the remote address are translated without ECN, because ECN has harmed earlier flows.
    pub const ECN_AVOIDED: Reason = Reason(sys::UC_ECN_AVOIDED);
    /// `AccECN` or Multipath TCP was removed from the SYN or SYN-ACK, and the flow is translated.
    pub const DOWNGRADED: Reason = Reason(sys::UC_DOWNGRADED);
    /// Strict mode holds the flow by drops.
    pub const HELD: Reason = Reason(sys::UC_HELD);
    /// The port sees no packet of one direction, so it asks for no ECN.
    pub const HALF_BLIND: Reason = Reason(sys::UC_HALF_BLIND);
    /// The port sees no packet of the guest, so it drops a marked packet instead of echoing the mark.
    pub const UNECHOED: Reason = Reason(sys::UC_UNECHOED);
    /// Nobody would answer the mark of a flow that is not in the table, so its data is dropped.
    pub const UNANSWERED: Reason = Reason(sys::UC_UNANSWERED);
    /// The packet is not a TCP segment.
    pub const NOT_TCP: Reason = Reason(sys::UC_NOT_TCP);

    /// Returns the reason with this code in the C enum.
    pub fn from_code(code: u32) -> Reason {
        Reason(code)
    }

    /// Returns all reasons, in the order of the counters.
    pub fn all() -> impl Iterator<Item = Reason> {
        (0..sys::UC_REASON_COUNT).map(Reason)
    }

    /// Returns the index of the reason's counter.
    pub fn code(self) -> u32 {
        self.0
    }

    /// Returns the reason by which strict mode drops a segment of the guest that would pass for this reason; a reason
    /// for which strict mode drops none stays.
    #[must_use]
    pub fn strict(self) -> Reason {
        // SAFETY: takes numbers, reads nothing.
        Reason(unsafe { sys::uc_shim_verdict_of(1, sys::UC_FROM_GUEST as u8, self.0) })
    }

    /// Returns the reason by which a segment with this edit is counted: [`Reason::DOWNGRADED`] or
    /// [`Reason::ACCURATE_ECN`] in place of [`Reason::TRANSLATED`] where they apply.
    #[must_use]
    pub fn counted(self, segment: &crate::Segment, edit: &crate::Edit) -> Reason {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        Reason(unsafe { sys::uc_shim_counted_as(self.0, segment, edit) })
    }

    /// Returns whether the law decides about the packet: it is translated, or strict mode holds it.
    pub fn is_under_law(self) -> bool {
        [
            Reason::TRANSLATED,
            Reason::RESYNCED,
            Reason::DOWNGRADED,
            Reason::ACCURATE_ECN,
            Reason::HELD,
        ]
        .contains(&self)
    }

    /// Returns whether a known flow must be removed from the table.
    pub fn forgets(self) -> bool {
        // SAFETY: takes a number, reads nothing.
        unsafe { sys::uc_shim_forgets(self.0) != 0 }
    }

    /// Returns whether the packet must be dropped.
    pub fn drops(self) -> bool {
        // SAFETY: takes a number, reads nothing.
        unsafe { sys::uc_shim_drops(self.0) != 0 }
    }

    /// Returns the reason's name in metrics, `snake_case`.
    pub fn label(self) -> &'static str {
        // SAFETY: the C side returns a pointer to a string literal for every code.
        text(unsafe { CStr::from_ptr(sys::uc_shim_reason_label(self.0)) })
    }

    /// Returns the reason's meaning in a sentence.
    pub fn meaning(self) -> &'static str {
        // SAFETY: the C side returns a pointer to a string literal for every code.
        text(unsafe { CStr::from_ptr(sys::uc_shim_reason_meaning(self.0)) })
    }
}

fn text(literal: &'static CStr) -> &'static str {
    literal.to_str().unwrap_or("not UTF-8")
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

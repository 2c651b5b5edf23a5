//! Marks on the peer's data of a flow that the port does not know (`core/unanswered.h`).

use crate::{Policy, Segment, consts, sys};

/// Record of a flow that the port does not know, and whose data arrived with CE marks.
pub type Marked = sys::uc_marked;

pub use crate::sys::{UC_SILENT_MARKS as SILENT_MARKS, UC_SILENT_NS as SILENT_NS};

impl Marked {
    /// Takes in a segment of the guest.
    pub fn hear(&mut self, segment: &Segment, now_ns: u64) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_hear_segment(self, segment, now_ns) };
    }

    /// Takes in marked data to the guest, and returns whether it is dropped: the guest would leave the mark
    /// unanswered, and policy wants it.
    pub fn drops(&mut self, policy: &Policy, segment: &Segment, now_ns: u64) -> bool {
        // SAFETY: all pointers are valid for the calls and the C side keeps none of them.
        unsafe {
            sys::uc_shim_is_unanswered(self, segment, now_ns) != 0
                && sys::uc_shim_drops_unanswered(self, policy, segment) != 0
        }
    }
}

/// Takes in a segment of no known flow. Returns whether it is dropped: marked data to a guest that answers no mark.
/// `marked` is `None` until data comes marked.
pub fn drops(marked: &mut Option<Marked>, policy: &Policy, segment: &Segment, now_ns: u64) -> bool {
    if u32::from(segment.direction) == consts::FROM_GUEST {
        if let Some(marked) = marked {
            marked.hear(segment, now_ns);
        }
        return false;
    }
    // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
    let is_marked = unsafe { sys::uc_shim_is_marked_data(segment) != 0 };
    is_marked
        && marked
            .get_or_insert_default()
            .drops(policy, segment, now_ns)
}

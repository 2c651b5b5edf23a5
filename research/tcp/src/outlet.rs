//! Where a connection's segments go.

use crate::segment::Segment;

/// Takes the segments that a connection sends, as they are made. Any closure is an outlet. The compiler can inline a
/// type of its own where a segment is made, so that the segment need not be copied.
pub trait Outlet {
    /// Takes a segment that the connection sends.
    fn send(&mut self, segment: Segment);
}

impl<F: FnMut(Segment)> Outlet for F {
    #[inline(always)]
    fn send(&mut self, segment: Segment) {
        self(segment);
    }
}

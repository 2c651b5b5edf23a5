//! The window of a receiver that autotunes, as Linux does (`tcp_grow_window()` and
//! `tcp_rcv_space_adjust()` of `net/ipv4/tcp_input.c`, 6.18).
//!
//! Each segment that arrives opens the window by twice its size, also out of order: so duplicate ACKs
//! carry windows that grow. A bound limits the window, and doubles each time that the application has
//! read as much. Linux measures what is read in a round trip instead; for a sender that fills the
//! window the two are the same.

/// Number of segments by which each segment that arrives opens the window.
const SEGMENTS_FOR_ONE: u32 = 2;

/// The state of the receive window's autotuning.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// The receive window at present, in bytes.
    window_bytes: u32,
    /// Maximum of the receive window for now; it grows with what the application reads.
    bound_bytes: u32,
    /// Bytes that the application has read since the bound was raised.
    read_bytes: u32,
}

impl Tuning {
    /// Starts with a window of `bytes`.
    pub(crate) fn boxed(bytes: u32) -> Box<Tuning> {
        Box::new(Tuning {
            window_bytes: bytes,
            bound_bytes: bytes,
            read_bytes: 0,
        })
    }

    /// Returns the largest window that may be advertised, in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        self.window_bytes
    }

    /// Opens the window for a segment of `bytes` that has arrived.
    pub(crate) fn arrived(&mut self, bytes: u32) {
        let opened = self.window_bytes.saturating_add(SEGMENTS_FOR_ONE * bytes);
        self.window_bytes = opened.min(self.bound_bytes);
    }

    /// Counts `bytes` that the application has read, and raises the bound, to at most `most`.
    pub(crate) fn read(&mut self, bytes: u32, most: u32) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if self.read_bytes >= self.bound_bytes && self.bound_bytes < most {
            self.bound_bytes = self.bound_bytes.saturating_mul(2).min(most);
            self.read_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tuning;

    #[test]
    fn the_window_opens_with_segments_up_to_a_bound_that_reading_doubles() {
        let mut tuning = Tuning::boxed(10_000);
        tuning.arrived(1_000);
        assert_eq!(tuning.bytes(), 10_000);
        tuning.read(10_000, 35_000);
        for opened in [12_000, 14_000, 16_000, 18_000, 20_000, 20_000] {
            tuning.arrived(1_000);
            assert_eq!(tuning.bytes(), opened);
        }
        tuning.read(20_000, 35_000);
        tuning.arrived(20_000);
        assert_eq!(tuning.bytes(), 35_000);
    }
}

//! Compression of duplicate ACKs, as Linux does it for a sender with SACK (`__tcp_ack_snd_check()` of
//! `net/ipv4/tcp_input.c`, 6.18): after three, one ACK answers many segments out of order.

use uc_net::Nanos;

/// Number of duplicate ACKs that leave at once (Linux's `TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u32 = 3;
/// Maximum number of segments out of order that one further ACK answers (default of `tcp_comp_sack_nr`).
const COMPRESSED_MOST: u32 = 44;

/// The state of the compression of ACKs.
#[derive(Clone, Debug)]
pub(crate) struct Compression {
    longest: Nanos,
    /// Number of segments out of order since data in order arrived. After an ACK that was sent at once, the compressed
    /// ones count again from `AT_ONCE`.
    segments: u32,
}

impl Compression {
    /// Starts with ACKs that wait for `longest` at most.
    pub(crate) fn new(longest: Nanos) -> Compression {
        Compression {
            longest,
            segments: 0,
        }
    }

    /// Begins again, after data in order.
    pub(crate) fn restart(&mut self) {
        self.segments = 0;
    }

    /// Counts a segment out of order. Returns how long its ACK may wait; `None`: it leaves at once.
    pub(crate) fn wait(&mut self) -> Option<Nanos> {
        if self.segments == AT_ONCE + COMPRESSED_MOST {
            self.segments = AT_ONCE;
            return None;
        }
        self.segments += 1;
        (self.segments > AT_ONCE).then_some(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::Compression;
    use uc_net::Nanos;

    #[test]
    fn three_leave_at_once_and_then_each_45th() {
        let mut compression = Compression::new(Nanos(7));
        let mut at_once = |count: u32| (0..count).filter(|_| compression.wait().is_none()).count();
        assert_eq!([at_once(3), at_once(44), at_once(1)], [3, 0, 1]);
        assert_eq!([at_once(44), at_once(1)], [0, 1]);
        compression.restart();
        assert_eq!(compression.wait(), None);
    }
}

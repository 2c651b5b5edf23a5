//! The exact time that bytes need on a link, in integers.

use uc_words::{BitsPerSec, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Turns bytes into time at one rate, without drift: the fraction of a nanosecond that a packet
/// leaves over is carried into the next packet of the same busy period. A fixed time can be added for
/// each packet.
#[derive(Clone, Debug)]
pub struct Serializer {
    rate: BitsPerSec,
    fixed: Nanos,
    /// Numerator of the fraction left over, in 1/rate nanoseconds; always below the rate.
    carry: u64,
    /// The size whose time was computed last. Successive packets on a link mostly have the same size, and a division
    /// costs more than the transmitter's other work for a packet.
    bytes: u32,
    /// Whole nanoseconds that `bytes` take, plus the fixed time for each packet.
    whole_ns: u64,
    /// Numerator of the fraction of a nanosecond that `bytes` take beyond `whole_ns`, in 1/rate; below the rate.
    fraction: u64,
}

impl Serializer {
    /// Creates a serializer at `rate` that adds the time `fixed` to each packet. `rate` must not be zero
    /// ([`crate::LinkSpec`] checks it).
    pub fn new(rate: BitsPerSec, fixed: Nanos) -> Serializer {
        let mut serializer = Serializer {
            rate,
            fixed,
            carry: 0,
            bytes: 0,
            whole_ns: 0,
            fraction: 0,
        };
        serializer.divide(0);
        serializer
    }

    /// Forgets the fraction: the link fell idle, and the next packet starts on a whole nanosecond.
    pub fn restart(&mut self) {
        self.carry = 0;
    }

    /// Returns the time that a packet of `bytes` occupies the link. The sum over a busy period of any length is exact
    /// to less than one nanosecond. A time beyond 584 years saturates.
    #[inline(always)]
    pub fn transmission(&mut self, bytes: u32) -> Nanos {
        if bytes != self.bytes {
            self.divide(bytes);
        }
        // carry + fraction, less the rate if that leaves a whole nanosecond, without overflow.
        let to_next_ns = self.rate.0 - self.fraction;
        if self.carry >= to_next_ns {
            self.carry -= to_next_ns;
            return Nanos(self.whole_ns.saturating_add(1));
        }
        self.carry += self.fraction;
        Nanos(self.whole_ns)
    }

    #[cold]
    fn divide(&mut self, bytes: u32) {
        self.bytes = bytes;
        (self.whole_ns, self.fraction) = self.quotient(bytes);
        self.whole_ns = self.whole_ns.saturating_add(self.fixed.0);
    }

    /// Returns the time of `bytes` in whole nanoseconds, and the numerator of the fraction left over, in 1/rate.
    fn quotient(&self, bytes: u32) -> (u64, u64) {
        let numerator = u128::from(bytes) * 8 * NANOS_PER_SEC;
        // A division of 64-bit numbers is several times faster, and nearly all of them are.
        if let Ok(numerator) = u64::try_from(numerator) {
            return (numerator / self.rate.0, numerator % self.rate.0);
        }
        let rate = u128::from(self.rate.0);
        let whole_ns = u64::try_from(numerator / rate).unwrap_or(u64::MAX);
        // A remainder is below the rate, so it fits.
        (whole_ns, (numerator % rate) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_packets_at_an_odd_rate_take_exactly_their_time() {
        let mut serializer = Serializer::new(BitsPerSec(7), Nanos::ZERO);
        let sum: u64 = (0..1_000).map(|_| serializer.transmission(3).0).sum();
        assert_eq!(sum, 1_000 * 3 * 8 * 1_000_000_000 / 7);
    }

    #[test]
    fn the_largest_packet_on_the_slowest_link_does_not_overflow() {
        let mut serializer = Serializer::new(BitsPerSec(1), Nanos::ZERO);
        assert_eq!(serializer.transmission(u32::MAX), Nanos::MAX);
        let mut serializer = Serializer::new(BitsPerSec(1_000), Nanos::ZERO);
        let exact = u128::from(u32::MAX) * 8 * NANOS_PER_SEC / 1_000;
        assert_eq!(u128::from(serializer.transmission(u32::MAX).0), exact);
    }
}

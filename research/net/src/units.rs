//! Time and rate as integers, and the exact time that bytes need on a link.

use std::fmt;
use std::ops::{Add, AddAssign};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A point in time or a span of it, in nanoseconds. What zero means is the driver's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The beginning of time, or no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than every event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// The span from `earlier` to `self`; zero if `earlier` is the later one.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;

    /// Saturates: an event that would lie beyond the end of time lies at its end.
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl fmt::Display for Nanos {
    /// In the largest unit that needs no fraction: `250us`, `2s`, `1500001ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        match units
            .iter()
            .find(|(size, _)| self.0 != 0 && self.0.is_multiple_of(*size))
        {
            Some((size, name)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}ns", self.0),
        }
    }
}

/// A link's rate in bits per second, link-layer bytes counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerSec(pub u64);

impl BitsPerSec {
    /// `mbit` million bits per second.
    pub const fn from_mbit(mbit: u64) -> BitsPerSec {
        BitsPerSec(mbit * 1_000_000)
    }
}

impl fmt::Display for BitsPerSec {
    /// In the largest unit that needs no fraction: `10Mbit`, `1Gbit`, `1500bit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000, "Gbit"),
            (1_000_000, "Mbit"),
            (1_000, "kbit"),
        ];
        match units
            .iter()
            .find(|(size, _)| self.0 != 0 && self.0.is_multiple_of(*size))
        {
            Some((size, name)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}bit", self.0),
        }
    }
}

/// Turns bytes into time at one rate, without drift: the fraction of a nanosecond that a packet
/// leaves over is carried into the next packet of the same busy period.
#[derive(Clone, Debug)]
pub struct Serializer {
    rate: BitsPerSec,
    /// Numerator of the fraction left over, in 1/rate nanoseconds; always below the rate.
    carry: u64,
    /// The size whose time was computed last. Neighbours on a link mostly have the same size, and a
    /// division costs more than the rest of a packet's way through the transmitter.
    bytes: u32,
    whole_ns: u64,
    /// Numerator of the fraction beside `whole_ns`; below the rate.
    fraction: u64,
}

impl Serializer {
    /// A serializer at `rate`, which must not be zero ([`crate::LinkSpec`] checks it).
    pub fn new(rate: BitsPerSec) -> Serializer {
        Serializer {
            rate,
            carry: 0,
            bytes: 0,
            whole_ns: 0,
            fraction: 0,
        }
    }

    /// Forgets the fraction: the link fell idle, and the next packet starts on a whole nanosecond.
    pub fn restart(&mut self) {
        self.carry = 0;
    }

    /// The time that `bytes` occupy the link, so that the sum over a busy period is exact to less
    /// than one nanosecond however long the period is. More than 584 years saturate.
    #[inline]
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

    fn divide(&mut self, bytes: u32) {
        self.bytes = bytes;
        let numerator = u128::from(bytes) * 8 * NANOS_PER_SEC;
        // A division of 64-bit numbers is several times faster, and nearly all of them are.
        if let Ok(numerator) = u64::try_from(numerator) {
            (self.whole_ns, self.fraction) = (numerator / self.rate.0, numerator % self.rate.0);
            return;
        }
        let rate = u128::from(self.rate.0);
        self.whole_ns = u64::try_from(numerator / rate).unwrap_or(u64::MAX);
        // A remainder is below the rate, so it fits.
        self.fraction = (numerator % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_packets_at_an_odd_rate_take_exactly_their_time() {
        let mut serializer = Serializer::new(BitsPerSec(7));
        let sum: u64 = (0..1_000).map(|_| serializer.transmission(3).0).sum();
        assert_eq!(sum, 1_000 * 3 * 8 * 1_000_000_000 / 7);
    }

    #[test]
    fn the_largest_packet_on_the_slowest_link_does_not_overflow() {
        let mut serializer = Serializer::new(BitsPerSec(1));
        assert_eq!(serializer.transmission(u32::MAX), Nanos::MAX);
        let mut serializer = Serializer::new(BitsPerSec(1_000));
        let exact = u128::from(u32::MAX) * 8 * NANOS_PER_SEC / 1_000;
        assert_eq!(u128::from(serializer.transmission(u32::MAX).0), exact);
    }

    #[test]
    fn times_and_rates_are_shown_in_their_largest_whole_unit() {
        assert_eq!(Nanos::from_micros(250).to_string(), "250us");
        assert_eq!(Nanos::from_millis(2_000).to_string(), "2s");
        assert_eq!(Nanos(1_500_001).to_string(), "1500001ns");
        assert_eq!(Nanos::ZERO.to_string(), "0ns");
        assert_eq!(BitsPerSec::from_mbit(10).to_string(), "10Mbit");
        assert_eq!(BitsPerSec(1_500).to_string(), "1500bit");
    }
}

//! Reproducible random numbers: a stream for each component, seeded by the run's seed and the
//! component's name.

use rand_core::Rng;
use rand_pcg::Pcg64;
use uc_words::fnv::fnv1a;

/// A reproducible stream of random numbers.
///
/// Components never share a stream, so a new link or fault rule does not change the numbers that
/// other components draw. The samplers use integers and are written here, since a library may
/// change the values of its samplers between minor versions.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Pcg64,
}

impl Stream {
    /// Creates the stream of the component `name` in a run with this `seed`.
    pub fn new(seed: u64, name: &str) -> Stream {
        let name_hash = fnv1a(name.as_bytes());
        let state = u128::from(mix(seed)) << 64 | u128::from(mix(seed ^ name_hash));
        Stream {
            generator: Pcg64::new(state, u128::from(name_hash)),
        }
    }

    /// Draws 32 uniformly distributed random bits.
    pub fn bits32(&mut self) -> u32 {
        self.generator.next_u32()
    }

    /// Draws a number, uniform in `0..bound` without bias; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply and shift, rejecting the few values that would be drawn once too often
        // (Lemire, "Fast Random Integer Generation in an Interval", 2019).
        let reject_below = if bound == 0 {
            0
        } else {
            bound.wrapping_neg() % bound
        };
        loop {
            let product = u128::from(self.generator.next_u64()) * u128::from(bound);
            if product as u64 >= reject_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles; every order is equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for place in (1..list.len()).rev() {
            let other = self.below(place as u64 + 1) as usize;
            list.swap(place, other);
        }
    }

    /// Returns true with a probability of `ppm` parts per million; always from 1,000,000 on.
    pub fn chance_ppm(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }
}

/// Applies the finalizer of SplitMix64: neighbouring seeds give unrelated states.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

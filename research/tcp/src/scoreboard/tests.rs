//! The scoreboard against RFC 6675 §4 read octet by octet, with one difference: the RFC computes IsLost()
//! again each time, and here what was lost once stays so.

use super::{DUP_THRESH, Scoreboard};
use crate::segment::SackBlocks;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

const SMSS: u64 = 10;
const BASE: u64 = (1 << 32) - 50; // wraps on the wire
const OCTETS: usize = 200;

/// The octets from `una` to `max`, each SACKed or not.
struct Octets {
    sacked: [bool; OCTETS],
    una: usize,
    /// Octets below this that are not SACKed have been lost at some time.
    lost_below: usize,
}

impl Octets {
    /// Notes which octets are lost now. What was lost once stays so.
    fn find_lost(&mut self) {
        let highest = (self.una..OCTETS)
            .rev()
            .find(|&octet| self.is_lost_now(octet));
        self.lost_below = self.lost_below.max(highest.map_or(0, |octet| octet + 1));
    }

    fn is_lost(&self, octet: usize) -> bool {
        octet < self.lost_below
    }

    /// Computes IsLost(): three discontiguous SACKed sequences above, or more than two segments of
    /// octets.
    fn is_lost_now(&self, octet: usize) -> bool {
        if self.sacked[octet] {
            return false;
        }
        let above = &self.sacked[octet + 1..];
        let count = above.iter().filter(|&&sacked| sacked).count() as u64;
        let mut before = false;
        let mut sequences = 0;
        for &sacked in above {
            sequences += u32::from(sacked && !before);
            before = sacked;
        }
        sequences >= DUP_THRESH || count > u64::from(DUP_THRESH - 1) * SMSS
    }

    /// Computes SetPipe() octet by octet.
    fn pipe(&self, high_rxt: usize) -> u64 {
        let unsacked = (self.una..OCTETS).filter(|&octet| !self.sacked[octet]);
        unsacked
            .map(|octet| u64::from(!self.is_lost(octet)) + u64::from(octet < high_rxt))
            .sum()
    }
}

proptest! {
    #[test]
    fn pipe_and_is_lost_equal_the_rfcs_octet_by_octet(
        blocks in vec((0usize..OCTETS - 1, 1usize..40), 0..12),
        advances in vec(0usize..OCTETS, 0..12),
        high_rxt in 0usize..OCTETS,
    ) {
        let mut board = Scoreboard::default();
        let mut octets = Octets { sacked: [false; OCTETS], una: 0, lost_below: 0 };
        for (index, &(from, length)) in blocks.iter().enumerate() {
            let to = (from + length).min(OCTETS);
            let una = BASE + octets.una as u64;
            let mut option = SackBlocks::default();
            option.push((BASE + from as u64) as u32, (BASE + to as u64) as u32);
            let newly = board.update(&option, una, BASE + OCTETS as u64, SMSS as u32);
            if from >= octets.una {
                let fresh = (from..to).filter(|&octet| !octets.sacked[octet]).count();
                prop_assert_eq!(newly, fresh as u64);
                octets.sacked[from..to].fill(true);
                octets.find_lost();
            }
            // a cumulative ACK never ends inside SACKed data: it would cover all of it
            if let Some(&una) = advances.get(index)
                && una >= octets.una && !octets.sacked[una]
            {
                octets.una = una;
                octets.sacked[..una].fill(false);
                board.advance(BASE + una as u64);
            }
            let high_rxt = high_rxt.max(octets.una);
            let (una, max) = (BASE + octets.una as u64, BASE + OCTETS as u64);
            prop_assert_eq!(board.pipe(una, max, BASE + high_rxt as u64), octets.pipe(high_rxt));
            for octet in (octets.una..OCTETS).filter(|&octet| !octets.sacked[octet]) {
                let lost = board.is_lost(BASE + octet as u64);
                prop_assert_eq!(lost, octets.is_lost(octet), "octet {}", octet);
            }
        }
    }

    #[test]
    fn the_last_hole_ends_with_the_highest_octet_without_a_report(
        blocks in vec((0usize..OCTETS - 1, 1usize..60), 0..8),
    ) {
        let mut board = Scoreboard::default();
        let mut sacked = [false; OCTETS];
        for &(from, length) in &blocks {
            let to = (from + length).min(OCTETS);
            let mut option = SackBlocks::default();
            option.push((BASE + from as u64) as u32, (BASE + to as u64) as u32);
            board.update(&option, BASE, BASE + OCTETS as u64, SMSS as u32);
            sacked[from..to].fill(true);
        }
        let hole = board.last_hole(BASE, BASE + OCTETS as u64, SMSS);
        let highest = (0..OCTETS).rev().find(|&octet| !sacked[octet]);
        prop_assert_eq!(hole.map(|(_, to)| to), highest.map(|octet| BASE + octet as u64 + 1));
        if let Some((from, to)) = hole {
            let octets = (from - BASE) as usize..(to - BASE) as usize;
            prop_assert!(octets.len() as u64 <= SMSS && !octets.is_empty());
            prop_assert!(octets.clone().all(|octet| !sacked[octet]));
        }
    }
}

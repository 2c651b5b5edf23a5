//! A sorted set of half-open intervals of a stream: the data that a receiver holds out of order, or
//! that a sender knows to have arrived out of order.

/// Maximum number of intervals. Further ones are dropped; the peer reports them again (RFC 2018
/// §4).
const MOST: usize = 4096;

/// Disjoint intervals `[from, to)`, sorted. The storage is kept for reuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    list: Vec<(u64, u64)>,
    bytes: u64,
}

impl Intervals {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of bytes covered.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.list
    }

    /// Returns the end of the last interval; `None` for an empty set.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.list.last().map(|&(_, to)| to)
    }

    /// Adds `[from, to)` and returns how many of its bytes were not covered before. A full set only
    /// extends intervals that it has.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        // the intervals from `first` on end at or after `from`; those from `past` on begin after
        // `to`
        let first = self.list.partition_point(|&(_, end)| end < from);
        let past = first + self.list[first..].partition_point(|&(start, _)| start <= to);
        if first == past {
            if self.list.len() == MOST {
                return 0;
            }
            self.list.insert(first, (from, to));
            self.bytes += to - from;
            return to - from;
        }
        let covered: u64 = self.list[first..past].iter().map(|&(a, b)| b - a).sum();
        let merged = (from.min(self.list[first].0), to.max(self.list[past - 1].1));
        self.list[first] = merged;
        self.list.drain(first + 1..past);
        let added = merged.1 - merged.0 - covered;
        self.bytes += added;
        added
    }

    /// Removes the parts of all intervals that lie before `place`.
    pub(crate) fn remove_below(&mut self, place: u64) {
        let gone = self.list.partition_point(|&(_, to)| to <= place);
        let below: u64 = self.list[..gone].iter().map(|&(from, to)| to - from).sum();
        self.bytes -= below;
        self.list.drain(..gone);
        if let Some(first) = self.list.first_mut()
            && first.0 < place
        {
            self.bytes -= place - first.0;
            first.0 = place;
        }
    }

    /// Removes the first interval if it begins at or before `place`, and returns its end; otherwise `None`.
    pub(crate) fn take_touching(&mut self, place: u64) -> Option<u64> {
        let &(from, to) = self.list.first()?;
        if from > place {
            return None;
        }
        self.list.remove(0);
        self.bytes -= to - from;
        Some(to)
    }

    /// Returns the interval that covers `place`; `None` if no interval does.
    pub(crate) fn covering(&self, place: u64) -> Option<(u64, u64)> {
        let index = self.list.partition_point(|&(_, to)| to <= place);
        let interval = *self.list.get(index)?;
        (interval.0 <= place).then_some(interval)
    }

    /// Returns the first gap at or after `place`: its start, and the start of the interval above it (`None`: there is
    /// no interval above).
    pub(crate) fn gap_from(&self, place: u64) -> (u64, Option<u64>) {
        let index = self.list.partition_point(|&(_, to)| to <= place);
        match self.list.get(index) {
            Some(&(from, to)) if from <= place => (to, self.list.get(index + 1).map(|next| next.0)),
            next => (place, next.map(|next| next.0)),
        }
    }

    /// Returns the bytes covered before `place`, counted from the nearer end.
    pub(crate) fn bytes_below(&self, place: u64) -> u64 {
        let middle = self.list.get(self.list.len() / 2);
        if middle.is_some_and(|&(from, _)| from < place) {
            return self.bytes - self.bytes_from(place);
        }
        self.list
            .iter()
            .take_while(|&&(from, _)| from < place)
            .map(|&(from, to)| to.min(place) - from)
            .sum()
    }

    /// Returns the bytes covered from `place` on, counted from the upper end.
    pub(crate) fn bytes_from(&self, place: u64) -> u64 {
        self.list
            .iter()
            .rev()
            .take_while(|&&(_, to)| to > place)
            .map(|&(from, to)| to - from.max(place))
            .sum()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Intervals, MOST};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn intervals_cover_the_same_bytes_as_a_set_of_numbers(
            ranges in vec((0u64..200, 1u64..30), 0..40), cut in 0u64..200, place in 0u64..230,
        ) {
            let mut set = Intervals::default();
            let mut model = [false; 256];
            for &(from, length) in &ranges {
                let fresh = (from..from + length).filter(|&n| !model[n as usize]).count();
                prop_assert_eq!(set.insert(from, from + length), fresh as u64);
                (from..from + length).for_each(|n| model[n as usize] = true);
            }
            set.remove_below(cut);
            model[..cut as usize].fill(false);
            let count = |upto: u64| model[..upto as usize].iter().filter(|&&held| held).count();
            prop_assert_eq!(set.bytes(), count(256) as u64);
            prop_assert_eq!(set.bytes_below(place), count(place) as u64);
            let apart = set.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0);
            prop_assert_eq!(apart, true);
            let gap = (place..256).find(|&n| !model[n as usize]).unwrap_or(256);
            prop_assert_eq!(set.gap_from(place).0, gap);
            prop_assert_eq!(set.covering(place).is_some(), model[place as usize]);
        }
    }

    #[test]
    fn a_full_set_refuses_a_new_interval_and_still_extends_its_own() {
        let mut set = Intervals::default();
        for index in 0..MOST as u64 {
            set.insert(10 * index, 10 * index + 5);
        }
        let end = 10 * MOST as u64;
        assert_eq!(set.insert(end, end + 5), 0);
        assert_eq!(set.insert(end - 5, end), 5);
    }
}

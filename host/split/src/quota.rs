//! How many connections each guest has, so that one guest does not take all that the process may have.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Prefix length by which IPv6 addresses count as one guest: a guest may give itself any address in it.
const PREFIX6_BITS: u32 = 64;

/// Numbers of split connections, of each guest and in total, with their maximums.
#[derive(Debug)]
pub struct Quota {
    most: usize,
    most_each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Number of connections of each guest with at least one, keyed by the guest's address.
    each: HashMap<IpAddr, usize>,
}

impl Quota {
    /// Creates a quota for this many connections, and this many of each guest.
    pub fn new(most: usize, most_each: usize) -> Self {
        Self {
            most,
            most_each,
            taken: Mutex::default(),
        }
    }

    /// Counts a connection of the guest, unless the process or the guest has the maximum number already. Returns
    /// whether the connection was counted.
    pub fn take(&self, guest: IpAddr) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_guest = taken.each.get(&one(guest)).copied().unwrap_or(0);
        if taken.all >= self.most || of_guest >= self.most_each {
            return false;
        }
        taken.all += 1;
        taken.each.insert(one(guest), of_guest + 1);
        true
    }

    /// Counts one connection of the guest less.
    pub fn give(&self, guest: IpAddr) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        match taken.each.get_mut(&one(guest)) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.each.remove(&one(guest));
            }
        }
    }

    /// Returns the number of split connections of all guests.
    pub fn taken(&self) -> usize {
        self.taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .all
    }
}

/// Returns the address by which a guest is counted: for IPv6, its prefix of [`PREFIX6_BITS`].
fn one(guest: IpAddr) -> IpAddr {
    match guest {
        IpAddr::V4(_) => guest,
        IpAddr::V6(address) => {
            let mask = !(u128::MAX >> PREFIX6_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_at_its_quota_leaves_room_for_others() {
        let quota = Quota::new(3, 2);
        let [red, blue] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        assert!(quota.take(red) && quota.take(red) && !quota.take(red));
        assert!(quota.take(blue) && !quota.take(blue), "three in all");
        quota.give(red);
        assert!(quota.take(blue));
        quota.give(red);
        quota.give(blue);
        quota.give(blue);
        assert_eq!(quota.taken(), 0);
        assert!(quota.taken.lock().unwrap().each.is_empty());
    }

    #[test]
    fn addresses_of_one_prefix_of_ipv6_are_one_guest() {
        let quota = Quota::new(3, 1);
        let [first, second, other] =
            ["fd00::1", "fd00::2", "fd00:0:0:1::1"].map(|text| text.parse().unwrap());
        assert!(quota.take(first) && !quota.take(second) && quota.take(other));
    }
}

//! Takes a few packets of each port in turn, so that no port waits for the end of another's flood.

/// Number of packets taken from all ports together before due packets are sent.
const PACKETS_AT_ONCE: usize = 256;
/// Minimum and maximum number of packets taken from one port in a round.
const LEAST_OF_PORT: usize = 4;
const MOST_OF_PORT: usize = 64;

/// Calls `take` for each port, with the maximum number of packets that it may take; `take` returns the number that it
/// took. Returns whether a port may have more packets.
///
/// # Errors
/// The first error of `take`.
pub fn take_of_each<P, E>(
    ports: &[P],
    mut take: impl FnMut(&P, usize) -> Result<usize, E>,
) -> Result<bool, E> {
    let most = (PACKETS_AT_ONCE / ports.len().max(1)).clamp(LEAST_OF_PORT, MOST_OF_PORT);
    let mut is_more = false;
    for port in ports {
        is_more |= take(port, most)? >= most;
    }
    Ok(is_more)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn flood_at_one_port_leaves_each_other_its_turn() {
        for count in [1, 2, 10, 1000] {
            let waiting: Vec<Cell<usize>> = (0..count).map(|_| Cell::new(3)).collect();
            waiting[0].set(1_000_000);
            let is_more = take_of_each(&waiting, |port, most| {
                let taken = port.get().min(most);
                port.set(port.get() - taken);
                Ok::<_, Infallible>(taken)
            });
            assert_eq!(is_more, Ok(true));
            assert!(waiting[1..].iter().all(|port| port.get() == 0), "{count}");
            assert!(waiting[0].get() >= 1_000_000 - MOST_OF_PORT);
        }
    }
}

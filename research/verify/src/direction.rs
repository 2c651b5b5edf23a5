//! One direction of the network in a running case.

use uc_net::{Ecn, Nanos};

use crate::plan::Direction;

/// The state of a direction. Packets are numbered in the order of their transmission.
#[derive(Clone, Debug)]
pub struct DirectionState<'a> {
    way: &'a Direction,
    number: u32,
    /// Time at which the transmitter becomes free.
    free_at: Nanos,
    lost: Cursor<'a, u32>,
    marked: Cursor<'a, u32>,
    late: Cursor<'a, (u32, u32)>,
    held: Cursor<'a, (u32, u32)>,
    /// Time until which the direction is stopped: nothing arrives before it.
    resumes_at: Nanos,
}

/// A cursor in a list of entries by ascending packet number.
#[derive(Clone, Debug)]
struct Cursor<'a, T> {
    rest: &'a [T],
}

impl<'a, T: Copy> Cursor<'a, T> {
    /// Removes and returns the entry for packet `number`; `None`: there is none. Ask for numbers in ascending order.
    fn take(&mut self, number: u32, key: impl Fn(T) -> u32) -> Option<T> {
        while let Some((&first, rest)) = self.rest.split_first() {
            if key(first) > number {
                return None;
            }
            self.rest = rest;
            if key(first) == number {
                return Some(first);
            }
        }
        None
    }
}

impl<'a> DirectionState<'a> {
    /// Creates the state before the first packet.
    pub fn new(way: &'a Direction) -> DirectionState<'a> {
        DirectionState {
            way,
            number: 0,
            free_at: Nanos::ZERO,
            lost: Cursor { rest: &way.lost },
            marked: Cursor { rest: &way.marked },
            late: Cursor { rest: &way.late },
            held: Cursor { rest: &way.held },
            resumes_at: Nanos::ZERO,
        }
    }

    /// Sends a packet. Returns its arrival time and codepoint; `None` if it is lost.
    pub fn carry(&mut self, now: Nanos, ecn: Ecn) -> Option<(Nanos, Ecn)> {
        let number = self.number;
        self.number += 1;
        let lost = self.lost.take(number, |at| at).is_some();
        let mut marked = self.marked.take(number, |at| at).is_some();
        let late = self.late.take(number, |(at, _)| at);
        if let Some((_, held_us)) = self.held.take(number, |(at, _)| at) {
            let resumes_at = now + Nanos::from_micros(u64::from(held_us));
            self.resumes_at = self.resumes_at.max(resumes_at);
        }
        if lost {
            return None;
        }
        let packet_ns = u64::from(self.way.packet_us) * 1_000;
        let waiting = self
            .free_at
            .since(now)
            .0
            .checked_div(packet_ns)
            .unwrap_or(0);
        if self.way.queue_packets > 0 && waiting >= u64::from(self.way.queue_packets) {
            return None;
        }
        marked |= self.way.mark_packets > 0 && waiting >= u64::from(self.way.mark_packets);
        self.free_at = self.free_at.max(now) + Nanos(packet_ns);
        let detour_us = late.map_or(0, |(_, late_us)| late_us);
        let delay_us = u64::from(self.way.delay_us) + u64::from(detour_us);
        let ecn = if marked && ecn != Ecn::NotEct {
            Ecn::Ce
        } else {
            ecn
        };
        let arrives_at = self.free_at + Nanos::from_micros(delay_us);
        Some((arrives_at.max(self.resumes_at), ecn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(way: &Direction, sends_us: &[u64]) -> Vec<Option<(u64, Ecn)>> {
        let mut state = DirectionState::new(way);
        let mut send = |&at: &u64| state.carry(Nanos::from_micros(at), Ecn::Ect0);
        let micros = |(at, ecn): (Nanos, Ecn)| (at.0 / 1_000, ecn);
        sends_us.iter().map(|at| send(at).map(micros)).collect()
    }

    #[test]
    fn packets_are_queued_then_marked_and_then_lost() {
        let way = Direction {
            delay_us: 100,
            packet_us: 10,
            queue_packets: 3,
            mark_packets: 2,
            ..Direction::default()
        };
        let got = arrivals(&way, &[0, 0, 0, 0, 500]);
        let expected = [
            Some((110, Ecn::Ect0)),
            Some((120, Ecn::Ect0)),
            Some((130, Ecn::Ce)),
            None,
            Some((610, Ecn::Ect0)),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn losses_marks_and_delays_apply_to_the_numbered_packets() {
        let way = Direction {
            delay_us: 5,
            lost: vec![1],
            marked: vec![1, 2],
            late: vec![(0, 50)],
            ..Direction::default()
        };
        let got = arrivals(&way, &[0, 1, 2]);
        assert_eq!(got, [Some((55, Ecn::Ect0)), None, Some((7, Ecn::Ce))]);
    }

    #[test]
    fn a_direction_that_stops_delivers_what_was_sent_meanwhile_when_it_goes_on() {
        let way = Direction {
            delay_us: 5,
            held: vec![(1, 50)],
            ..Direction::default()
        };
        let got = arrivals(&way, &[0, 10, 20, 58]);
        let at = |time| Some((time, Ecn::Ect0));
        assert_eq!(got, [at(5), at(60), at(60), at(63)]);
    }
}

//! Questions and answers about pacing slots on a shared link, as packets of the network.

use std::collections::VecDeque;

use uc_net::HostId;

use super::{Hosts, Notice};
use crate::packet::{Packet, Turn};

impl Hosts {
    /// Processes a question or answer about a pacing slot, at the host to which it was sent.
    pub(super) fn turn_arrives(&mut self, packet: &Packet, turn: Turn) {
        let end = &mut self.ends[packet.to.place()];
        let (route, Some(start)) = (end.route, &mut end.start) else {
            return;
        };
        match turn {
            Turn::Ask { bytes } => {
                let Some((granter, wait_ns)) = self.starts.grant(self.now, bytes) else {
                    return;
                };
                let answer = Turn::Answer {
                    wait_ns: u32::try_from(wait_ns).unwrap_or(u32::MAX),
                };
                let header_bytes = route.ip_header_bytes;
                let answer = Packet::of_turn(answer, header_bytes, packet.to, route.flow);
                self.send_turn(granter, route.from, answer);
            }
            Turn::Answer { wait_ns } => {
                let ends = (route.from, route.path.to);
                start.granted(self.now, ends, wait_ns.into(), &mut self.starts);
                let due = start.due(self.now, ends, &self.starts);
                self.timers.set(start.timer, due);
            }
        }
    }

    fn send_turn(&mut self, from: HostId, to: HostId, packet: Packet) {
        let taken = self.network.inject(self.now, from, to, packet);
        // The routes were checked before time zero.
        debug_assert!(taken.is_ok(), "{taken:?}");
    }

    /// Delivers the waiting packets to a guest whose pacing slot has come. Returns the first notice; further ones wait
    /// in `notices`.
    pub(super) fn turn_comes(&mut self, place: usize) -> Option<Notice> {
        let end = &mut self.ends[place];
        let ends = (end.route.from, end.route.path.to);
        let released = match &mut end.start {
            Some(start) => start.released(self.now, ends, &mut self.starts),
            None => VecDeque::new(),
        };
        for mut packet in released {
            let notice = self.pass(place, &mut packet);
            self.notices.extend(notice);
        }
        self.notices.pop_front()
    }
}

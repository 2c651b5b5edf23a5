//! The granter: a process that grants the first windows of flows behind a link that several hosts
//! share. The decision is `core/watch/grant.h`'s, as in the simulator.
//!
//! It stores the link's token bucket, and nothing for any flow or host.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use nix::time::ClockId;
use uc_core::watch::{Bucket, StartPolicy};

use crate::clock::{clock_ns, now_ns};
use crate::error::WatchError;
use crate::holder::sharpen_timers;
use crate::key::ProbeKeys;
use crate::message::{Kind, MESSAGE_BYTES, Message};
use crate::socket::{enlarge_buffer, names_one_host, say};

/// Interval at which the granter checks whether it is to end, in milliseconds.
const LOOK_EVERY_MS: u16 = 50;
/// Time for which the granter answers without a rest; next line: the rest. So a flood takes at most four fifths of one
/// processor.
const BUSY_NS: u64 = 4_000_000;
const REST: Duration = Duration::from_millis(1);

/// Counters of a granter of first windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Granted {
    /// Number of first windows that were granted.
    pub granted: u64,
    /// Number of granted windows whose flows were told to wait.
    pub waited: u64,
    /// Number of datagrams with another key, from a clock that is more than 2 s off, or that are no question.
    pub refused: u64,
}

/// Grants the first windows on a shared link, with the link's token bucket.
#[derive(Debug)]
pub struct GranterHost {
    socket: UdpSocket,
    keys: ProbeKeys,
    policy: StartPolicy,
    bucket: Bucket,
    counts: Granted,
}

impl GranterHost {
    /// Creates a granter at an address of this host, at the policy's rate.
    ///
    /// # Errors
    /// [`WatchError::Granter`] if the address is not this host's, or the port is taken.
    pub fn new(
        address: SocketAddr,
        keys: ProbeKeys,
        policy: StartPolicy,
    ) -> Result<Self, WatchError> {
        let made = names_one_host(address).and_then(|()| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            enlarge_buffer(&socket);
            Ok(socket)
        });
        let socket = made.map_err(|source| WatchError::Granter {
            purpose: "listening for questions",
            address,
            source,
            remedy: "an address of this host and a free UDP port, such as 10.0.0.5:6654",
        })?;
        Ok(Self {
            socket,
            keys,
            policy,
            bucket: Bucket::default(),
            counts: Granted::default(),
        })
    }

    /// Answers questions until `stop` returns true. Returns the counters.
    pub fn run(mut self, stop: impl Fn() -> bool) -> Granted {
        if !sharpen_timers() {
            say(
                "without the right CAP_SYS_NICE, answers may be late on a busy host: run the granter as root",
            );
        }
        while !stop() {
            let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            // A signal interrupts the wait.
            let _woken = poll(&mut ready, LOOK_EVERY_MS);
            self.answer_all(now_ns() + BUSY_NS);
        }
        self.counts
    }

    /// Answers the questions that have arrived. At the time `until_ns`, rests for [`REST`] and returns, even if more
    /// have arrived.
    fn answer_all(&mut self, until_ns: u64) {
        // One byte more than a message, so that a longer datagram is none.
        let mut bytes = [0; MESSAGE_BYTES + 1];
        while let Ok((length, from)) = self.socket.recv_from(&mut bytes) {
            if let Some(answer) = self.answer(&bytes[..length]) {
                let _lost = self.socket.send_to(&answer, from);
            } else if self.counts.refused == 1 {
                say(&format!(
                    "a datagram from {from} is refused: it has another key, its clock is more than 2 s off, or \
                     it is not a request for a first window"
                ));
            }
            if now_ns() >= until_ns {
                thread::sleep(REST);
                return;
            }
        }
    }

    fn answer(&mut self, bytes: &[u8]) -> Option<[u8; MESSAGE_BYTES]> {
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let Some(question) = Message::decode(bytes, Kind::Question, wall_ns, &self.keys) else {
            self.counts.refused += 1;
            return None;
        };
        let asked_bytes = question.value;
        let wait_ns = self.bucket.grant_ns(&self.policy, asked_bytes, now_ns());
        // A question for nothing only asks whether there is a granter.
        self.counts.granted += u64::from(asked_bytes > 0);
        self.counts.waited += u64::from(wait_ns > 0);
        let answer = Message {
            value: u32::try_from(wait_ns).unwrap_or(u32::MAX),
            ..question
        };
        Some(answer.encode(Kind::Answer, wall_ns, &self.keys.own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ProbeKey;

    const BYTES: u32 = 15_140;

    /// Returns a granter at 100 Mb/s, which grants three such windows at once.
    fn granter() -> GranterHost {
        // A free port, which is free again.
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let policy = StartPolicy {
            pace_bytes_per_s: 12_500_000,
            ..StartPolicy::usual()
        };
        GranterHost::new(free, ProbeKey::from_bytes([7; 16]).into(), policy).unwrap()
    }

    fn question(key: u8) -> [u8; MESSAGE_BYTES] {
        let question = Message {
            value: BYTES,
            id: 5,
        };
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        question.encode(Kind::Question, wall_ns, &ProbeKey::from_bytes([key; 16]))
    }

    #[test]
    fn forged_questions_get_no_answer_and_charge_nothing() {
        let mut granter = granter();
        let answers = |granter: &mut GranterHost, key| {
            let answers = (0..40).map(|_| granter.answer(&question(key)));
            answers.flatten().count()
        };
        assert_eq!(answers(&mut granter, 8), 0);
        assert_eq!(granter.answer(&question(7)[1..]), None);
        let refused = Granted {
            refused: 41,
            ..Granted::default()
        };
        assert_eq!(
            (granter.counts, granter.bucket),
            (refused, Bucket::default())
        );
        assert_eq!(answers(&mut granter, 7), 40);
        assert_eq!((granter.counts.granted, granter.counts.refused), (40, 41));
        assert!(granter.counts.waited >= 30, "{:?}", granter.counts);
    }
}

//! Questions of a receiving host to the granter of the link that it shares, and the answers. When first windows wait
//! for an answer, and how long, is decided by `core/watch/grant.h`.
//!
//! While no answer comes, the programs give first windows as without a granter. Meanwhile a *ping*, a question for 0
//! bytes and no handshake, goes to the granter every [`PING_NS`], to find out when it answers again.

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::time::ClockId;
use uc_core::watch::{Grant, Granter, StartPolicy};

use crate::clock::clock_ns;
use crate::error::WatchError;
use crate::key::ProbeKeys;
use crate::layout::uc_held;
use crate::message::{Kind, MESSAGE_BYTES, Message};
use crate::schedule::Key;
use crate::socket::{enlarge_buffer, names_one_host, say};

/// Interval of pings while no answer comes.
const PING_NS: u64 = 20_000_000;
/// Number of pings. A message says that no granter answers only if more than these got no answer: the first one may
/// wait for the neighbour's address.
const PINGS_LEAST: u32 = 3;
/// Maximum number of datagrams that are read at once: a flood must not delay handshakes.
const READ_MAX: usize = 64;
/// Time after its deadline at which a question is given up even if datagrams are left that were not read yet.
const FLOODED_NS: u64 = 1_000_000;
/// Minimum interval of the messages that say whether the granter answers.
const SAY_NS: u64 = 10_000_000_000;

/// A socket for questions to a granter.
#[derive(Debug)]
pub struct Asker {
    socket: UdpSocket,
    granter: SocketAddr,
    keys: ProbeKeys,
    policy: StartPolicy,
    is_silent: bool,
}

impl Asker {
    /// Opens a socket for questions to the granter at this address; nothing is sent yet.
    ///
    /// # Errors
    /// [`WatchError::Granter`] if no route leads there.
    pub fn new(
        granter: SocketAddr,
        keys: ProbeKeys,
        policy: StartPolicy,
    ) -> Result<Self, WatchError> {
        let any = match granter {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let opened = names_one_host(granter).and_then(|()| {
            let socket = UdpSocket::bind(any)?;
            // From here on the kernel drops what comes from other addresses.
            socket.connect(granter)?;
            enlarge_buffer(&socket);
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let socket = opened.map_err(|source| WatchError::Granter {
            purpose: "reaching the granter",
            address: granter,
            source,
            remedy: "the granter's address, to which this host has a route, and its UDP port",
        })?;
        Ok(Self {
            socket,
            granter,
            keys,
            policy,
            is_silent: false,
        })
    }

    /// Makes the holder print nothing about whether the granter answers.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A question to the granter that has no answer yet.
#[derive(Debug)]
struct Question {
    id: u64,
    asked_ns: u64,
    grant: Grant,
    /// Time in ns at which the handshake is due without a granter, and its key; `None`: a ping.
    waits: Option<(u64, Key)>,
}

/// The questions of a holder; none without a granter.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    asker: Option<&'a Asker>,
    granter: Granter,
    /// Questions without an answer yet, the oldest first.
    questions: VecDeque<Question>,
    next_id: u64,
    ping_at_ns: u64,
    pings: u32,
    said: Option<(bool, u64)>,
}

impl<'a> Asking<'a> {
    /// Creates the state of a holder that has got no answer from a granter yet.
    pub fn new(asker: Option<&'a Asker>, now_ns: u64) -> Self {
        Self {
            asker,
            granter: Granter {
                silent: 1,
                ..Granter::default()
            },
            questions: VecDeque::new(),
            // An earlier holder's numbers are lower.
            next_id: now_ns,
            ping_at_ns: 0,
            pings: 0,
            said: None,
        }
    }

    /// Returns whether the granter has answered the last question.
    pub fn is_answered(&self) -> bool {
        self.granter.silent == 0
    }

    /// Asks for the first window of a handshake that would be due at `due_ns` otherwise. Returns false if nothing was
    /// asked, so that the handshake waits for no answer.
    pub fn ask(&mut self, key: &Key, held: &uc_held, due_ns: u64, now_ns: u64) -> bool {
        let asks = held.ask_bytes > 0 && self.is_answered();
        if asks {
            self.send(held.ask_bytes, now_ns, Some((due_ns, key.clone())));
        }
        asks
    }

    fn send(&mut self, bytes: u32, asked_ns: u64, waits: Option<(u64, Key)>) {
        let Some(asker) = self.asker else { return };
        let id = self.next_id;
        self.next_id += 1;
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let question = Message { value: bytes, id };
        let question = question.encode(Kind::Question, wall_ns, &asker.keys.own);
        // A question that is not sent is not answered.
        let _lost = asker.socket.send(&question);
        self.questions.push_back(Question {
            id,
            asked_ns,
            grant: Grant::asked(),
            waits,
        });
    }

    /// Reads answers, and gives up questions whose time is over. Returns the handshakes that wait for no answer any
    /// more, each with the time in ns at which it is due: not before its probes and its own port's rate allow.
    pub fn settled(&mut self, now_ns: u64) -> Vec<(u64, Key)> {
        let Some(asker) = self.asker else {
            return Vec::new();
        };
        let (mut settled, are_all_read) = self.read(asker, now_ns);
        // An answer in time may wait in the socket.
        let late_ns = now_ns - if are_all_read { 0 } else { FLOODED_NS };
        while let Some(first) = self.questions.front()
            && self.wait_ns(first, late_ns) == 0
        {
            first.grant.unanswered(&mut self.granter);
            settled.extend(self.questions.pop_front().and_then(|first| first.waits));
        }
        self.say(asker, now_ns);
        if !self.is_answered() && now_ns >= self.ping_at_ns {
            self.ping_at_ns = now_ns + PING_NS;
            self.pings += 1;
            self.send(0, now_ns, None);
        }
        settled
    }

    /// Reads answers. Returns the handshakes that they grant, each with the time in ns at which it is due, and whether
    /// no datagram is left.
    fn read(&mut self, asker: &Asker, now_ns: u64) -> (Vec<(u64, Key)>, bool) {
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let mut granted = Vec::new();
        let mut bytes = [0; MESSAGE_BYTES + 1];
        for _ in 0..READ_MAX {
            let Ok(length) = asker.socket.recv(&mut bytes) else {
                return (granted, true);
            };
            let answer = Message::decode(&bytes[..length], Kind::Answer, wall_ns, &asker.keys);
            let Some(answer) = answer else { continue };
            let is_its = |question: &Question| question.id == answer.id;
            let Some(at) = self.questions.iter().position(is_its) else {
                continue; // Too late, or a copy.
            };
            let Some(mut question) = self.questions.remove(at) else {
                continue;
            };
            let (granter, policy) = (&mut self.granter, &asker.policy);
            let wait_ns = answer.value.into();
            question.grant.granted(granter, policy, wait_ns, now_ns);
            let until_ns = question.grant.due_ns;
            granted.extend(
                question
                    .waits
                    .map(|(due_ns, key)| (due_ns.max(until_ns), key)),
            );
        }
        (granted, false)
    }

    /// Returns how long a question still waits for its answer, in ns. A ping waits even while the granter is silent.
    fn wait_ns(&self, question: &Question, now_ns: u64) -> u64 {
        let granter = match question.waits {
            Some(_) => self.granter,
            None => Granter::default(),
        };
        question.grant.wait_ns(&granter, question.asked_ns, now_ns)
    }

    /// Returns the time in ns at which [`Asking::settled`] is to be called again, if no answer comes before;
    /// `u64::MAX` without a question.
    pub fn next_ns(&self, now_ns: u64) -> u64 {
        let first = self.questions.front();
        first.map_or(u64::MAX, |first| now_ns + self.wait_ns(first, now_ns))
    }

    /// Says on standard error when the granter begins or ceases to answer.
    fn say(&mut self, asker: &Asker, now_ns: u64) {
        let (answered, granter) = (self.is_answered(), asker.granter);
        let is_news = match self.said {
            None => answered || (self.pings > PINGS_LEAST && self.questions.is_empty()),
            Some((said, at_ns)) => said != answered && now_ns >= at_ns + SAY_NS,
        };
        if !is_news || asker.is_silent {
            return;
        }
        self.said = Some((answered, now_ns));
        let line = if answered {
            format!("the granter {granter} grants first windows")
        } else {
            format!(
                "the granter {granter} does not answer within 1 ms, so first windows are given \
                 without it; run `uc watch --grant RATE --granter {granter}` there, with the same key, \
                 and clocks that agree within 2 s"
            )
        };
        say(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ProbeKey;
    use zerocopy::FromZeros;

    const NOW_NS: u64 = 10_000_000_000;
    const BOUND_NS: u64 = 1_000_000;

    fn key() -> ProbeKey {
        ProbeKey::from_bytes([7; 16])
    }

    /// Returns a granter's socket, and one for questions to it.
    fn sockets() -> (UdpSocket, Asker) {
        let granter = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = granter.local_addr().unwrap();
        let asker = Asker::new(address, key().into(), StartPolicy::usual()).unwrap();
        (granter, asker)
    }

    /// Answers the next question with this wait, signed with a key.
    fn answer(granter: &UdpSocket, wait_ns: u32, key: ProbeKey, keys: ProbeKeys) -> u32 {
        let mut bytes = [0; MESSAGE_BYTES];
        let (_, from) = granter.recv_from(&mut bytes).unwrap();
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let question = Message::decode(&bytes, Kind::Question, wall_ns, &keys).unwrap();
        let message = Message {
            value: wait_ns,
            ..question
        };
        let answer = message.encode(Kind::Answer, wall_ns, &key);
        granter.send_to(&answer, from).unwrap();
        question.value
    }

    /// Returns the state of a holder whose granter has answered.
    fn answered<'a>(granter: &UdpSocket, asker: &'a Asker) -> Asking<'a> {
        let mut asking = Asking::new(Some(asker), NOW_NS);
        assert!(!asking.is_answered());
        assert_eq!(asking.settled(NOW_NS), []);
        assert_eq!(
            answer(granter, 0, key(), key().into()),
            0,
            "a question for nothing"
        );
        assert_eq!(asking.settled(NOW_NS), []);
        assert!(asking.is_answered());
        asking
    }

    fn held() -> uc_held {
        uc_held {
            held_ns: NOW_NS,
            ask_bytes: 15_140,
            ..uc_held::new_zeroed()
        }
    }

    #[test]
    fn a_handshake_waits_a_millisecond_for_an_answer_and_later_ones_not_at_all() {
        let (granter, asker) = sockets();
        let mut asking = answered(&granter, &asker);
        let due_ns = NOW_NS + 5;
        assert!(asking.ask(&vec![1], &held(), due_ns, NOW_NS));
        assert_eq!(asking.settled(NOW_NS + BOUND_NS - 1), []);
        assert_eq!(asking.settled(NOW_NS + BOUND_NS), [(due_ns, vec![1])]);
        assert!(!asking.is_answered());
        assert!(!asking.ask(&vec![2], &held(), due_ns, NOW_NS));
        // The answer comes after all, and neither counts nor settles anything.
        answer(&granter, 0, key(), key().into());
        assert_eq!(asking.settled(NOW_NS + BOUND_NS), []);
        assert!(!asking.is_answered());
    }

    #[test]
    fn an_answered_handshake_is_due_when_the_granter_and_its_own_port_allow() {
        let (granter, asker) = sockets();
        let mut asking = answered(&granter, &asker);
        for (wait_ns, own_ns, due_ns) in [
            (7_000_000, 0, 7_000_000),
            (0, 9_000_000, 9_000_000),
            (u32::MAX, 0, 800_000_000), // At most `--wait`.
        ] {
            assert!(asking.ask(&vec![1], &held(), NOW_NS + own_ns, NOW_NS));
            assert_eq!(answer(&granter, wait_ns, key(), key().into()), 15_140);
            assert_eq!(asking.settled(NOW_NS), [(NOW_NS + due_ns, vec![1])]);
        }
    }

    #[test]
    fn a_burst_whose_answers_wait_in_the_socket_is_granted() {
        let (granter, asker) = sockets();
        let mut asking = answered(&granter, &asker);
        for nth in 0..200_u32 {
            let handshake = nth.to_be_bytes().to_vec();
            assert!(asking.ask(&handshake, &held(), NOW_NS, NOW_NS));
            answer(&granter, 5_000_000, key(), key().into());
        }
        // The holder comes to them too late.
        let mut granted = Vec::new();
        while granted.len() < 200 {
            let settled = asking.settled(NOW_NS + BOUND_NS + 1);
            assert!(!settled.is_empty(), "{} of 200", granted.len());
            granted.extend(settled);
        }
        assert!(asking.is_answered());
        assert!(
            granted
                .iter()
                .all(|(due_ns, _)| *due_ns > NOW_NS + 5_000_000)
        );
    }

    #[test]
    fn an_answer_with_another_key_is_none() {
        let (granter, asker) = sockets();
        let mut asking = answered(&granter, &asker);
        assert!(asking.ask(&vec![1], &held(), NOW_NS, NOW_NS));
        answer(
            &granter,
            700_000_000,
            ProbeKey::from_bytes([8; 16]),
            key().into(),
        );
        assert_eq!(asking.settled(NOW_NS), []);
        assert_eq!(asking.settled(NOW_NS + BOUND_NS), [(NOW_NS, vec![1])]);
    }

    #[test]
    fn no_handshake_waits_where_no_granter_was_named() {
        let mut asking = Asking::new(None, NOW_NS);
        assert!(!asking.ask(&vec![1], &held(), NOW_NS, NOW_NS));
        assert_eq!(
            (asking.settled(NOW_NS), asking.next_ns(NOW_NS)),
            (vec![], u64::MAX)
        );
    }
}

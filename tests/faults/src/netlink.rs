//! Netlink answers of a kernel that has TCX, and no clsact qdisc at any interface.

use std::collections::VecDeque;

use crate::world::{Answer, Fd, World};

/// Length of a message's header in bytes.
const HEADER: usize = 16;
/// Types and flags of netlink messages (linux/netlink.h).
const ERROR: u16 = 2;
const DONE: u16 = 3;
const DUMP: u16 = 0x300;
const MULTI: u16 = 2;

impl World {
    pub(crate) fn socket(&mut self) -> Answer {
        self.may("socket", &[libc::EMFILE, libc::ENFILE])?;
        Ok(self.enter(Fd::Netlink(VecDeque::new())))
    }

    /// Receives a request. The answer to a dump is an empty list; the answer to any other request is that there is no
    /// such qdisc.
    pub(crate) fn ask_netlink(&mut self, fd: i32, asked: &[u8]) -> Answer {
        self.may("send", &[libc::ENOBUFS])?;
        let flags = u16::from_ne_bytes(asked[6..8].try_into().expect("two bytes"));
        let is_dump = flags & DUMP == DUMP;
        let mut answer = Vec::new();
        let (kind, errno) = if is_dump {
            (DONE, 0)
        } else {
            (ERROR, -libc::EINVAL)
        };
        let length = HEADER + 4 + if is_dump { 0 } else { HEADER };
        answer.extend((length as u32).to_ne_bytes());
        answer.extend(kind.to_ne_bytes());
        answer.extend(if is_dump { MULTI } else { 0 }.to_ne_bytes());
        answer.extend(&asked[8..12]);
        answer.extend(0u32.to_ne_bytes());
        answer.extend(errno.to_ne_bytes());
        if !is_dump {
            answer.extend(&asked[..HEADER]);
        }
        if let Fd::Netlink(answers) = self.fd(fd)? {
            answers.push_back(answer);
        }
        Ok(asked.len() as i64)
    }

    /// Returns the next unread answer. `peeks`: the answer stays unread.
    pub(crate) fn netlink_answers(&mut self, fd: i32, peeks: bool) -> Answer<Vec<u8>> {
        self.may("recv", &[libc::ENOBUFS])?;
        let Fd::Netlink(answers) = self.fd(fd)? else {
            return Err(libc::ENOTSOCK);
        };
        let answer = if peeks {
            answers.front().cloned()
        } else {
            answers.pop_front()
        };
        answer.ok_or(libc::EAGAIN)
    }
}

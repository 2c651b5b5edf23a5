//! Requests to the kernel over netlink, one at a time: qdiscs, filters, links, routes and, for other
//! crates, any other kind.

use std::io;

use netlink_packet_core::{
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

/// Maximum number of messages that answer one request. More are an error.
const ANSWERS_MAX: usize = 4096;
/// Timeout for an answer, in seconds. The kernel answers within the system call, so the time is never reached.
const PATIENCE_S: i64 = 5;
/// Maximum length of what the kernel sends at once (linux/netlink.h).
const ANSWER_BYTES: usize = 32 << 10;
/// Alignment of messages (linux/netlink.h).
const ALIGN: usize = 4;

/// A netlink socket for one request at a time. It belongs to the network namespace of the thread that
/// opened it, whichever thread asks later.
#[derive(Debug)]
pub struct Netlink(Socket);

impl Netlink {
    /// Opens a socket for [`netlink_packet_route::RouteNetlinkMessage`]s.
    pub fn open() -> io::Result<Self> {
        Self::open_for(NETLINK_ROUTE)
    }

    /// Opens a socket of this netlink protocol (`netlink_sys::protocols`).
    pub fn open_for(protocol: isize) -> io::Result<Self> {
        let socket = Socket::new(protocol)?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::new(PATIENCE_S, 0),
        )?;
        Ok(Self(socket))
    }

    /// Sends a request, and returns the answers when the kernel reports their end. `flags` ask for such
    /// a report: `NLM_F_ACK` or `NLM_F_DUMP`.
    pub fn ask<M>(&self, question: M, flags: u16) -> io::Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>,
    {
        let mut message = NetlinkMessage::from(question);
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answers = Vec::new();
        for _ in 0..ANSWERS_MAX {
            let mut bytes = Vec::with_capacity(ANSWER_BYTES);
            self.0.recv(&mut bytes, 0)?;
            if read_answers(&bytes, &mut answers)? {
                return Ok(answers);
            }
        }
        Err(io::Error::other(format!(
            "the kernel sent more than {ANSWERS_MAX} netlink answers to one request"
        )))
    }
}

/// Parses messages into `answers`; returns whether the last answer was among them.
fn read_answers<M: NetlinkDeserializable>(
    mut bytes: &[u8],
    answers: &mut Vec<M>,
) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match message.payload {
            // Both end with a status: an error, or success.
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(io::Error::from_raw_os_error(-done.code));
            }
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(true),
            NetlinkPayload::InnerMessage(answer) => answers.push(answer),
            _ => {}
        }
        let next = (message.header.length as usize).next_multiple_of(ALIGN);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    type Payload = NetlinkPayload<RouteNetlinkMessage>;

    fn message(payload: Payload) -> Vec<u8> {
        let mut message = NetlinkMessage::new(Default::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn link(ifindex: u32) -> Vec<u8> {
        let mut link = LinkMessage::default();
        link.header.index = ifindex;
        message(RouteNetlinkMessage::NewLink(link).into())
    }

    fn index_of(answer: &RouteNetlinkMessage) -> u32 {
        match answer {
            RouteNetlinkMessage::NewLink(link) => link.header.index,
            _ => 0,
        }
    }

    #[test]
    fn answers_end_with_a_status_and_a_truncated_one_is_an_error() {
        let mut answers: Vec<RouteNetlinkMessage> = Vec::new();
        assert!(!read_answers(&link(7), &mut answers).unwrap());
        let done = message(Payload::Done(Default::default()));
        assert!(read_answers(&[link(3), done].concat(), &mut answers).unwrap());
        let numbers: Vec<u32> = answers.iter().map(index_of).collect();
        assert_eq!(numbers, [7, 3]);
        let mut refused = message(Payload::Error(Default::default()));
        refused[16..20].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        let error = read_answers(&refused, &mut answers).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        for length in [0, 3, 15, 1 << 20] {
            let mut bytes = link(7);
            bytes[..4].copy_from_slice(&u32::to_ne_bytes(length));
            assert!(read_answers(&bytes, &mut answers).is_err(), "{length}");
        }
    }
}

//! The clsact qdisc under our filters, which may be ours or another's. Whoever of us makes it marks
//! it: with an empty chain of our number, to which no packet comes. The mark lives and dies with
//! the qdisc and is there for any process, so the last of us to leave knows whether to remove it.

use std::io;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcHeader, TcMessage};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

/// Our chain; filters that are in none have 0.
const MARK: u32 = 0x7563;
/// One interface's chains are few; more than this many answers are somebody's mistake.
const ANSWERS_MAX: usize = 4096;
/// The kernel answers within the system call, so nobody ever waits this long.
const PATIENCE_S: i64 = 5;
/// The longest message of the kernel (linux/netlink.h).
const ANSWER_BYTES: usize = 32 << 10;
/// Alignment of messages (linux/netlink.h).
const ALIGN: usize = 4;

/// The qdisc's handle, and its two hooks (linux/pkt_sched.h).
const CLSACT_HANDLE: TcHandle = clsact(0);
const INGRESS: TcHandle = clsact(TcHandle::MIN_INGRESS);
const EGRESS: TcHandle = clsact(TcHandle::MIN_EGRESS);

const fn clsact(minor: u16) -> TcHandle {
    TcHandle {
        major: TcHandle::CLSACT.major,
        minor,
    }
}

/// Makes the qdisc and marks it, unless there is one.
pub(crate) fn ensure(ifindex: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let exclusive = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let mut qdisc = about(ifindex, CLSACT_HANDLE, TcHandle::CLSACT);
    qdisc.attributes.push(TcAttribute::Kind("clsact".into()));
    match netlink.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), exclusive) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    let mut mark = about(ifindex, TcHandle::UNSPEC, INGRESS);
    mark.attributes.push(TcAttribute::Chain(MARK));
    // Without a mark it stays when we go, as another's would.
    let _unmarked = netlink.ask(RouteNetlinkMessage::NewTrafficChain(mark), exclusive);
    Ok(())
}

/// Removes the qdisc if one of us made it and nothing is on it. Between the look and the removal
/// another program could add a filter, which would go too: the kernel has no call that does both.
pub(crate) fn remove_if_ours_and_empty(ifindex: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    if chains(&netlink, ifindex, INGRESS)? != [MARK]
        || !chains(&netlink, ifindex, EGRESS)?.is_empty()
    {
        return Ok(());
    }
    let gone = about(ifindex, CLSACT_HANDLE, TcHandle::CLSACT);
    netlink.ask(RouteNetlinkMessage::DelQueueDiscipline(gone), NLM_F_ACK)?;
    Ok(())
}

/// The numbers of a hook's chains: every filter is in one. None where there is no qdisc.
fn chains(netlink: &Netlink, ifindex: u32, hook: TcHandle) -> io::Result<Vec<u32>> {
    let dump = about(ifindex, TcHandle::UNSPEC, hook);
    let answers = netlink.ask(RouteNetlinkMessage::GetTrafficChain(dump), NLM_F_DUMP)?;
    Ok(answers.iter().map(number_of).collect())
}

/// A chain's; 0 where it says none.
fn number_of(answer: &RouteNetlinkMessage) -> u32 {
    let RouteNetlinkMessage::NewTrafficChain(chain) = answer else {
        return 0;
    };
    let number = chain
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Chain(number) => Some(*number),
            _ => None,
        });
    number.unwrap_or(0)
}

fn about(ifindex: u32, handle: TcHandle, parent: TcHandle) -> TcMessage {
    let header = TcHeader {
        index: ifindex as i32, // the kernel's indices are positive
        handle,
        parent,
        ..TcHeader::default()
    };
    TcMessage::from_parts(header, Vec::new())
}

/// A socket for one question at a time, in the calling thread's network namespace.
struct Netlink(Socket);

impl Netlink {
    fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::new(PATIENCE_S, 0),
        )?;
        Ok(Self(socket))
    }

    /// Asks, and returns the answers when the kernel says that these were all.
    fn ask(
        &self,
        question: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
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
        Err(io::Error::other("the kernel does not stop answering"))
    }
}

/// Reads messages of an answer. Returns whether the last one was among them.
fn read_answers(mut bytes: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    let unreadable = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
    while !bytes.is_empty() {
        let message = NetlinkMessage::deserialize(bytes).map_err(unreadable)?;
        match message.payload {
            // Both end with how it went, where there is more to say than that it did.
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
    use super::*;

    type Payload = NetlinkPayload<RouteNetlinkMessage>;

    fn message(payload: Payload) -> Vec<u8> {
        let mut message = NetlinkMessage::new(Default::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn chain(number: u32) -> Vec<u8> {
        let mut chain = about(7, TcHandle::UNSPEC, INGRESS);
        chain.attributes.push(TcAttribute::Chain(number));
        message(RouteNetlinkMessage::NewTrafficChain(chain).into())
    }

    #[test]
    fn a_hook_is_named_as_the_kernel_does() {
        let named = [CLSACT_HANDLE, TcHandle::CLSACT, INGRESS, EGRESS].map(u32::from);
        assert_eq!(named, [0xffff_0000, 0xffff_fff1, 0xffff_fff2, 0xffff_fff3]);
    }

    #[test]
    fn answers_end_with_the_kernels_word_and_what_is_cut_is_an_error() {
        let mut answers = Vec::new();
        assert!(!read_answers(&chain(MARK), &mut answers).unwrap());
        let done = message(Payload::Done(Default::default()));
        assert!(read_answers(&[chain(3), done].concat(), &mut answers).unwrap());
        let numbers: Vec<u32> = answers.iter().map(number_of).collect();
        assert_eq!(numbers, [MARK, 3]);
        let mut refused = message(Payload::Error(Default::default()));
        refused[16..20].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        let error = read_answers(&refused, &mut answers).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        for length in [0, 3, 15, 1 << 20] {
            let mut bytes = chain(MARK);
            bytes[..4].copy_from_slice(&u32::to_ne_bytes(length));
            assert!(read_answers(&bytes, &mut answers).is_err(), "{length}");
        }
    }
}

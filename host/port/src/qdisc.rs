//! The clsact qdisc under our filters, which may be ours or another program's. The process that
//! creates it for us marks it with an empty chain of our number, which no packet reaches. The mark
//! lives as long as the qdisc and is visible to any process, so the last of our filters' owners
//! knows whether to remove the qdisc.

use std::io;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcFilterBpfOption, TcHandle, TcHeader, TcMessage, TcOption,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use crate::direction::Direction;

/// Number of our chain; filters outside any chain have 0.
const MARK: u32 = 0x7563;
/// Maximum number of answers. One interface has few chains; more answers are an error.
const ANSWERS_MAX: usize = 4096;
/// Timeout in seconds. The kernel answers within the system call, so it is never reached.
const PATIENCE_S: i64 = 5;
/// Maximum length of what the kernel sends at once (linux/netlink.h).
const ANSWER_BYTES: usize = 32 << 10;
/// Alignment of messages (linux/netlink.h).
const ALIGN: usize = 4;

/// Handle of the qdisc, and of its two hooks (linux/pkt_sched.h).
const CLSACT_HANDLE: TcHandle = clsact(0);
const INGRESS: TcHandle = clsact(TcHandle::MIN_INGRESS);
const EGRESS: TcHandle = clsact(TcHandle::MIN_EGRESS);

const fn clsact(minor: u16) -> TcHandle {
    TcHandle {
        major: TcHandle::CLSACT.major,
        minor,
    }
}

/// Creates the qdisc and marks it, unless one exists.
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
    // Without a mark the qdisc stays when we detach, like another program's.
    let _unmarked = netlink.ask(RouteNetlinkMessage::NewTrafficChain(mark), exclusive);
    Ok(())
}

/// Removes the qdisc if one of us created it and it has no filters. Another program could add a
/// filter between the check and the removal, which would be lost: the kernel has no call that does
/// both.
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

/// A filter at one hook of a clsact qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Priority; a lower one runs first.
    pub(crate) priority: u32,
    /// Handle, by which filters of the same priority differ.
    pub(crate) handle: u32,
    /// Kind: `bpf`, `flower`, `matchall` and others.
    pub(crate) kind: String,
    /// Number of the BPF program, if it is one.
    pub(crate) program: Option<u32>,
}

/// Returns the filters at a hook in the order in which they run; none if there is no qdisc.
pub(crate) fn filters(ifindex: u32, direction: Direction) -> io::Result<Vec<Filter>> {
    let hook = match direction {
        Direction::FromGuest => INGRESS,
        Direction::ToGuest => EGRESS,
    };
    let dump = about(ifindex, TcHandle::UNSPEC, hook);
    let netlink = Netlink::open()?;
    let answers = match netlink.ask(RouteNetlinkMessage::GetTrafficFilter(dump), NLM_F_DUMP) {
        // older kernels say so where there is no qdisc
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Vec::new(),
        answers => answers?,
    };
    Ok(answers.iter().filter_map(filter_of).collect())
}

/// Returns the filter in an answer; `None` for the head of a priority, which has no handle.
fn filter_of(answer: &RouteNetlinkMessage) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = answer else {
        return None;
    };
    let handle = u32::from(message.header.handle);
    let mut filter = Filter {
        priority: message.header.info >> 16,
        handle,
        kind: String::new(),
        program: None,
    };
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => filter.kind.clone_from(kind),
            TcAttribute::Options(options) => {
                let id = options.iter().find_map(|option| match option {
                    TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => Some(*id),
                    _ => None,
                });
                filter.program = id.or(filter.program);
            }
            _ => {}
        }
    }
    (handle != 0).then_some(filter)
}

/// Returns the numbers of a hook's chains: every filter is in one. Empty if there is no qdisc.
fn chains(netlink: &Netlink, ifindex: u32, hook: TcHandle) -> io::Result<Vec<u32>> {
    let dump = about(ifindex, TcHandle::UNSPEC, hook);
    let answers = netlink.ask(RouteNetlinkMessage::GetTrafficChain(dump), NLM_F_DUMP)?;
    Ok(answers.iter().map(number_of).collect())
}

/// Returns the number of the chain in an answer; 0 if it has none.
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

/// A netlink socket for one request at a time, in the calling thread's network namespace.
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

    /// Sends a request, and returns the answers when the kernel reports their end.
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
        Err(io::Error::other("the kernel sent too many answers"))
    }
}

/// Parses messages into `answers`; returns whether the last answer was among them.
fn read_answers(mut bytes: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    let unreadable = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
    while !bytes.is_empty() {
        let message = NetlinkMessage::deserialize(bytes).map_err(unreadable)?;
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
    fn hooks_have_the_kernels_handles() {
        let named = [CLSACT_HANDLE, TcHandle::CLSACT, INGRESS, EGRESS].map(u32::from);
        assert_eq!(named, [0xffff_0000, 0xffff_fff1, 0xffff_fff2, 0xffff_fff3]);
    }

    #[test]
    fn answers_end_with_a_status_and_a_truncated_one_is_an_error() {
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

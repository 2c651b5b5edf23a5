//! The clsact qdisc under our filters, which may be ours or another program's. The process that
//! creates it for us marks it with an empty chain of our number, which no packet reaches. The mark
//! lives as long as the qdisc and is visible to any process, so the last of our filters' owners
//! knows whether to remove the qdisc.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcFilterBpfOption, TcHandle, TcHeader, TcMessage, TcOption,
};

use crate::direction::Direction;
use crate::netlink::Netlink;

/// Number of the chain that marks a qdisc as ours; filters outside any chain have number 0.
const MARK: u32 = 0x7563;

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

/// Creates the clsact qdisc and marks it, unless one exists. If another qdisc is in its place, returns the kind of
/// that: `ingress` has one hook, at which the kernel would put the filters of both directions. Otherwise returns
/// `None`.
pub(crate) fn ensure(ifindex: u32) -> io::Result<Option<String>> {
    let netlink = Netlink::open()?;
    let exclusive = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let mut qdisc = about(ifindex, CLSACT_HANDLE, TcHandle::CLSACT);
    qdisc.attributes.push(TcAttribute::Kind("clsact".into()));
    match netlink.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), exclusive) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return other(&netlink, ifindex);
        }
        Err(error) => return Err(error),
    }
    let mut mark = about(ifindex, TcHandle::UNSPEC, INGRESS);
    mark.attributes.push(TcAttribute::Chain(MARK));
    // Without a mark the qdisc stays when we detach, like another program's.
    let _unmarked = netlink.ask(RouteNetlinkMessage::NewTrafficChain(mark), exclusive);
    Ok(None)
}

/// Returns the kind of the qdisc in the place of clsact; `None` if it is clsact, or there is no qdisc.
fn other(netlink: &Netlink, ifindex: u32) -> io::Result<Option<String>> {
    let asked = about(ifindex, TcHandle::UNSPEC, TcHandle::CLSACT);
    // without NLM_F_ECHO older kernels send the answer to listeners only
    let flags = NLM_F_ACK | NLM_F_ECHO;
    let answers = match netlink.ask(RouteNetlinkMessage::GetQueueDiscipline(asked), flags) {
        // removed meanwhile
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        answers => answers?,
    };
    let mut kinds = answers.into_iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewQueueDiscipline(qdisc) => {
            qdisc.attributes.into_iter().find_map(kind)
        }
        _ => None,
    });
    Ok(kinds.find(|kind| kind != "clsact"))
}

fn kind(attribute: TcAttribute) -> Option<String> {
    match attribute {
        TcAttribute::Kind(kind) => Some(kind),
        _ => None,
    }
}

/// Removes the qdisc if a process of Undercurrent's created it and it has no filters. Another program could add a
/// filter between the check and the removal, which would be lost: the kernel has no call that does both.
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
    /// Priority of the filter; the filter with the lowest number runs first.
    pub(crate) priority: u32,
    /// Handle, by which filters of the same priority differ.
    pub(crate) handle: u32,
    /// Kind of the filter: `bpf`, `flower`, `matchall` and others.
    pub(crate) kind: String,
    /// Kernel's id of the filter's program; `None` if the filter is no BPF program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_have_the_kernels_handles() {
        let named = [CLSACT_HANDLE, TcHandle::CLSACT, INGRESS, EGRESS].map(u32::from);
        assert_eq!(named, [0xffff_0000, 0xffff_fff1, 0xffff_fff2, 0xffff_fff3]);
    }
}

//! The clsact qdisc under our filters, which may be ours or another's. Whoever of us makes it marks
//! it: with an empty chain of our number, to which no packet comes. The mark lives and dies with
//! the qdisc and is there for any process, so the last of us to leave knows whether to remove it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, sockopt,
};
use nix::sys::time::TimeVal;

/// Our chain; filters that are in none have 0.
const MARK: u32 = 0x7563;
/// One interface's chains are few; more than this many answers are somebody's mistake.
const ANSWERS_MAX: usize = 4096;
/// The kernel answers within the system call, so nobody ever waits this long.
const PATIENCE_S: i64 = 5;
/// linux/netlink.h: what the kernel sends at once is no longer.
const ANSWER_BYTES: usize = 32 << 10;

/// linux/pkt_sched.h: the qdisc's handle, where it sits, and its two hooks.
const CLSACT_HANDLE: u32 = 0xffff_0000;
const CLSACT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// linux/rtnetlink.h.
const TCA_KIND: u16 = 1;
const TCA_CHAIN: u16 = 11;
const RTM_NEWCHAIN: u16 = 100;
const RTM_GETCHAIN: u16 = 102;

/// Sizes of `struct nlmsghdr`, `struct tcmsg` and `struct rtattr`, and what all begin at.
const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
const ATTRIBUTE_BYTES: usize = 4;
const ALIGN: usize = 4;

/// Makes the qdisc and marks it, unless there is one.
pub(crate) fn ensure(ifindex: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let exclusive = (libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let kind = (TCA_KIND, &b"clsact\0"[..]);
    let qdisc = request(
        (libc::RTM_NEWQDISC, exclusive),
        (ifindex, CLSACT_HANDLE, CLSACT),
        Some(kind),
    );
    match netlink.ask(&qdisc, |_| {}) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    let number = MARK.to_ne_bytes();
    let mark = (TCA_CHAIN, &number[..]);
    let chain = request((RTM_NEWCHAIN, exclusive), (ifindex, 0, INGRESS), Some(mark));
    // Without a mark it stays when we go, as another's would.
    let _unmarked = netlink.ask(&chain, |_| {});
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
    let gone = request(
        (libc::RTM_DELQDISC, libc::NLM_F_ACK as u16),
        (ifindex, CLSACT_HANDLE, CLSACT),
        None,
    );
    netlink.ask(&gone, |_| {})
}

/// The numbers of a hook's chains: every filter is in one. None where there is no qdisc.
fn chains(netlink: &Netlink, ifindex: u32, hook: u32) -> io::Result<Vec<u32>> {
    let dump = request(
        (RTM_GETCHAIN, libc::NLM_F_DUMP as u16),
        (ifindex, 0, hook),
        None,
    );
    let mut numbers = Vec::new();
    netlink.ask(&dump, |message| {
        let attributes = message
            .get(HEADER_BYTES + TCMSG_BYTES..)
            .unwrap_or_default();
        numbers.push(number_of(attributes).unwrap_or(0));
    })?;
    Ok(numbers)
}

/// The value of TCA_CHAIN among a message's attributes.
fn number_of(mut attributes: &[u8]) -> Option<u32> {
    while attributes.len() >= ATTRIBUTE_BYTES {
        let bytes = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE_BYTES..bytes)?;
        if u16_at(attributes, 2)? == TCA_CHAIN {
            return u32_at(value, 0);
        }
        attributes = attributes.get(bytes.next_multiple_of(ALIGN)..)?;
    }
    None
}

/// A message about (interface, handle, parent), with at most one attribute.
fn request(
    (kind, flags): (u16, u16),
    (ifindex, handle, parent): (u32, u32, u32),
    attribute: Option<(u16, &[u8])>,
) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend([0; 4]); // family and padding
    for number in [ifindex, handle, parent, 0] {
        bytes.extend(number.to_ne_bytes());
    }
    if let Some((kind, value)) = attribute {
        bytes.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    }
    let length = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    let flags = flags | libc::NLM_F_REQUEST as u16;
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// A socket for one question at a time, in the calling thread's network namespace.
struct Netlink(OwnedFd);

impl Netlink {
    fn open() -> io::Result<Self> {
        let fd = nix::sys::socket::socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE_S, 0))?;
        Ok(Self(fd))
    }

    /// Asks, hands over each answer, and returns when the kernel says that this was all.
    fn ask(&self, message: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        send(self.0.as_raw_fd(), message, MsgFlags::empty())?;
        let mut buffer = vec![0; ANSWER_BYTES];
        for _ in 0..ANSWERS_MAX {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if read_answers(&buffer[..length], &mut each)? {
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel does not stop answering"))
    }
}

/// Whether the last of the answer was among these messages.
fn read_answers(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "half a message of netlink's");
    while !messages.is_empty() {
        let length = u32_at(messages, 0).ok_or_else(cut)? as usize;
        let message = messages.get(..length).ok_or_else(cut)?;
        let body = message.get(HEADER_BYTES..).ok_or_else(cut)?;
        // Both end with how it went, where there is more to say than that it did.
        match i32::from(u16_at(message, 4).ok_or_else(cut)?) {
            libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                return match u32_at(body, 0).unwrap_or(0) as i32 {
                    code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                    _ => Ok(true),
                };
            }
            _ => each(message),
        }
        let next = length.next_multiple_of(ALIGN);
        messages = messages.get(next..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        let number = MARK.to_ne_bytes();
        let bytes = request(
            (RTM_NEWCHAIN, 4),
            (7, 0, INGRESS),
            Some((TCA_CHAIN, &number)),
        );
        assert_eq!(
            bytes.len(),
            HEADER_BYTES + TCMSG_BYTES + ATTRIBUTE_BYTES + 4
        );
        assert_eq!(u32_at(&bytes, 0), Some(bytes.len() as u32));
        assert_eq!((u16_at(&bytes, 4), u16_at(&bytes, 6)), (Some(100), Some(5)));
        assert_eq!(
            (u32_at(&bytes, 20), u32_at(&bytes, 28)),
            (Some(7), Some(INGRESS))
        );
        assert_eq!(number_of(&bytes[HEADER_BYTES + TCMSG_BYTES..]), Some(MARK));
        let odd = request(
            (libc::RTM_NEWQDISC, 0),
            (1, 0, 0),
            Some((TCA_KIND, b"clsact\0")),
        );
        assert_eq!(odd.len() % ALIGN, 0);
        assert_eq!(number_of(&odd[HEADER_BYTES + TCMSG_BYTES..]), None);
    }

    #[test]
    fn answers_end_with_the_kernels_word_and_what_is_cut_is_an_error() {
        let mut seen = 0;
        let chain = request((RTM_NEWCHAIN, 2), (7, 0, INGRESS), None);
        let done = request((libc::NLMSG_DONE as u16, 2), (0, 0, 0), None);
        let both = [chain.clone(), done].concat();
        assert!(read_answers(&both, &mut |_| seen += 1).unwrap());
        assert!(!read_answers(&chain, &mut |_| seen += 1).unwrap());
        assert_eq!(seen, 2);
        let mut refused = request((libc::NLMSG_ERROR as u16, 0), (0, 0, 0), None);
        refused[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        let error = read_answers(&refused, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        for length in [0, 3, 15, 1 << 20] {
            let mut bytes = chain.clone();
            bytes[..4].copy_from_slice(&u32::to_ne_bytes(length));
            assert!(
                read_answers(&bytes[..chain.len()], &mut |_| {}).is_err(),
                "{length}"
            );
        }
        assert!(
            number_of(&[2, 0, 11, 0]).is_none(),
            "an attribute within its own head"
        );
    }
}

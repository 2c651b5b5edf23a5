//! Messages between a confined process and the one that started it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{self, ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Sends a message, which arrives whole. `with`: a descriptor that goes with it; a confined process can't send one.
///
/// # Errors
/// The kernel's, when the other process has gone.
pub fn send(to: impl AsFd, bytes: &[u8], with: Option<&OwnedFd>) -> io::Result<()> {
    let to = to.as_fd().as_raw_fd();
    let flags = MsgFlags::MSG_NOSIGNAL;
    let sent = || match with {
        // A confined process has no `sendmsg`.
        None => socket::send(to, bytes, flags),
        Some(fd) => {
            let raw = [fd.as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&raw)];
            sendmsg::<()>(to, &[IoSlice::new(bytes)], &rights, flags, None)
        }
    };
    loop {
        match sent() {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent.map(|_| ())?),
        }
    }
}

/// Waits for a message, which must fit into `bytes`. Returns its length, and the descriptor that came with it, if any.
/// `None`: the other process has closed its end.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::InvalidData`] for a message that is too long.
pub fn receive(from: impl AsFd, bytes: &mut [u8]) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let from = from.as_fd().as_raw_fd();
    let mut parts = [IoSliceMut::new(bytes)];
    let mut room = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let got = match recvmsg::<()>(from, &mut parts, Some(&mut room), flags) {
        Err(Errno::ECONNRESET) => return Ok(None),
        got => got?,
    };
    let mut with = None;
    for message in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = message {
            // All of them, so that more than one are closed and not leaked.
            for fd in fds {
                // SAFETY: the kernel has just installed this descriptor, and nobody else knows it.
                with = Some(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    if got
        .flags
        .intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // No message is empty, so no bytes mean the end.
    Ok((got.bytes > 0).then_some((got.bytes, with)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use nix::poll::{PollFd, PollFlags, poll};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    #[test]
    fn descriptors_beyond_the_first_are_closed_and_not_leaked() {
        let (one, other) = pair();
        let (reader, writer) = std::io::pipe().unwrap();
        let raw = [writer.as_raw_fd(); 2];
        let rights = [ControlMessage::ScmRights(&raw)];
        let parts = [IoSlice::new(b"x")];
        let flags = MsgFlags::empty();
        sendmsg::<()>(one.as_raw_fd(), &parts, &rights, flags, None).unwrap();
        drop(receive(&other, &mut [0; 4]));
        drop(writer);
        // Nobody holds the pipe's other end, now or soon: a process that another test starts may.
        let mut polled = [PollFd::new(reader.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut polled, 10_000_u16).unwrap(), 1);
        assert!(polled[0].revents().unwrap().contains(PollFlags::POLLHUP));
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap()
    }

    #[test]
    fn a_message_arrives_whole_and_with_its_descriptor() {
        let (one, other) = pair();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        send(&one, b"first", Some(&writer.try_clone().unwrap().into())).unwrap();
        send(&one, b"second", None).unwrap();
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut bytes = [0; 8];
        let (length, with) = receive(&other, &mut bytes).unwrap().unwrap();
        assert_eq!(&bytes[..length], b"first");
        let mut sent = std::fs::File::from(with.unwrap());
        sent.write_all(b"y").unwrap();
        drop(sent);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xy");
        let (length, with) = receive(&other, &mut bytes).unwrap().unwrap();
        assert!(&bytes[..length] == b"second" && with.is_none());
        send(&one, &[0; 9], None).unwrap();
        let error = receive(&other, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(one);
        assert!(receive(&other, &mut bytes).unwrap().is_none());
        assert!(send(&other, b"late", None).is_err());
    }
}

//! System calls of scripts, made to the kernel inside the guest's namespace.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, Shutdown, SockFlag, SockType, SockaddrStorage, bind, connect,
    getsockopt, listen, recv, send, setsockopt, shutdown, socket, sockopt,
};
use uc_drill::target::{Answer, SocketOption, SystemCall, TcpInfo};

use super::frames::{GUEST_PORT, Version};
use crate::netns::Namespace;
use crate::tcp_info;

fn errno(error: io::Error) -> nix::Error {
    nix::Error::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The open sockets by file descriptor; clones share them.
#[derive(Clone)]
pub(super) struct Sockets {
    namespace: Namespace,
    open: Arc<Mutex<BTreeMap<i64, Arc<OwnedFd>>>>,
}

impl Sockets {
    pub(super) fn new(namespace: Namespace) -> Sockets {
        Sockets {
            namespace,
            open: Arc::default(),
        }
    }

    fn get(&self, fd: i64) -> nix::Result<Arc<OwnedFd>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&fd).cloned().ok_or(nix::Error::EBADF)
    }

    fn add(&self, socket: OwnedFd) -> i64 {
        let fd = i64::from(socket.as_raw_fd());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(fd, Arc::new(socket));
        fd
    }

    /// Returns whether a call may wait: its socket blocks, and what it waits for is not there.
    pub(super) fn may_block(&self, call: SystemCall) -> bool {
        let (fd, event) = match call {
            SystemCall::Accept(fd) | SystemCall::Receive { fd, .. } => (fd, PollFlags::POLLIN),
            SystemCall::Send { fd, .. } | SystemCall::Connect(fd) => (fd, PollFlags::POLLOUT),
            _ => return false,
        };
        let Ok(socket) = self.get(fd) else {
            return false;
        };
        let flags = fcntl(&*socket, FcntlArg::F_GETFL).unwrap_or(0);
        if OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK) {
            return false;
        }
        // An unconnected socket is "writable", and its connect waits.
        if let SystemCall::Connect(_) = call {
            return true;
        }
        let mut fds = [PollFd::new(socket.as_fd(), event)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// Makes a call.
    pub(super) fn make(&self, call: SystemCall, version: Version) -> Answer {
        match self.attempt(call, version) {
            Ok(answer) => answer,
            Err(errno) => Answer::fails(errno as i64),
        }
    }

    fn attempt(&self, call: SystemCall, version: Version) -> nix::Result<Answer> {
        let done = Answer::returns(0);
        Ok(match call {
            SystemCall::Socket => Answer::returns(self.socket(version)?),
            SystemCall::Bind(fd) => {
                let any = SocketAddr::new(version.addresses().0, GUEST_PORT);
                bind(self.get(fd)?.as_raw_fd(), &SockaddrStorage::from(any))?;
                done
            }
            SystemCall::Listen(fd) => {
                listen(&*self.get(fd)?, Backlog::new(8)?)?;
                done
            }
            SystemCall::Accept(fd) => {
                let listener = self.get(fd)?.try_clone().map_err(errno)?;
                let (stream, _) = TcpListener::from(listener).accept().map_err(errno)?;
                Answer::returns(self.add(stream.into()))
            }
            SystemCall::Connect(fd) => {
                let peer = SocketAddr::new(version.addresses().1, GUEST_PORT);
                connect(self.get(fd)?.as_raw_fd(), &SockaddrStorage::from(peer))?;
                done
            }
            SystemCall::Receive { fd, bytes, peek } => {
                let mut buffer = vec![0; bytes as usize];
                let peek = if peek {
                    MsgFlags::MSG_PEEK
                } else {
                    MsgFlags::empty()
                };
                let read = recv(self.get(fd)?.as_raw_fd(), &mut buffer, peek)?;
                Answer::returns(read as i64)
            }
            SystemCall::Send { fd, bytes } => {
                let data = vec![0; bytes as usize];
                let sent = send(self.get(fd)?.as_raw_fd(), &data, MsgFlags::MSG_NOSIGNAL)?;
                Answer::returns(sent as i64)
            }
            SystemCall::Close(fd) => {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.remove(&fd).ok_or(nix::Error::EBADF)?;
                done
            }
            SystemCall::Shutdown(fd, is_both) => {
                let how = if is_both {
                    Shutdown::Both
                } else {
                    Shutdown::Write
                };
                shutdown(self.get(fd)?.as_raw_fd(), how)?;
                done
            }
            SystemCall::SetOption(fd, option, value) => {
                self.set_option(fd, option, value as i32, version)?;
                done
            }
            SystemCall::GetOption(fd, option) => Answer::yields(self.option(fd, option)?),
            SystemCall::Flags(fd) => {
                let flags = fcntl(&*self.get(fd)?, FcntlArg::F_GETFL)?;
                Answer::returns(i64::from(flags))
            }
            SystemCall::SetFlags(fd, is_nonblocking) => {
                let mut flags = OFlag::O_RDWR;
                flags.set(OFlag::O_NONBLOCK, is_nonblocking);
                fcntl(&*self.get(fd)?, FcntlArg::F_SETFL(flags))?;
                done
            }
        })
    }

    fn socket(&self, version: Version) -> nix::Result<i64> {
        let family = match version {
            Version::V4 => AddressFamily::Inet,
            Version::V6 => AddressFamily::Inet6,
        };
        let made = self
            .namespace
            .enter(|| socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None));
        Ok(self.add(made.map_err(|_| nix::Error::EAGAIN)??))
    }

    fn set_option(
        &self,
        fd: i64,
        option: SocketOption,
        value: i32,
        version: Version,
    ) -> nix::Result<()> {
        let socket = self.get(fd)?;
        match (option, version) {
            (SocketOption::ReuseAddress, _) => {
                setsockopt(&socket, sockopt::ReuseAddr, &(value != 0))
            }
            (SocketOption::NoDelay, _) => setsockopt(&socket, sockopt::TcpNoDelay, &(value != 0)),
            (SocketOption::ReceiveBuffer, _) => {
                setsockopt(&socket, sockopt::RcvBuf, &(value as usize))
            }
            (SocketOption::MaxSegment, _) => {
                setsockopt(&socket, sockopt::TcpMaxSeg, &(value as u32))
            }
            (SocketOption::Hops, Version::V4) => setsockopt(&socket, sockopt::Ipv4Ttl, &value),
            (SocketOption::Hops, Version::V6) => setsockopt(&socket, sockopt::Ipv6Ttl, &value),
            (SocketOption::Class, Version::V4) => setsockopt(&socket, sockopt::Ipv4Tos, &value),
            (SocketOption::Class, Version::V6) => setsockopt(&socket, sockopt::Ipv6TClass, &value),
            (SocketOption::SetupLimit | SocketOption::Error, _) => Err(nix::Error::ENOPROTOOPT),
        }
    }

    fn option(&self, fd: i64, option: SocketOption) -> nix::Result<i64> {
        let socket = self.get(fd)?;
        Ok(match option {
            SocketOption::Error => i64::from(getsockopt(&socket, sockopt::SocketError)?),
            SocketOption::ReceiveBuffer => getsockopt(&socket, sockopt::RcvBuf)? as i64,
            SocketOption::ReuseAddress => i64::from(getsockopt(&socket, sockopt::ReuseAddr)?),
            SocketOption::NoDelay => i64::from(getsockopt(&socket, sockopt::TcpNoDelay)?),
            SocketOption::MaxSegment => i64::from(getsockopt(&socket, sockopt::TcpMaxSeg)?),
            SocketOption::Hops | SocketOption::Class | SocketOption::SetupLimit => {
                return Err(nix::Error::ENOPROTOOPT);
            }
        })
    }

    /// Returns what `TCP_INFO` reports of a socket.
    pub(super) fn info(&self, fd: i64) -> Option<TcpInfo> {
        let socket = self.get(fd).ok()?;
        let info = tcp_info::TcpInfo::read(socket.as_fd()).ok()?;
        Some(TcpInfo {
            state: info.state.into(),
            snd_cwnd: info.snd_cwnd.into(),
            snd_ssthresh: info.snd_ssthresh.into(),
        })
    }

    /// Ends every connection with a reset, and with it every call that blocks.
    pub(super) fn shut_down(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        for socket in std::mem::take(&mut *open).into_values() {
            // Errors are of sockets that have ended.
            let _ = setsockopt(&socket, sockopt::Linger, &linger);
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

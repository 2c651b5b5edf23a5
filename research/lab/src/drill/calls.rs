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

use super::frames::{Ends, GUEST_PORT};
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
    /// The congestion control of new sockets, if not the kernel's own.
    pub(super) congestion_control: Option<String>,
}

impl Sockets {
    pub(super) fn new(namespace: Namespace) -> Sockets {
        Sockets {
            namespace,
            open: Arc::default(),
            congestion_control: None,
        }
    }

    fn get(&self, fd: i64) -> nix::Result<Arc<OwnedFd>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&fd).cloned().ok_or(nix::Error::EBADF)
    }

    pub(super) fn add(&self, socket: OwnedFd) -> i64 {
        let fd = i64::from(socket.as_raw_fd());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(fd, Arc::new(socket));
        fd
    }

    /// Returns whether a call may wait: its socket blocks, and has no data or connection for it yet. On a blocking
    /// socket `connect` and `send` may always wait.
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
        // An unconnected socket is "writable", and its connect waits; so is one with less room than the
        // call needs.
        if let SystemCall::Connect(_) | SystemCall::Send { .. } = call {
            return true;
        }
        let mut fds = [PollFd::new(socket.as_fd(), event)];
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    /// Makes `call`, with the addresses `ends`. A call that fails is answered with its error number.
    pub(super) fn make(&self, call: SystemCall, ends: Ends) -> Answer {
        match self.attempt(call, ends) {
            Ok(answer) => answer,
            Err(errno) => Answer::fails(errno as i64),
        }
    }

    fn attempt(&self, call: SystemCall, ends: Ends) -> nix::Result<Answer> {
        let done = Answer::returns(0);
        Ok(match call {
            SystemCall::Socket(is_nonblocking) => {
                Answer::returns(self.socket(is_nonblocking, ends)?)
            }
            SystemCall::Bind(fd) => {
                let any = SocketAddr::new(ends.guest, GUEST_PORT);
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
                let peer = SocketAddr::new(ends.peer, GUEST_PORT);
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
                self.set_option(fd, option, value as i32, ends)?;
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

    fn socket(&self, is_nonblocking: bool, ends: Ends) -> nix::Result<i64> {
        let family = if ends.is_v6() {
            AddressFamily::Inet6
        } else {
            AddressFamily::Inet
        };
        let mut flags = SockFlag::SOCK_CLOEXEC;
        flags.set(SockFlag::SOCK_NONBLOCK, is_nonblocking);
        let made = self
            .namespace
            .enter(|| socket(family, SockType::Stream, flags, None));
        let made = made.map_err(|_| nix::Error::EAGAIN)??;
        if let Some(name) = &self.congestion_control {
            setsockopt(&made, sockopt::TcpCongestion, &name.into())?;
        }
        Ok(self.add(made))
    }

    fn set_option(&self, fd: i64, option: SocketOption, value: i32, ends: Ends) -> nix::Result<()> {
        let socket = self.get(fd)?;
        match (option, ends.is_v6()) {
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
            (SocketOption::Hops, false) => setsockopt(&socket, sockopt::Ipv4Ttl, &value),
            (SocketOption::Hops, true) => setsockopt(&socket, sockopt::Ipv6Ttl, &value),
            (SocketOption::Class, false) => setsockopt(&socket, sockopt::Ipv4Tos, &value),
            (SocketOption::Class, true) => setsockopt(&socket, sockopt::Ipv6TClass, &value),
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

    /// Returns the fields of `TCP_INFO` of a socket, by name; `None` if `fd` is no open TCP socket.
    pub(super) fn info(&self, fd: i64) -> Option<TcpInfo> {
        let socket = self.get(fd).ok()?;
        let info = tcp_info::TcpInfo::read(socket.as_fd()).ok()?;
        let fields = info.named().into_iter();
        Some(fields.map(|(name, value)| (name, value as i64)).collect())
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

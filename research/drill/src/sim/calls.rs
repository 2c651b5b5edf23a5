//! System calls of a simulated host.

use uc_net::Nanos;
use uc_tcp::{Connection, Stage};

use crate::constants::known;
use crate::sim::ends::End;
use crate::sim::host::Host;
use crate::sim::sockets::{Role, Socket};
use crate::target::{Answer, SocketOption, SystemCall};

impl Host {
    /// Makes a call; returns `None` if it blocks. `again`: the call has blocked before and is tried again.
    pub(crate) fn attempt(&mut self, call: SystemCall, again: bool) -> Option<Answer> {
        Some(match call {
            SystemCall::Socket(is_nonblocking) => Answer::returns(self.sockets.open(Socket {
                is_nonblocking,
                ..Socket::new(Role::Fresh)
            })),
            SystemCall::Bind(fd) => self.on(fd, |socket| {
                socket.is_bound = true;
                0
            }),
            SystemCall::Listen(fd) => self.on(fd, |socket| {
                socket.role = Role::Listens;
                0
            }),
            SystemCall::Accept(fd) => return self.accept(fd),
            SystemCall::Connect(fd) => return self.connect(fd, again),
            SystemCall::Receive { fd, bytes, peek } => return self.receive(fd, bytes, peek),
            SystemCall::Send { fd, bytes } => return self.write(fd, bytes),
            SystemCall::Close(fd) => self.close(fd),
            SystemCall::Shutdown(fd, is_both) => self.shutdown(fd, is_both),
            SystemCall::SetOption(fd, option, value) => self.set_option(fd, option, value),
            SystemCall::GetOption(fd, option) => self.get_option(fd, option),
            SystemCall::Flags(fd) => self.on(fd, |socket| {
                let blocking = if socket.is_nonblocking {
                    "O_NONBLOCK"
                } else {
                    "O_RDONLY"
                };
                known("O_RDWR") | known(blocking)
            }),
            SystemCall::SetFlags(fd, is_nonblocking) => self.on(fd, |socket| {
                socket.is_nonblocking = is_nonblocking;
                0
            }),
        })
    }

    fn on(&mut self, fd: i64, act: impl FnOnce(&mut Socket) -> i64) -> Answer {
        match self.sockets.get_mut(fd) {
            Some(socket) => Answer::returns(act(socket)),
            None => Answer::fails(known("EBADF")),
        }
    }

    /// Returns the answer of a call that would have to wait: the error `errno` if the socket is nonblocking; `None`, so
    /// that the call blocks, otherwise.
    fn wait(&self, fd: i64, errno: &str) -> Option<Answer> {
        let socket = self.sockets.get(fd);
        let is_nonblocking = socket.is_none_or(|socket| socket.is_nonblocking);
        is_nonblocking.then(|| Answer::fails(known(errno)))
    }

    fn accept(&mut self, fd: i64) -> Option<Answer> {
        let waits = |end: &&mut End| {
            end.listener == Some(fd)
                && !matches!(end.connection.stage(), Stage::SynReceived | Stage::Closed)
        };
        let ends = self.ends.iter_mut();
        let Some((id, end)) = ends.map(|(id, end)| (*id, end)).find(|(_, end)| waits(end)) else {
            return self.wait(fd, "EAGAIN");
        };
        end.listener = None;
        end.has_socket = true;
        let mut socket = Socket::new(Role::Connected(id));
        (socket.hops, socket.class) = (end.hops, end.class);
        Some(Answer::returns(self.sockets.open(socket)))
    }

    fn connect(&mut self, fd: i64, again: bool) -> Option<Answer> {
        let Some(socket) = self.sockets.get(fd).copied() else {
            return Some(Answer::fails(known("EBADF")));
        };
        match socket.role {
            Role::Listens => Some(Answer::fails(known("EOPNOTSUPP"))),
            Role::Fresh => {
                self.peer += 1;
                let connection = Connection::client(&self.config(&socket), self.iss());
                let mut end = End::new(connection, self.peer, socket.hops, socket.class);
                end.has_socket = true;
                let limit = socket.setup_limit_s.map(Nanos::from_secs);
                let limit = limit.unwrap_or(self.settings.setup_limit);
                let id = self.add(end);
                self.on(fd, |socket| {
                    socket.role = Role::Connected(id);
                    0
                });
                self.act(id, |end, now, mut out| {
                    end.setup_until = Some(now + limit);
                    end.connection.set_reading(now, false, &mut out);
                    end.connection.open(now, &mut out);
                });
                self.wait(fd, "EINPROGRESS")
            }
            Role::Connected(id) => {
                let stage = self.ends.get(&id).map(|end| end.connection.stage());
                match stage {
                    Some(Stage::SynSent | Stage::SynReceived) => self.wait(fd, "EALREADY"),
                    Some(Stage::Closed) | None => Some(self.error(id, "ECONNABORTED")),
                    Some(_) if again => Some(Answer::returns(0)),
                    Some(_) => Some(Answer::fails(known("EISCONN"))),
                }
            }
        }
    }

    /// Returns and clears the pending error of a connection; 0: none.
    fn take_error(&mut self, id: usize) -> i64 {
        let end = self.ends.get_mut(&id);
        end.map_or(0, |end| std::mem::take(&mut end.error))
    }

    /// Fails with the pending error of a connection, or with `otherwise`.
    fn error(&mut self, id: usize, otherwise: &str) -> Answer {
        match self.take_error(id) {
            0 => Answer::fails(known(otherwise)),
            errno => Answer::fails(errno),
        }
    }

    fn connection_of(&self, fd: i64) -> Option<usize> {
        match self.sockets.get(fd)?.role {
            Role::Connected(id) => Some(id),
            _ => None,
        }
    }

    fn receive(&mut self, fd: i64, bytes: u32, peek: bool) -> Option<Answer> {
        let Some(id) = self.connection_of(fd) else {
            return Some(Answer::fails(known("ENOTCONN")));
        };
        let end = self.ends.get(&id)?;
        if end.error != 0 {
            return Some(self.error(id, "ENOTCONN"));
        }
        let readable = end.connection.readable_bytes().min(bytes);
        if readable > 0 {
            if !peek {
                self.act(id, |end, now, mut out| {
                    end.connection.read(now, readable, &mut out)
                });
            }
            return Some(Answer::returns(i64::from(readable)));
        }
        if self.sockets.get(fd)?.is_read_to_end {
            return Some(Answer::returns(0));
        }
        match end.connection.stage() {
            Stage::SynSent
            | Stage::SynReceived
            | Stage::Established
            | Stage::FinWait1
            | Stage::FinWait2 => self.wait(fd, "EAGAIN"),
            _ => Some(Answer::returns(0)),
        }
    }

    fn write(&mut self, fd: i64, bytes: u32) -> Option<Answer> {
        let Some(id) = self.connection_of(fd) else {
            return Some(Answer::fails(known("ENOTCONN")));
        };
        let end = self.ends.get(&id)?;
        if end.error != 0 {
            return Some(self.error(id, "EPIPE"));
        }
        match end.connection.stage() {
            Stage::SynSent | Stage::SynReceived => self.wait(fd, "EAGAIN"),
            Stage::Established | Stage::CloseWait => {
                self.act(id, |end, now, mut out| {
                    end.connection.write(now, u64::from(bytes), &mut out);
                });
                Some(Answer::returns(i64::from(bytes)))
            }
            _ => Some(Answer::fails(known("EPIPE"))),
        }
    }

    fn close(&mut self, fd: i64) -> Answer {
        let Some(socket) = self.sockets.close(fd) else {
            return Answer::fails(known("EBADF"));
        };
        match socket.role {
            Role::Fresh => {}
            Role::Listens => {
                // Connections that nobody accepted end with their listener.
                let waiting = self.ends.iter().filter(|(_, end)| end.listener == Some(fd));
                let waiting: Vec<_> = waiting.map(|(id, _)| *id).collect();
                for id in waiting {
                    self.act(id, |end, _, mut out| match end.connection.stage() {
                        Stage::SynReceived => end.connection.abort(&mut |_| {}),
                        _ => end.connection.abort(&mut out),
                    });
                }
            }
            Role::Connected(id) => {
                self.act(id, |end, now, mut out| {
                    end.has_socket = false;
                    match end.connection.stage() {
                        Stage::SynSent => end.connection.abort(&mut out),
                        // Data that nobody reads are not acknowledged by a FIN (RFC 2525 §2.17).
                        Stage::Established | Stage::CloseWait
                            if end.connection.readable_bytes() > 0 =>
                        {
                            end.connection.abort(&mut out);
                        }
                        _ => end.connection.finish(now, &mut out),
                    }
                });
            }
        }
        Answer::returns(0)
    }

    fn shutdown(&mut self, fd: i64, is_both: bool) -> Answer {
        let Some(id) = self.connection_of(fd) else {
            return Answer::fails(known("ENOTCONN"));
        };
        self.act(id, |end, now, mut out| end.connection.finish(now, &mut out));
        self.on(fd, |socket| {
            socket.is_read_to_end |= is_both;
            0
        })
    }

    fn set_option(&mut self, fd: i64, option: SocketOption, value: i64) -> Answer {
        let Ok(number) = u32::try_from(value) else {
            return Answer::fails(known("EINVAL"));
        };
        let byte = number.min(255) as u8;
        let id = self.connection_of(fd);
        let answer = self.on(fd, |socket| {
            match option {
                SocketOption::ReceiveBuffer => socket.receive_buffer_bytes = Some(number),
                SocketOption::NoDelay => socket.has_no_delay = number != 0,
                SocketOption::MaxSegment => {
                    socket.mss_bytes = Some(number.min(u32::from(u16::MAX)) as u16);
                }
                SocketOption::Hops => socket.hops = byte,
                SocketOption::Class => socket.class = byte & !3,
                SocketOption::SetupLimit => socket.setup_limit_s = Some(u64::from(number)),
                SocketOption::Error | SocketOption::ReuseAddress => {}
            }
            0
        });
        if let (Some(socket), Some(end)) = (
            self.sockets.get(fd),
            id.and_then(|id| self.ends.get_mut(&id)),
        ) {
            (end.hops, end.class) = (socket.hops, socket.class);
        }
        answer
    }

    fn get_option(&mut self, fd: i64, option: SocketOption) -> Answer {
        let Some(socket) = self.sockets.get(fd).copied() else {
            return Answer::fails(known("EBADF"));
        };
        let id = self.connection_of(fd);
        let config = self.config(&socket);
        let end = id.and_then(|id| self.ends.get(&id));
        Answer::yields(match option {
            SocketOption::Error => id.map_or(0, |id| self.take_error(id)),
            SocketOption::ReceiveBuffer => end.map_or(config.receive_buffer_bytes, |end| {
                end.connection.receive_buffer_bytes()
            }) as i64,
            SocketOption::ReuseAddress => 1,
            SocketOption::NoDelay => i64::from(socket.has_no_delay),
            SocketOption::MaxSegment => end.map_or(u32::from(config.mss_bytes), |end| {
                end.connection.info().smss_bytes
            }) as i64,
            SocketOption::Hops => i64::from(socket.hops),
            SocketOption::Class => i64::from(socket.class),
            SocketOption::SetupLimit => socket
                .setup_limit_s
                .map_or(self.settings.setup_limit.0 / 1_000_000_000, |limit| limit)
                as i64,
        })
    }
}

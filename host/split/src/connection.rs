//! A split connection: the inner one with the guest, the outer one with the far end, and how they end.

use std::io;
use std::net::IpAddr;

use nix::sys::epoll::EpollFlags;
use socket2::Socket;

use crate::half::Half;
use crate::pipes::Pipes;
use crate::side::Side;
use crate::sockets;

/// What the worker does next with a connection.
#[derive(Debug)]
pub enum Next {
    /// Wait for one of the connection's sockets.
    Wait,
    /// Move more bytes of this connection at once, after other connections had their turn.
    Again,
    /// Go on after a while: the connection waits for something that epoll does not report.
    Later,
    /// Remove the connection, because it has ended.
    Ended(End),
}

/// How a split connection ended.
#[derive(Debug)]
pub enum End {
    /// Both streams have ended, and each end has acknowledged the other's.
    Orderly,
    /// An end reset the connection, or vanished.
    Reset,
    /// The end that the host connects to refused, or did not answer.
    Refused,
}

/// A split connection. Dropping it resets both ends, unless it was released.
#[derive(Debug)]
pub struct Connection {
    /// The socket whose connection leads to the guest.
    pub guest: Socket,
    /// The socket whose connection leads to the far end.
    pub far: Socket,
    /// Address of the guest.
    pub guest_ip: IpAddr,
    /// The side that this host connects to.
    opened: Side,
    is_connecting: bool,
    has_failed: bool,
    to_far: Half,
    to_guest: Half,
    /// Bytes that were moved to the far end and to the guest since the last [`Connection::take_moved`].
    moved: [u64; 2],
}

impl Connection {
    /// Creates a connection whose socket of side `opened` is being connected.
    pub fn new(guest: Socket, far: Socket, guest_ip: IpAddr, opened: Side) -> Self {
        Self {
            guest,
            far,
            guest_ip,
            opened,
            is_connecting: true,
            has_failed: false,
            to_far: Half::default(),
            to_guest: Half::default(),
            moved: [0; 2],
        }
    }

    /// Notes what epoll has reported of a side's socket.
    pub fn note(&mut self, side: Side, seen: EpollFlags) {
        let (reads, writes) = match side {
            Side::Guest => (&mut self.to_far, &mut self.to_guest),
            Side::Far => (&mut self.to_guest, &mut self.to_far),
        };
        let ends = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        reads.readable |= seen.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | ends);
        reads.urgent |= seen.contains(EpollFlags::EPOLLPRI);
        writes.writable |= seen.intersects(EpollFlags::EPOLLOUT | ends);
        self.has_failed |= seen.contains(EpollFlags::EPOLLERR);
    }

    /// Moves the bytes that the sockets allow. Returns what the worker does next, and true if the second connection
    /// became established in this call.
    pub fn go_on(&mut self, pipes: &mut Pipes) -> (Next, bool) {
        let was_connecting = self.is_connecting;
        let next = match self.attend(pipes) {
            Ok(next) => next,
            Err(_) if self.is_connecting => Next::Ended(End::Refused),
            Err(_) => Next::Ended(End::Reset),
        };
        (next, was_connecting && !self.is_connecting)
    }

    fn attend(&mut self, pipes: &mut Pipes) -> io::Result<Next> {
        let mut lost = None;
        if self.is_connecting {
            let (socket, writes, reads) = match self.opened {
                Side::Far => (&self.far, &self.to_far, &mut self.to_guest),
                Side::Guest => (&self.guest, &self.to_guest, &mut self.to_far),
            };
            match socket.take_error()? {
                // It was established, and what came before the reset is still to be read.
                Some(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    reads.is_cut = true;
                    lost = Some(error);
                }
                Some(error) => return Err(error),
                None if writes.writable => {}
                None => {
                    return match self.take_error()? {
                        Some(_) => Ok(Next::Ended(End::Reset)),
                        None => Ok(Next::Wait),
                    };
                }
            }
            self.is_connecting = false;
        }
        let to_far = self.to_far.pump(&self.guest, &self.far, pipes);
        self.to_guest.is_cut |= to_far.is_err();
        let to_guest = self.to_guest.pump(&self.far, &self.guest, pipes);
        // Only now, so that what an end sent before it reset the connection has passed.
        let (to_far, to_guest) = (to_far?, to_guest?);
        self.moved[0] += to_far.bytes;
        self.moved[1] += to_guest.bytes;
        // An end whose bytes are not read now may have been reset, too.
        if let Some(error) = lost.or(self.take_error()?) {
            return Err(error);
        }
        Ok(if self.to_far.is_done() && self.to_guest.is_done() {
            match self.is_delivered() {
                true => Next::Ended(End::Orderly),
                false => Next::Later,
            }
        } else if to_far.again || to_guest.again {
            Next::Again
        } else if to_far.starves || to_guest.starves {
            Next::Later
        } else {
            Next::Wait
        })
    }

    /// Returns whether both ends have acknowledged all data and the end of the stream. Until then a kill resets the
    /// connection, and a drain waits for it.
    fn is_delivered(&self) -> bool {
        [&self.guest, &self.far]
            .into_iter()
            .all(sockets::is_acknowledged)
    }

    /// Returns the error of either socket; `None` if epoll reported none.
    fn take_error(&mut self) -> io::Result<Option<io::Error>> {
        if !std::mem::take(&mut self.has_failed) {
            return Ok(None);
        }
        let guest = self.guest.take_error()?;
        Ok(guest.or(self.far.take_error()?))
    }

    /// Returns the bytes that were moved to the far end and to the guest since the last call.
    pub fn take_moved(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.moved)
    }

    /// Closes both sockets of the connection without a reset.
    pub fn release(self) -> io::Result<()> {
        self.guest.set_linger(None)?;
        self.far.set_linger(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    /// A connection between two sockets of the test, the guest's and the far end's.
    fn split() -> (Connection, TcpStream, TcpStream) {
        let pair = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = Socket::from(listener.accept().unwrap().0);
            near.set_nonblocking(true).unwrap();
            near.set_linger(Some(Duration::ZERO)).unwrap();
            (near, end)
        };
        let ((inner, guest), (outer, far)) = (pair(), pair());
        (
            Connection::new(inner, outer, [10, 0, 0, 1].into(), Side::Far),
            guest,
            far,
        )
    }

    /// Attends to the connection until it ends, as if epoll always reported everything.
    fn end(connection: &mut Connection) -> End {
        let mut pipes = Pipes::default();
        loop {
            let all = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLERR;
            connection.note(Side::Guest, all);
            connection.note(Side::Far, all);
            if let (Next::Ended(end), _) = connection.go_on(&mut pipes) {
                return end;
            }
        }
    }

    #[test]
    fn a_connection_that_both_ends_close_ends_in_order_and_what_was_sent_arrives() {
        let (mut connection, mut guest, mut far) = split();
        guest.write_all(b"question").unwrap();
        guest.shutdown(Shutdown::Write).unwrap();
        let answer = std::thread::spawn(move || {
            let mut question = String::new();
            far.read_to_string(&mut question).unwrap();
            far.write_all(b"answer").unwrap();
            question
        });
        assert!(matches!(end(&mut connection), End::Orderly));
        assert_eq!(connection.take_moved(), [8, 6]);
        connection.release().unwrap();
        assert_eq!(answer.join().unwrap(), "question");
        let mut text = String::new();
        guest.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
    }

    #[test]
    fn a_connection_that_is_dropped_before_its_end_is_reset_at_both_ends() {
        let (connection, guest, far) = split();
        drop(connection);
        for mut end in [guest, far] {
            let error = end.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn bytes_that_an_end_sent_before_its_reset_pass_and_the_reset_follows() {
        for guest_sends in [false, true] {
            let (mut connection, mut guest, mut far) = split();
            if guest_sends {
                connection.note(Side::Far, EpollFlags::EPOLLOUT);
                let (next, established) = connection.go_on(&mut Pipes::default());
                assert!(established && matches!(next, Next::Wait));
            }
            far.write_all(b"reason").unwrap();
            let failing = far.try_clone().unwrap();
            Socket::from(far).set_linger(Some(Duration::ZERO)).unwrap();
            if guest_sends {
                // The error is then reported to the write towards the far end.
                guest.write_all(b"more").unwrap();
            }
            drop(failing);
            assert!(matches!(end(&mut connection), End::Reset));
            assert_eq!(guest.read(&mut [0; 6]).unwrap(), 6);
            drop(connection);
            let error = guest.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}

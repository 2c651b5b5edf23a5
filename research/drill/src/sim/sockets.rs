//! The sockets of a simulated host, by file descriptor.

use std::collections::BTreeMap;

/// The lowest file descriptor of a socket: a program has the three below it open.
const LOWEST: i64 = 3;

/// What a socket is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The socket is neither connected nor listening.
    Fresh,
    /// The socket waits for connections.
    Listens,
    /// One end of a connection, by its number.
    Connected(usize),
}

/// A socket of the script, with its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) role: Role,
    pub(crate) is_bound: bool,
    pub(crate) is_nonblocking: bool,
    /// Whether a `shutdown` ended the receiving side: a read without data left returns 0.
    pub(crate) is_read_to_end: bool,
    pub(crate) has_no_delay: bool,
    pub(crate) receive_buffer_bytes: Option<u32>,
    pub(crate) mss_bytes: Option<u16>,
    pub(crate) setup_limit_s: Option<u64>,
    pub(crate) hops: u8,
    pub(crate) class: u8,
}

impl Socket {
    pub(crate) fn new(role: Role) -> Socket {
        Socket {
            role,
            is_bound: false,
            is_nonblocking: false,
            is_read_to_end: false,
            has_no_delay: false,
            receive_buffer_bytes: None,
            mss_bytes: None,
            setup_limit_s: None,
            hops: 64,
            class: 0,
        }
    }
}

/// The sockets of the script that are open.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    open: BTreeMap<i64, Socket>,
}

impl Sockets {
    /// Opens a socket at the lowest free file descriptor, and returns that.
    pub(crate) fn open(&mut self, socket: Socket) -> i64 {
        let mut fd = LOWEST;
        while self.open.contains_key(&fd) {
            fd += 1;
        }
        self.open.insert(fd, socket);
        fd
    }

    pub(crate) fn get(&self, fd: i64) -> Option<&Socket> {
        self.open.get(&fd)
    }

    pub(crate) fn get_mut(&mut self, fd: i64) -> Option<&mut Socket> {
        self.open.get_mut(&fd)
    }

    pub(crate) fn close(&mut self, fd: i64) -> Option<Socket> {
        self.open.remove(&fd)
    }

    /// Returns a socket that is bound, and neither listens nor is connected; `None` without any.
    pub(crate) fn bound(&self) -> Option<&Socket> {
        let mut sockets = self.open.values();
        sockets.find(|socket| socket.is_bound && socket.role == Role::Fresh)
    }

    /// Returns the socket that listens, with its file descriptor; `None` without any.
    pub(crate) fn listener(&self) -> Option<(i64, &Socket)> {
        let mut sockets = self.open.iter();
        let found = sockets.find(|(_, socket)| socket.role == Role::Listens);
        found.map(|(fd, socket)| (*fd, socket))
    }
}

//! The receivers' side of connections that carry one transfer each.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::error::LabError;
use crate::flow::Connections;
use crate::pattern::Pattern;
use crate::socket;
use crate::tcp_info::TcpInfo;
use crate::transfers::Transfers;

/// A flow whose connections are expected.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Label of its guest, for messages.
    pub guest: String,
    pub transfers: Arc<Transfers>,
}

/// The connections of all such flows.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    sources: BTreeMap<SocketAddr, Source>,
    connections: Connections,
    open: HashMap<u64, Open>,
    accepted: u64,
}

#[derive(Debug)]
struct Open {
    stream: TcpStream,
    source: Source,
    number: usize,
    read_bytes: u64,
    shut: bool,
}

impl Arriving {
    /// Creates the state before the first connection; `sources` are by the guest's end of the first.
    pub fn new(sources: BTreeMap<SocketAddr, Source>, connections: Connections) -> Self {
        Self {
            sources,
            connections,
            ..Self::default()
        }
    }

    /// Returns the number of connections that are expected.
    pub fn count(&self) -> usize {
        let sources = self.sources.values();
        sources.map(|source| source.transfers.count()).sum()
    }

    /// Adds an accepted connection from `peer`, whose events have the numbers from `first` on. One that
    /// belongs to no flow is closed.
    pub fn accept(
        &mut self,
        poll: &Epoll,
        stream: TcpStream,
        peer: SocketAddr,
        first: u64,
    ) -> io::Result<()> {
        let (end, number) = self.connections.of_flow(peer);
        let Some(source) = self.sources.get(&end) else {
            return Ok(());
        };
        let event = first + self.accepted;
        self.accepted += 1;
        poll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, event))?;
        let open = Open {
            stream,
            source: source.clone(),
            number,
            read_bytes: 0,
            shut: false,
        };
        self.open.insert(event, open);
        Ok(())
    }

    /// Reads a connection; after the transfer's end closes the receiver's side, and lets it go once the
    /// guest's host has acknowledged that. `window_bytes`: the connection's largest window.
    pub fn read(
        &mut self,
        poll: &Epoll,
        event: u64,
        pattern: &Pattern,
        window_bytes: Option<u32>,
        buffer: &mut [u8],
    ) -> Result<(), LabError> {
        let Some(open) = self.open.get_mut(&event) else {
            return Ok(());
        };
        let guest = open.source.guest.clone();
        let ended = |source| LabError::Ended {
            guest: guest.clone(),
            source,
        };
        if open.shut {
            let info = TcpInfo::read(open.stream.as_fd()).map_err(ended)?;
            if !info.is_open() {
                self.open.remove(&event);
            }
            return Ok(());
        }
        let count = match open.stream.read(buffer) {
            Ok(0) => {
                open.shut = true;
                let shut = open.stream.shutdown(Shutdown::Write);
                shut.map_err(ended)?;
                // From here on the only event is the connection's end.
                let mut last = EpollEvent::new(EpollFlags::EPOLLET, event);
                let left = poll.modify(&open.stream, &mut last);
                return left.map_err(|errno| ended(errno.into()));
            }
            Ok(count) => count as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(ended(error)),
        };
        if let Some(bytes) = window_bytes {
            socket::limit_window(&open.stream, bytes).map_err(ended)?;
        }
        let at_byte = open.read_bytes;
        open.read_bytes += count;
        let transfers = &open.source.transfers;
        let is_known = transfers.delivered(open.number, count, open.read_bytes);
        match pattern.first_difference(at_byte, &buffer[..count as usize]) {
            None if is_known => Ok(()),
            found => Err(LabError::Refused(format!(
                "{guest}: transfer {} is corrupt at byte {}: something on the path changed payload",
                open.number,
                found.unwrap_or(at_byte)
            ))),
        }
    }
}

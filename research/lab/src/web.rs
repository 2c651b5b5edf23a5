//! Clients of the guests' web servers: one thread at the receiver for each of a group's flows,
//! which fetches one page in each epoch over a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::SockaddrStorage;
use uc_experiment::{Completion, FlowRecord};
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::clock;
use crate::error::LabError;
use crate::nginx::{HTTP_PORT, PAGE, page};
use crate::pages::Pages;
use crate::plan::{Guest, Plan};
use crate::socket;
use crate::stack;
use crate::wiring::Wiring;

/// Interval at which a waiting client checks whether the run is over, in milliseconds.
const LOOK_MS: u16 = 20;
/// Maximum size of the header of a page's response.
const HEADER_BYTES_MAX: usize = 4096;

/// The running clients of one case.
#[derive(Debug)]
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<FlowRecord, LabError>>>,
}

impl Clients {
    /// Starts one client for each flow that fetches pages; times count from `started`.
    pub fn start(
        plan: &Plan,
        wiring: &Wiring,
        seed: u64,
        started: Nanos,
    ) -> Result<Self, LabError> {
        let mut clients = Self {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        let mut random = Stream::new(seed, "web/begins");
        for (group, pages) in groups(plan) {
            let of_group = plan.guests.iter().filter(|guest| guest.group == group);
            let flows: Vec<&Guest> = of_group
                .flat_map(|guest| (0..guest.flows).map(move |_| guest))
                .collect();
            let times = pages.epochs.draw(&mut random, flows.len());
            for (index, (guest, times)) in flows.into_iter().zip(times).enumerate() {
                let receiver = plan.server_of(guest);
                let stack = &receiver.stack.congestion_control;
                let control = wiring.congestion.kernel_name(stack);
                let client = Client {
                    pages,
                    times,
                    started,
                    server: SocketAddr::new(guest.address, HTTP_PORT),
                    node: receiver.label.clone(),
                    own: SocketAddr::new(receiver.address, 0),
                    control: control.to_owned(),
                    window_bytes: stack::buffer_bytes(&receiver.stack),
                    stop: Arc::clone(&clients.stop),
                    record: FlowRecord {
                        group: group.clone(),
                        index: index as u32,
                        ..FlowRecord::default()
                    },
                };
                // A thread begins in the namespace of the thread that starts it.
                let spawn = || {
                    let named = thread::Builder::new().name(format!("uc-web-{index}"));
                    named.spawn(move || client.run())
                };
                let thread = wiring.servers[guest.server]
                    .enter(spawn)?
                    .map_err(|source| {
                        let action = "start a thread";
                        LabError::Resource { action, source }
                    })?;
                clients.threads.push(thread);
            }
        }
        Ok(clients)
    }

    /// Ends all clients, and returns a record of every page that was requested.
    pub fn finish(mut self) -> Result<Vec<FlowRecord>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let mut records = Vec::with_capacity(threads.len());
        for thread in threads {
            let ended = thread.join();
            records.push(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(records)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The run fails for another reason already.
            let _ = thread.join();
        }
    }
}

/// Returns the groups with pages, in the file's order.
fn groups(plan: &Plan) -> Vec<(String, Pages)> {
    let mut groups: Vec<(String, Pages)> = Vec::new();
    for guest in &plan.guests {
        if let Some(pages) = guest.pages
            && groups.last().is_none_or(|(name, _)| *name != guest.group)
        {
            groups.push((guest.group.clone(), pages));
        }
    }
    groups
}

/// A client of one flow.
struct Client {
    pages: Pages,
    times: Vec<Nanos>,
    started: Nanos,
    server: SocketAddr,
    /// Label of the receiver, which the client is at.
    node: String,
    own: SocketAddr,
    control: String,
    /// Largest window that it may offer, if its stack has a receive buffer.
    window_bytes: Option<u32>,
    stop: Arc<AtomicBool>,
    record: FlowRecord,
}

impl Client {
    /// Fetches its pages; a late page delays the next ones.
    fn run(mut self) -> Result<FlowRecord, LabError> {
        let expected = page(&self.pages);
        for at in std::mem::take(&mut self.times) {
            if !clock::wait_until(self.started + at, &self.stop) {
                break;
            }
            let started_ns = clock::now().since(self.started).0;
            let fetched = self.fetch(&expected)?;
            self.record.completions.push(Completion {
                started_ns,
                finished_ns: fetched.then(|| clock::now().since(self.started).0),
                bytes: self.pages.bytes.into(),
                ideal_ns: None,
            });
            if !fetched {
                break;
            }
        }
        Ok(self.record)
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> LabError + use<> {
        LabError::socket(self.node.clone(), action)
    }

    /// Fetches one page over a new connection; returns false if the run ends first.
    fn fetch(&self, expected: &[u8]) -> Result<bool, LabError> {
        let mut stream = socket::client(&self.node, self.own, &self.control)?;
        let to = SockaddrStorage::from(self.server);
        match nix::sys::socket::connect(stream.as_raw_fd(), &to) {
            Ok(()) | Err(nix::Error::EINPROGRESS) => {}
            Err(errno) => return Err(self.failed("asking for a page")(errno.into())),
        }
        if !self.ready(&stream, PollFlags::POLLOUT)? {
            return Ok(false);
        }
        let error = stream
            .take_error()
            .and_then(|error| error.map_or(Ok(()), Err));
        error.map_err(self.failed("connecting to a web server"))?;
        // A request fits into any socket's buffer.
        stream
            .write_all(&request(self.server, self.pages.request_bytes))
            .map_err(self.failed("asking for a page"))?;
        let mut answer = Vec::with_capacity(HEADER_BYTES_MAX + expected.len());
        let mut buffer = [0; 16_384];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    answer.extend_from_slice(&buffer[..length]);
                    if let Some(bytes) = self.window_bytes {
                        let limited = socket::limit_window(&stream, bytes);
                        limited.map_err(self.failed("limiting its window"))?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.ready(&stream, PollFlags::POLLIN)? {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(self.failed("reading a page")(error)),
            }
        }
        if is_page(&answer, expected) {
            return Ok(true);
        }
        let source = io::Error::other("the response is not the requested page");
        Err(self.failed("reading a page")(source))
    }

    /// Waits until the socket is ready for `events`; returns false if the run ends first.
    fn ready(&self, stream: &TcpStream, events: PollFlags) -> Result<bool, LabError> {
        loop {
            if self.stopping() {
                return Ok(false);
            }
            let mut wait = [PollFd::new(stream.as_fd(), events)];
            match poll(&mut wait, PollTimeout::from(LOOK_MS)) {
                Ok(0) | Err(nix::Error::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(self.failed("waiting for a page")(errno.into())),
            }
        }
    }
}

/// Formats a request of `bytes` bytes; a longer one if its header needs more.
fn request(server: SocketAddr, bytes: u32) -> Vec<u8> {
    let head = format!("GET {PAGE} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nX-Fill: ");
    let fill = (bytes as usize).saturating_sub(head.len() + 4);
    format!("{head}{}\r\n\r\n", "x".repeat(fill)).into_bytes()
}

/// Returns whether the response is complete and correct (RFC 9112 §2.1: a status line, header
/// lines, an empty line, and the body).
fn is_page(answer: &[u8], expected: &[u8]) -> bool {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    answer.starts_with(b"HTTP/1.1 200 ") && end.is_some_and(|end| answer[end + 4..] == *expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_given_size_and_a_valid_end() {
        let server = "10.77.0.1:80".parse().unwrap();
        for bytes in [100, 200, 1_000] {
            let request = request(server, bytes);
            assert_eq!(request.len(), bytes as usize);
            assert!(request.ends_with(b"\r\n\r\n"));
        }
        assert!(request(server, 1).ends_with(b"X-Fill: \r\n\r\n"));
    }

    #[test]
    fn only_the_complete_page_is_accepted() {
        let good = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nabc";
        assert!(is_page(good, b"abc"));
        assert!(!is_page(&good[..good.len() - 1], b"abc"));
        assert!(!is_page(b"HTTP/1.1 404 Not Found\r\n\r\nabc", b"abc"));
        assert!(!is_page(b"", b""));
    }
}

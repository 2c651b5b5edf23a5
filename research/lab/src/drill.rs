//! Plays packetdrill scripts against the kernel's TCP: a target of `uc_drill` that makes the system
//! calls in a guest's network namespace, and sends and captures the packets at a tap, in real time.
//!
//! ```text
//! guest's namespace          hosts' namespace
//! sockets – eth0 ========== p0 – bridge – t0 ~~~ the script
//!                           └ port programs, if a law is given
//! ```

mod calls;
mod commands;
mod frames;
mod wires;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use uc_core::Law;
use uc_core::law::Trait;
use uc_drill::target::{Answer, Datagram, Report, SystemCall, TcpInfo};
use uc_drill::{Stop, Target, syntax};
use uc_net::Nanos;

use crate::error::LabError;
use crate::tap::FRAME_BYTES_MAX;
use calls::Sockets;
use frames::{GUEST_PORT, PEER_PORT, Version};
use wires::Wires;

/// Least tolerance of times: a busy machine wakes a process up that late.
const TOLERANCE: Nanos = Nanos::from_millis(60);

/// A call that blocks in a thread of its own.
struct Waiting {
    thread: JoinHandle<()>,
    /// Receives when the call returned, and its answer.
    answer: Receiver<(Instant, Answer)>,
}

/// A kernel that plays one script.
pub struct Kernel {
    wires: Wires,
    sockets: Sockets,
    version: Version,
    /// The ports of the connection opened last: the guest's and the peer's.
    ports: (u16, u16),
    /// Whether `connect` was called, and its SYN has not come yet.
    is_connecting: bool,
    /// The real time of the script's time 0. Delays of this process move it.
    start: Instant,
    sent: VecDeque<(Nanos, Datagram)>,
    waiting: Option<Waiting>,
}

impl Kernel {
    /// Wires a guest; `law` puts the port programs on its port.
    ///
    /// # Errors
    /// What this host or process lacks.
    pub fn new(law: Option<Law>) -> Result<Kernel, LabError> {
        let wires = Wires::new(law)?;
        Ok(Kernel {
            sockets: Sockets::new(wires.guest.clone()),
            wires,
            version: Version::V4,
            ports: (GUEST_PORT, PEER_PORT),
            is_connecting: false,
            start: Instant::now(),
            sent: VecDeque::new(),
            waiting: None,
        })
    }

    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Reads what the guest has sent.
    fn pump(&mut self) {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        while let Ok(Some(length)) = self.wires.tap.read(&mut buffer) {
            let Some((datagram, ports)) = frames::decode(&buffer[..length]) else {
                continue;
            };
            if self.is_connecting && frames::is_syn(&datagram) && ports != self.ports {
                self.is_connecting = false;
                self.ports = ports;
            }
            if ports == self.ports {
                self.sent.push_back((self.now(), datagram));
            }
        }
    }

    /// Waits for a frame until `until`, or until one is there.
    fn wait(&mut self, until: Nanos, stops: bool) {
        loop {
            self.pump();
            let now = self.now();
            if (stops && !self.sent.is_empty()) || now >= until {
                return;
            }
            let left = Duration::from_nanos(until.since(now).0);
            let millis = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
            // The last millisecond is slept, because poll counts whole ones.
            if millis == 0 {
                thread::sleep(left);
                continue;
            }
            let mut fds = [PollFd::new(self.wires.tap.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::from(millis)); // a signal ends it early
        }
    }
}

impl Target for Kernel {
    fn begin(&mut self, flags: &[syntax::Flag]) -> Result<(), Stop> {
        let mut mtu_bytes = None;
        for flag in flags {
            match (flag.name.as_str(), flag.value.as_str()) {
                ("tolerance_usecs", _) => {}
                ("ip_version", "ipv4") => self.version = Version::V4,
                ("ip_version", "ipv6") => self.version = Version::V6,
                ("mtu", value) => mtu_bytes = value.parse().ok(),
                (name, value) => return Err(Stop::Lacks(format!("the flag --{name}={value}"))),
            }
        }
        self.wires.connect(self.version, mtu_bytes)?;
        self.start = Instant::now();
        Ok(())
    }

    fn least_tolerance(&self) -> Nanos {
        TOLERANCE
    }

    fn edits_ecn(&self) -> bool {
        self.wires.law.is_some_and(|law| law.has(Trait::WANTS_ECN))
    }

    fn defines(&self, symbol: &str) -> bool {
        symbol == "Linux"
    }

    fn advance(&mut self, to: Nanos) {
        self.wait(to, false);
        // The script's clock stands still while this process is late.
        let late = self.now().since(to);
        self.start += Duration::from_nanos(late.0);
        for (at, _) in &mut self.sent {
            *at = (*at).min(to);
        }
    }

    fn next_sent(&mut self, until: Nanos) -> Option<(Nanos, Datagram)> {
        self.wait(until, true);
        self.sent.pop_front()
    }

    fn arrive(&mut self, datagram: &Datagram) -> Result<(), Stop> {
        self.pump();
        let frame = frames::encode(datagram, self.version, self.ports);
        match self.wires.tap.write(&frame) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Differs("the tap had no room for a frame".to_owned())),
            Err(error) => Err(Stop::Differs(error.to_string())),
        }
    }

    fn report(&mut self, _report: &Report) -> Result<(), Stop> {
        Err(Stop::Lacks("ICMP errors for a kernel".to_owned()))
    }

    fn call(&mut self, call: SystemCall) -> Option<Answer> {
        self.pump();
        if let SystemCall::Connect(_) = call {
            self.is_connecting = true;
        }
        let version = self.version;
        if !self.sockets.may_block(call) {
            return Some(self.sockets.make(call, version));
        }
        let (sender, receiver) = channel();
        let sockets = self.sockets.clone();
        let made = thread::Builder::new()
            .name("uc-drill".into())
            .spawn(move || {
                let answer = sockets.make(call, version);
                // The script may have ended.
                let _ = sender.send((Instant::now(), answer));
            });
        match made {
            Ok(thread) => {
                let answer = receiver;
                self.waiting = Some(Waiting { thread, answer });
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                return Some(Answer::fails(errno.into()));
            }
        }
        None
    }

    fn completed(&mut self) -> Option<(Nanos, Answer)> {
        let (at, answer) = self.waiting.as_ref()?.answer.try_recv().ok()?;
        self.waiting = None;
        let at = at.saturating_duration_since(self.start);
        Some((Nanos(at.as_nanos() as u64), answer))
    }

    fn command(&mut self, command: &str) -> Result<(), Stop> {
        commands::run(&self.wires.guest, command)
    }

    fn info(&mut self, fd: i64) -> Option<TcpInfo> {
        self.sockets.info(fd)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Closed sockets hold the namespace while they retransmit; few retries end that soon.
        let retries = ("net.ipv4.tcp_orphan_retries", "1".to_owned());
        let _ = self.wires.guest.set_sysctls(&[retries]);
        // A call that still blocks returns when its socket is shut down.
        self.sockets.shut_down();
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.thread.join();
        }
    }
}

//! Plays packetdrill scripts against the kernel's TCP: a target of `uc_drill` that makes the system
//! calls in a guest's network namespace, and sends and captures the packets at a tap, in real time.
//!
//! ```text
//! guest's namespace          hosts' namespace
//! sockets – tun0 ~~~~~~~~~~~~~~~~~~~~~~~~~~ the script
//! sockets – tun0 ========== p0 – bridge – t0 ~~~ the script, if a law is given
//!                           └ port programs
//! ```

mod calls;
mod commands;
mod frames;
mod icmp;
mod kernel_call;
mod wires;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use uc_core::Law;
use uc_core::law::Trait;
use uc_drill::target::{Answer, Datagram, Report, SystemCall, TcpInfo};
use uc_drill::{Argument, KernelCall, Stop, Target, syntax};
use uc_net::Nanos;

use crate::error::LabError;
use crate::tap::FRAME_BYTES_MAX;
use calls::Sockets;
use commands::Left;
use frames::{Ends, GUEST_PORT, PEER_PORT, VIRTIO_HEADER_BYTES};
use wires::Wires;

/// Minimum tolerance of a script's times: on a busy machine a process wakes up this late.
const TOLERANCE: Nanos = Nanos::from_millis(60);
/// Longest wait for a call that a script does not expect to block.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait for the answer of a blocked call when the script expects its return: its thread may wake up late.
const WAKING: Duration = Duration::from_millis(5);
/// Longest payload of one segment to a port with programs, in bytes, unless a script gives `--mss`: what an MTU of 1500
/// bytes holds.
const SEGMENT_BYTES: u16 = 1460;

/// A call that blocks in a thread of its own.
struct Waiting {
    thread: JoinHandle<()>,
    /// Channel for the time at which the call returned, and its answer.
    answer: Receiver<(Instant, Answer)>,
}

/// A kernel that plays one script.
pub struct Kernel {
    wires: Wires,
    sockets: Sockets,
    ends: Ends,
    /// Longest payload of one segment to the guest, in bytes; longer segments are sent as super-segments.
    segment_bytes: u16,
    left: Left,
    /// The ports of the connection opened last: the guest's and the peer's.
    ports: (u16, u16),
    /// Whether `connect` was called, and its SYN has not come yet.
    is_connecting: bool,
    /// The real time of the script's time 0. Delays of this process move it.
    start: Instant,
    /// How far they have moved it.
    stood_still: Nanos,
    sent: VecDeque<(Nanos, Datagram)>,
    waiting: Option<Waiting>,
}

impl Kernel {
    /// Creates the namespaces and the tap. With a law, the guest has a port with the port programs; `None`: the
    /// script's tap is the guest's own interface.
    ///
    /// # Errors
    /// What this host or process lacks.
    pub fn new(law: Option<Law>) -> Result<Kernel, LabError> {
        let wires = Wires::new(law)?;
        Ok(Kernel {
            sockets: Sockets::new(wires.guest.clone()),
            wires,
            ends: Ends::new(false),
            segment_bytes: law.map_or(u16::MAX, |_| SEGMENT_BYTES),
            left: Left::default(),
            ports: (GUEST_PORT, PEER_PORT),
            is_connecting: false,
            start: Instant::now(),
            stood_still: Nanos::ZERO,
            sent: VecDeque::new(),
            waiting: None,
        })
    }

    /// Lets scripts start programs: a shell runs the commands that `uc_drill` does not know, inside the guest's
    /// namespace, with `folder` as its working folder, with this process's rights.
    #[must_use]
    pub fn with_shell(mut self, folder: &Path) -> Kernel {
        self.left.folder = Some(folder.to_owned());
        self
    }

    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Makes a call in a thread of its own. Waits for its answer, at most a second, unless the script expects that the
    /// call `blocks`. `None`: the call has not returned yet.
    fn wait_for(
        &mut self,
        make: impl FnOnce() -> Answer + Send + 'static,
        blocks: bool,
    ) -> Option<Answer> {
        let (sender, answer) = channel();
        let made = thread::Builder::new()
            .name("uc-drill".into())
            .spawn(move || {
                let answer = make();
                // The script may have ended.
                let _ = sender.send((Instant::now(), answer));
            });
        let thread = match made {
            Ok(thread) => thread,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                return Some(Answer::fails(errno.into()));
            }
        };
        let patience = if blocks { Duration::ZERO } else { PATIENCE };
        if let Ok((_, answer)) = answer.recv_timeout(patience) {
            return Some(answer);
        }
        self.waiting = Some(Waiting { thread, answer });
        None
    }

    /// Reads the frames that the guest has sent so far.
    fn pump(&mut self) {
        let mut buffer = vec![0; VIRTIO_HEADER_BYTES + FRAME_BYTES_MAX];
        let link = self.wires.link();
        while let Ok(Some(length)) = self.wires.tap.read(&mut buffer) {
            let frame = buffer[..length].get(VIRTIO_HEADER_BYTES..);
            let Some((datagram, ports)) = frame.and_then(|frame| frames::decode(frame, link))
            else {
                continue;
            };
            if self.is_connecting && frames::is_syn(&datagram) && ports != self.ports {
                self.is_connecting = false;
                self.ports = ports;
                self.sent.clear();
            }
            if ports == self.ports {
                self.sent.push_back((self.now(), datagram));
            }
        }
    }

    fn write(&self, frame: &[u8]) -> Result<(), Stop> {
        match self.wires.tap.write(frame) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Differs(
                "the guest's tap interface refused a frame: its queue is full; reduce the load on \
                 this machine and run the script again"
                    .to_owned(),
            )),
            Err(error) => Err(Stop::Differs(error.to_string())),
        }
    }

    /// Reads the guest's frames until the time `until`; with `stops`, only until a frame of the connection is there.
    fn wait(&mut self, until: Nanos, stops: bool) {
        loop {
            self.pump();
            let now = self.now();
            // A call that is connecting sends a SYN: what comes before it is of the connection before.
            let awaits_syn = self.is_connecting && self.waiting.is_some();
            if (stops && !self.sent.is_empty() && !awaits_syn) || now >= until {
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

/// Reads the address in a flag.
fn address(flag: &syntax::Flag, value: &str) -> Result<IpAddr, Stop> {
    let why = || Stop::Differs(format!("--{} needs an address, not `{value}`", flag.name));
    value.parse().map_err(|_| why())
}

impl Target for Kernel {
    fn begin(&mut self, flags: &[syntax::Flag]) -> Result<(), Stop> {
        let mut mtu_bytes = None;
        for flag in flags {
            match (flag.name.as_str(), flag.value.as_str()) {
                ("ip_version", "ipv4") => self.ends = Ends::new(false),
                ("ip_version", "ipv6") => self.ends = Ends::new(true),
                ("local_ip", value) => self.ends.guest = address(flag, value)?,
                ("remote_ip", value) => self.ends.peer = address(flag, value)?,
                ("gateway_ip" | "netmask_ip", _) => {}
                ("mtu", value) => mtu_bytes = value.parse().ok(),
                ("mss", value) => {
                    self.segment_bytes = value.parse().unwrap_or(self.segment_bytes);
                }
                (name, value) => {
                    return Err(Stop::Lacks(format!(
                        "the flag --{name}={value} is not supported"
                    )));
                }
            }
        }
        if self.ends.guest.is_ipv6() != self.ends.peer.is_ipv6() {
            let why = "--local_ip and --remote_ip are of two versions of IP";
            return Err(Stop::Differs(why.to_owned()));
        }
        self.wires.connect(self.ends, mtu_bytes)?;
        self.start = Instant::now();
        self.stood_still = Nanos::ZERO;
        Ok(())
    }

    fn least_tolerance(&self) -> Nanos {
        TOLERANCE
    }

    fn stood_still(&self) -> Nanos {
        self.stood_still
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
        self.stood_still += late;
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
        let link = self.wires.link();
        self.write(&frames::encode(
            datagram,
            link,
            self.ends,
            self.ports,
            self.segment_bytes,
        ))
    }

    fn report(&mut self, report: &Report) -> Result<(), Stop> {
        self.pump();
        let link = self.wires.link();
        self.write(&icmp::encode(report, link, self.ends, self.ports)?)
    }

    fn call(&mut self, call: SystemCall, blocks: bool) -> Option<Answer> {
        self.pump();
        match call {
            SystemCall::Connect(_) => self.is_connecting = true,
            // A new listener's connections come from another port of the peer. What old ones still
            // send is nobody's.
            SystemCall::Listen(_) => {
                let last = if self.ports.0 == GUEST_PORT {
                    self.ports.1
                } else {
                    PEER_PORT
                };
                self.ports = (GUEST_PORT, last + 1);
                self.sent.clear();
            }
            _ => {}
        }
        let ends = self.ends;
        if !self.sockets.may_block(call) {
            return Some(self.sockets.make(call, ends));
        }
        let sockets = self.sockets.clone();
        self.wait_for(move || sockets.make(call, ends), blocks)
    }

    fn is_kernel(&self) -> bool {
        true
    }

    fn call_kernel(&mut self, call: KernelCall) -> Option<Answer> {
        self.pump();
        self.is_connecting |= call.arguments.iter().any(Argument::names_peer);
        let peer = SocketAddr::new(self.ends.peer, GUEST_PORT);
        let blocks = call.blocks;
        let sockets = self.sockets.clone();
        self.wait_for(move || kernel_call::make(&sockets, call, peer), blocks)
    }

    fn completed(&mut self) -> Option<(Nanos, Answer)> {
        let answer = &self.waiting.as_ref()?.answer;
        let (at, answer) = answer.recv_timeout(WAKING).ok()?;
        self.waiting = None;
        let at = at.saturating_duration_since(self.start);
        Some((Nanos(at.as_nanos() as u64), answer))
    }

    fn command(&mut self, command: &str) -> Result<(), Stop> {
        commands::run(&self.wires.guest, command, &mut self.left)?;
        self.sockets.congestion_control = self.left.congestion_control.clone();
        Ok(())
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

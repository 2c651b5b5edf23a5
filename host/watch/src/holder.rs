//! The process, or thread, that holds handshakes: it is notified of each, sends its probes, and
//! then the handshake itself.
//!
//! It stores nothing that would be lost with it. A waiting handshake is in the kernel's table until
//! it enters its port, whose program removes it from the table and passes it in one step. So the
//! next holder sends what is still there, and a handshake that two processes send, one of them
//! killed in between, leaves once: a server answers the copy of a SYN with another SYN-ACK.

use std::cell::RefCell;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeSpec;
use nix::time::ClockId;

use crate::asking::{Asker, Asking};
use crate::clock::{clock_ns, now_ns};
use crate::error::WatchError;
use crate::frame::{complete_checksum, frame_of, handshake};
use crate::inject::Injector;
use crate::probe::probe_frame;
use crate::programs::{Programs, port_of};
use crate::schedule::{Key, Schedule, Task};

/// Interval at which the holder reports that it is alive.
const BEAT_NS: u64 = 1_000_000;
/// Time for which a report of the holder is valid: later handshakes pass.
const ALIVE_NS: u64 = 8_000_000;
/// Maximum number of times that a frame that has not reached its port is sent once more; next line: time to the first,
/// which doubles each time, so that all take 0.2 s. The frame may only be late, on a busy CPU.
const ATTEMPTS_MAX: u8 = 10;
const ATTEMPT_NS: u64 = 200_000;

/// Returns whether the holder must end; called about every millisecond.
pub type Stop<'a> = dyn Fn() -> bool + 'a;

/// Sends probes, and then the handshakes that waited for the probes.
#[derive(Debug)]
pub struct Holder<'a> {
    programs: &'a Programs,
    injector: &'a Injector,
    asker: Option<&'a Asker>,
}

impl<'a> Holder<'a> {
    /// Creates a holder for these programs, whose frames leave by `injector`.
    pub fn new(programs: &'a Programs, injector: &'a Injector) -> Self {
        Self {
            programs,
            injector,
            asker: None,
        }
    }

    /// Makes the holder ask a granter for first windows, if there is one.
    #[must_use]
    pub fn asking(mut self, asker: Option<&'a Asker>) -> Self {
        self.asker = asker;
        self
    }

    /// Runs until `stop` returns true. Then nothing more is held, and every waiting handshake has
    /// been sent.
    ///
    /// # Errors
    /// The kernel's refusal; waiting handshakes are left to the next holder.
    pub fn run(&self, stop: &Stop<'_>) -> Result<(), WatchError> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let notices = self.notices(&heard)?;
        // SAFETY: the descriptor belongs to the ring buffer, which outlives the borrow.
        let ready = unsafe { BorrowedFd::borrow_raw(notices.epoll_fd()) };
        let _is_exact = sharpen_timers();
        // What it says must not end it where nobody reads standard error any more.
        let _blocked = SigSet::from(Signal::SIGPIPE).thread_block();
        let mut schedule = Schedule::default();
        let mut asking = Asking::new(self.asker, now_ns());
        // Handshakes that an earlier holder left.
        heard.borrow_mut().extend(self.programs.maps.held.keys());
        let mut beat_at_ns = 0;
        while !stop() {
            let now_ns = now_ns();
            let granted = asking.is_answered();
            let changes = self.programs.granted.swap(granted, Ordering::Relaxed) != granted;
            if changes || now_ns >= beat_at_ns {
                self.programs.be_alive(ALIVE_NS)?;
                beat_at_ns = now_ns + BEAT_NS;
            }
            for key in heard.borrow_mut().drain(..) {
                if let Some(held) = self.programs.held(&key) {
                    let due_ns = schedule.plan(&key, &held);
                    if !asking.ask(&key, &held, due_ns, self::now_ns()) {
                        schedule.release(due_ns, key);
                    }
                }
            }
            for (at_ns, key) in asking.settled(self::now_ns()) {
                schedule.release(at_ns, key);
            }
            self.work(&mut schedule);
            let next_ns = schedule.next_ns().unwrap_or(u64::MAX).min(beat_at_ns);
            let now_ns = self::now_ns();
            let next_ns = next_ns.min(asking.next_ns(now_ns));
            wait(ready, self.asker, next_ns.saturating_sub(now_ns));
            notices
                .consume()
                .map_err(|error| WatchError::libbpf("read notices of handshakes", &error))?;
        }
        self.end()
    }

    fn notices(&self, heard: &Rc<RefCell<Vec<Key>>>) -> Result<RingBuffer<'a>, WatchError> {
        let failed = |error| WatchError::libbpf("listen for handshakes", &error);
        let heard = Rc::clone(heard);
        let mut builder = RingBufferBuilder::new();
        let hear = move |key: &[u8]| {
            heard.borrow_mut().push(key.to_vec());
            0
        };
        builder
            .add(&self.programs.maps.notices, hear)
            .map_err(failed)?;
        builder.build().map_err(failed)
    }

    /// Sends the probes and releases the handshakes that are due.
    fn work(&self, schedule: &mut Schedule) {
        while let Some(task) = schedule.due(now_ns()) {
            match task {
                Task::Probe { index, key } => self.probe(index, &key),
                Task::Release { attempts, key } => {
                    if self.release(&key) {
                        continue;
                    }
                    if attempts == ATTEMPTS_MAX {
                        // The port accepts no frame; the guest's retransmission passes.
                        self.programs.forget_held(&key);
                        continue;
                    }
                    let task = Task::Release {
                        attempts: attempts + 1,
                        key,
                    };
                    schedule.add(now_ns() + (ATTEMPT_NS << attempts), task);
                }
            }
        }
    }

    fn probe(&self, index: u8, key: &Key) {
        let Some(held) = self.programs.held(key) else {
            return;
        };
        let Some(of) = handshake(frame_of(&held)) else {
            return;
        };
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let frame = probe_frame(&of, index, held.probes, wall_ns, &self.programs.keys.own);
        // A probe that is not sent counts as lost, and the other host takes it for a mark.
        let _lost = self.injector.inject(port_of(key), &frame);
    }

    /// Sends the handshake that waits under the key; returns true if none waits there any more.
    /// Otherwise the frame may still be on its way to the port: sending it once more is harmless.
    pub(crate) fn release(&self, key: &[u8]) -> bool {
        let Some(held) = self.programs.held(key) else {
            return true;
        };
        let mut frame = frame_of(&held).to_vec();
        complete_checksum(&mut frame);
        let sent = self.injector.inject(port_of(key), &frame);
        // A deleted port accepts no frame, and has no guest.
        let gone = sent
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO));
        if gone {
            self.programs.forget_held(key);
        }
        gone || sent.is_ok() && self.programs.held(key).is_none()
    }

    /// Sends every handshake packet that still waits, now.
    pub(crate) fn release_all(&self) {
        let keys: Vec<Key> = self.programs.maps.held.keys().collect();
        for key in keys {
            self.release(&key);
        }
    }

    /// Makes handshakes pass from now on, and sends those that wait.
    pub(crate) fn end(&self) -> Result<(), WatchError> {
        self.programs.be_alive(0)?;
        self.release_all();
        // A program on another CPU may have read the old state just before.
        std::thread::sleep(Duration::from_nanos(BEAT_NS));
        self.release_all();
        Ok(())
    }
}

/// Waits until the programs report something, a granter answers, or `most_ns` or one interval of the reports is over.
fn wait(ready: BorrowedFd<'_>, asker: Option<&Asker>, most_ns: u64) {
    let answers = asker.map(AsFd::as_fd);
    let mut poll: Vec<PollFd<'_>> = iter::once(ready)
        .chain(answers)
        .map(|socket| PollFd::new(socket, PollFlags::POLLIN))
        .collect();
    let most = TimeSpec::from_duration(Duration::from_nanos(most_ns.min(BEAT_NS)));
    // A signal interrupts the wait: the caller checks everything anyway.
    let _woken = ppoll(&mut poll, Some(most), None);
}

/// Reduces the kernel's timer slack, normally 50 µs, and requests real-time scheduling: probes are the more useful the
/// more exact their times are, and a granter's answer has a time limit. Returns false if this thread has no right to
/// real-time scheduling.
pub(crate) fn sharpen_timers() -> bool {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: numbers, and a pointer that lives through the call; both are of the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const first) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Event, ProbeKey, Settings, Watched};
    use uc_port::{AttachVia, Direction, PacketContext, run_packet};

    /// Index of the loopback interface of the test's own network namespace: what is sent out of it
    /// enters it.
    const PORT: u32 = 1;

    /// Returns a SYN from 10.77.0.1 to 10.77.0.2, without options.
    fn syn() -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        let checksum = crate::frame::ipv4_checksum(&frame[14..]);
        frame[24..26].copy_from_slice(&checksum);
        frame.extend([0x9c, 0x40, 0, 80, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0x50, 2]);
        frame.extend([0xfa, 0xf0, 0, 0, 0, 0]);
        frame
    }

    fn watch_loopback() -> Result<(Programs, Watched), WatchError> {
        let programs = Programs::load(ProbeKey::from_bytes([7; 16]))?;
        programs.add_peer("10.77.0.0/24".parse().expect("a prefix"))?;
        let settings = Settings {
            sends: Data::FromClient,
            ..Settings::default()
        };
        let watched = programs.watch(PORT, &settings, AttachVia::Auto)?;
        Ok((programs, watched))
    }

    fn watched() -> Option<(Programs, Watched)> {
        let made = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|errno| errno.to_string())
            .and_then(|()| {
                let up = ["link", "set", "lo", "up"];
                let ran = std::process::Command::new("ip").args(up).status();
                ran.map_err(|error| format!("ip: {error}"))
            })
            .and_then(|_| watch_loopback().map_err(|error| error.to_string()));
        uc_live::or_skip(made)
    }

    #[test]
    fn live_a_held_frame_leaves_once_though_its_sender_is_killed() {
        let Some((programs, _watched)) = watched() else {
            return;
        };
        let injector = Injector::new(&programs).unwrap();
        let holder = Holder::new(&programs, &injector);
        programs.be_alive(3_600_000_000_000).unwrap();
        let context = PacketContext {
            ifindex: PORT,
            gso_segs: 0,
            gso_size: 0,
            repeat: 1,
        };
        run_packet(programs.program(Direction::FromGuest), &syn(), context, 0).unwrap();
        let keys: Vec<Key> = programs.maps.held.keys().collect();
        assert_eq!(keys.len(), 1);
        let count = |event| programs.events().unwrap().get(event);

        // One process reads it and is about to send it; another sends it; then the first does.
        let held = programs.held(&keys[0]).unwrap();
        while !holder.release(&keys[0]) {
            std::thread::yield_now();
        }
        let sent = count(Event::INJECTED);
        assert_eq!(sent - count(Event::SENT_ALREADY), 1);
        injector.inject(PORT, frame_of(&held)).unwrap();
        while count(Event::INJECTED) == sent {
            std::thread::yield_now();
        }
        assert_eq!(count(Event::INJECTED) - count(Event::SENT_ALREADY), 1);
        assert_eq!(programs.maps.held.keys().count(), 0);
    }
}

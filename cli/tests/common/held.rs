//! `uc hold` at a guest's port, and the packets that the guest receives.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use serde_json::Value;
use uc_lab::netns::Namespace;

use super::bench::{raw_socket, wait_until};
use super::frames::ip;
use super::process::Process;
use super::routed::Routed;
use super::sandbox::Sandbox;

/// A running `uc hold port0`; dropping it kills the process. Only one runs at a time, so that the kernel has no
/// programs of another.
pub struct Held(Process, MutexGuard<'static, ()>);

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program holds packets.
pub fn alone() -> MutexGuard<'static, ()> {
    // A test that failed leaves nothing behind, either.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    /// Starts the command with these options, and waits until packets are held.
    pub fn start(net: &Routed, sandbox: &Sandbox, options: &[&str]) -> Self {
        let mut all = vec!["hold", "port0", "--json"];
        all.extend(options);
        let alone = alone();
        let mut process = Process::start(sandbox.uc(&net.host, &all));
        process.says("packets");
        Self(process, alone)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Kills the process, and waits until nothing is left of it.
    pub fn kill(self) {
        let Self(process, _alone) = self;
        drop(process);
        wait_until("the programs are gone", || programs() == 0);
    }

    /// Waits until the process has ended by itself; returns its status code.
    pub fn status(self) -> Option<i32> {
        let Self(process, _alone) = self;
        process.status()
    }

    /// Ends the process; returns the numbers that it printed.
    pub fn end(self) -> Value {
        self.signal(Signal::SIGTERM);
        let Self(mut process, _alone) = self;
        let last = process.lines.by_ref().last().unwrap().unwrap();
        assert_eq!(process.status(), Some(0));
        wait_until("the programs are gone", || programs() == 0);
        println!("{last}");
        serde_json::from_str(&last).unwrap()
    }
}

/// Returns how many programs of `uc hold` the kernel has.
pub fn programs() -> usize {
    let names = ProgInfoIter::default().map(|program| program.name);
    names
        .filter(|name| name.as_encoded_bytes().starts_with(b"uc_hold"))
        .count()
}

/// Returns a number that the process printed.
pub fn count(numbers: &Value, name: &str) -> u64 {
    numbers[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {numbers}"))
}

/// Calls `during`, and returns the ACK numbers of all TCP segments that its guest got meanwhile from this
/// TCP port, in their order.
pub fn acks_to(guest: &Namespace, from_port: u16, during: impl FnOnce()) -> Vec<u32> {
    let all = i32::from((libc::ETH_P_ALL as u16).to_be());
    let socket = raw_socket(guest, libc::AF_PACKET, libc::SOCK_RAW, all);
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 50_000)).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_acks(socket, from_port, &over));
        during();
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    })
}

fn read_acks(socket: OwnedFd, from_port: u16, over: &AtomicBool) -> Vec<u32> {
    let mut frames = File::from(socket);
    let (mut buffer, mut acks) = (vec![0; 1 << 17], Vec::new());
    loop {
        let length = match frames.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match over.load(Ordering::Relaxed) {
                    true => return acks,
                    false => continue,
                }
            }
            Err(error) => panic!("{error}"),
        };
        let frame = &buffer[..length];
        if let Some((_, 6, tcp)) = ip(frame)
            && frame[tcp..tcp + 2] == from_port.to_be_bytes()
        {
            let ack = frame[tcp + 8..tcp + 12].try_into().unwrap();
            acks.push(u32::from_be_bytes(ack));
        }
    }
}

//! `uc couple` and `uc guest couple`: if either is killed, connections go on; when it is back, they
//! are coupled again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use uc_lab::Lab;

use crate::common::by_hand::{SHARED, one_guest};
use crate::common::live_with_controls;
use crate::common::process::Process;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{refusal, success};

/// A coupled congestion control, its connection, and the host's socket.
struct Bench {
    sandbox: Sandbox,
    lab: Lab,
    folder: tempfile::TempDir,
    name: String,
}

impl Bench {
    fn uc(&self, words: &[&str]) -> Command {
        self.sandbox.uc(&self.lab.wiring.hosts, words)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("red")
    }

    fn host(&self) -> Process {
        let guest = format!("red={},weight=2,listen", self.socket().display());
        Process::start(self.uc(&["couple", "--guest", &guest, "--prefix4", "0"]))
    }

    fn guest(&self) -> Process {
        let channel = self.socket();
        let channel = channel.to_str().unwrap();
        let words = [
            "guest",
            "couple",
            "--name",
            &self.name,
            "--channel",
            channel,
        ];
        Process::start(self.uc(&words))
    }

    /// Waits until the group's window is the host's, or its own.
    fn becomes(&self, by_host: bool) {
        for _ in 0..200 {
            let text = success(self.uc(&["guest", "list", "--json"]));
            let list: serde_json::Value = serde_json::from_str(&text).unwrap();
            if list["couplings"][0]["groups"][0]["by_host"] == by_host {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("by_host never becomes {by_host}");
    }
}

/// Opens a connection with this congestion control; returns both ends.
fn connected(control: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.61:0").unwrap();
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    setsockopt(&fd, sockopt::TcpCongestion, &control.into()).unwrap();
    let address = SockaddrStorage::from(listener.local_addr().unwrap());
    connect(fd.as_raw_fd(), &address).unwrap();
    (TcpStream::from(fd), listener.accept().unwrap().0)
}

/// Sends a thousand times a second until `stop`; counts what arrives.
fn send((mut from, mut to): (TcpStream, TcpStream), stop: &AtomicBool, arrived: &AtomicU64) {
    thread::scope(|scope| {
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                from.write_all(&[1; 5000]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut bytes = [0; 65_536];
        while let length @ 1.. = to.read(&mut bytes).unwrap() {
            arrived.fetch_add(length as u64, Ordering::Relaxed);
        }
    });
}

#[test]
fn live_killing_either_end_of_a_coupling_leaves_connections_uncoupled() {
    if !live_with_controls() {
        return;
    }
    let (_plan, lab) = one_guest(SHARED);
    let bench = Bench {
        sandbox: Sandbox::new(),
        lab,
        folder: tempfile::tempdir().unwrap(),
        name: format!("c.{}", std::process::id() % 100_000),
    };
    success(bench.uc(&["guest", "load", "ctrltcp", "--name", &bench.name]));
    let connection = connected(&format!("{}tcp", bench.name));
    let (stop, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    let goes_on = |what: &str| {
        let before = arrived.load(Ordering::Relaxed);
        let more = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(50));
            arrived.load(Ordering::Relaxed) > before + 100_000
        });
        assert!(more, "nothing arrives after {what}");
    };
    thread::scope(|scope| {
        scope.spawn(|| send(connection, &stop, &arrived));
        bench.becomes(false);
        let mut guest = bench.guest();
        guest.says("on its own");
        let mut host = bench.host();
        host.says("red: coupled");
        guest.says("coupled by the host");
        bench.becomes(true);
        goes_on("coupling");

        drop(host);
        guest.says("on its own");
        bench.becomes(false);
        goes_on("the host's end");

        let mut host = bench.host();
        host.says("red: coupled");
        bench.becomes(true);
        drop(guest);
        host.says("red: on its own");
        bench.becomes(false);
        goes_on("the end of the guest's part");

        let mut guest = bench.guest();
        guest.says("coupled by the host");
        bench.becomes(true);
        stop.store(true, Ordering::Relaxed);
    });
    success(bench.uc(&["guest", "unload", "--all"]));
    assert!(bench.sandbox.is_clean());
}

#[test]
fn guest_that_cannot_be_coupled_is_refused_in_one_line() {
    let uc = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
        command.args(words);
        command
    };
    let nowhere = Path::new("/nowhere/red");
    let guest = format!("red={},listen", nowhere.display());
    refusal(
        uc(&["couple", "--guest", &guest]),
        &["can't listen on", "/nowhere/red"],
    );
    refusal(
        uc(&["guest", "couple", "--name", "uc_absent"]),
        &["uc_absent", "uc guest list"],
    );
}

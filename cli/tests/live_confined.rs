//! Bytes of guests and strangers are read by processes without rights, which still do their work.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::bench::wait_until;
use common::confined::{NOBODY, confined_child, runs};
use common::live_with;
use common::process::Process;
use common::uc::uc_unprivileged;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use uc_couple::wire::{Frame, GroupName, GroupReport, Parts};

/// `uc couple` with the guests `red` and `blue`, which connect to its sockets.
struct Couple {
    process: Process,
    folder: tempfile::TempDir,
}

impl Couple {
    fn start() -> Self {
        let mut command = Command::new("sh");
        // As a careless starter leaves a descriptor of its own.
        command.args(["-ec", "exec 7< /etc/hostname; exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_uc"));
        Self::of(command)
    }

    /// Adds the arguments to a command that runs `uc`.
    fn of(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        command.args(["couple", "--json", "--prefix4", "0", "--prefix6", "0"]);
        for name in ["red", "blue"] {
            let path = folder.path().join(name);
            command.args(["--guest", &format!("{name}={},listen", path.display())]);
        }
        let process = Process::start(command);
        Self { process, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for the next event of a guest; returns whether it is coupled.
    fn event(&mut self, guest: &str) -> bool {
        loop {
            let line = self.process.lines.next().expect("it runs").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["guest"] == guest {
                return event["coupled"] == true;
            }
        }
    }
}

fn connect(path: &Path) -> UnixStream {
    wait_until("a socket", || path.exists());
    let stream = UnixStream::connect(path).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    stream
}

fn report(at_ns: u64) -> Vec<u8> {
    let group = GroupReport {
        name: GroupName::default(),
        opened_ns: 1,
        window_bytes: 14_480,
        ssthresh_bytes: u32::MAX / 2,
        flight_bytes: 14_480,
        used_bytes: 14_480,
        srtt_us: 800_000,
        mss_bytes: 1448,
        ..GroupReport::default()
    };
    let parts = Parts::Report(vec![group]);
    Frame { at_ns, parts }.encode()
}

/// Sends a report, and waits until it is answered.
fn is_answered(stream: &mut UnixStream, at_ns: u64) -> bool {
    stream.write_all(&report(at_ns)).unwrap();
    let (mut bytes, mut more) = (Vec::new(), [0; 256]);
    loop {
        let length = stream.read(&mut more).unwrap();
        bytes.extend_from_slice(&more[..length]);
        if length == 0 {
            return false;
        }
        if let Some((frame, _)) = Frame::decode(&bytes).unwrap() {
            return frame.at_ns == at_ns && matches!(frame.parts, Parts::Answer(_));
        }
    }
}

/// Returns pseudorandom bytes (SplitMix64).
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn live_coupling_has_no_rights_and_random_bytes_of_a_guest_end_nothing() {
    if !live_with(&[]) {
        return;
    }
    let mut couple = Couple::start();
    let worker = confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
    let mut blue = connect(&couple.path("blue"));
    assert!(is_answered(&mut blue, 1));
    assert!(couple.event("blue"));
    for seed in 1..=4 {
        // Bytes only, bytes behind a whole frame's beginning, and a whole frame with one byte changed.
        let mut bytes = random(seed, 20_000);
        match seed {
            2 => bytes[..12].copy_from_slice(&report(1)[..12]),
            3 => {
                let frame = report(1);
                bytes[..frame.len()].copy_from_slice(&frame);
                bytes[frame.len() / 2] ^= 0x10;
            }
            _ => {}
        }
        let mut red = connect(&couple.path("red"));
        // It may be closed before all of it is read.
        let _closed = red.write_all(&bytes);
        assert!(!couple.event("red"), "seed {seed}");
        assert!(is_answered(&mut blue, 1 + seed), "seed {seed}");
    }
    // It has gone when the answer is sent.
    let signal = |signal| kill(Pid::from_raw(worker as i32), signal).unwrap();
    signal(Signal::SIGSTOP);
    connect(&couple.path("red")).write_all(&report(1)).unwrap();
    signal(Signal::SIGCONT);
    assert!(!couple.event("red"));
    let mut red = connect(&couple.path("red"));
    assert!(is_answered(&mut red, 1));
    assert!(couple.event("red"));
    assert!(is_answered(&mut blue, 6));
    assert!(runs(worker), "the same process");

    let Couple { process, folder } = couple;
    process.end();
    assert!(!runs(worker) && !folder.path().join("red").exists());
}

#[test]
fn live_either_of_the_two_coupling_processes_ends_with_the_other() {
    if !live_with(&[]) {
        return;
    }
    for opener_first in [false, true] {
        let couple = Couple::start();
        let worker = confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
        if opener_first {
            drop(couple);
            wait_until("the other has ended", || !runs(worker));
        } else {
            kill(Pid::from_raw(worker as i32), Signal::SIGKILL).unwrap();
            assert_eq!(couple.process.status(), Some(2));
        }
    }
}

#[test]
fn live_coupling_works_without_root() {
    if !live_with(&["setpriv"]) {
        return;
    }
    let mut couple = Couple::of(uc_unprivileged());
    confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
    let mut red = connect(&couple.path("red"));
    assert!(is_answered(&mut red, 1));
    assert!(couple.event("red"));
    couple.process.end();
}

#[test]
fn live_coupling_ends_without_the_right_to_signal_other_users() {
    if !live_with(&["setpriv"]) {
        return;
    }
    let mut command = Command::new("setpriv");
    let fewer = ["--bounding-set=-kill", "--inh-caps=-all", "--"];
    command.args(fewer).arg(env!("CARGO_BIN_EXE_uc"));
    let couple = Couple::of(command);
    // As another user it could not be killed.
    let worker = confined_child(couple.process.id(), &["couple", "--confined"], 0);
    couple.process.end();
    assert!(!runs(worker));
}

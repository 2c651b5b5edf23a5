//! Packets captured by tcpdump and parsed by tshark.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_lab::netns::Namespace;

/// TCP flags as tshark numbers them.
pub const FIN: u16 = 0x01;
/// The SYN flag (RFC 9293).
pub const SYN: u16 = 0x02;
/// The RST flag (RFC 9293).
pub const RST: u16 = 0x04;
/// The ACK flag (RFC 9293).
pub const ACK: u16 = 0x10;
/// ECN echo (RFC 3168).
pub const ECE: u16 = 0x40;
/// Congestion window reduced (RFC 3168).
pub const CWR: u16 = 0x80;
/// AccECN's third bit, formerly the nonce sum.
pub const AE: u16 = 0x100;

/// A running capture.
pub struct Capture {
    child: Child,
    stderr: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Capture {
    /// Captures whole frames of `interface` into `folder`, from the return of this call on.
    pub fn start(namespace: &Namespace, interface: &str, folder: &Path) -> Self {
        let file = folder.join(format!("{interface}-{}.pcap", namespace.node()));
        let mut command = namespace.command("tcpdump");
        // Unbuffered blocks would lose the last one. The buffer consists of slots of the snapshot
        // length: 2 kB hold any frame here, and 16 MiB 8,000 of them.
        command.args(["--immediate-mode", "-s", "2048", "-B", "16384"]);
        command.args(["-n", "-Z", "root"]);
        command.args(["-i", interface, "-w"]);
        let child = command
            .arg(&file)
            // The interfaces' own multicast listener reports pass one side and not the other.
            .arg("not (ip6 and ether multicast)")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "tcpdump ended");
        }
        Self {
            child,
            stderr,
            file,
        }
    }

    /// Ends captures of the same path, all at a moment without traffic; their files contain every frame that crossed
    /// their interfaces.
    pub fn finish<const N: usize>(captures: [Self; N]) -> [PathBuf; N] {
        // Waits for the last segments of a connection, and for what tcpdump has not read yet.
        std::thread::sleep(Duration::from_secs(1));
        for capture in &captures {
            kill(Pid::from_raw(capture.child.id() as i32), Signal::SIGINT).unwrap();
        }
        captures.map(|mut capture| {
            capture.end();
            let mut text = String::new();
            capture.stderr.read_to_string(&mut text).unwrap();
            assert!(capture.child.wait().unwrap().success(), "{text}");
            assert!(text.contains("\n0 packets dropped by kernel"), "{text}");
            capture.file.clone()
        })
    }
}

impl Capture {
    /// Waits for tcpdump to exit, for two minutes at most, because a busy disk may delay it. Repeats the signal,
    /// because tcpdump loses a signal that arrives just before it begins to wait.
    fn end(&mut self) {
        for _ in 0..240 {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
            // Fails if it has ended meanwhile; it is not reaped yet, so no other process has its
            // id.
            let _ended_already = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        }
        panic!("tcpdump does not end: {}", self.file.display());
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A test that failed meanwhile does not wait for its captures; otherwise they have ended.
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// One TCP segment of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The frame's number in the capture file, from 1.
    pub number: u32,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The TCP flags, with AE as bit 8.
    pub flags: u16,
    /// The two ECN bits of IP: 0 not ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// Sequence number as in the header.
    pub seq: u32,
    /// Acknowledgement number as in the header.
    pub ack: u32,
    /// Window as in the header, unscaled.
    pub window: u16,
    /// Whether tshark classifies it as a retransmission.
    pub retransmission: bool,
    /// Time since the capture began.
    pub at_us: u64,
}

impl Segment {
    /// Returns `true` if all of these flags are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Returns `true` if any of these flags is set.
    pub fn has_any(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}

const FIELDS: [&str; 16] = [
    "frame.number",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags",
    "ip.dsfield.ecn",
    "ipv6.tclass.ecn",
    "tcp.len",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.window_size_value",
    "tcp.checksum.status",
    "ip.checksum.status",
    "tcp.analysis.retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.checksum",
    "frame.time_relative",
];

/// Returns a command of tshark that prints fields of the packets in the file that match the filter.
pub fn tshark(file: &Path, filter: &str) -> Command {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter]);
    // Random payload sometimes looks like the start of a long message of some protocol. tshark would collect
    // its segments, for minutes.
    command.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields"]);
    command
}

/// Returns every TCP segment of the file. Panics at the first bad checksum.
pub fn segments(file: &Path) -> Vec<Segment> {
    let mut command = tshark(file, "tcp");
    command.args(["-E", "separator=,"]);
    for check in ["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        command.args(["-o", check]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| segment(line, file)).collect()
}

fn segment(line: &str, file: &Path) -> Segment {
    let fields: Vec<&str> = line.split(',').collect();
    assert_eq!(fields.len(), FIELDS.len(), "{line}");
    let number = |index: usize| {
        let text = fields[index];
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => text.parse(),
        }
        .unwrap_or_else(|_| panic!("{} of {line} in {}", FIELDS[index], file.display()))
    };
    // Either 1 or Good; IPv6 has no header checksum.
    let good = |index: usize| matches!(fields[index], "1" | "Good");
    let is_ipv6 = fields[4].is_empty();
    // A sum of 0 may be sent as its other form, 0xffff (RFC 1624 §3), and Linux does so when it
    // sums in software (CSUM_MANGLED_0): valid to every receiver, bad to tshark.
    let other_zero = number(14) == 0xffff;
    assert!(
        (good(10) || other_zero) && (is_ipv6 || good(11)),
        "bad checksum: {line} in {}",
        file.display()
    );
    Segment {
        number: number(0),
        source_port: number(1) as u16,
        destination_port: number(2) as u16,
        flags: number(3) as u16,
        ecn: number(if is_ipv6 { 5 } else { 4 }) as u8,
        payload_bytes: number(6),
        seq: number(7),
        ack: number(8),
        window: number(9) as u16,
        retransmission: !fields[12].is_empty() || !fields[13].is_empty(),
        at_us: (fields[15].parse::<f64>().unwrap() * 1e6) as u64,
    }
}

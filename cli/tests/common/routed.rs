//! A guest behind a host that routes for it, and a server. Each path between host and server is a veth, or a link of
//! `uc-net` between two taps.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde_json::Value;
use uc_lab::frame::Pool;
use uc_lab::netns::Namespace;
use uc_lab::realtime::be_realtime;
use uc_lab::tap::{FRAME_BYTES_MAX, Tap};
use uc_net::queue::{Length, QueueSpec};
use uc_net::{BitsPerSec, Fault, FaultRule, Link, LinkSpec, Nanos};

use super::process::Process;
use super::uc::success;

/// Maximum time for which the thread of an empty link sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Three namespaces in a row, and the links between them.
pub struct Routed {
    /// Has the interface eth0, with the addresses of [`Routed::guest`].
    pub guest: Namespace,
    /// Has port0 towards the guest, and up0, up1 and so on towards the server.
    pub host: Namespace,
    /// Has an interface for each path, with the addresses of [`Routed::server`].
    pub server: Namespace,
    _lines: Vec<Line>,
}

/// Describes a path: its rate in Mb/s, its delay one way in ms, and its random loss in parts per million.
/// The path's queue holds two bandwidth-delay products of packets.
pub fn path(rate_mbit: u64, delay_ms: u64, loss_ppm: u32) -> LinkSpec {
    let limit = Length::Bytes((rate_mbit * 125 * delay_ms * 4).max(100_000));
    let delay = Nanos(delay_ms * 1_000_000);
    let queue = QueueSpec::DropTail { limit };
    let mut spec = LinkSpec::new(BitsPerSec(rate_mbit * 1_000_000), delay, queue);
    if loss_ppm > 0 {
        spec.faults.push(FaultRule {
            chance_ppm: loss_ppm,
            flow: None,
            fault: Fault::Loss,
        });
    }
    spec
}

impl Routed {
    /// Builds the network with these paths; `None`: a veth without delay or loss. Random numbers are
    /// seeded by `seed`.
    pub fn build(paths: &[Option<LinkSpec>], seed: u64) -> Self {
        let [guest, host, server] =
            ["the guest", "the host", "the server"].map(|name| Namespace::new(name).unwrap());
        for end in [&guest, &host, &server] {
            end.set_sysctls(&[
                ("net.ipv4.tcp_congestion_control", "reno".into()),
                ("net.ipv4.tcp_no_metrics_save", "1".into()),
                ("net.ipv4.tcp_rmem", "4096 131072 16777216".into()),
                ("net.ipv4.tcp_wmem", "4096 65536 16777216".into()),
                ("net.ipv4.ip_local_port_range", "10000 65535".into()),
            ])
            .unwrap();
            ip(end, "link set lo up");
        }
        host.set_sysctls(&[
            ("net.ipv4.ip_forward", "1".into()),
            ("net.ipv6.conf.all.forwarding", "1".into()),
        ])
        .unwrap();
        connect(&host, "port0", &guest, "eth0");
        address(&host, "port0", 1, 1);
        address(&guest, "eth0", 1, 2);
        // Lost requests would delay the first packet. An IPv6 host sends none for packets from an address
        // of `lo` until its link-local address is confirmed.
        neighbour(&host, "port0", &guest, "eth0", 1, 2);
        neighbour(&guest, "eth0", &host, "port0", 1, 1);
        ip(&guest, "route add default via 10.1.0.1");
        ip(&guest, "-6 route add default via fd01::1");
        let mut lines = Vec::new();
        for (spec, number) in paths.iter().zip(0_u8..) {
            let (up, eth) = (format!("up{number}"), format!("eth{number}"));
            let taps = match spec {
                None => {
                    connect(&host, &up, &server, &eth);
                    None
                }
                Some(_) => Some([Tap::open(&host, &up), Tap::open(&server, &eth)]),
            };
            let subnet = 2 + number;
            address(&host, &up, subnet, 1);
            address(&server, &eth, subnet, 2);
            neighbour(&host, &up, &server, &eth, subnet, 2);
            neighbour(&server, &eth, &host, &up, subnet, 1);
            // Now that both interfaces are up.
            if let (Some(taps), Some(spec)) = (taps, spec) {
                let seed = seed.wrapping_mul(256) + u64::from(number);
                lines.push(Line::start(taps.map(Result::unwrap), spec.clone(), seed));
            }
        }
        ip(&server, "route add default via 10.2.0.1");
        ip(&server, "-6 route add default via fd02::1");
        Self {
            guest,
            host,
            server,
            _lines: lines,
        }
    }

    /// Makes another host with a veth to the server, for the guest to move to.
    pub fn second_host(&self) -> Namespace {
        let second = Namespace::new("the second host").unwrap();
        let forwards = ("net.ipv4.ip_forward", "1".to_owned());
        second.set_sysctls(&[forwards]).unwrap();
        ip(&second, "link set lo up");
        connect(&second, "up0", &self.server, "eth9");
        for (end, name, host) in [(&second, "up0", 1), (&self.server, "eth9", 2)] {
            ip(end, &format!("address add 10.3.0.{host}/24 dev {name}"));
            ip(end, &format!("link set {name} up"));
        }
        ip(&second, "route add 10.2.0.0/24 via 10.3.0.2");
        second
    }

    /// Returns the guest's address.
    pub fn guest(is_ipv6: bool, port: u16) -> SocketAddr {
        Self::on(1, is_ipv6, port)
    }

    /// Returns the server's address on a path.
    pub fn server(path: u8, is_ipv6: bool, port: u16) -> SocketAddr {
        Self::on(2 + path, is_ipv6, port)
    }

    fn on(subnet: u8, is_ipv6: bool, port: u16) -> SocketAddr {
        match is_ipv6 {
            true => SocketAddr::from((
                Ipv6Addr::new(0xfd00 + u16::from(subnet), 0, 0, 0, 0, 0, 0, 2),
                port,
            )),
            false => SocketAddr::from((Ipv4Addr::new(10, subnet, 0, 2), port)),
        }
    }

    /// Returns `uc` on the host.
    pub fn uc(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command(env!("CARGO_BIN_EXE_uc"));
        command.args(arguments);
        command
    }

    /// Starts `uc split port0` with these options, and waits until it splits.
    pub fn split(&self, options: &[&str]) -> Process {
        let all: Vec<&str> = ["split", "port0"].iter().chain(options).copied().collect();
        let mut process = Process::start(self.uc(&all));
        process.says("caution: ");
        process
    }

    /// Runs nft(8) on the host with this command; returns what it prints.
    pub fn nft(&self, text: &str) -> String {
        let mut nft = self.host.command("nft");
        nft.arg(text);
        success(nft)
    }

    /// Returns the packets that the rule with this comment has counted, in the host's table `ip t`.
    pub fn counted(&self, comment: &str) -> u64 {
        let mut nft = self.host.command("nft");
        nft.args(["--json", "list", "table", "ip", "t"]);
        let list: Value = serde_json::from_str(&success(nft)).unwrap();
        let rows = list["nftables"].as_array().unwrap();
        let rule = rows.iter().find(|row| row["rule"]["comment"] == comment);
        let parts = rule.unwrap()["rule"]["expr"].as_array().unwrap();
        let counter = parts.iter().find(|part| part["counter"].is_object());
        counter.unwrap()["counter"]["packets"].as_u64().unwrap()
    }

    /// Returns a number of the running command's status.
    pub fn total(&self, name: &str) -> u64 {
        total(self.uc(&SPLIT_STATUS), name)
    }
}

/// Arguments of the command whose answer [`total`] reads.
pub const SPLIT_STATUS: [&str; 3] = ["split", "--status", "--json"];

/// Runs this command, with [`SPLIT_STATUS`]; returns a number of its answer.
pub fn total(asking: Command, name: &str) -> u64 {
    let text = success(asking);
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    status["totals"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Makes a veth between two namespaces.
pub fn connect(one: &Namespace, its: &str, other: &Namespace, name: &str) {
    let path = other.path();
    ip(
        one,
        &format!(
            "link add {its} type veth peer name {name} netns {}",
            path.display()
        ),
    );
}

/// Runs ip(8) in a namespace.
pub fn ip(namespace: &Namespace, arguments: &str) -> String {
    let mut command = namespace.command("ip");
    command.args(arguments.split(' '));
    success(command)
}

fn address(namespace: &Namespace, interface: &str, subnet: u8, host: u8) {
    ip(
        namespace,
        &format!("address add 10.{subnet}.0.{host}/24 dev {interface}"),
    );
    ip(
        namespace,
        &format!("-6 address add fd{subnet:02x}::{host}/64 dev {interface} nodad"),
    );
    ip(namespace, &format!("link set {interface} up"));
}

fn neighbour(at: &Namespace, interface: &str, of: &Namespace, its: &str, subnet: u8, host: u8) {
    let shown = ip(of, &format!("-json link show dev {its}"));
    let links: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let mac = links[0]["address"].as_str().unwrap();
    for address in [
        format!("10.{subnet}.0.{host}"),
        format!("fd{subnet:02x}::{host}"),
    ] {
        ip(
            at,
            &format!("neighbour replace {address} lladdr {mac} nud permanent dev {interface}"),
        );
    }
}

/// A thread that carries frames between two taps. Dropping it ends the thread.
struct Line {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    fn start(taps: [Tap; 2], spec: LinkSpec, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        // Frames share their pool without locks, so they stay on the thread.
        let thread = std::thread::spawn(move || carry(&taps, &spec, seed, &seen));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn carry(taps: &[Tap; 2], spec: &LinkSpec, seed: u64, stop: &AtomicBool) {
    let _late_frames_are_only_late = be_realtime();
    let pool = Pool::default();
    let mut links = ["out", "back"].map(|name| Link::new(spec, seed, name).unwrap());
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    while !stop.load(Ordering::Relaxed) {
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(length) = taps[from].read(&mut buffer).unwrap() {
                let frame = pool.frame(&buffer[..length], 0);
                links[from].offer(uc_lab::clock::now(), frame, &mut |_, _| {});
            }
            while let Some((_, frame)) = links[from].receive(uc_lab::clock::now()) {
                taps[to].write(frame.bytes()).unwrap();
            }
        }
        let due = links.iter().filter_map(Link::next_event).min();
        let sleep = due.map(|due| Duration::from_nanos(due.since(uc_lab::clock::now()).0));
        let sleep = TimeSpec::from_duration(sleep.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        let mut fds = taps
            .each_ref()
            .map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN));
        // A signal only wakes it early.
        let _ready = ppoll(&mut fds, Some(sleep), None);
    }
}

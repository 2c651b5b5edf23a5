//! Connections of a control group that `uc tune` sets, and connections of no such group: the settings that their own
//! sockets report.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::socket::{
    Backlog, SockaddrStorage, bind, connect, getsockopt, listen, setsockopt, sockopt,
};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_lab::tcp_info::TcpInfo;

use super::agent::ip;
use super::bench::{raw_socket, wait_until};
use super::uc::{outcome, success};

const TUNED: &str = "cubic";
const USUAL: &str = "reno";
const INITIAL_WINDOW: u32 = 40;
/// Initial window in segments by RFC 6928 and in Linux.
const USUAL_INITIAL_WINDOW: u32 = 10;
const USUAL_RTO_MIN_US: u32 = 200_000;
/// Size of the send buffer in bytes: more than the tuned initial window, before the kernel doubles it.
const SEND_BUFFER: usize = 150_000;
/// A payload with which the tuned initial window fits into the receiver's first one.
const MSS: u32 = 1000;

/// A control group of this test; removed when it is dropped.
pub struct Group(PathBuf);

impl Group {
    /// Makes a group in the unified hierarchy; `None` if there is none.
    pub fn make(name: &str) -> Option<Group> {
        let is_unified = |path: &&&str| {
            statfs(**path).is_ok_and(|status| status.filesystem_type() == CGROUP2_SUPER_MAGIC)
        };
        let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        let place = places.iter().find(is_unified);
        let place = place.ok_or("no unified hierarchy of control groups is mounted");
        let place = uc_live::or_skip(place)?;
        let path = Path::new(place).join(format!("uc-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Some(Group(path))
    }

    /// Returns the path of its folder.
    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Runs `f` while this process is in the group: its new sockets belong to the group.
    fn inside<T>(&self, f: impl FnOnce() -> T) -> T {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .unwrap();
        let before = self.0.parent().unwrap().join(own);
        let enter = |group: &Path| {
            fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        };
        enter(&self.0);
        let result = f();
        enter(&before);
        result
    }

    /// Removes the group. A program that another test of this process started while the process was in
    /// the group is in it until it ends, and the kernel refuses the removal until then.
    fn remove(self) {
        wait_until("the group is empty", || match fs::remove_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => false,
            removed => {
                removed.unwrap();
                true
            }
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _it_may_be_gone = fs::remove_dir(&self.0);
    }
}

/// Creates a namespace whose connections to itself repeat nothing early, defer no segments, and keep
/// their windows while they are idle.
pub fn namespace() -> Namespace {
    let namespace = Namespace::new("tuned").unwrap();
    ip(&namespace, "link set lo up");
    let settings = [
        ("net.ipv4.tcp_congestion_control", USUAL),
        // no tail loss probe, which sends a further segment
        ("net.ipv4.tcp_early_retrans", "0"),
        ("net.ipv4.tcp_tso_win_divisor", "0"),
        ("net.ipv4.tcp_slow_start_after_idle", "0"),
        ("net.ipv4.tcp_no_metrics_save", "1"),
    ];
    let settings = settings.map(|(key, value)| (key, value.to_owned()));
    namespace.set_sysctls(&settings).unwrap();
    namespace
}

/// Returns the end that opens a connection within the namespace, and the one that accepts it.
fn connection(namespace: &Namespace) -> [TcpStream; 2] {
    let tcp = || {
        let socket = raw_socket(namespace, libc::AF_INET, libc::SOCK_STREAM, 0);
        setsockopt(&socket, sockopt::SndBuf, &SEND_BUFFER).unwrap();
        socket
    };
    let any: SockaddrStorage = SocketAddrV4::new([127, 0, 0, 1].into(), 0).into();
    let listener = tcp();
    bind(listener.as_raw_fd(), &any).unwrap();
    listen(&listener, Backlog::new(4).unwrap()).unwrap();
    let listener = TcpListener::from(listener);
    let opened = tcp();
    setsockopt(&opened, sockopt::TcpMaxSeg, &MSS).unwrap();
    let to = SockaddrStorage::from(listener.local_addr().unwrap());
    connect(opened.as_raw_fd(), &to).unwrap();
    let ends = [TcpStream::from(opened), listener.accept().unwrap().0];
    for end in &ends {
        // Nothing lives on in a namespace that is to end.
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(end, sockopt::Linger, &linger).unwrap();
        end.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    ends
}

fn info(end: &TcpStream) -> TcpInfo {
    TcpInfo::read(end.as_fd()).unwrap()
}

fn control(end: &TcpStream) -> String {
    getsockopt(end, sockopt::TcpCongestion)
        .unwrap()
        .into_string()
        .unwrap()
}

/// Makes the kernel drop packets that arrive for this end, so that the end acknowledges nothing.
fn deafen(end: &TcpStream) {
    let mut drop_all = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0,
    }; // BPF_RET | BPF_K
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut drop_all,
    };
    // SAFETY: the pointers are to a live program of the given length, which the kernel copies.
    let answer = unsafe {
        libc::setsockopt(
            end.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the number of segments that an end sends without an ACK.
fn first_flight(mut from: &TcpStream, to: &TcpStream) -> u32 {
    deafen(to);
    from.set_nonblocking(true).unwrap();
    let more = [0; 100 * MSS as usize];
    let written = from.write(&more).unwrap();
    assert!(written > (INITIAL_WINDOW * MSS) as usize, "{written}");
    info(from).unacked
}

/// Sends bytes back and forth until `wanted` accepts the RTO of this end, at most some dozen times; returns the RTO in
/// microseconds.
fn rto_us(end: &TcpStream, other: &TcpStream, wanted: impl Fn(u32) -> bool) -> u32 {
    let say = |mut from: &TcpStream, mut to: &TcpStream| {
        from.write_all(&[1]).unwrap();
        to.read_exact(&mut [0]).unwrap();
    };
    let mut rounds = 0;
    wait_until("the RTO follows the path", || {
        (0..10).for_each(|_| {
            say(end, other);
            say(other, end);
        });
        rounds += 10;
        wanted(info(end).rto_us) || rounds > 10_000
    });
    info(end).rto_us
}

/// Checks that connections of the group have the tuned settings, and others the usual ones. Returns both ends
/// of one of the group's.
pub fn assert_tuned(namespace: &Namespace, group: &Group) -> [TcpStream; 2] {
    let tuned = group.inside(|| [connection(namespace), connection(namespace)]);
    let third = group.inside(|| connection(namespace));
    for (end, other) in [(0, 1), (1, 0)] {
        let (end, other) = (&tuned[0][end], &tuned[0][other]);
        assert_eq!(control(end), TUNED);
        let rto = rto_us(end, other, |rto| rto < USUAL_RTO_MIN_US);
        assert!((40_000..USUAL_RTO_MIN_US).contains(&rto), "{rto}");
    }
    assert_eq!(
        first_flight(&tuned[1][0], &tuned[1][1]),
        INITIAL_WINDOW,
        "opened"
    );
    assert_eq!(
        first_flight(&third[1], &third[0]),
        INITIAL_WINDOW,
        "accepted"
    );
    assert_usual(namespace, "outside the group");
    let [first, _] = tuned;
    first
}

/// Checks that connections of the group have the usual settings.
pub fn assert_untuned(namespace: &Namespace, group: &Group, when: &str) {
    group.inside(|| assert_usual(namespace, when));
}

fn assert_usual(namespace: &Namespace, whose: &str) {
    let [opened, accepted] = &connection(namespace);
    for (end, other) in [(opened, accepted), (accepted, opened)] {
        assert_eq!(control(end), USUAL, "{whose}");
        let rto = rto_us(end, other, |_| true);
        assert!(rto >= USUAL_RTO_MIN_US, "{whose}: {rto}");
    }
    let [opened, accepted] = &connection(namespace);
    assert_eq!(
        first_flight(opened, accepted),
        USUAL_INITIAL_WINDOW,
        "{whose}"
    );
}

/// Returns `true` if this kernel has the congestion control that the group is to get.
pub fn can_be_tuned() -> bool {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let has_it = list.split_whitespace().any(|name| name == TUNED);
    uc_live::or_skip(has_it.then_some(()).ok_or("no congestion control cubic")).is_some()
}

/// Checks that connections of the group have the settings of `uc tune`, that others are untouched, and
/// that nothing is left in the folder of pins. `uc` is the command in the namespace.
pub fn assert_tuning_holds(
    namespace: &Namespace,
    group: Group,
    uc: impl Fn(&[&str]) -> Command,
    pins: &Path,
) {
    let settings = [
        group.path(),
        "--congestion-control",
        TUNED,
        "--initial-window",
        "40",
        "--rto-min",
        "40",
    ];
    let told = success(uc(&settings));
    let wanted = "new connections have congestion control cubic, initial window 40 segments, minimum RTO 40 ms";
    assert_eq!(told, format!("{}: {wanted}\n", group.path()));

    let tuned = assert_tuned(namespace, &group);

    let status: Value = serde_json::from_str(&success(uc(&["--status", "--json"]))).unwrap();
    let row = &status["tuned"][0];
    assert_eq!(row["cgroup"], group.path(), "{status}");
    assert_eq!(row["connections"], 6, "three, of both ends: {status}");
    for field in ["congestion_control", "initial_window", "rto_min"] {
        assert_eq!(row[format!("refused_{field}")], 0, "{status}");
    }

    success(uc(&[group.path(), "--remove"]));
    assert!(!pins.exists(), "a pin is left");
    assert_untuned(namespace, &group, "after the removal");
    assert_eq!(control(&tuned[0]), TUNED, "existing connections keep it");

    // The end of a group ends its tuning.
    success(uc(&settings));
    group.remove();
    let none = outcome(uc(&["--status"]));
    assert_eq!(
        (none.status, none.stdout.as_str()),
        (Some(1), "no control group is tuned\n")
    );
    assert!(!pins.exists(), "a pin is left");
}

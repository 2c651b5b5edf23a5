//! Two kernels with a tap each: the guest's and the far end's. What one sends is read from its tap
//! here, and written to the other's when the path delivers it.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, setsockopt, sockopt,
};
use uc_lab::netns::Namespace;
use uc_lab::tap::Tap;
use uc_lab::tcp_counters;
use uc_lab::wiring::{ip_batch, wait_running};

use super::case::Case;

const GUEST: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// The port of the listener whose connections have window scale 0; that of scale 1 is one higher.
const LISTENERS: u16 = 5000;
const WSCALES: u16 = 15;
/// Room for a whole flow, so that one call writes it.
const BUFFER_BYTES: usize = 4 << 20;
/// Linux: `TCP_WINDOW_CLAMP`.
const WINDOW_CLAMP: libc::c_int = 10;

/// Both kernels' TCP. The guest offers what a flow's case says, the far end takes any of it. Nothing
/// that one connection finds out is kept for the next one.
const SYSCTLS: [(&str, &str); 7] = [
    ("net.ipv4.tcp_congestion_control", "reno"),
    ("net.ipv4.tcp_ecn", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_rmem", "4096 131072 1073741824"),
    ("net.ipv4.tcp_wmem", "4096 131072 16777216"),
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv4.tcp_max_syn_backlog", "4096"),
];

/// Both kernels, their taps, and the far end's listeners by window scale.
#[derive(Debug)]
pub struct World {
    pub guest: Namespace,
    pub guest_tap: Tap,
    pub far_tap: Tap,
    pub listeners: Vec<TcpListener>,
}

impl World {
    pub fn new() -> World {
        let (guest, far) = (
            Namespace::new("guest").unwrap(),
            Namespace::new("far end").unwrap(),
        );
        let taps = [&guest, &far].map(|namespace| Tap::open(namespace, "eth0").unwrap());
        for (namespace, own, other) in [(&guest, 1, 2), (&far, 2, 1)] {
            let settings = SYSCTLS.map(|(key, value)| (key, value.to_owned()));
            namespace.set_sysctls(&settings).unwrap();
            let lines = [
                "link set lo up".to_owned(),
                format!("link set eth0 address 02:00:00:00:00:0{own} txqueuelen 20000 up"),
                format!("address add 10.78.0.{own}/24 dev eth0"),
                format!(
                    "neigh replace 10.78.0.{other} lladdr 02:00:00:00:00:0{other} dev eth0 nud permanent"
                ),
            ];
            ip_batch(namespace, &lines).unwrap();
            wait_running(namespace).unwrap();
        }
        let listeners = far.enter(|| (0..WSCALES).map(listen).collect::<io::Result<_>>());
        let [guest_tap, far_tap] = taps;
        World {
            guest,
            guest_tap,
            far_tap,
            listeners: listeners.unwrap().unwrap(),
        }
    }
}

/// Counters of the guests' kernels: expired timers (those of SYNs included), recoveries, and what was
/// undone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub timeouts: u64,
    pub recoveries: u64,
    pub undone: u64,
}

impl Counts {
    /// Adds those of a world.
    pub fn add(&mut self, world: &World) {
        let found = world.guest.enter(tcp_counters::read).unwrap().unwrap();
        let of = |name: &str| found.get(&format!("TcpExt_{name}")).copied().unwrap_or(0);
        self.timeouts += of("TCPTimeouts");
        self.recoveries += of("TCPRenoRecovery") + of("TCPSackRecovery");
        self.undone +=
            of("TCPFullUndo") + of("TCPPartialUndo") + of("TCPDSACKUndo") + of("TCPLossUndo");
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = nix::sys::socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&fd, sockopt::Linger, &linger)?;
    setsockopt(&fd, sockopt::SndBufForce, &BUFFER_BYTES)?;
    Ok(fd)
}

/// Listens for connections whose windows have this scale: the kernel derives it from the largest
/// window.
fn listen(wscale: u16) -> io::Result<TcpListener> {
    let fd = socket()?;
    let most: libc::c_int = 65_535 << wscale;
    // SAFETY: the pointer is to a live integer of the length given.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            WINDOW_CLAMP,
            (&raw const most).cast(),
            size_of_val(&most) as libc::socklen_t,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let address = SocketAddr::from((FAR, LISTENERS + wscale));
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    nix::sys::socket::listen(&fd, Backlog::new(4096)?)?;
    Ok(fd.into())
}

/// The guest's sysctls that a case sets for its own handshake.
#[derive(Debug)]
pub struct Offers([(File, Option<u8>); 3]);

impl Offers {
    /// Opens the settings of the calling thread's namespace.
    pub fn here() -> io::Result<Offers> {
        let open = |name: &str| {
            let path = format!("/proc/sys/net/ipv4/{name}");
            OpenOptions::new().write(true).open(path)
        };
        Ok(Offers([
            (open("tcp_sack")?, None),
            (open("tcp_timestamps")?, None),
            (open("tcp_ecn")?, None),
        ]))
    }

    /// Makes the guest's next SYN offer SACK, time stamps and ECN, or not; and lets it take the offers of
    /// a SYN-ACK.
    pub fn set(&mut self, offers: [bool; 3]) -> io::Result<()> {
        let wanted = offers.map(u8::from);
        for ((file, now), wanted) in self.0.iter_mut().zip(wanted) {
            if *now != Some(wanted) {
                file.write_all_at(&[b'0' + wanted], 0)?;
                *now = Some(wanted);
            }
        }
        Ok(())
    }
}

/// Opens the guest's end of a case from its port `port`; the SYN leaves before this returns. The
/// calling thread is in the guest's namespace.
pub fn connect(case: &Case, port: u16) -> io::Result<OwnedFd> {
    let fd = socket()?;
    setsockopt(&fd, sockopt::TcpMaxSeg, &u32::from(case.mss))?;
    let own = SocketAddr::from((GUEST, port));
    bind(fd.as_raw_fd(), &SockaddrStorage::from(own))?;
    let far = SocketAddr::from((FAR, LISTENERS + u16::from(case.wscale)));
    match nix::sys::socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(far)) {
        Ok(()) | Err(nix::Error::EINPROGRESS) => Ok(fd),
        Err(errno) => Err(errno.into()),
    }
}

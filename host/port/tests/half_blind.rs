//! Real connections over a port on which another program ends the chain of a hook: no connection is
//! half-blind, and the guest sees no ECN that it did not ask for.

mod kernel;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use kernel::frame::{Oddity, PLAIN, frame, make_odd};
use kernel::host::{Host, ip};
use kernel::policy;
use nix::sched::{CloneFlags, setns, unshare};
use uc_core::{Reason, Segment, consts};
use uc_port::{AttachVia, Direction, Link, Order, PortPlan, attach_program, interface_index};

/// Bytes that each end sends in a connection.
const BYTES: usize = 40_000;
const GUEST: [u8; 4] = [10, 77, 0, 1];
/// `TCPI_OPT_ECN` of linux/tcp.h.
const AGREED_TO_ECN: u8 = 8;

/// A host with a port `p0`, and the guest behind it.
struct Site {
    host: Host,
    guest: File,
    sniffer: OwnedFd,
}

/// What the guest's end received: segments with ECE, and segments with any ECT or CE.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    ece: u32,
    ect: u32,
}

impl Site {
    fn new() -> Option<Site> {
        let host = Host::new()?;
        let guest = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        let guest = guest.join().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), guest.as_raw_fd());
        ip("link set lo up");
        ip("link add p0 type veth peer name g0");
        ip(&format!("link set g0 netns {path}"));
        ip("addr add 10.77.0.2/24 dev p0");
        ip("link set p0 up");
        let sniffer = inside(&guest, || {
            ip("addr add 10.77.0.1/24 dev g0");
            ip("link set g0 up");
            let every = i32::from((libc::ETH_P_ALL as u16).to_be());
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
            // SAFETY: a plain system call; the descriptor has no other owner.
            unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, kind, every)) }
        });
        // while one port stays, detaching another does not unload the programs
        host.attach(&["lo"], AttachVia::Auto);
        Some(Site {
            host,
            guest,
            sniffer,
        })
    }

    fn attach(&self, via: AttachVia, after_others: bool) {
        let plan = PortPlan {
            after_others,
            ..policy().into()
        };
        let names = ["p0".to_owned()];
        self.host.store.attach_all(&names, &plan, via, 64).unwrap();
    }

    fn detach(&self) {
        let programs = self.host.open();
        let names = ["p0".to_owned()];
        self.host.store.detach_all(&programs, &names).unwrap();
    }

    /// Returns the direction that `uc status` calls hidden.
    fn half_blind(&self) -> Option<Direction> {
        let ports = self.host.open().ports().unwrap();
        let view = ports.iter().find(|port| port.ifindex == p0()).unwrap();
        view.half_blind_behind(|direction| self.host.store.ahead(p0(), direction).unwrap())
    }

    fn ahead(&self, direction: Direction) -> Vec<String> {
        let ahead = self.host.store.ahead(p0(), direction).unwrap();
        ahead.iter().map(ToString::to_string).collect()
    }

    /// Makes a connection of the guest in which both ends send. Returns whether the server agreed
    /// to ECN, and what the guest's end received.
    fn connect(&self) -> (bool, Seen) {
        let server = TcpListener::bind("10.77.0.2:0").unwrap();
        let address = server.local_addr().unwrap();
        let guest = self.guest.try_clone().unwrap();
        let client = thread::spawn(move || inside(&guest, || talk(&dial(address))));
        let (stream, _) = server.accept().unwrap();
        talk(&stream);
        let agreed = has_ecn(&stream);
        client.join().unwrap();
        (agreed, self.seen())
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        let mut frame = [0u8; 64];
        loop {
            // SAFETY: the buffer has the stated length and outlives the call.
            let length = unsafe {
                libc::recv(
                    self.sniffer.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                )
            };
            if length < 54 {
                match length {
                    ..0 => return seen,
                    _ => continue,
                }
            }
            let is_tcp = frame[12..14] == [8, 0] && frame[23] == 6;
            if is_tcp && frame[30..34] == GUEST {
                seen.ect += u32::from(frame[15] & 3 != 0);
                seen.ece += u32::from(frame[47] & 0x40 != 0);
            }
        }
    }
}

/// Sends a frame out of the guest's interface.
fn send_frame(bytes: &[u8]) {
    let index = interface_index("g0").unwrap();
    // SAFETY: all zeroes are a valid value of plain integers.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = index as i32;
    // SAFETY: plain system calls; the frame and the address have the stated lengths.
    let sent = unsafe {
        let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0));
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            0,
            (&raw const to).cast(),
            size_of_val(&to) as libc::socklen_t,
        )
    };
    assert_eq!(sent, bytes.len() as isize);
}

fn dial(address: SocketAddr) -> TcpStream {
    TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap()
}

fn talk(mut stream: &TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(&[7; BYTES]).unwrap();
    stream.read_exact(&mut vec![0; BYTES]).unwrap();
}

fn has_ecn(stream: &TcpStream) -> bool {
    // SAFETY: all zeroes are a valid value of plain integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `bytes` bytes to `info`, which has that size.
    let code = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            level,
            name,
            (&raw mut info).cast(),
            &mut bytes,
        )
    };
    assert_eq!(code, 0);
    info.tcpi_options & AGREED_TO_ECN != 0
}

/// Runs `work` on a thread in this network namespace.
fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

fn p0() -> u32 {
    interface_index("p0").unwrap()
}

/// Puts a program before all others of a hook that ends the chain: it returns TC_ACT_OK.
fn hide(direction: Direction, via: AttachVia) -> Link {
    let code = [
        libbpf_sys::bpf_insn {
            code: (libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K) as u8,
            ..Default::default()
        },
        libbpf_sys::bpf_insn {
            code: (libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT) as u8,
            ..Default::default()
        },
    ];
    // SAFETY: the texts and the code outlive the call; options may be absent.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"hider".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `program` outlives the call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(program.as_raw_fd()) };
    attach_program(borrowed, p0(), direction, via, Order::BeforePort).unwrap()
}

/// Takes a hiding program off its hook at once. A dropped link may outlive its owner: a process that
/// another test starts holds a copy of the descriptor until it runs its program.
fn take_off(other: Link) {
    if let Link::Tcx(link) = &other {
        // SAFETY: a plain system call on a descriptor that outlives it.
        let code = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
        assert_eq!(code, 0, "{}", std::io::Error::from_raw_os_error(-code));
    }
}

/// Six connections: how many are translated, and how many half-blind.
fn six(site: &Site) -> (usize, usize) {
    let made: Vec<_> = (0..6).map(|_| site.connect()).collect();
    let half_blind = made.iter().filter(|(_, seen)| *seen != Seen::default());
    let half_blind = half_blind.count();
    let agreed = made.iter().filter(|(agreed, _)| *agreed).count();
    (agreed - half_blind.min(agreed), half_blind)
}

/// Hooks whose programs are hidden, and those before which the kernel runs a hidden port's.
const ORDERS: [(AttachVia, bool, AttachVia); 4] = [
    (AttachVia::Tcx, true, AttachVia::Tcx),
    (AttachVia::Clsact, false, AttachVia::Tcx),
    (AttachVia::Clsact, true, AttachVia::Tcx),
    (AttachVia::Clsact, false, AttachVia::Clsact),
];

fn has_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    version >= (6, 6)
}

#[test]
fn live_program_that_was_there_first_and_ends_the_chain_hides_nothing_from_ours() {
    if !has_tcx() {
        return;
    }
    let Some(site) = Site::new() else {
        return;
    };
    for direction in Direction::BOTH {
        for via in [AttachVia::Tcx, AttachVia::Clsact] {
            let other = hide(direction, via);
            site.attach(AttachVia::Auto, false);
            assert_eq!(site.ahead(direction), [""; 0], "{direction:?} {via:?}");
            assert_eq!(six(&site), (6, 0), "{direction:?} {via:?}");
            site.detach();
            take_off(other);
        }
    }
}

#[test]
fn live_port_that_is_placed_behind_such_a_program_makes_no_connection_half_blind() {
    if !has_tcx() {
        return;
    }
    let Some(site) = Site::new() else {
        return;
    };
    for direction in Direction::BOTH {
        for (via, after_others, of_other) in ORDERS {
            let other = hide(direction, of_other);
            site.attach(via, after_others);
            let ahead = site.ahead(direction);
            let about = format!("{direction:?} {via:?} {of_other:?} {ahead:?}");
            assert_eq!(ahead.len(), 1, "{about}");
            assert!(ahead[0].starts_with("program 'hider' (id "), "{about}");
            assert_eq!(six(&site), (0, 0), "{about}");
            assert_eq!(site.half_blind(), Some(direction), "{about}");
            // the other program goes: the first answer shows that the hook sees again
            take_off(other);
            let _first = site.connect();
            assert_eq!(six(&site), (6, 0), "{about}");
            site.detach();
        }
    }
}

#[test]
fn live_program_that_comes_later_costs_the_connections_of_one_round_trip() {
    if !has_tcx() {
        return;
    }
    let Some(site) = Site::new() else {
        return;
    };
    for direction in Direction::BOTH {
        site.attach(AttachVia::Auto, false);
        assert_eq!(six(&site), (6, 0));
        let other = hide(direction, AttachVia::Tcx);
        let (_, first) = site.connect();
        if direction == Direction::FromGuest {
            assert_eq!(first, Seen::default());
        }
        assert_eq!(six(&site), (0, 0), "{direction:?}");
        assert_eq!(site.half_blind(), Some(direction));
        take_off(other);
        site.detach();
    }
}

#[test]
fn live_frames_with_and_without_a_tag_of_a_vlan_are_flows_of_their_own() {
    let Some(site) = Site::new() else {
        return;
    };
    site.attach(AttachVia::Auto, false);
    let syn = Segment {
        seq: 1000,
        window: 65535,
        flags: consts::SYN as u8,
        ..Segment::default()
    };
    let remote = "10.77.0.2:5001".parse().unwrap();
    let send = |oddity| {
        let guest = SocketAddr::new(GUEST.into(), 1);
        let mut bytes = frame(&syn, guest, remote, &PLAIN);
        make_odd(&mut bytes, &oddity);
        inside(&site.guest, || send_frame(&bytes));
    };
    let seen = || {
        let ports = site.host.open().ports().unwrap();
        let port = ports.into_iter().find(|port| port.ifindex == p0());
        let counters = port.unwrap().counters;
        let tcp = [Reason::TRANSLATED, Reason::HALF_BLIND];
        let tcp: u64 = tcp.iter().map(|reason| counters.get(*reason)).sum();
        (tcp, counters.seen(Direction::FromGuest))
    };
    let (_, before) = seen();
    let vlans = || {
        let flows = site.host.open().flows().unwrap();
        let mut vlans: Vec<u16> = flows.iter().map(|flow| flow.vlan).collect();
        vlans.sort_unstable();
        vlans
    };
    // the kernel takes the tag off before the hook
    send(Oddity::Vlan(7));
    let (tcp, after) = seen();
    assert!(after > before, "the frame has passed the hook");
    assert_eq!((tcp, vlans()), (1, vec![7]));
    send(Oddity::None);
    assert_eq!((seen().0, vlans()), (2, vec![0, 7]));
    // a priority tag names no VLAN: the same SYN again
    send(Oddity::Vlan(0));
    assert_eq!((seen().0, vlans()), (3, vec![0, 7]));
    send(Oddity::VlanStack);
    assert_eq!((seen().0, vlans()), (3, vec![0, 7]));
}

#[test]
fn live_interface_without_ethernet_headers_is_refused() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("tuntap add dev t0 mode tun");
    let names = ["t0".to_owned()];
    let store = &host.store;
    let refused = store.attach_all(&names, &policy().into(), AttachVia::Auto, 64);
    let text = refused
        .expect_err("a tun has no Ethernet header")
        .to_string();
    assert!(
        text.contains("port t0: its frames have no Ethernet header"),
        "{text}"
    );
    ip("tuntap add dev t1 mode tap");
    host.attach(&["t1"], AttachVia::Auto);
}

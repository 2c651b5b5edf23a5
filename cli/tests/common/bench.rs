//! A lab with translated ports.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use uc_core::{Policy, Reason};
use uc_experiment::{Experiment, Parameters, Profile};
use uc_lab::netns::Namespace;
use uc_lab::wire::Wire;
use uc_lab::wire_setup::WireSetup;
use uc_lab::wiring::Wiring;
use uc_lab::{Lab, Plan};
use uc_port::{AttachVia, FlowView, PortLinks, Programs};

/// Builds the only case of an experiment; nothing is attached.
pub fn build(experiment: &Experiment) -> (Plan, Lab) {
    let plan = Plan::new(experiment, &experiment.cases[0]).unwrap();
    let lab = Lab::build(&plan, &experiment.network, 1, Duration::from_millis(10)).unwrap();
    (plan, lab)
}

/// Builds the network with the bottleneck toward the first guest's host instead of the server.
pub fn build_towards_guest(experiment: &Experiment) -> (Plan, Wiring, Wire) {
    build_towards_host(experiment, 0)
}

/// Builds the network with the bottleneck toward guest host number `host` (from 0): that host and
/// the server's change places.
pub fn build_towards_host(experiment: &Experiment, host: usize) -> (Plan, Wiring, Wire) {
    let plan = Plan::new(experiment, &experiment.cases[0]).unwrap();
    let server = plan.servers[0].host;
    let mut wiring = Wiring::build(&plan).unwrap();
    let taps = std::mem::take(&mut wiring.taps);
    let interval = Duration::from_millis(10);
    let mut setup = WireSetup::new(&plan, &experiment.network, taps, Vec::new(), 1, interval);
    setup.taps.swap(host, server);
    for (_, at) in &mut setup.addresses {
        *at = match *at {
            at if at == host => server,
            at if at == server => host,
            at => at,
        };
    }
    (plan, wiring, Wire::start(setup).unwrap())
}

/// Port programs on the ports of guests that have a law; none of them is pinned.
pub struct Translation {
    /// The programs and their maps.
    pub programs: Programs,
    hosts: Namespace,
    links: Vec<PortLinks>,
}

impl Translation {
    /// Attaches port programs to every port whose guest has a law.
    pub fn attach(plan: &Plan, hosts: &Namespace, flows_max: u32) -> Self {
        Self::attach_with(plan, hosts, flows_max, |policy| policy)
    }

    /// Attaches the programs to the guests' ports with a policy that `change` has edited.
    pub fn attach_with(
        plan: &Plan,
        hosts: &Namespace,
        flows_max: u32,
        change: impl Fn(Policy) -> Policy + Sync,
    ) -> Self {
        let programs = Programs::load(flows_max).unwrap();
        let ports = plan.guests.iter().filter(|guest| guest.law.is_some());
        let attach = |port: &str, law, profile| {
            let ifindex = if_nametoindex(port).unwrap();
            let policy = change(uc_law::policy(law, profile, &Parameters::default()));
            programs.set_plan(ifindex, &policy.into()).unwrap();
            programs.attach(ifindex, AttachVia::Auto).unwrap()
        };
        let attach = &attach;
        let links = ports
            .map(|guest| {
                let profile: Profile = guest.profile;
                let law = guest.law.unwrap();
                hosts.enter(|| attach(&guest.port, law, profile)).unwrap()
            })
            .collect();
        Self {
            links,
            hosts: hosts.clone(),
            programs,
        }
    }

    /// Returns the packets counted under a reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.programs.counters().unwrap().get(reason)
    }

    /// Returns the flow of this port.
    pub fn flow(&self, port: &str, guest: SocketAddr, remote: SocketAddr) -> Option<FlowView> {
        let ifindex = self.hosts.enter(|| if_nametoindex(port).unwrap()).unwrap();
        self.programs.flow(ifindex, guest, remote).unwrap()
    }

    /// Returns every counter that is not zero, for messages.
    pub fn counts(&self) -> String {
        let counters = self.programs.counters().unwrap();
        let seen: Vec<_> = counters
            .iter()
            .filter(|(_, packets)| *packets > 0)
            .collect();
        format!("{seen:?}")
    }

    /// Detaches the programs from every port.
    pub fn detach(&mut self) {
        let links = std::mem::take(&mut self.links);
        // A clsact filter is removed by the index of its interface, which is valid in this
        // namespace only.
        self.hosts.enter(|| drop(links)).unwrap();
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Returns the reason with this label.
pub fn reason(label: &str) -> Reason {
    Reason::all()
        .find(|reason| reason.label() == label)
        .unwrap()
}

/// Returns the value of a TCP counter of this namespace in /proc, for example `InCsumErrors` or
/// `TCPTimeouts`.
pub fn tcp_counter(namespace: &Namespace, name: &str) -> u64 {
    for (file, prefix) in [("snmp", "Tcp: "), ("netstat", "TcpExt: ")] {
        let path = format!("/proc/thread-self/net/{file}");
        let text = namespace.enter(|| std::fs::read_to_string(path).unwrap());
        let text = text.unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let mut pairs = names.split(' ').zip(values.split(' '));
        if let Some((_, value)) = pairs.find(|(found, _)| *found == name) {
            return value.parse().unwrap();
        }
    }
    panic!("no {name}");
}

/// Makes the interface compute its own checksums, so that captures of it have valid ones.
pub fn complete_checksums(namespace: &Namespace, interface: &str) {
    let ethtool = uc_lab::need::program("ethtool").unwrap();
    let mut command = namespace.command(ethtool);
    let output = command
        .args(["-K", interface, "tx", "off"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns the factor by which timeouts are longer on this machine: more than 1 in a guest whose kernel has KASAN.
pub fn patience() -> u32 {
    uc_lab::vm::series::slowdown(&release())
}

/// Returns the full version of the running kernel.
pub fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    text.trim().to_owned()
}

/// Waits until `holds` returns true. Panics with `what` after a minute; even a busy machine needs less unless something
/// hangs.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let (start, bound) = (Instant::now(), Duration::from_secs(60) * patience());
    while !holds() {
        assert!(start.elapsed() < bound, "{what}: not after {bound:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Creates a socket in a namespace, of a kind that the standard library does not offer.
pub fn raw_socket(namespace: &Namespace, domain: i32, kind: i32, protocol: i32) -> OwnedFd {
    use std::os::fd::FromRawFd;
    let open = || {
        // SAFETY: no pointers; the result is checked below.
        let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the kernel has just returned this descriptor; it has no other owner.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    namespace.enter(open).unwrap()
}

/// Creates a socket that sends unmodified frames on a namespace's eth0.
pub fn frame_socket(namespace: &Namespace) -> OwnedFd {
    let fd = raw_socket(namespace, libc::AF_PACKET, libc::SOCK_RAW, 0);
    let eth0 = namespace.enter(|| if_nametoindex("eth0").unwrap()).unwrap();
    // SAFETY: an all-zero sockaddr_ll is a valid value of plain integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = eth0 as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a live address of the given length.
    let answer = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    fd
}

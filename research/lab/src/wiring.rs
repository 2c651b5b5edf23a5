//! Namespaces, bridges, ports and addresses of one case.
//!
//! ```text
//!  guest 0 ── eth0 ═ port0 ┐                                            servers
//!  guest 1 ── eth0 ═ port1 ┴ br0 ── up0 ┐                              ┌ eth0 (tap)
//!  guest 2 ── eth0 ═ port2 ── br1 ── up1 ┴ emulated network (uc-net) ──┴ eth0 (tap)
//! ```
//! Guests have a namespace each; bridges, ports and the uplink taps of all hosts share one, in which
//! programs on ports are attached. A star has one server, any other network one for each host with
//! guests. A server's tap is its own interface, unless the servers' ports have a law: then each has a
//! port, a bridge and an uplink like a guest. Where hosts both send and receive, a host's server has a
//! port at the bridge of the host's guests. All of it is one L2 network, in which the ends of each
//! flow are static neighbours, so that the traffic never waits for ARP or ND.

use std::io::Write;
use std::net::IpAddr;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use uc_experiment::{Arm, Stack};

use crate::congestion::CongestionControls;
use crate::error::LabError;
use crate::need;
use crate::netns::Namespace;
use crate::plan::{Guest, Plan, mac_text};
use crate::stack;
use crate::tap::Tap;

/// Frames that a tap holds for the emulator: far above any window, so that only emulated queues
/// drop.
const TAP_QUEUE_FRAMES: u32 = 20_000;
/// Time limit for interfaces to run. It takes some milliseconds, and seconds while other namespaces
/// are removed.
const RUNNING_DEADLINE: Duration = Duration::from_secs(30);

/// The kind of the guests' ends of their links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Each guest is a namespace with one end of a veth pair whose other end is the port.
    Namespaces,
    /// Each guest is a VM: its port is a tap, whose descriptor QEMU gets.
    Machines,
}

impl Ends {
    /// Returns the backend with this kind of guests.
    pub fn arm(self) -> Arm {
        match self {
            Ends::Namespaces => Arm::Live,
            Ends::Machines => Arm::Vm,
        }
    }
}

/// A wired case: everything exists and is up, no program is attached, no traffic flows.
#[derive(Debug)]
pub struct Wiring {
    /// Namespace that holds `br<i>`, `port<i>` and `up<i>`.
    pub hosts: Namespace,
    /// Namespaces of the guests, in the plan's order; empty where guests are VMs.
    pub guests: Vec<Namespace>,
    /// Ports of guests that are VMs, in the plan's order; empty where guests are namespaces.
    pub machines: Vec<Tap>,
    /// Namespaces of the receivers, in the plan's order.
    pub servers: Vec<Namespace>,
    /// Taps by the plan's host number: the uplinks of the guests' hosts, then the uplinks or own taps
    /// of the receivers.
    pub taps: Vec<Tap>,
    /// Congestion controls of the stacks that the kernel lacks.
    pub congestion: CongestionControls,
}

impl Wiring {
    /// Builds the namespaces and interfaces of `plan`.
    ///
    /// # Errors
    /// [`LabError`] with the namespace and the setting or command that failed. What was built
    /// before the failure vanishes.
    pub fn build(plan: &Plan) -> Result<Self, LabError> {
        Self::build_with(plan, Ends::Namespaces)
    }

    /// Builds the wiring like [`Wiring::build`], with `ends` at the guests' ends of their links.
    ///
    /// # Errors
    /// As [`Wiring::build`].
    pub fn build_with(plan: &Plan, ends: Ends) -> Result<Self, LabError> {
        let hosts = Namespace::new("the hosts")?;
        let servers = plan.servers.iter();
        let servers = servers.map(|server| Namespace::new(server.label.clone()));
        let servers: Vec<Namespace> = servers.collect::<Result<_, _>>()?;
        let (mut guests, mut machines) = (Vec::new(), Vec::new());
        for guest in &plan.guests {
            match ends {
                Ends::Namespaces => guests.push(Namespace::new(guest.label.clone())?),
                Ends::Machines => {
                    machines.push(Tap::for_machine(&hosts, &guest.port, plan.offload)?);
                }
            }
        }
        hosts.set_sysctls(&stack::bridge_sysctls())?;
        let mut taps = Vec::with_capacity(plan.places.len() + servers.len());
        for host in 0..plan.places.len() {
            taps.push(Tap::open(&hosts, &uplink(host))?);
        }
        for (server, namespace) in plan.servers.iter().zip(&servers) {
            namespace.set_sysctls(&stack::sysctls(plan.family, &server.stack))?;
            if server.host >= plan.places.len() {
                taps.push(match server.port {
                    Some(_) => Tap::open(&hosts, &uplink(server.host))?,
                    None => Tap::open(namespace, "eth0")?,
                });
            }
        }
        for (guest, namespace) in plan.guests.iter().zip(&guests) {
            namespace.set_sysctls(&stack::sysctls(plan.family, &guest.stack))?;
        }
        let wiring = Self {
            hosts,
            guests,
            machines,
            servers,
            taps,
            congestion: match ends {
                Ends::Namespaces => CongestionControls::prepare(plan)?,
                // The guests' kernels have their own.
                Ends::Machines => {
                    let servers = plan.servers.iter();
                    let named = servers.map(|server| &server.stack.congestion_control[..]);
                    CongestionControls::for_names(&named.collect::<Vec<_>>(), &plan.coupling)?
                }
            },
        };
        wiring.connect(plan)?;
        Ok(wiring)
    }

    fn connect(&self, plan: &Plan) -> Result<(), LabError> {
        ip_batch(&self.hosts, &host_lines(plan, &self.guests, &self.servers))?;
        for (guest, namespace) in plan.guests.iter().zip(&self.guests) {
            ip_batch(namespace, &guest_lines(plan, guest))?;
            set_offload(namespace, "eth0", plan.offload)?;
            set_offload(&self.hosts, &guest.port, plan.offload)?;
        }
        for (number, namespace) in self.servers.iter().enumerate() {
            ip_batch(namespace, &server_lines(plan, number))?;
            set_offload(namespace, "eth0", plan.offload)?;
            if let Some(port) = &plan.servers[number].port {
                set_offload(&self.hosts, port, plan.offload)?;
            }
        }
        [&self.hosts]
            .into_iter()
            .chain(&self.servers)
            .chain(&self.guests)
            .try_for_each(wait_running)
    }
}

/// Waits until every interface runs. The kernel completes `up` asynchronously: until then a
/// bridge's port is disabled and an interface has no queue, and frames are lost without a count.
///
/// # Errors
/// The first interface that does not run within half a minute.
pub fn wait_running(namespace: &Namespace) -> Result<(), LabError> {
    namespace.enter(|| {
        let start = Instant::now();
        while let Some(interface) = first_not_running()? {
            if start.elapsed() > RUNNING_DEADLINE {
                return Err(LabError::Refused(format!(
                    "{interface} in the namespace of {} is up but not running after {} s; reduce \
                     the load on this host",
                    namespace.node(),
                    RUNNING_DEADLINE.as_secs()
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })?
}

/// Returns the first interface in the caller's namespace that lacks IFF_RUNNING, whose operational state (RFC 2863) is
/// not up; `None` if all run.
fn first_not_running() -> Result<Option<String>, LabError> {
    let interfaces = getifaddrs().map_err(|errno| LabError::Resource {
        action: "list the interfaces of a namespace",
        source: errno.into(),
    })?;
    let not_running =
        |interface: &InterfaceAddress| !interface.flags.contains(InterfaceFlags::IFF_RUNNING);
    Ok(interfaces
        .into_iter()
        .find(not_running)
        .map(|interface| interface.interface_name))
}

/// Returns the commands for bridges and ports. Bridges have no spanning tree, learning delay or
/// snooping: plain wires with an address table.
fn host_lines(plan: &Plan, guests: &[Namespace], servers: &[Namespace]) -> Vec<String> {
    let mut lines = vec!["link set lo up".to_owned()];
    let mtu = plan.mtu_bytes;
    for host in bridges(plan) {
        let up = uplink(host);
        lines.push(format!(
            "link add br{host} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ));
        lines.push(format!("link set br{host} up"));
        lines.push(format!(
            "link set {up} mtu {mtu} txqueuelen {TAP_QUEUE_FRAMES} master br{host} up"
        ));
    }
    if guests.is_empty() {
        lines.extend(plan.guests.iter().map(|guest| {
            let (port, host) = (&guest.port, guest.host);
            format!("link set {port} txqueuelen {TAP_QUEUE_FRAMES} master br{host} up")
        }));
    }
    for (guest, namespace) in plan.guests.iter().zip(guests) {
        lines.extend(port_lines(
            &guest.port,
            guest.host,
            guest.mac,
            namespace,
            mtu,
        ));
    }
    for (server, namespace) in plan.servers.iter().zip(servers) {
        if let Some(port) = &server.port {
            lines.extend(port_lines(port, server.host, server.mac, namespace, mtu));
        }
    }
    lines
}

/// Returns the commands for the link between a guest, or a server, and its host.
fn port_lines(
    port: &str,
    host: usize,
    mac: [u8; 6],
    namespace: &Namespace,
    mtu: u32,
) -> [String; 2] {
    // iproute2 takes a path with a slash as the namespace's file.
    let path = namespace.path();
    let (mac, path) = (mac_text(mac), path.display());
    [
        format!("link add {port} type veth peer name eth0 address {mac} netns {path}"),
        format!("link set {port} mtu {mtu} master br{host} up"),
    ]
}

/// Returns the numbers of the hosts with a bridge and an uplink: those with guests, and those of servers with a port.
fn bridges(plan: &Plan) -> impl Iterator<Item = usize> {
    let with_guests = plan.places.len();
    let with_port = plan.servers.iter().filter(|server| server.port.is_some());
    let hosts = with_port.map(|server| server.host);
    (0..with_guests).chain(hosts.filter(move |&host| host >= with_guests))
}

/// Returns the name of a host's uplink.
fn uplink(host: usize) -> String {
    format!("up{host}")
}

/// Returns the `ip` commands that set up a guest's interface.
pub fn guest_lines(plan: &Plan, guest: &Guest) -> Vec<String> {
    let mtu = plan.mtu_bytes;
    let mut lines = vec![
        "link set lo up".to_owned(),
        format!("link set eth0 mtu {mtu} up"),
    ];
    lines.extend(address_lines(guest.address, &guest.stack));
    let servers = plan.servers_of(guest);
    lines.extend(servers.map(|server| neighbour_line(server.address, server.mac)));
    lines
}

/// Returns the commands that set up the interface of receiver number `number`.
fn server_lines(plan: &Plan, number: usize) -> Vec<String> {
    let server = &plan.servers[number];
    let mut lines = vec!["link set lo up".to_owned()];
    if server.port.is_none() {
        let mac = mac_text(server.mac);
        lines.push(format!(
            "link set eth0 address {mac} txqueuelen {TAP_QUEUE_FRAMES}"
        ));
    }
    lines.push(format!("link set eth0 mtu {} up", plan.mtu_bytes));
    lines.extend(address_lines(server.address, &server.stack));
    lines.extend(
        plan.guests_of(number)
            .map(|guest| neighbour_line(guest.address, guest.mac)),
    );
    lines
}

/// Returns the commands for the address and the LAN's route, which carries what Linux sets per route only: the maximum
/// window (see [`stack::window_bytes`]), the minimum RTO, the initial window and whether ACKs wait. The address
/// gets no route of its own (`noprefixroute`).
fn address_lines(address: IpAddr, stack: &Stack) -> [String; 2] {
    let mut metrics = format!("window {}", stack::window_bytes(stack));
    if let Some(rto_min) = stack.rto_min {
        // The kernel keeps whole milliseconds; zero would mean its own minimum.
        metrics += &format!(" rto_min {}ms", rto_min.0.div_ceil(1_000_000).max(1));
    }
    if let Some(segments) = stack.initial_window {
        metrics += &format!(" initcwnd {segments}");
    }
    if stack.delayed_ack.is_some_and(|longest| longest.0 == 0) {
        metrics += " quickack 1";
    }
    match address {
        IpAddr::V4(v4) => [
            format!("address add {v4}/16 dev eth0 noprefixroute"),
            format!("route add 10.77.0.0/16 dev eth0 src {v4} {metrics}"),
        ],
        IpAddr::V6(v6) => [
            format!("address add {v6}/64 dev eth0 nodad noprefixroute"),
            format!("route add fd77::/64 dev eth0 {metrics}"),
        ],
    }
}

fn neighbour_line(address: IpAddr, mac: [u8; 6]) -> String {
    format!(
        "neigh replace {address} lladdr {} dev eth0 nud permanent",
        mac_text(mac)
    )
}

/// Runs `lines` as one `ip -batch -` inside the namespace.
///
/// # Errors
/// The line that failed.
pub fn ip_batch(namespace: &Namespace, lines: &[String]) -> Result<(), LabError> {
    let batch = lines.join("\n") + "\n";
    let failed = |detail: String| {
        LabError::Refused(format!(
            "`ip -batch -` failed in the namespace of {}: {detail}",
            namespace.node()
        ))
    };
    let mut child = namespace
        .command(need::program("ip")?)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // The pipe closes with the block, which ends the batch.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut pipe| pipe.write_all(batch.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(batch_failure(&output, lines)));
    }
    written.map_err(|error| failed(error.to_string()))
}

/// Returns the line of the batch that failed: `ip` reports "Command failed -:<number>".
fn batch_failure(output: &Output, lines: &[String]) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .rsplit_once("-:")
        .and_then(|(_, number)| number.trim().parse::<usize>().ok())
        .and_then(|number| lines.get(number.wrapping_sub(1)));
    format!("{}: {} (line: {line:?})", output.status, text.trim())
}

/// Sets segmentation and receive aggregation of one interface.
///
/// # Errors
/// What ethtool says.
pub fn set_offload(namespace: &Namespace, interface: &str, on: bool) -> Result<(), LabError> {
    let word = if on { "on" } else { "off" };
    let arguments = ["-K", interface, "tso", word, "gso", word, "gro", word];
    let failed = |detail: String| {
        LabError::Refused(format!(
            "`ethtool {}` failed in the namespace of {}: {detail}",
            arguments.join(" "),
            namespace.node()
        ))
    };
    let output = namespace
        .command(need::program("ethtool")?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!(
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

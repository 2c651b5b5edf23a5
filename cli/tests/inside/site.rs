//! A host in a guest: its own namespace routes between those of tenants and of a server, each at
//! the end of a veth whose other end is a port.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use uc_lab::netns::Namespace;
use uc_lab::vm::image::MODULES;
use uc_lab::wiring;

use crate::common::transfer::{End, Transfer};
use crate::common::uc::success;

/// Modules of a guest's kernel that are not loaded on demand.
const NEEDED: [&str; 5] = ["veth", "sch_ingress", "cls_bpf", "sch_tbf", "sch_fq"];
/// The server's TCP port.
const SERVICE: u16 = 5001;

/// The whole site. `port0` is the first tenant's, and the last port is the server's.
pub struct Site {
    /// The namespace with the ports.
    pub host: Namespace,
    /// The namespaces of the tenants, then the server's.
    ends: Vec<Namespace>,
}

impl Site {
    /// Creates a site with this number of tenants, and a link to the server that marks instead of
    /// dropping. The link is slow: an emulated CPU does little else beside the packets of a faster
    /// one.
    pub fn build(tenants: usize) -> Self {
        for module in NEEDED {
            uc_lab::vm::modules::load(Path::new(MODULES), module).unwrap();
        }
        let host = Namespace::here("the host").unwrap();
        host.set_sysctls(&[("net.ipv4.ip_forward", "1".to_owned())])
            .unwrap();
        let end = |index| Namespace::new(format!("end {index}")).unwrap();
        let site = Self {
            host,
            ends: (0..=tenants).map(end).collect(),
        };
        for (index, end) in site.ends.iter().enumerate() {
            site.connect(index, end);
        }
        let port = site.server_port();
        // Packets that may not be marked, SYNs and retransmissions (RFC 3168, 6.1.1 and 6.1.5),
        // must get through beside full flows: RED as a step would drop each of them.
        for words in [
            "root handle 1: tbf rate 8mbit burst 20kb limit 400kb",
            "parent 1: handle 2: fq ce_threshold 15ms flow_limit 30",
        ] {
            tc(&format!("qdisc add dev {port} {words}"));
        }
        site
    }

    fn connect(&self, index: usize, end: &Namespace) {
        let (port, path) = (port(index), end.path());
        let path = path.display();
        let [of_host, of_end] = [1, 2].map(|last| address(index, last));
        let lines = [
            format!("link add {port} type veth peer name eth0 netns {path}"),
            format!("addr add {of_host}/24 dev {port}"),
            format!("link set {port} up"),
        ];
        wiring::ip_batch(&self.host, &lines).unwrap();
        let lines = [
            format!("addr add {of_end}/24 dev eth0"),
            "link set lo up".to_owned(),
            "link set eth0 up".to_owned(),
            format!("route add default via {of_host}"),
        ];
        wiring::ip_batch(end, &lines).unwrap();
    }

    /// Returns the server's namespace.
    pub fn server(&self) -> &Namespace {
        self.ends.last().unwrap()
    }

    /// Returns an address on which the server may listen.
    pub fn service(&self, number: u16) -> SocketAddr {
        SocketAddr::new(address(self.ends.len() - 1, 2).into(), SERVICE + number)
    }

    /// Returns a tenant's namespace.
    pub fn tenant(&self, index: usize) -> &Namespace {
        &self.ends[index]
    }

    /// Returns the server's port.
    pub fn server_port(&self) -> String {
        port(self.ends.len() - 1)
    }

    /// Returns the names of all ports.
    pub fn ports(&self) -> Vec<String> {
        (0..self.ends.len()).map(port).collect()
    }

    /// Starts a transfer from the tenant to the server; each number has TCP ports of its own.
    pub fn start(&self, tenant: usize, number: u16) -> Transfer {
        self.start_to(tenant, self.ends.len() - 1, number)
    }

    /// Starts a transfer from `tenant` to the end with index `to`.
    pub fn start_to(&self, tenant: usize, to: usize, number: u16) -> Transfer {
        let end = |index: usize, port| End {
            namespace: &self.ends[index],
            address: SocketAddr::new(address(index, 2).into(), port),
        };
        Transfer::start(end(tenant, 40_000 + number), end(to, SERVICE + number))
    }

    /// Starts a transfer from the server, which asks for ECN, to the first tenant, which has none. What the
    /// server sends is marked on its side of the link.
    pub fn start_marked_down(&self, number: u16) -> Transfer {
        for (end, ecn) in [(self.server(), "1"), (self.tenant(0), "0")] {
            let ecn = ("net.ipv4.tcp_ecn", ecn.to_owned());
            end.set_sysctls(&[ecn]).unwrap();
        }
        for words in [
            "qdisc add dev eth0 root handle 1: tbf rate 4mbit burst 20kb limit 400kb",
            "qdisc add dev eth0 parent 1: handle 2: fq ce_threshold 5ms",
        ] {
            let mut tc = self.server().command("tc");
            tc.args(words.split(' '));
            success(tc);
        }
        self.start_to(self.ends.len() - 1, 0, number)
    }

    /// Raises the rate of the link to the server, for unmarked flows, and so that queued data
    /// arrives soon.
    pub fn speed_up(&self) {
        let words = "root handle 1: tbf rate 30mbit burst 20kb limit 400kb";
        tc(&format!("qdisc change dev {} {words}", self.server_port()));
    }
}

/// Returns the host's side of an end's interface.
pub fn port(index: usize) -> String {
    format!("port{index}")
}

fn address(index: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, u8::try_from(index).unwrap(), last)
}

/// Runs `tc` in the guest's own namespace; `arguments` are separated by spaces.
pub fn tc(arguments: &str) -> String {
    let mut command = Command::new("tc");
    command.args(arguments.split_whitespace());
    success(command)
}

/// Returns the clsact qdisc and filters of a port, ours and others'.
pub fn clsact(port: &str) -> String {
    let qdiscs = tc(&format!("qdisc show dev {port}"));
    let clsact = qdiscs.lines().filter(|line| line.contains("clsact"));
    let hooks = ["ingress", "egress"].map(|hook| tc(&format!("filter show dev {port} {hook}")));
    clsact.chain(hooks.iter().map(String::as_str)).collect()
}

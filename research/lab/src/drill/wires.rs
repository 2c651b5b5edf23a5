//! The namespaces, interfaces and programs between a script and its guest.

use uc_core::Law;
use uc_drill::Stop;
use uc_experiment::{Parameters, Profile};

use super::frames::{Ends, GUEST_MAC, Link, PEER_MAC};
use crate::error::LabError;
use crate::netns::Namespace;
use crate::ports::programs::LivePorts;
use crate::ports::{Part, Port, Ports};
use crate::stack::bridge_sysctls;
use crate::tap::Tap;
use crate::wiring::{ip_batch, wait_running};

/// The guest's interface, by packetdrill's name: commands of scripts name it.
const INTERFACE: &str = "tun0";

/// Target of law `delay`: longer than any round-trip time of a script, so that the law reduces no window.
const TARGET: &str = "1s";

/// The guest's namespace, the interfaces between guest and script, and the programs on the guest's port.
pub(super) struct Wires {
    pub(super) guest: Namespace,
    hosts: Namespace,
    pub(super) tap: Tap,
    pub(super) law: Option<Law>,
    ports: LivePorts,
}

impl Wires {
    /// Makes the namespaces and the tap. Without programs the tap is the guest's own interface, as under packetdrill.
    pub(super) fn new(law: Option<Law>) -> Result<Wires, LabError> {
        crate::need::check()?;
        let guest = Namespace::new("the guest")?;
        let hosts = Namespace::new("the hosts")?;
        hosts.set_sysctls(&bridge_sysctls())?;
        let tap = match law {
            Some(_) => Tap::for_machine(&hosts, "t0", true)?,
            None => Tap::without_ethernet(&guest, INTERFACE)?,
        };
        Ok(Wires {
            guest,
            hosts,
            tap,
            law,
            ports: LivePorts::default(),
        })
    }

    /// Returns the kind of link-layer header of the tap's frames.
    pub(super) fn link(&self) -> Link {
        match self.law {
            Some(_) => Link::Ethernet,
            None => Link::None,
        }
    }

    /// Sets up the guest's interface with its address, and attaches the programs if there is a law. `mtu`: `None` keeps
    /// the interfaces' default.
    pub(super) fn connect(&mut self, ends: Ends, mtu: Option<u32>) -> Result<(), Stop> {
        let done = self.wire(ends, mtu).and_then(|()| self.attach(ends));
        done.map_err(|error| {
            Stop::Lacks(format!(
                "the lab could not make the script's network: {error}"
            ))
        })
    }

    fn wire(&mut self, ends: Ends, mtu: Option<u32>) -> Result<(), LabError> {
        let is_v6 = ends.is_v6();
        let mut sysctls = vec![("net.ipv4.tcp_no_metrics_save", "1".to_owned())];
        let ipv6 = "net.ipv6.conf.default.disable_ipv6";
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            sysctls.push((ipv6, u8::from(!is_v6).to_string()));
        }
        self.guest.set_sysctls(&sysctls)?;
        let Ends { guest, peer } = ends;
        let (length, nodad) = if is_v6 { (64, " nodad") } else { (24, "") };
        let mtu = mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        let mut lines = vec![
            "link set lo up".to_owned(),
            format!("link set {INTERFACE}{mtu} up"),
            format!("addr add {guest}/{length} dev {INTERFACE}{nodad}"),
            format!("route add {peer} dev {INTERFACE}"),
        ];
        if self.law.is_none() {
            ip_batch(&self.guest, &lines)?;
            return wait_running(&self.guest);
        }
        let hosts = self.hosts.path();
        let hosts = hosts.display();
        let (guest_mac, peer_mac) = (mac(GUEST_MAC), mac(PEER_MAC));
        let veth = format!("link add {INTERFACE} address {guest_mac}{mtu} type veth");
        lines.insert(0, format!("{veth} peer name p0{mtu} netns {hosts}"));
        let neighbor = format!("neigh add {peer} lladdr {peer_mac} dev {INTERFACE} nud permanent");
        lines.push(neighbor);
        ip_batch(&self.guest, &lines)?;
        ip_batch(
            &self.hosts,
            &[
                "link set lo up".to_owned(),
                "link add b0 type bridge forward_delay 0 mcast_snooping 0".to_owned(),
                format!("link set t0{mtu} master b0 up"),
                "link set p0 master b0 up".to_owned(),
                "link set b0 up".to_owned(),
            ],
        )?;
        wait_running(&self.guest)?;
        wait_running(&self.hosts)
    }

    fn attach(&mut self, ends: Ends) -> Result<(), LabError> {
        let Some(law) = self.law else {
            return Ok(());
        };
        let parameters = Parameters::default()
            .with("target", TARGET)
            .expect("a time")
            .under(law);
        let ports = &mut self.ports;
        self.hosts.enter(|| {
            let failed = |source| LabError::Port {
                ifname: "p0".to_owned(),
                node: "the guest".to_owned(),
                source,
            };
            let ifindex =
                nix::net::if_::if_nametoindex("p0").map_err(|errno| failed(errno.into()))?;
            ports
                .attach(&Port {
                    ifname: "p0",
                    ifindex,
                    node: "the guest",
                    address: ends.guest,
                    law,
                    parameters,
                    profile: Profile::Linux,
                    start: None,
                    grants: None,
                    hold: None,
                    dupack: None,
                    part: Part::Client,
                    sharing: None,
                })
                .map_err(failed)
        })?
    }
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

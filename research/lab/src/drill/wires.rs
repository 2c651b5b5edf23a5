//! The namespaces, interfaces and programs between a script and its guest.

use uc_core::Law;
use uc_drill::Stop;
use uc_experiment::{Parameters, Profile};

use super::frames::{Ends, GUEST_MAC, PEER_MAC};
use crate::error::LabError;
use crate::netns::Namespace;
use crate::ports::programs::LivePorts;
use crate::ports::{Part, Port, Ports};
use crate::stack::bridge_sysctls;
use crate::tap::Tap;
use crate::wiring::{ip_batch, wait_running};

/// The guest's namespace, what connects it with the script, and the programs on its port.
pub(super) struct Wires {
    pub(super) guest: Namespace,
    hosts: Namespace,
    pub(super) tap: Tap,
    pub(super) law: Option<Law>,
    ports: LivePorts,
}

impl Wires {
    /// Makes the namespaces and the tap.
    pub(super) fn new(law: Option<Law>) -> Result<Wires, LabError> {
        crate::need::check()?;
        let guest = Namespace::new("the guest")?;
        let hosts = Namespace::new("the hosts")?;
        hosts.set_sysctls(&bridge_sysctls())?;
        let tap = Tap::for_machine(&hosts, "t0", true)?;
        Ok(Wires {
            guest,
            hosts,
            tap,
            law,
            ports: LivePorts::default(),
        })
    }

    /// Wires the guest with its address, and attaches the programs.
    pub(super) fn connect(&mut self, ends: Ends, mtu: Option<u32>) -> Result<(), Stop> {
        let done = self.wire(ends, mtu).and_then(|()| self.attach(ends));
        done.map_err(|error| Stop::Lacks(format!("what the lab could not make: {error}")))
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
        let hosts = self.hosts.path();
        let hosts = hosts.display();
        let mtu = mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        let (guest_mac, peer_mac) = (mac(GUEST_MAC), mac(PEER_MAC));
        ip_batch(
            &self.guest,
            &[
                "link set lo up".to_owned(),
                format!(
                    "link add eth0 address {guest_mac}{mtu} type veth peer name p0{mtu} netns {hosts}"
                ),
                "link set eth0 up".to_owned(),
                format!("addr add {guest}/{length} dev eth0{nodad}"),
                format!("route add {peer} dev eth0"),
                format!("neigh add {peer} lladdr {peer_mac} dev eth0 nud permanent"),
            ],
        )?;
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
                    parameters: Parameters::default(),
                    profile: Profile::Linux,
                    start: None,
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

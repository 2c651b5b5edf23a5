//! Processes on the bridge's host through which data pass: HAProxy and `uc split`, which take connections
//! and make others to the receiver, and `uc hold`, which holds the packets of a port.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Done;
use crate::bridge::{Bridge, run_ip};

/// An address of the receiver that guests reach through the host only.
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
const NO_UC: &str = "the path of `uc` is not given";

/// A running process; dropping it ends it.
pub struct Beside {
    /// Address that a guest connects to.
    pub address: SocketAddr,
    process: Child,
    _folder: Option<tempfile::TempDir>,
}

impl Beside {
    /// Returns the processor time of the process's threads so far.
    pub fn spent(&self) -> Done<Duration> {
        let mut spent_ns = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text
                .split(' ')
                .next()
                .ok_or("/proc/PID/schedstat has another format than expected")?;
            spent_ns += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(spent_ns))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// HAProxy with one thread on the host's own address, which forwards connections to the receiver.
pub struct Proxy;

impl Proxy {
    /// Starts HAProxy, and waits until it listens.
    pub fn start(bridge: &Bridge, to: SocketAddr) -> Done<Beside> {
        let address = SocketAddr::from((Bridge::HOST, 7000));
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("haproxy.cfg");
        std::fs::write(
            &config,
            format!(
                "global\n  nbthread 1\n  maxconn 1000\n\
                 defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n  \
                 option splice-auto\n\
                 frontend all\n  bind {address}\n  default_backend receiver\n\
                 backend receiver\n  server receiver {to}\n"
            ),
        )?;
        let mut command = bridge.host.command("haproxy");
        command
            .args(["-db", "-f"])
            .arg(&config)
            .stderr(Stdio::null());
        let process = command.spawn().map_err(|error| {
            format!("HAProxy (Debian's package `haproxy`) does not start: {error}")
        })?;
        let proxy = Beside {
            address,
            process,
            _folder: Some(folder),
        };
        let began = Instant::now();
        while !Self::listens(bridge, address.port())? {
            if began.elapsed() > Duration::from_secs(10) {
                return Err("HAProxy does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// Returns whether the proxy listens, by the kernel's table of sockets: a connection would reach
    /// the receiver.
    fn listens(bridge: &Bridge, port: u16) -> Done<bool> {
        let table = || std::fs::read_to_string("/proc/thread-self/net/tcp");
        let listening = format!(":{port:04X} 00000000:0000 0A");
        Ok(bridge.host.enter(table)??.contains(&listening))
    }
}

/// `uc split` on the bridge, with one thread, for a guest whose gateway is the host.
pub struct Split;

impl Split {
    /// Routes between this guest and [`BEHIND`] through the host, starts `uc`, and waits until it
    /// splits connections to this port.
    pub fn start(bridge: &Bridge, guest: u8, uc: Option<&str>, port: u16) -> Done<Beside> {
        let uc = uc.ok_or(NO_UC)?;
        let (host, receiver, address) = (Bridge::HOST, Bridge::RECEIVER, Bridge::guest(guest));
        let forwards = ("net.ipv4.ip_forward", "1".to_owned());
        bridge.host.set_sysctls(&[forwards])?;
        // The settings exist where the module br_netfilter is loaded; `uc split` refuses bridges whose
        // packets pass the packet filter before IP.
        for filter in ["iptables", "ip6tables"] {
            let name = format!("net.bridge.bridge-nf-call-{filter}");
            if Path::new("/proc/sys").join(name.replace('.', "/")).exists() {
                bridge.host.set_sysctls(&[(&name, "0".to_owned())])?;
            }
        }
        let routes = [
            (
                &bridge.guests[usize::from(guest)],
                format!("route add {BEHIND} via {host}\n"),
            ),
            (&bridge.host, format!("route add {BEHIND} via {receiver}\n")),
            (
                &bridge.receiver,
                format!("address add {BEHIND}/32 dev lo\nroute add {address} via {host}\n"),
            ),
        ];
        for (namespace, batch) in routes {
            run_ip(namespace, &batch)?;
        }
        let mut command: Command = bridge.host.command(uc);
        command.args(["split", "br0", "--threads", "1"]);
        cautious(command, SocketAddr::from((BEHIND, port)))
    }
}

/// `uc hold` at a guest's port, which it attaches with law `ecn`, in a BPF file system of its own.
pub struct Hold;

impl Hold {
    /// Starts `uc` and waits until it holds the packets of new connections. `what`: the option of `uc hold`.
    pub fn start(
        bridge: &Bridge,
        guest: u8,
        uc: Option<&str>,
        what: &str,
        to: SocketAddr,
    ) -> Done<Beside> {
        let uc = std::path::absolute(uc.ok_or(NO_UC)?)?;
        let script = "mount -t bpf -o mode=755 bpf /sys/fs/bpf\n\
                      \"$1\" attach \"$2\" --law ecn > /dev/null\n\
                      exec \"$1\" hold \"$2\" \"$3\"";
        let mut command = bridge.host.command("unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-ec",
                script,
                "sh",
            ])
            .arg(uc)
            .args([&Bridge::port(guest), what]);
        cautious(command, to)
    }
}

/// Starts a command of `uc` that serves connections to this address, and waits until it prints a line `caution: …`, the
/// last before it serves them.
fn cautious(mut command: Command, address: SocketAddr) -> Done<Beside> {
    command.stdout(Stdio::piped());
    let mut process = command
        .spawn()
        .map_err(|error| format!("{command:?} does not start: {error}"))?;
    let said = process
        .stdout
        .take()
        .ok_or("the standard output of the program is not open")?;
    let beside = Beside {
        address,
        process,
        _folder: None,
    };
    for line in BufReader::new(said).lines() {
        if line?.starts_with("caution: ") {
            return Ok(beside);
        }
    }
    Err(format!("{command:?} ended with an error").into())
}

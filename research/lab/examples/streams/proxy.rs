//! HAProxy on the bridge's own address, which forwards connections to the receiver.

use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::Done;
use crate::bridge::Bridge;

/// A running proxy.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// Starts HAProxy with one thread, and waits until it listens.
    pub fn start(bridge: &Bridge, to: SocketAddr) -> Done<Self> {
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
        let proxy = Self {
            address,
            process,
            _folder: folder,
        };
        let began = Instant::now();
        while !proxy.listens(bridge)? {
            if began.elapsed() > Duration::from_secs(10) {
                return Err("HAProxy does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// Returns whether the proxy listens, by the kernel's table of sockets: a connection would reach
    /// the receiver.
    fn listens(&self, bridge: &Bridge) -> Done<bool> {
        let table = || std::fs::read_to_string("/proc/thread-self/net/tcp");
        let listening = format!(":{:04X} 00000000:0000 0A", self.address.port());
        Ok(bridge.host.enter(table)??.contains(&listening))
    }

    /// Returns the processor time of the proxy's threads.
    pub fn spent(&self) -> Done<Duration> {
        let mut spent_ns = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text.split(' ').next().ok_or("no schedstat")?;
            spent_ns += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(spent_ns))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

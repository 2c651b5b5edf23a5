//! Guests and a receiver behind one bridge, joined by veths with offloads and no emulated link, and
//! streams of bytes between them. Tests and benchmarks use it.
#![allow(dead_code, reason = "every user needs its own part")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use uc_core::Policy;
use uc_lab::netns::Namespace;
use uc_port::{AttachVia, PortError, PortLinks, Programs};

/// Bytes of one write or read.
const CHUNK_BYTES: usize = 256 * 1024;

/// The network. Guests have the addresses 10.9.0.1, 10.9.0.2 and so on.
pub struct Bridge {
    /// The namespace of the bridge and the ports.
    pub host: Namespace,
    /// The guests' namespaces.
    pub guests: Vec<Namespace>,
    /// The receiver's namespace.
    pub receiver: Namespace,
}

impl Bridge {
    /// The receiver's address.
    pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 250);
    /// The host's own address on the bridge.
    pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);

    /// Builds it with this number of guests. `steers`: each interface hands the packets of a flow to
    /// one processor, by receive packet steering; otherwise a packet is queued on the processor that
    /// sends it, and packets of a flow overtake each other wherever its sender changes processors.
    pub fn build(guests: u8, steers: bool) -> Result<Self, Box<dyn Error>> {
        let new = |name: &str| -> Result<Namespace, Box<dyn Error>> {
            let namespace = Namespace::new(name)?;
            let tcp = [
                ("net.ipv4.tcp_congestion_control", "reno"),
                ("net.ipv4.tcp_slow_start_after_idle", "0"),
                ("net.ipv4.tcp_timestamps", "1"),
                ("net.ipv4.tcp_no_metrics_save", "1"),
                ("net.ipv4.ip_local_port_range", "1024 65535"),
            ];
            namespace.set_sysctls(&tcp.map(|(key, value)| (key, value.to_owned())))?;
            if steers {
                let mask = ("net.core.rps_default_mask", all_processors());
                namespace.set_sysctls(&[mask])?;
            }
            Ok(namespace)
        };
        let bridge = Self {
            host: new("host")?,
            guests: (0..guests)
                .map(|_| new("guest"))
                .collect::<Result<_, _>>()?,
            receiver: new("receiver")?,
        };
        let mut batch = format!(
            "link add br0 type bridge\nlink set br0 up\nlink set lo up\naddress add {}/24 dev br0\n",
            Self::HOST
        );
        let ends = bridge
            .guests
            .iter()
            .zip(0..)
            .map(|(guest, number)| (guest, Self::port(number), Self::guest(number)));
        for (end, port, address) in
            ends.chain([(&bridge.receiver, "receiver0".into(), Self::RECEIVER)])
        {
            let path = end.path();
            batch += &format!(
                "link add {port} type veth peer name eth0 netns {}\nlink set {port} master br0 up\n",
                path.display()
            );
            run_ip(&bridge.host, &batch)?;
            batch.clear();
            run_ip(
                end,
                &format!("address add {address}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"),
            )?;
        }
        Ok(bridge)
    }

    /// Returns the name of a guest's port.
    pub fn port(guest: u8) -> String {
        format!("port{guest}")
    }

    /// Returns a guest's address.
    pub fn guest(guest: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 0, 1 + guest)
    }

    /// Attaches the programs to a guest's port, under a policy.
    pub fn attach(
        &self,
        programs: &Programs,
        guest: u8,
        policy: Policy,
    ) -> Result<PortLinks, Box<dyn Error>> {
        self.on_port(guest, |ifindex| {
            programs.set_plan(ifindex, &policy.into())?;
            programs.attach(ifindex, AttachVia::Auto)
        })
    }

    /// Runs `what` in the host's namespace, with the interface index of a guest's port.
    pub fn on_port<T: Send>(
        &self,
        guest: u8,
        what: impl FnOnce(u32) -> Result<T, PortError> + Send,
    ) -> Result<T, Box<dyn Error>> {
        let port = Self::port(guest);
        let work = || -> Result<T, String> {
            let ifindex = if_nametoindex(port.as_str()).map_err(|error| error.to_string())?;
            what(ifindex).map_err(|error| error.to_string())
        };
        Ok(self.host.enter(work)??)
    }

    /// Returns a counter of a namespace's TCP, of `/proc/net/snmp` or `/proc/net/netstat`.
    pub fn counter(namespace: &Namespace, name: &str) -> Result<u64, Box<dyn Error>> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let text =
            namespace.enter(|| Ok::<_, std::io::Error>(read("snmp")? + &read("netstat")?))??;
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            let mut columns = pair[0].split(' ').zip(pair[1].split(' '));
            if let Some((_, value)) = columns.find(|(column, _)| *column == name) {
                return Ok(value.parse()?);
            }
        }
        Err(format!("no counter {name}").into())
    }
}

/// Returns the mask of all processors, of 31 at most.
fn all_processors() -> String {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get().min(31));
    format!("{:x}", (1u32 << count) - 1)
}

/// Runs commands of ip(8) in a namespace, a line each.
pub fn run_ip(namespace: &Namespace, batch: &str) -> Result<(), Box<dyn Error>> {
    let mut ip = namespace
        .command("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    ip.stdin
        .take()
        .ok_or("no stdin")?
        .write_all(batch.as_bytes())?;
    match ip.wait()?.success() {
        true => Ok(()),
        false => Err(format!("ip refused: {batch}").into()),
    }
}

/// A connection whose sender sends when it is told to. The receiver discards the bytes.
pub struct Stream {
    socket: TcpStream,
    received: Arc<AtomicU64>,
    sent: u64,
}

impl Stream {
    /// Connects a guest to a listener, directly or through a proxy at `to`.
    pub fn connect(
        guest: &Namespace,
        to: SocketAddr,
        listener: &TcpListener,
    ) -> Result<Self, Box<dyn Error>> {
        let socket = guest.enter(|| TcpStream::connect(to))??;
        let (mut accepted, _) = listener.accept()?;
        let received = Arc::new(AtomicU64::new(0));
        let total = Arc::clone(&received);
        std::thread::spawn(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            while let Ok(bytes @ 1..) = accepted.read(&mut chunk) {
                total.fetch_add(bytes as u64, Relaxed);
            }
        });
        Ok(Self {
            socket,
            received,
            sent: 0,
        })
    }

    /// Sends for this time, then waits until all has arrived. Returns the number of bytes.
    pub fn send(&mut self, time: Duration) -> std::io::Result<u64> {
        let (chunk, began, before) = (vec![1; CHUNK_BYTES], Instant::now(), self.sent);
        while began.elapsed() < time {
            self.socket.write_all(&chunk)?;
            self.sent += chunk.len() as u64;
        }
        while self.received.load(Relaxed) < self.sent {
            std::thread::yield_now();
        }
        Ok(self.sent - before)
    }
}

/// Listens in a namespace, on a port of the kernel's choice.
pub fn listen(namespace: &Namespace, address: Ipv4Addr) -> Result<TcpListener, Box<dyn Error>> {
    Ok(namespace.enter(|| TcpListener::bind((address, 0)))??)
}

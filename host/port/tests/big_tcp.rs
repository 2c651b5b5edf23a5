//! Super-segments above 64 KiB over IPv6 (BIG TCP), which carry a header of the kernel's own until they are
//! cut (before Linux 7.0).

mod kernel;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::host::{Host, ip};
use kernel::policy;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use uc_core::{Policy, consts};
use uc_port::{AttachVia, Direction};

const SIZES: &str = "gso_max_size 200000 gro_max_size 200000";
const LASTS: Duration = Duration::from_millis(1500);

/// Runs a function in a network namespace of its own, behind a veth of the bridge.
fn behind<T: Send + 'static>(
    port: &str,
    address: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (tell, told) = channel();
    let (go, start): (_, Receiver<()>) = channel();
    let address = format!("-6 address add {address}/64 dev eth0 nodad");
    let thread = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        tell.send(gettid()).unwrap();
        start.recv().unwrap();
        let memory = "4096 4000000 16000000";
        for (name, value) in [("tcp_ecn", "0"), ("tcp_rmem", memory), ("tcp_wmem", memory)] {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
        }
        ip(&format!("link set eth0 up {SIZES}"));
        ip(&address);
        run()
    });
    let space = told.recv().unwrap();
    ip(&format!(
        "link add {port} type veth peer name eth0 netns {space}"
    ));
    ip(&format!("link set {port} master br0 up {SIZES}"));
    go.send(()).unwrap();
    thread
}

fn receive() -> u64 {
    let listener = TcpListener::bind("[::]:5001").unwrap();
    let mut stream = listener.accept().unwrap().0;
    let mut block = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match stream.read(&mut block).unwrap() {
            0 => return bytes,
            more => bytes += more as u64,
        }
    }
}

fn send() {
    let to: SocketAddr = "[fd01::3]:5001".parse().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let mut stream = loop {
        match TcpStream::connect_timeout(&to, Duration::from_secs(1)) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > until => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let block = vec![0x5a; 1 << 20];
    let until = Instant::now() + LASTS;
    while Instant::now() < until {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn live_super_segments_with_the_kernels_jumbo_header_are_translated_in_strict_mode() {
    let Some(host) = Host::new() else { return };
    ip("link add br0 type bridge forward_delay 0 mcast_snooping 0");
    ip("link set br0 up");
    let receiver = behind("up0", "fd01::3", receive);
    let (attached, wait) = channel::<()>();
    let sender = behind("port0", "fd01::2", move || {
        wait.recv().unwrap();
        send();
    });
    let strict = Policy {
        modes: consts::MODE_STRICT as u8,
        ..policy()
    };
    host.store
        .attach_all(&["port0".to_owned()], &strict.into(), AttachVia::Auto, 64)
        .unwrap();
    attached.send(()).unwrap();
    sender.join().unwrap();
    let bytes = receiver.join().unwrap();
    let counters = host.open().counters().unwrap();
    let seen = counters.seen(Direction::FromGuest);
    println!("{bytes} bytes in {seen} packets of the guest");
    for (reason, packets) in counters.iter().filter(|(_, packets)| *packets > 0) {
        println!("{} {packets}", reason.label());
    }
    assert!(bytes > 65_536 * seen, "super-segments above 64 KiB");
    // multicast listener reports of the guest count as ip_extension
    for reason in ["strict_ip_extension", "beyond_edge"] {
        assert_eq!(counters.get(kernel::reason(reason)), 0, "{reason}");
    }
}

//! The start `watch`: probes, a SYN that waits for them, and the window that they earn.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::site::{Site, clsact};
use super::timed;
use crate::common::watcher::Watcher;

/// Handshakes pass while the holder is late, as it may be on an emulated processor.
const CONNECTIONS: usize = 20;

/// One connection in which the tenant sends a little.
fn exchange(site: &Site, listener: &TcpListener) {
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    let mut stream = site.tenant(0).enter(connect).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    stream.write_all(b"and that is all").unwrap();
    drop(stream);
    let mut text = String::new();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "and that is all");
}

/// Watches both ends' ports beside whatever they have.
pub fn watch(site: &Site) {
    let port = site.server_port();
    let ports = ["port0", port.as_str()];
    let before = ports.map(clsact);
    let arguments = ["--data", "client", "--span", "20ms", "--idle", "3600s"];
    let peers = ["--peer", "10.0.0.0/16"];
    let watcher = timed("watch", || {
        Watcher::start_among(&site.host, &ports, &peers, &arguments)
    });
    let address = site.service(100);
    let listen = || TcpListener::bind(address).unwrap();
    let listener = site.server().enter(listen).unwrap();
    (0..CONNECTIONS).for_each(|_| exchange(site, &listener));
    let seen = watcher.finish();
    println!("{}", seen.all());
    assert!(seen.count("held") >= 1, "{}", seen.all());
    assert!(seen.count("probe") >= 10, "{}", seen.all());
    assert!(
        seen.count("recent") >= 1,
        "the path is known then: {}",
        seen.all()
    );
    assert!(seen.count("window") >= 1, "{}", seen.all());
    assert_eq!(ports.map(clsact), before);
}

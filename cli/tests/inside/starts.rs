//! The start `watch`: probes, a SYN that waits for them, and the resulting window.

use std::net::{TcpListener, TcpStream};

use super::site::{Site, clsact};
use super::timed;
use crate::common::transfer::exchange;
use crate::common::watcher::Watcher;

/// Number of connections that are opened: some handshakes pass if the holder is delayed, as it may
/// be on an emulated CPU.
const CONNECTIONS: usize = 20;

/// Watches both ends' ports in addition to their programs.
pub fn watch(site: &Site) {
    let port = site.server_port();
    let ports = ["port0", port.as_str()];
    let before = ports.map(clsact);
    // An emulated CPU takes longer for a connection than the lifetime of a path's measurement with
    // marks.
    let records = ["--fresh", "3600s", "--idle", "3600s"];
    let arguments = [&["--data", "client", "--span", "20ms"][..], &records].concat();
    let peers = ["--peer", "10.0.0.0/16"];
    let watcher = timed("watch", || {
        Watcher::start_among(&site.host, &ports, &peers, &arguments)
    });
    let address = site.service(100);
    let listen = || TcpListener::bind(address).unwrap();
    let listener = site.server().enter(listen).unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    for _ in 0..CONNECTIONS {
        exchange(&listener, || site.tenant(0).enter(connect).unwrap());
    }
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

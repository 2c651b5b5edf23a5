//! A connection at rest, and the check of what `uc flows --truth` tells of its socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_lab::tcp_info::TcpInfo;

use super::bench::wait_until;
use super::ends::{listen, open};

const BYTES: usize = 300_000;
/// The kernel's ssthresh before the first reduction.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Sends by NewReno from a guest to a server until the guest's socket rests: all is acknowledged. Returns the
/// guest's end, and the server's.
pub fn rested(guest: &Namespace, server: &Namespace, address: SocketAddr) -> [TcpStream; 2] {
    let reno = ("net.ipv4.tcp_congestion_control", "reno".to_owned());
    guest.set_sysctls(&[reno]).unwrap();
    let listener = listen(server, address);
    let (guest, mut server) = open(guest, &listener);
    let mut writer = guest.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&[7; BYTES]).unwrap());
    server.read_exact(&mut vec![0; BYTES]).unwrap();
    writing.join().unwrap();
    wait_until("all is acknowledged", || info(&guest).unacked == 0);
    [guest, server]
}

/// Returns the socket's own TCP_INFO.
pub fn info(socket: &TcpStream) -> TcpInfo {
    TcpInfo::read(socket.as_fd()).unwrap()
}

/// Checks a flow's row against the socket's own TCP_INFO. A ratio is the shadow's value ÷ the kernel's.
/// Returns whether the socket has reduced its window.
pub fn assert_truth(flow: &Value, info: &TcpInfo) -> bool {
    let truth = &flow["truth"];
    let mss = u64::from(info.snd_mss);
    assert_eq!(truth["congestion_control"], "reno", "{flow}");
    assert_eq!(truth["cwnd_segments"], info.snd_cwnd, "{flow}");
    assert_eq!(truth["mss_bytes"], info.snd_mss, "{flow}");
    assert_eq!(truth["rto_us"], info.rto_us, "{flow}");
    let ssthresh = Some(info.snd_ssthresh).filter(|at| *at < INFINITE_SSTHRESH);
    for (field, ratio, kernel) in [
        ("cwnd_bytes", "cwnd", Some(u64::from(info.snd_cwnd) * mss)),
        (
            "ssthresh_bytes",
            "ssthresh",
            ssthresh.map(|at| u64::from(at) * mss),
        ),
        ("srtt_us", "srtt", Some(u64::from(info.rtt_us))),
    ] {
        assert_eq!(truth["kernel"][field].as_u64(), kernel, "{field}: {flow}");
        let shadow = truth["shadow"][field].as_u64();
        let quotient = shadow.zip(kernel).map(|(a, b)| a as f64 / b as f64);
        assert_eq!(truth["ratio"][ratio].as_f64(), quotient, "{ratio}: {flow}");
    }
    for (field, own) in [("cwnd_bytes", "window_bytes"), ("srtt_us", "srtt_us")] {
        assert_eq!(truth["shadow"][field], flow[own], "{flow}");
    }
    ssthresh.is_some()
}

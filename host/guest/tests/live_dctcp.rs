//! The guest's DCTCP on the running kernel, over the loopback interface.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use uc_guest::{Dctcp, GuestError};

/// Registers a private instance for this test; `None` if BPF is not permitted.
fn dctcp() -> Option<Dctcp> {
    match Dctcp::register_private() {
        Ok(dctcp) => Some(dctcp),
        Err(error @ (GuestError::NotPermitted { .. } | GuestError::NoKernelSupport { .. })) => {
            uc_live::skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, sockopt::TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// Connects two sockets over the loopback interface, with these congestion controls.
fn pair(sender: &str, receiver: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&listener, sockopt::TcpCongestion, &receiver.into()).unwrap();
    let address = listener.local_addr().unwrap();
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Stream,
        nix::sys::socket::SockFlag::empty(),
        None,
    );
    let socket = TcpStream::from(socket.unwrap());
    setsockopt(&socket, sockopt::TcpCongestion, &sender.into()).unwrap();
    let to: nix::sys::socket::SockaddrStorage = address.into();
    nix::sys::socket::connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &to).unwrap();
    (socket, listener.accept().unwrap().0)
}

fn send(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) {
    let mut buffer = vec![0; bytes];
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&vec![7; bytes]).unwrap());
        to.read_exact(&mut buffer).unwrap();
    });
    // Waits for an answer, so that all data is acknowledged.
    to.write_all(&[1]).unwrap();
    from.read_exact(&mut buffer[..1]).unwrap();
}

#[test]
fn live_without_marks_the_estimate_decays_from_one() {
    let Some(dctcp) = dctcp() else { return };
    let (mut sender, mut receiver) = pair(dctcp.name(), dctcp.name());
    let begin = dctcp.state(sender.as_fd()).unwrap().unwrap();
    assert_eq!((begin.alpha_q30, begin.windows), (1 << 30, 0));
    for _ in 0..50 {
        send(&mut sender, &mut receiver, 100_000);
    }
    let state = dctcp.state(sender.as_fd()).unwrap().unwrap();
    println!("{state:?}");
    assert!(state.acked_bytes >= 5_000_000, "{state:?}");
    assert!(state.windows >= 50 && state.marked_bytes == 0, "{state:?}");
    // α = (15/16)^windows, each step rounded up by less than 1/2^30.
    let exact = (15.0_f64 / 16.0).powi(state.windows as i32);
    let alpha = f64::from(state.alpha_q30) / f64::from(1 << 30);
    assert!((alpha - exact).abs() < 1e-7, "{alpha} instead of {exact}");
    let other = dctcp.state(receiver.as_fd()).unwrap().unwrap();
    assert_eq!(other.transitions, 0, "{other:?}");
}

#[test]
fn live_dctcp_is_newreno_if_the_peer_lacks_ecn() {
    let Some(dctcp) = dctcp() else { return };
    // A classic listener does not accept ECN from a SYN that is ECT itself.
    let (mut sender, mut receiver) = pair(dctcp.name(), "reno");
    assert_eq!(control_of(&sender), "reno");
    assert_eq!(dctcp.state(sender.as_fd()).unwrap(), None);
    send(&mut sender, &mut receiver, 1_000_000);
}

#[test]
fn live_a_name_is_registered_once_and_unregistered_with_its_owner() {
    let Some(others) = dctcp() else { return };
    // Another test could take a private name as soon as it is free.
    let name = format!("uc_test.{}", std::process::id());
    let first = Dctcp::register(&name).unwrap();
    assert_ne!(dctcp().unwrap().name(), others.name());
    let refusal = Dctcp::register(&name).unwrap_err();
    assert!(matches!(refusal, GuestError::NameTaken { .. }), "{refusal}");
    assert!(refusal.to_string().contains(&name), "{refusal}");
    let (mut sender, mut receiver) = pair(&name, &name);
    drop(first);
    // Connections keep it; new ones can't choose it.
    send(&mut sender, &mut receiver, 1_000_000);
    assert_eq!(control_of(&sender), name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let answer = setsockopt(&listener, sockopt::TcpCongestion, &name.as_str().into());
    assert_eq!(answer, Err(nix::Error::ENOENT));
}

//! The guest's coupled congestion controls on the running kernel, over the loopback interface.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use uc_guest::{CouplingPolicy, Ctrltcp, GroupState, GuestError, cookie};

/// Maximum time until another process gives a name back.
const PATIENCE: Duration = Duration::from_secs(60);

/// Registers a private instance for this test; `None` if BPF is not permitted.
fn ctrltcp(policy: CouplingPolicy) -> Option<Ctrltcp> {
    match Ctrltcp::register_private(&policy) {
        Ok(ctrltcp) => Some(ctrltcp),
        Err(error @ (GuestError::NotPermitted { .. } | GuestError::NoKernelSupport { .. })) => {
            uc_live::skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Connects a coupled sender to this address of the loopback interface; the receiver isn't coupled.
fn pair(control: &str, address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    setsockopt(&listener, sockopt::TcpCongestion, &"reno".into()).unwrap();
    let flags = SockFlag::SOCK_CLOEXEC;
    let sender = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    let sender = TcpStream::from(sender);
    setsockopt(&sender, sockopt::TcpCongestion, &control.into()).unwrap();
    let to: SockaddrStorage = listener.local_addr().unwrap().into();
    connect(sender.as_raw_fd(), &to).unwrap();
    (sender, listener.accept().unwrap().0)
}

fn send((from, to): &mut (TcpStream, TcpStream), bytes: usize) {
    let mut buffer = vec![0; bytes];
    thread::scope(|scope| {
        scope.spawn(|| from.write_all(&vec![7; bytes]).unwrap());
        to.read_exact(&mut buffer).unwrap();
    });
    // Waits for an answer, so that all data is acknowledged.
    to.write_all(&[1]).unwrap();
    from.read_exact(&mut buffer[..1]).unwrap();
}

fn group(ctrltcp: &Ctrltcp, remote: &str) -> Option<GroupState> {
    let list = ctrltcp.groups().list().unwrap();
    list.into_iter()
        .find(|group| group.remote.to_string() == remote)
}

/// Waits until the group is gone: the kernel removes it when it has destroyed its last socket,
/// possibly after close(2).
fn is_gone(ctrltcp: &Ctrltcp, remote: &str) -> bool {
    (0..200).any(|_| {
        thread::sleep(Duration::from_millis(10));
        group(ctrltcp, remote).is_none()
    })
}

#[test]
fn live_connections_to_one_host_form_a_group_until_the_last_ends() {
    let Some(ctrltcp) = ctrltcp(CouplingPolicy::default()) else {
        return;
    };
    let cubic = ctrltcp.cubic_name().unwrap_or(ctrltcp.name());
    let mut one = pair(ctrltcp.name(), "127.0.0.21");
    let mut two = pair(cubic, "127.0.0.21");
    let other = pair(ctrltcp.name(), "127.0.0.22");
    for _ in 0..20 {
        send(&mut one, 100_000);
        send(&mut two, 100_000);
    }
    let both = group(&ctrltcp, "127.0.0.21").unwrap();
    println!("{both:?}");
    assert_eq!((both.connections, both.netns), (2, None));
    assert_eq!(both.guests.len(), 1);
    assert_eq!(both.guests[0].netns, cookie().unwrap());
    assert_eq!(both.guests[0].connections, 2);
    assert_eq!(group(&ctrltcp, "127.0.0.22").unwrap().connections, 1);
    for (sender, receiver) in [&one, &two] {
        let state = ctrltcp.state(sender.as_fd()).unwrap().unwrap();
        assert!(state.joined && state.given_bytes > 0, "{state:?}");
        assert_eq!((state.priority, state.weight), (1, 1));
        assert_eq!(ctrltcp.state(receiver.as_fd()).unwrap(), None);
    }
    drop(one);
    send(&mut two, 100_000);
    drop(two);
    assert!(is_gone(&ctrltcp, "127.0.0.21"));
    drop(other);
    assert!(is_gone(&ctrltcp, "127.0.0.22"));
}

#[test]
fn live_a_prefix_groups_hosts_and_apart_separates_namespaces() {
    let policy = CouplingPolicy {
        prefix4: 24,
        apart: true,
        ..CouplingPolicy::default()
    };
    let Some(ctrltcp) = ctrltcp(policy) else {
        return;
    };
    let pairs = ["127.9.7.1", "127.9.7.200", "127.9.8.1"].map(|to| pair(ctrltcp.name(), to));
    let near = group(&ctrltcp, "127.9.7.0").unwrap();
    assert_eq!(near.connections, 2);
    assert_eq!(near.netns, Some(cookie().unwrap()));
    assert_eq!(group(&ctrltcp, "127.9.8.0").unwrap().connections, 1);
    drop(pairs);
}

#[test]
fn live_zero_prefix_lengths_make_all_remotes_one_group() {
    let policy = CouplingPolicy {
        prefix4: 0,
        prefix6: 0,
        ..CouplingPolicy::default()
    };
    let Some(ctrltcp) = ctrltcp(policy) else {
        return;
    };
    let pairs = ["127.9.7.1", "127.9.8.1"].map(|to| pair(ctrltcp.name(), to));
    assert_eq!(group(&ctrltcp, "::").unwrap().connections, 2);
    drop(pairs);
}

#[test]
fn live_new_weights_and_priorities_apply_to_existing_connections() {
    let Some(ctrltcp) = ctrltcp(CouplingPolicy::default()) else {
        return;
    };
    let mut pair = pair(ctrltcp.name(), "127.0.0.23");
    let netns = cookie().unwrap();
    let port = pair.0.peer_addr().unwrap().port();
    ctrltcp.groups().set_weight(netns, 3).unwrap();
    ctrltcp.groups().set_priority(netns, port, 7).unwrap();
    send(&mut pair, 100_000);
    let state = ctrltcp.state(pair.0.as_fd()).unwrap().unwrap();
    assert_eq!((state.priority, state.weight), (7, 3), "{state:?}");
    let group = group(&ctrltcp, "127.0.0.23").unwrap();
    assert_eq!(group.guests[0].weight, 3);
    for refused in [
        ctrltcp.groups().set_weight(netns, 0),
        ctrltcp.groups().set_priority(netns, port, 0),
        ctrltcp.groups().set_priority(netns, 0, 1),
    ] {
        assert!(matches!(refused, Err(GuestError::BadWeight { .. })));
    }
}

#[test]
fn live_connections_keep_an_unregistered_congestion_control() {
    let Some(ctrltcp) = ctrltcp(CouplingPolicy::default()) else {
        return;
    };
    let name = ctrltcp.name().to_owned();
    let mut pair = pair(&name, "127.0.0.24");
    drop(ctrltcp);
    send(&mut pair, 1_000_000);
    // A test of another process may take the free name, and gives it back.
    let begun = Instant::now();
    let is_known = || {
        let answer = setsockopt(&pair.1, sockopt::TcpCongestion, &name.as_str().into());
        answer != Err(nix::Error::ENOENT)
    };
    while is_known() {
        assert!(begun.elapsed() < PATIENCE, "{name} is still registered");
        thread::sleep(Duration::from_millis(20));
    }
}

//! `uc split`: connections from one TCP port of a guest are told apart by their servers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{SockaddrStorage, bind, connect, setsockopt, sockopt};
use nix::unistd::Pid;

use crate::common::bench::{raw_socket, wait_until};
use crate::common::ends::{PATIENCE, listen};
use crate::common::live_with;
use crate::common::process::Process;
use crate::common::routed::Routed;

/// Connects one TCP port of the guest to three servers at once, then to one whose connection it has just closed, and to
/// one that has closed first. The split sees the end of the last connection and the new one at once. Returns which server
/// answered each time.
fn answers_to_one_port(net: &Routed, split: Option<&Process>) -> Vec<Result<u8, Errno>> {
    let tell = |signal| {
        if let Some(split) = split {
            kill(Pid::from_raw(split.id() as i32), signal).unwrap();
        }
    };
    let servers = [0, 1, 2].map(|path| listen(&net.server, Routed::server(path, false, 80)));
    let begin = |number: usize| {
        let socket = raw_socket(&net.guest, libc::AF_INET, libc::SOCK_STREAM, 0);
        setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
        let from = SockaddrStorage::from(Routed::guest(false, 40_000));
        bind(socket.as_raw_fd(), &from).unwrap();
        let to = servers[number].local_addr().unwrap();
        connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(TcpStream::from(socket))
    };
    let answer = |number: usize, mut guest: TcpStream| {
        let (mut server, _) = servers[number].accept().unwrap();
        server.write_all(&[number as u8]).unwrap();
        let mut answer = [0];
        guest.set_read_timeout(Some(PATIENCE)).unwrap();
        guest.read_exact(&mut answer).unwrap();
        (answer[0], guest, server)
    };
    let mut answers = Vec::new();
    let mut streams = Vec::new();
    for number in 0..3 {
        let (answer, guest, server) = answer(number, begin(number).unwrap());
        answers.push(Ok(answer));
        streams.push(Some((guest, server)));
    }
    // the guest closes first, and keeps the connection in TIME-WAIT
    let (mut guest, mut server) = streams[0].take().unwrap();
    guest.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    // through a split the server's FIN arrives later
    assert_eq!(guest.read(&mut [0]).unwrap(), 0);
    drop(guest);
    answers.push(begin(0).map(|guest| answer(0, guest).0));
    // the server closes first
    let (mut guest, server) = streams[1].take().unwrap();
    drop(server);
    assert_eq!(guest.read(&mut [0]).unwrap(), 0);
    tell(Signal::SIGSTOP);
    drop(guest);
    let mut again = None;
    wait_until("the guest has forgotten the connection", || {
        again = Some(begin(1));
        !matches!(again, Some(Err(Errno::EADDRNOTAVAIL)))
    });
    tell(Signal::SIGCONT);
    answers.extend(again.map(|again| again.map(|guest| answer(1, guest).0)));
    answers
}

#[test]
fn live_one_port_of_a_guest_reaches_many_servers_and_the_same_again_as_without_a_split() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let plain = answers_to_one_port(&Routed::build(&[None, None, None], 1), None);
    println!("without a split: {plain:?}");
    let net = Routed::build(&[None, None, None], 1);
    let split = net.split(&[]);
    assert_eq!(answers_to_one_port(&net, Some(&split)), plain);
    assert_eq!(plain[..3], [Ok(0), Ok(1), Ok(2)]);
    assert_eq!(plain[4..], [Ok(1)]);
    let opened = plain.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(net.total("split"), opened as u64, "{plain:?}");
    split.end();
}

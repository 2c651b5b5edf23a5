//! The two ends of a connection between namespaces. Each end must receive exactly what the other sends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use uc_lab::netns::Namespace;
use uc_lab::pattern::{CHUNK_BYTES, Pattern};

/// Maximum time for which a read or write may make no progress.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Listens in a namespace. Accepting fails if nobody connects within [`PATIENCE`].
pub fn listen(namespace: &Namespace, at: SocketAddr) -> TcpListener {
    let listener = namespace.enter(|| TcpListener::bind(at).unwrap()).unwrap();
    let patience = TimeVal::seconds(PATIENCE.as_secs() as i64);
    setsockopt(&listener, sockopt::ReceiveTimeout, &patience).unwrap();
    listener
}

/// Opens a connection to a listener, and checks that both ends see each other's addresses. Returns the end
/// that opened it, and the accepted one.
pub fn open(from: &Namespace, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let to = listener.local_addr().unwrap();
    let opened = from.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer, opened.local_addr().unwrap());
    assert_eq!(opened.peer_addr().unwrap(), to);
    for end in [&opened, &accepted] {
        end.set_read_timeout(Some(PATIENCE)).unwrap();
        end.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (opened, accepted)
}

/// Checks that the next thing that an end reads is a reset, within this time.
pub fn is_reset(mut end: &TcpStream, within: Duration, who: &str) {
    end.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 65_536];
    loop {
        match end.read(&mut buffer) {
            Ok(0) => panic!("{who}: the stream ends as if it were whole"),
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{who}: {error}");
                return;
            }
        }
    }
}

/// Sends this many bytes of the pattern, and the end of the stream.
pub fn send(mut stream: &TcpStream, bytes: u64) {
    let pattern = Pattern::default();
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(CHUNK_BYTES as u64) as usize;
        stream.write_all(&pattern.chunk(at)[..length]).unwrap();
        at += length as u64;
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Reads to the end of the stream, and checks each byte.
pub fn receive(mut stream: &TcpStream) -> u64 {
    let pattern = Pattern::default();
    let (mut buffer, mut at) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let length = stream.read(&mut buffer).unwrap();
        if length == 0 {
            return at;
        }
        assert_eq!(pattern.first_difference(at, &buffer[..length]), None);
        at += length as u64;
    }
}

/// Closes an end of a connection. If no other descriptor refers to it, the connection is reset.
pub fn reset(end: TcpStream) {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&end, sockopt::Linger, &now).unwrap();
}

//! Whether a connection is split: by the kernel's list of this network namespace's sockets.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// State of a socket whose connection has ended: TCP_TIME_WAIT of the kernel's net/tcp_states.h.
const TIME_WAIT: &str = "06";

/// Returns whether this host splits the connection: whether it has a socket with the far end's address that is
/// connected to the guest and not in TIME-WAIT.
///
/// # Errors
/// If the sockets can't be listed.
pub fn is_split(guest: SocketAddr, far: SocketAddr) -> io::Result<bool> {
    let path = match guest.is_ipv6() {
        true => "/proc/self/net/tcp6",
        false => "/proc/self/net/tcp",
    };
    let ends = [far, guest].map(written);
    Ok(fs::read_to_string(path)?.lines().any(|line| {
        // A number, the local address, the remote address, and the state.
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(&ends[0])
            && words.next() == Some(&ends[1])
            && words.next() != Some(TIME_WAIT)
    }))
}

/// Returns the address as the list writes it: each four bytes as a number of the host's byte order.
fn written(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _none) = octets.as_chunks();
    let words = words
        .iter()
        .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_has_the_far_ends_address_is_found_while_it_is_connected() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(loopback) else {
                continue; // IPv6 is off
            };
            let guest = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (inner, _) = listener.accept().unwrap();
            let ends = (guest.local_addr().unwrap(), guest.peer_addr().unwrap());
            assert!(is_split(ends.0, ends.1).unwrap(), "{ends:?}");
            let mut other = ends.1;
            other.set_port(1);
            assert!(!is_split(ends.0, other).unwrap());
            drop(guest);
            drop(inner);
            assert!(!is_split(ends.0, ends.1).unwrap(), "{ends:?}");
        }
    }
}

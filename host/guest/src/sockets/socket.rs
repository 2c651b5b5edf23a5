//! The kernel's state of one socket, looked up by the two ends of its connection through sock_diag(7).

use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use uc_port::Netlink;

use crate::sockets::error::SocketError;

/// Cookie that matches any socket (`INET_DIAG_NOCOOKIE`), for a lookup by ends alone.
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// The kernel's ssthresh of a connection that has never reduced its window (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The kernel's state of a guest's socket, by `TCP_INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSocket {
    /// Name of the socket's congestion control.
    pub congestion_control: String,
    /// Congestion window in segments.
    pub cwnd_segments: u32,
    /// Slow-start threshold in segments; `None` before the first reduction.
    pub ssthresh_segments: Option<u32>,
    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub srtt_us: u32,
    /// Retransmission timeout of the socket, in microseconds.
    pub rto_us: u32,
    /// Maximum payload of a segment that the socket sends, in bytes.
    pub mss_bytes: u32,
}

/// Opens a netlink socket for requests about the TCP sockets of the calling thread's network namespace.
///
/// # Errors
/// [`SocketError::NoDiag`]; the kernel's refusal.
pub(crate) fn open() -> Result<Netlink, SocketError> {
    let failed = |error| SocketError::from_kernel("open a socket of sock_diag", error);
    let diag = Netlink::open_for(NETLINK_SOCK_DIAG).map_err(failed)?;
    // A list of the sockets in none of all states: empty, unless the kernel has no such lists.
    let none = InetRequest {
        family: AF_INET,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::empty(),
        socket_id: SocketId::new_v4(),
    };
    match diag.ask(SockDiagMessage::InetRequest(none), NLM_F_DUMP) {
        Ok(_) => Ok(diag),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SocketError::NoDiag),
        Err(error) => Err(failed(error)),
    }
}

/// Reads the socket of the connection with these ends, in the network namespace of `diag`; `None` if there is none.
pub(crate) fn read(
    diag: &Netlink,
    guest: SocketAddr,
    remote: SocketAddr,
) -> Result<Option<KernelSocket>, SocketError> {
    let request = InetRequest {
        family: if guest.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: guest.port(),
            destination_port: remote.port(),
            source_address: guest.ip(),
            destination_address: remote.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        },
    };
    let answers = match diag.ask(SockDiagMessage::InetRequest(request), NLM_F_ACK) {
        Ok(answers) => answers,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let action = format!("ask for the socket of {guest} to {remote}");
            return Err(SocketError::from_kernel(action, error));
        }
    };
    Ok(answers.into_iter().find_map(|answer| match answer {
        SockDiagMessage::InetResponse(answer) => of_answer(&answer, guest, remote),
        _ => None,
    }))
}

/// Returns the state of the connection's socket from an answer; `None` if the answer is about another socket or one in
/// TIME-WAIT. If the connection is over, the kernel answers with the listener at its port.
fn of_answer(answer: &InetResponse, guest: SocketAddr, remote: SocketAddr) -> Option<KernelSocket> {
    let id = &answer.header.socket_id;
    let end = |address: IpAddr, port| SocketAddr::new(address.to_canonical(), port);
    let ends = (
        end(id.source_address, id.source_port),
        end(id.destination_address, id.destination_port),
    );
    if ends != (guest, remote) {
        return None;
    }
    let control = answer.nlas.iter().find_map(|attribute| match attribute {
        Nla::Congestion(name) => Some(name.clone()),
        _ => None,
    });
    // A socket in TIME-WAIT has none.
    let info = answer.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(bytes) => Some(bytes.as_slice()),
        _ => None,
    })?;
    let ssthresh = number(info, offset_of!(libc::tcp_info, tcpi_snd_ssthresh))?;
    Some(KernelSocket {
        congestion_control: control?,
        cwnd_segments: number(info, offset_of!(libc::tcp_info, tcpi_snd_cwnd))?,
        ssthresh_segments: Some(ssthresh).filter(|at| *at < INFINITE_SSTHRESH),
        srtt_us: number(info, offset_of!(libc::tcp_info, tcpi_rtt))?,
        rto_us: number(info, offset_of!(libc::tcp_info, tcpi_rto))?,
        mss_bytes: number(info, offset_of!(libc::tcp_info, tcpi_snd_mss))?,
    })
}

/// Reads a field of `TCP_INFO` at this offset; `None` if the kernel is too old to have it: newer kernels append fields.
fn number(info: &[u8], at: usize) -> Option<u32> {
    let bytes = info.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{getsockopt, sockopt};

    use super::*;

    /// Returns the socket's own TCP_INFO.
    fn own_info(socket: &TcpStream) -> libc::tcp_info {
        // SAFETY: all zeroes are a valid value of plain integers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which is the struct's size.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        assert_eq!(answer, 0);
        info
    }

    fn told_as_tcp_info(address: &str) {
        let diag = open().unwrap();
        let Ok(listener) = TcpListener::bind(address) else {
            return; // no IPv6 here
        };
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let ends = [&near, &far].map(|stream| canonical(stream.local_addr().unwrap()));
        for (stream, from, to) in [(&near, ends[0], ends[1]), (&far, ends[1], ends[0])] {
            let info = own_info(stream);
            let found = read(&diag, from, to).unwrap().unwrap();
            assert_eq!(found.cwnd_segments, info.tcpi_snd_cwnd);
            assert_eq!(found.ssthresh_segments, None);
            assert!(found.srtt_us > 0, "the handshake is a sample");
            assert_eq!(
                (found.srtt_us, found.rto_us),
                (info.tcpi_rtt, info.tcpi_rto)
            );
            assert_eq!(found.mss_bytes, info.tcpi_snd_mss);
            let control = getsockopt(stream, sockopt::TcpCongestion).unwrap();
            assert_eq!(control.to_str(), Some(found.congestion_control.as_str()));
        }
        // The listener's port with an end that has no connection.
        let stranger = SocketAddr::new(ends[0].ip(), 1);
        assert_eq!(read(&diag, ends[1], stranger).unwrap(), None);
    }

    #[test]
    fn live_sockets_of_all_families_are_told_as_their_own_tcp_info() {
        if uc_live::or_skip(open()).is_none() {
            return;
        }
        told_as_tcp_info("127.0.0.1:0");
        told_as_tcp_info("[::1]:0");
        // An IPv4 connection of a socket that was opened for IPv6.
        told_as_tcp_info("[::ffff:127.0.0.1]:0");
    }
}

//! `getsockopt(TCP_INFO)` in the kernel's own layout (include/uapi/linux/tcp.h), up to
//! `tcpi_total_rto_time` (Linux 6.7): the C library's struct stops earlier. Kernels from 5.4 on fill
//! it up to `tcpi_snd_wnd`.

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// State of a socket without a connection.
const TCP_CLOSE: u8 = 7;
/// Bits of [`TcpInfo::options`]: what the handshake negotiated.
const TCPI_OPT_TIMESTAMPS: u8 = 1;
const TCPI_OPT_SACK: u8 = 2;
const TCPI_OPT_WSCALE: u8 = 4;
/// The handshake negotiated ECN.
const TCPI_OPT_ECN: u8 = 8;

/// The kernel's `struct tcp_info`. Times are in microseconds, sizes in bytes, windows of the
/// congestion control in segments.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct TcpInfo {
    /// State of the connection: `TCP_ESTABLISHED` and so on.
    pub state: u8,
    /// State of congestion control: `TCP_CA_Open` (0), Disorder, CWR, Recovery, Loss.
    pub ca_state: u8,
    /// Consecutive timeouts of the oldest segment.
    pub retransmits: u8,
    /// Number of zero-window probes that were not answered.
    pub probes: u8,
    /// Number of times that the retransmission timer was backed off.
    pub backoff: u8,
    /// Options that the handshake negotiated: `TCPI_OPT_*`.
    pub options: u8,
    /// Two 4-bit fields: the peer's window scale (low on little-endian hosts) and this end's.
    wscales: u8,
    flags: u8,
    /// Retransmission timeout (RTO), in microseconds.
    pub rto_us: u32,
    /// Delayed ACK timeout, in microseconds.
    pub ato_us: u32,
    /// Maximum payload that this end sends in one segment, in bytes.
    pub snd_mss: u32,
    /// Estimate of the peer's maximum payload, in bytes.
    pub rcv_mss: u32,
    /// Segments sent and not yet acknowledged cumulatively.
    pub unacked: u32,
    /// Number of segments that SACK blocks have acknowledged.
    pub sacked: u32,
    /// Number of segments that are considered lost.
    pub lost: u32,
    /// Retransmitted segments that are in flight.
    pub retrans: u32,
    fackets: u32,
    last_data_sent_ms: u32,
    last_ack_sent_ms: u32,
    last_data_recv_ms: u32,
    last_ack_recv_ms: u32,
    /// MTU of the path, in bytes.
    pub pmtu: u32,
    /// Receiver's slow-start threshold of its window, in bytes.
    pub rcv_ssthresh: u32,
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time, in microseconds.
    pub rttvar_us: u32,
    /// Slow-start threshold, in segments.
    pub snd_ssthresh: u32,
    /// Congestion window, in segments.
    pub snd_cwnd: u32,
    /// MSS that this end announced, in bytes.
    pub advmss: u32,
    /// Reordering metric, in segments.
    pub reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    /// Segments retransmitted since the connection began.
    pub total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    /// Number of bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Number of bytes that were received from the peer.
    pub bytes_received: u64,
    /// Number of segments sent, including retransmissions and segments without data.
    pub segs_out: u32,
    /// Number of segments received.
    pub segs_in: u32,
    notsent_bytes: u32,
    /// Minimum round-trip time, in microseconds.
    pub min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_us: u64,
    /// Time during which the peer's window was the limit, in microseconds.
    pub rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: u32,
    /// Segments that the peer acknowledged with an ECN echo.
    pub delivered_ce: u32,
    /// Number of payload bytes that were sent, including retransmissions.
    pub bytes_sent: u64,
    /// Number of payload bytes that were retransmitted.
    pub bytes_retrans: u64,
    /// Segments that the peer reported as duplicates (RFC 2883).
    pub dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    /// Peer's window as last received, scaled, in bytes.
    pub snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    /// Expired retransmission timers since the connection began; 0 before Linux 6.7.
    pub total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time_ms: u32,
}

impl TcpInfo {
    /// Reads the state of a TCP socket.
    ///
    /// # Errors
    /// The kernel's, and `Unsupported` on kernels before 5.4, whose answer is too short.
    pub fn read(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut info = MaybeUninit::<Self>::zeroed();
        let mut length = size_of::<Self>() as libc::socklen_t;
        // SAFETY: the pointers are to live memory of the length given; the kernel writes at most
        // `length` bytes. The rest stays zero, which is a valid value of every field.
        let (answer, info) = unsafe {
            let answer = libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            );
            (answer, info.assume_init())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        if (length as usize) < offset_of!(Self, snd_wnd) + size_of::<u32>() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("TCP_INFO has {length} bytes here: the lab needs Linux 5.4 or newer"),
            ));
        }
        Ok(info)
    }

    /// Returns the fields by the kernel's names without `tcpi_`, for programs that name them.
    pub fn named(&self) -> [(&'static str, u64); 32] {
        [
            ("state", self.state.into()),
            ("ca_state", self.ca_state.into()),
            ("retransmits", self.retransmits.into()),
            ("probes", self.probes.into()),
            ("backoff", self.backoff.into()),
            ("options", self.options.into()),
            ("snd_wscale", self.snd_wscale().into()),
            ("rcv_wscale", self.rcv_wscale().into()),
            ("rto", self.rto_us.into()),
            ("snd_mss", self.snd_mss.into()),
            ("rcv_mss", self.rcv_mss.into()),
            ("unacked", self.unacked.into()),
            ("sacked", self.sacked.into()),
            ("lost", self.lost.into()),
            ("retrans", self.retrans.into()),
            ("last_data_recv", self.last_data_recv_ms.into()),
            ("pmtu", self.pmtu.into()),
            ("rtt", self.rtt_us.into()),
            ("rttvar", self.rttvar_us.into()),
            ("snd_ssthresh", self.snd_ssthresh.into()),
            ("snd_cwnd", self.snd_cwnd.into()),
            ("advmss", self.advmss.into()),
            ("reordering", self.reordering.into()),
            ("total_retrans", self.total_retrans.into()),
            ("bytes_acked", self.bytes_acked),
            ("bytes_received", self.bytes_received),
            ("min_rtt", self.min_rtt_us.into()),
            ("busy_time", self.busy_us),
            ("rwnd_limited", self.rwnd_limited_us),
            ("sndbuf_limited", self.sndbuf_limited_us),
            ("delivered", self.delivered.into()),
            ("reord_seen", self.reord_seen.into()),
        ]
    }

    /// Returns whether both ends use timestamps, SACK and window scaling, in this order.
    pub fn agreed(&self) -> [bool; 3] {
        [TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_WSCALE].map(|bit| self.options & bit != 0)
    }

    /// Returns whether the connection was opened and has not ended.
    pub fn is_open(&self) -> bool {
        self.state != TCP_CLOSE
    }

    /// Returns whether the handshake negotiated ECN (RFC 3168 §6.1.1).
    pub fn negotiated_ecn(&self) -> bool {
        self.options & TCPI_OPT_ECN != 0
    }

    /// Returns how many retransmitted segments the peer did not report as duplicates (DSACK, RFC
    /// 2883). Such a report comes a round trip after its segment.
    pub fn needed_retransmits(&self) -> u32 {
        self.total_retrans.saturating_sub(self.dsack_dups)
    }

    /// Returns the scale of the windows that the *peer* advertises.
    pub fn snd_wscale(&self) -> u8 {
        if cfg!(target_endian = "little") {
            self.wscales & 0xf
        } else {
            self.wscales >> 4
        }
    }

    /// Returns the scale that *this end* announced for its own windows.
    pub fn rcv_wscale(&self) -> u8 {
        if cfg!(target_endian = "little") {
            self.wscales >> 4
        } else {
            self.wscales & 0xf
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn the_layout_equals_the_kernels() {
        // Offsets of include/uapi/linux/tcp.h as pahole prints them.
        assert_eq!(offset_of!(TcpInfo, rto_us), 8);
        assert_eq!(offset_of!(TcpInfo, rtt_us), 68);
        assert_eq!(offset_of!(TcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(TcpInfo, bytes_acked), 120);
        assert_eq!(offset_of!(TcpInfo, bytes_sent), 200);
        assert_eq!(offset_of!(TcpInfo, snd_wnd), 228);
        assert_eq!(offset_of!(TcpInfo, total_rto), 240);
    }

    #[test]
    fn a_loopback_connection_is_read_correctly() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 5000]).unwrap();
        let mut buffer = [0; 5000];
        far.read_exact(&mut buffer).unwrap();
        // One byte back carries the ACK of everything before it.
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut buffer[..1]).unwrap();
        let info = TcpInfo::read(near.as_fd()).unwrap();
        assert_eq!(info.bytes_sent, 5000);
        assert_eq!(info.bytes_acked, 5001, "SYN counts one");
        assert_eq!(info.bytes_retrans, 0);
        assert!(
            info.snd_mss > 500 && info.snd_wnd >= 32_768 && info.snd_cwnd >= 2,
            "{info:?}"
        );
        let peer = TcpInfo::read(far.as_fd()).unwrap();
        assert_eq!(info.snd_wscale(), peer.rcv_wscale());
        assert_eq!(info.rcv_wscale(), peer.snd_wscale());
    }

    #[test]
    fn reading_a_udp_socket_is_an_error() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::read(udp.as_fd()).is_err());
    }
}

//! The settings of a simulated host, and the names that scripts give them.

use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, Receiving};

use crate::syntax::Flag;
use crate::verdict::Stop;

/// Bytes of the headers of IPv4 or IPv6 and TCP, without options.
const V4_HEADER_BYTES: u16 = 40;
const V6_HEADER_BYTES: u16 = 60;
/// Longest time of connection setup, unless a script gives one (RFC 9293 §3.8.3: 3 minutes at least).
const SETUP_LIMIT: Nanos = Nanos::from_secs(180);
/// MTU of an interface unless a script gives one.
const MTU_BYTES: u16 = 1500;

/// The settings of a simulated host.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Settings of the host's TCP endpoints.
    pub(crate) config: Config,
    /// Whether the host drops segments with both SYN and FIN where a SYN may open a connection.
    pub(crate) drops_syn_fin: bool,
    /// Whether an ICMP error ends a connection in SYN-SENT (RFC 9293 §3.9.2.2 allows it there).
    pub(crate) obeys_icmp: bool,
    /// Longest time that connection setup may take.
    pub(crate) setup_limit: Nanos,
    is_v6: bool,
}

impl Settings {
    /// Returns the settings before a script changes any.
    pub(crate) fn new() -> Settings {
        Settings {
            config: Config {
                dsack: true,
                sack_blocks: 4,
                grants_ecn: true,
                drops_old_acks: true,
                mss_bytes: MTU_BYTES - V4_HEADER_BYTES,
                ..Config::default()
            },
            drops_syn_fin: false,
            obeys_icmp: true,
            setup_limit: SETUP_LIMIT,
            is_v6: false,
        }
    }

    /// Applies a flag at the head of a script.
    pub(crate) fn take_flag(&mut self, flag: &Flag) -> Result<(), Stop> {
        match (flag.name.as_str(), flag.value.as_str()) {
            ("ip_version", "ipv4" | "ipv4-mapped-ipv6") => self.is_v6 = false,
            ("ip_version", "ipv6") => self.is_v6 = true,
            ("mtu", value) => {
                let bytes = value.parse().unwrap_or(0);
                return self.set_mtu(bytes);
            }
            ("local_ip" | "remote_ip" | "gateway_ip" | "netmask_ip" | "mss", _) => {}
            ("udp_encapsulation", _) => {
                return Err(Stop::Lacks("TCP over UDP is not supported".to_owned()));
            }
            ("tcp_md5_secret", _) => {
                return Err(Stop::Lacks(
                    "TCP MD5 signatures (RFC 2385) are not supported".to_owned(),
                ));
            }
            (name, _) => return Err(Stop::Lacks(format!("the flag --{name} is not supported"))),
        }
        self.set_mtu(MTU_BYTES)
    }

    fn set_mtu(&mut self, bytes: u16) -> Result<(), Stop> {
        let header_bytes = if self.is_v6 {
            V6_HEADER_BYTES
        } else {
            V4_HEADER_BYTES
        };
        let mss_bytes = bytes.checked_sub(header_bytes).filter(|bytes| *bytes > 0);
        let small = || Stop::Differs(format!("an MTU of {bytes} bytes leaves no payload"));
        self.config.mss_bytes = mss_bytes.ok_or_else(small)?;
        Ok(())
    }

    /// Applies a sysctl of Linux or FreeBSD. One of FreeBSD also makes the endpoints receive as FreeBSD does
    /// ([`Receiving::Bsd`]). Refuses unknown names and values.
    pub(crate) fn take_sysctl(&mut self, name: &str, value: &str) -> Result<(), Stop> {
        let lacks = || Stop::Lacks(format!("the setting {name}={value} is not supported"));
        if let Some(name) = name.strip_prefix("net.ipv4.")
            && self.take_text(name, value)
        {
            return Ok(());
        }
        let number: u64 = value.parse().map_err(|_| lacks())?;
        let is_known = match name.strip_prefix("net.ipv4.") {
            Some(name) => self.take_linux(name, number),
            None => self.take_freebsd(name, number)?,
        };
        is_known.then_some(()).ok_or_else(lacks)
    }

    /// Applies a setting of Linux whose value is no number, or is what the host does anyway. Returns whether the host
    /// knows name and value.
    fn take_text(&mut self, name: &str, value: &str) -> bool {
        let config = &mut self.config;
        match (name, value) {
            ("tcp_congestion_control", "cubic") => {
                config.congestion_control = CongestionControl::Cubic;
            }
            ("tcp_congestion_control", "reno") => {
                config.congestion_control = CongestionControl::NewReno;
            }
            ("tcp_rmem", sizes) => {
                let sizes: Vec<u64> = sizes.split(' ').flat_map(str::parse).collect();
                let &[_, initial, largest] = sizes.as_slice() else {
                    return false;
                };
                config.receive_buffer_bytes = initial.min(1 << 30) as u32;
                let fits = |scale: &u8| 65_535 << scale >= largest;
                config.wscale = config.wscale.map(|_| (0..14).find(fits).unwrap_or(14));
            }
            // Sizes of buffers that take all, and numbers of tries that no script of a host that
            // lacks them counts.
            ("tcp_wmem" | "tcp_syn_retries" | "tcp_synack_retries", _) => {}
            ("tcp_frto", "2") | ("tcp_fack", "0") | ("tcp_reordering", "3") => {}
            ("tcp_slow_start_after_idle", "0") => {}
            ("tcp_early_retrans", "4" | "3") | ("tcp_recovery", "1") => {}
            ("tcp_tso_win_divisor", "3") | ("tcp_syncookies", "1") => {}
            ("tcp_pacing_ss_ratio" | "tcp_pacing_ca_ratio", _) => {}
            ("tcp_notsent_lowat", "4294967295") => {}
            // Without the option in a packet nobody uses TCP Fast Open or Accurate ECN.
            ("tcp_fastopen" | "tcp_fastopen_key" | "tcp_ecn_option", _) => {}
            _ => return false,
        }
        true
    }

    /// Applies a setting of Linux; returns whether the host knows name and value.
    fn take_linux(&mut self, name: &str, number: u64) -> bool {
        let is_on = number != 0;
        let config = &mut self.config;
        match (name, number) {
            ("tcp_sack", _) => config.sack = is_on,
            ("tcp_dsack", _) => config.dsack = is_on,
            ("tcp_timestamps", _) => config.timestamps = is_on,
            ("tcp_window_scaling", _) => {
                config.wscale = is_on.then_some(config.wscale.unwrap_or(0));
            }
            ("tcp_ecn", 0..=2) => {
                config.ecn = number == 1;
                config.grants_ecn = is_on;
            }
            // A host that has just been made remembers no peers.
            ("tcp_no_metrics_save", _) => {}
            _ => return false,
        }
        true
    }

    /// Applies a setting of FreeBSD; returns whether the host knows name and value.
    fn take_freebsd(&mut self, name: &str, number: u64) -> Result<bool, Stop> {
        let is_on = number != 0;
        let config = &mut self.config;
        config.receiving = Receiving::Bsd;
        match name {
            "net.inet.tcp.rfc1323" => {
                config.timestamps = is_on;
                config.wscale = is_on.then_some(config.wscale.unwrap_or(0));
            }
            "net.inet.tcp.sack.enable" => config.sack = is_on,
            "net.inet.tcp.recvspace" => {
                config.receive_buffer_bytes = number.min(1 << 30) as u32;
            }
            "kern.ipc.maxsockbuf" => {
                let fits = |scale: &u8| 65_535 << scale >= number;
                config.wscale = config.wscale.map(|_| (0..14).find(fits).unwrap_or(14));
            }
            "net.inet.tcp.ecn.enable" if number <= 2 => {
                config.ecn = number == 1;
                config.grants_ecn = is_on;
            }
            "net.inet.tcp.insecure_rst" => config.reset_in_window = is_on,
            "net.inet.tcp.insecure_syn" => config.syn_in_window = is_on,
            "net.inet.tcp.drop_synfin" => self.drops_syn_fin = is_on,
            "net.inet.tcp.icmp_may_rst" => self.obeys_icmp = is_on,
            "net.inet.tcp.rexmit_initial" => config.rto_initial = Nanos::from_millis(number),
            "net.inet.tcp.delacktime" => config.delayed_ack = Some(Nanos::from_millis(number)),
            // What a new host has anyway, or what it has nothing to empty of.
            "net.inet.tcp.hostcache.purgenow"
            | "net.inet.tcp.sendspace"
            | "net.inet.tcp.syncookies"
            | "net.inet.tcp.path_mtu_discovery" => {}
            "net.inet.tcp.rexmit_slop" if number == 200 => {}
            "net.inet.tcp.keepinit" => self.setup_limit = Nanos::from_millis(number),
            "net.inet.tcp.blackhole"
            | "net.inet.tcp.syncookies_only"
            | "net.inet.tcp.rexmit_drop_options"
            | "net.inet.tcp.fastopen.client_enable"
            | "net.inet.tcp.udp_tunneling_port"
                if !is_on => {}
            "net.inet.tcp.udp_tunneling_port" | "net.inet.tcp.udp_tunneling_overhead" => {
                return Err(Stop::Lacks("TCP over UDP is not supported".to_owned()));
            }
            "net.inet.tcp.fastopen.client_enable" => {
                return Err(Stop::Lacks(
                    "TCP Fast Open (RFC 7413) is not supported".to_owned(),
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

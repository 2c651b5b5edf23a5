//! The `config` and `handshake` lines of a script.

use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, Receiving, Reduction, SpuriousTimeout};

use super::parse::{Setting, duration, number_in, yes_or_no};

/// Applies a `config` line.
pub fn configure(config: &mut Config, settings: &[Setting]) -> Result<(), String> {
    for (key, value) in settings {
        match key.as_str() {
            "default" => *config = Config::default(),
            "textbook" => *config = Config::textbook(),
            "cc" | "alpha" | "gain" => law(config, key, value)?,
            "ecn" => config.ecn = yes_or_no(value)?,
            "grants_ecn" => config.grants_ecn = yes_or_no(value)?,
            "sack" => config.sack = yes_or_no(value)?,
            "dsack" => config.dsack = yes_or_no(value)?,
            "sack_blocks" => config.sack_blocks = number_in(value)?,
            "receiving" if value == "bsd" => config.receiving = Receiving::Bsd,
            "reset_in_window" => config.reset_in_window = yes_or_no(value)?,
            "syn_in_window" => config.syn_in_window = yes_or_no(value)?,
            "drops_old_acks" => config.drops_old_acks = yes_or_no(value)?,
            "timestamps" => config.timestamps = yes_or_no(value)?,
            "mss" => config.mss_bytes = number_in(value)?,
            "wscale" if value == "none" => config.wscale = None,
            "wscale" => config.wscale = Some(number_in(value)?),
            "receive_buffer" => config.receive_buffer_bytes = number_in(value)?,
            "initial_window" => config.initial_window_segments = number_in(value)?,
            "initial_ssthresh" => config.initial_ssthresh_bytes = number_in(value)?,
            "rto_initial" => config.rto_initial = duration(value)?,
            "rto_min" => config.rto_min = duration(value)?,
            "rto_max" => config.rto_max = duration(value)?,
            "rto_granularity" => config.rto_granularity = duration(value)?,
            "frto" => config.spurious_timeout = spurious(value)?,
            "quick_acks" => config.quick_acks = yes_or_no(value)?,
            "delayed_ack" if value == "none" => config.delayed_ack = None,
            "delayed_ack" => config.delayed_ack = Some(duration(value)?),
            "limited_transmit" => config.limited_transmit = yes_or_no(value)?,
            "any_window_duplicates" => config.any_window_duplicates = yes_or_no(value)?,
            "nagle" => config.nagle = yes_or_no(value)?,
            "cwnd_validation" => config.cwnd_validation = yes_or_no(value)?,
            "reduction" if value == "jump" => config.reduction = Reduction::Jump,
            "reduction" if value == "proportional" => {
                config.reduction = Reduction::Proportional;
            }
            "ignores_window" => config.ignores_receive_window = yes_or_no(value)?,
            "restart_after_idle" => config.restart_after_idle = yes_or_no(value)?,
            other => return Err(format!("no setting `{other}`")),
        }
    }
    Ok(())
}

fn law(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    config.congestion_control = match (key, value, config.congestion_control) {
        ("cc", "newreno", _) => CongestionControl::NewReno,
        ("cc", "newreno_by_acks", _) => CongestionControl::NewRenoByAcks,
        ("cc", "cubic", _) => CongestionControl::Cubic,
        ("cc", "highspeed", _) => CongestionControl::HighSpeed,
        ("cc", "vegas", _) => CongestionControl::Vegas,
        ("cc", "illinois", _) => CongestionControl::Illinois,
        ("cc", "dctcp", _) => CongestionControl::Dctcp {
            gain_shift: 4,
            initial_alpha_q10: 1024,
        },
        ("alpha", _, CongestionControl::Dctcp { gain_shift, .. }) => CongestionControl::Dctcp {
            gain_shift,
            initial_alpha_q10: number_in(value)?,
        },
        (
            "gain",
            _,
            CongestionControl::Dctcp {
                initial_alpha_q10, ..
            },
        ) => CongestionControl::Dctcp {
            gain_shift: number_in(value)?,
            initial_alpha_q10,
        },
        _ => return Err(format!("`{key}={value}`: no such law, or not of this law")),
    };
    Ok(())
}

fn spurious(value: &str) -> Result<SpuriousTimeout, String> {
    match value {
        "off" => Ok(SpuriousTimeout::Ignored),
        "halve" => Ok(SpuriousTimeout::Halve),
        "undo" => Ok(SpuriousTimeout::Undo),
        other => Err(format!("`frto={other}`: off, halve or undo")),
    }
}

/// The peer's behaviour in the handshake.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Whether the peer sends the SYN.
    pub opens: bool,
    pub mss_bytes: u16,
    pub ecn: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub wscale: Option<u8>,
    pub window: u16,
    pub rtt: Nanos,
}

impl Peer {
    /// Returns a peer that agrees to all of `config`, except as `settings` specify.
    pub fn new(config: &Config, settings: &[Setting]) -> Result<Peer, String> {
        let dctcp = matches!(config.congestion_control, CongestionControl::Dctcp { .. });
        let mut peer = Peer {
            opens: false,
            mss_bytes: 1000,
            ecn: config.ecn || dctcp,
            sack: config.sack,
            timestamps: config.timestamps,
            wscale: config.wscale,
            window: u16::MAX,
            rtt: Nanos::from_millis(100),
        };
        for (key, value) in settings {
            match key.as_str() {
                "server" => peer.opens = true,
                "mss" => peer.mss_bytes = number_in(value)?,
                "ecn" => peer.ecn = yes_or_no(value)?,
                "sack" => peer.sack = yes_or_no(value)?,
                "ts" => peer.timestamps = yes_or_no(value)?,
                "wscale" if value == "none" => peer.wscale = None,
                "wscale" => peer.wscale = Some(number_in(value)?),
                "win" => peer.window = number_in(value)?,
                "rtt" => peer.rtt = duration(value)?,
                other => return Err(format!("a handshake has no `{other}`")),
            }
        }
        Ok(peer)
    }
}

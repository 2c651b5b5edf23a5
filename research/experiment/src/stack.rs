//! One host's TCP: `[stack.NAME]`. The defaults are those of Linux 6, except for `ecn`, where Linux
//! accepts without requesting: in an experiment a host either uses ECN or doesn't.

use serde::{Deserialize, Serialize};

use crate::hypervisor::Pvtcp;
use crate::units::{Bytes, Nanos};

/// Congestion controls of the simulator's hosts. All names but `reno_by_acks` are also a kernel's.
pub(crate) const SIMULATED_CONGESTION_CONTROLS: [&str; 7] = [
    "reno",
    "cubic",
    "dctcp",
    "highspeed",
    "vegas",
    "illinois",
    "reno_by_acks",
];

/// `[stack.NAME]`: the settings of a guest's or the receiver's TCP. A backend sets all settings, whatever the host's
/// own defaults are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    /// Congestion control by its kernel name; in the simulator `reno`, `cubic`, `dctcp`,
    /// `highspeed`, `vegas`, `illinois` or `reno_by_acks`. Default `cubic`.
    pub congestion_control: String,
    /// Whether the host requests ECN and grants it, and never falls back to a SYN without
    /// (`tcp_ecn` 1, `tcp_ecn_fallback` 0); if not, it neither requests nor grants ECN (`tcp_ecn`
    /// 0). Default false.
    pub ecn: bool,
    /// Selective acknowledgments, RFC 2018. Default true.
    pub sack: bool,
    /// Timestamps, RFC 7323: 12 bytes of each segment. Default true.
    pub timestamps: bool,
    /// Loss detection by time, RFC 8985 (`tcp_recovery`). Default true. The simulator's hosts have
    /// none.
    pub rack: bool,
    /// Tail loss probes, RFC 8985 §7 (`tcp_early_retrans` 3; 0 if not). Default true. The
    /// simulator's hosts have none.
    pub early_retransmit: bool,
    /// Window scale that this host announces as a receiver, 0 to 14. Default 7, which Linux derives
    /// from its default receive memory of 6 MiB.
    pub wscale: u8,
    /// Minimum retransmission timeout, as in Linux: it applies to the term that is added to the
    /// smoothed round-trip time, not to the sum. 200 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
    /// Series of Debian's kernels that a guest boots: `5.10`, `6.1`, `6.12` or `newest`. Default
    /// `6.1`. VMs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Maximum retransmission timeout. Default 120s, Linux's own. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_max: Option<Nanos>,
    /// Granularity of the clock that times retransmissions (RFC 6298 §2, G). Default 1ms. Simulator
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_granularity: Option<Nanos>,
    /// Response to a timeout that F-RTO (RFC 5682) finds spurious. Default `undo`, as in Linux. On
    /// real kernels `off` or `undo` (`tcp_frto`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frto: Option<Frto>,
    /// Initial window in segments, 1 to 20. Default 10 (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u8>,
    /// Maximum delay of an ACK that waits for a second segment (RFC 5681 §4.2), below 500ms; `"0s"`: an ACK for each
    /// segment. Default 40ms, as in Linux, where the delay may grow to 200ms. Real kernels: 0s or 40ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Nanos>,
    /// Whether the receiver acknowledges some segments at once, as Linux does: the first 16 of a connection, two from a
    /// new CE mark on, and those with CWR. Default false in the simulator; real kernels: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick_acks: Option<bool>,
    /// Whether new data is sent on the first two duplicate ACKs (RFC 3042). Default true. Real kernels:
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// Receive buffer of this host, hence its largest window, and on real kernels its window scale.
    /// Default 6MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    /// Whether a segment below the MSS is held back while data is in flight (RFC 9293 §3.7.4).
    /// Default true. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// Whether the congestion window restarts if the host has sent nothing for one retransmission timeout (RFC 5681
    /// §4.1; `tcp_slow_start_after_idle`). Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_after_idle: Option<bool>,
    /// Path of the congestion window to the slow-start threshold after a loss or a mark. Default `jump`, as in RFC 5681
    /// and RFC 3168; real kernels: `proportional`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduction: Option<Reduction>,
    /// Whether the host breaks the protocol and sends by its congestion window alone (up to 64
    /// MiB), whatever window is advertised to it. Default false. Real kernels: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignores_window: Option<bool>,
    /// PVTCP, for guests whose CPU is taken away at times: in a VM the module `guest/pvtcp`. None
    /// if absent. Simulator and VMs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvtcp: Option<Pvtcp>,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            congestion_control: "cubic".into(),
            ecn: false,
            sack: true,
            timestamps: true,
            rack: true,
            early_retransmit: true,
            wscale: 7,
            rto_min: None,
            kernel: None,
            rto_max: None,
            rto_granularity: None,
            frto: None,
            initial_window: None,
            delayed_ack: None,
            quick_acks: None,
            limited_transmit: None,
            receive_buffer: None,
            nagle: None,
            restart_after_idle: None,
            reduction: None,
            ignores_window: None,
            pvtcp: None,
        }
    }
}

/// Delays of ACKs that real kernels can be given: none, and Linux's own.
const REAL_DELAYED_ACKS: [Nanos; 2] = [Nanos(0), Nanos(40_000_000)];
/// Maximum to which Linux's own grows.
const REAL_DELAYED_ACK_MAX: Nanos = Nanos(200_000_000);

impl Stack {
    /// Returns the size of the TCP header of a data segment in bytes: 20, or 32 with timestamps, whose option is padded
    /// to 12 bytes (RFC 7323 §A).
    pub fn header_bytes(&self) -> u32 {
        if self.timestamps { 32 } else { 20 }
    }

    /// Returns the keys whose values only the simulator's hosts support. A key whose value is Linux's own
    /// is allowed on real kernels, and in slow motion a delay of ACKs that theirs never exceeds.
    pub(crate) fn simulated_keys(&self, slower: u32) -> Vec<&'static str> {
        let is_kept = |longest: Nanos| {
            let slowed = longest.0.saturating_mul(slower.into());
            REAL_DELAYED_ACKS.contains(&longest) || (slower > 1 && slowed >= REAL_DELAYED_ACK_MAX.0)
        };
        let keys = [
            ("rto_max", self.rto_max.is_some()),
            ("rto_granularity", self.rto_granularity.is_some()),
            ("frto", self.frto == Some(Frto::Halve)),
            (
                "delayed_ack",
                self.delayed_ack.is_some_and(|longest| !is_kept(longest)),
            ),
            ("quick_acks", self.quick_acks == Some(false)),
            ("limited_transmit", self.limited_transmit == Some(false)),
            ("nagle", self.nagle.is_some()),
            ("reduction", self.reduction == Some(Reduction::Jump)),
            ("ignores_window", self.ignores_window == Some(true)),
        ];
        let set = keys.into_iter().filter(|(_, set)| *set);
        set.map(|(key, _)| key).collect()
    }
}

/// The path of a congestion window to the slow-start threshold after a loss or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The window jumps at once.
    Jump,
    /// The window walks down over a round trip (RFC 9937), for a mark too.
    Proportional,
}

/// The response to a timeout that F-RTO finds spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frto {
    /// F-RTO is off.
    Off,
    /// Retransmission stops; the window stays reduced (RFC 5682 §3.4 leaves it open).
    Halve,
    /// Window and threshold return to their values before the timeout (RFC 4015).
    Undo,
}

//! One host's TCP: `[stack.NAME]`. The defaults are what Linux 6 does out of the box, except for
//! `ecn`, where Linux accepts without asking: in an experiment a host either takes part or doesn't.

use serde::{Deserialize, Serialize};

use crate::hypervisor::Pvtcp;
use crate::units::{Bytes, Nanos};

/// The congestion controls of the simulator's hosts. All but `reno_by_acks` are a kernel's names.
pub(crate) const SIMULATED_CONGESTION_CONTROLS: [&str; 7] = [
    "reno",
    "cubic",
    "dctcp",
    "highspeed",
    "vegas",
    "illinois",
    "reno_by_acks",
];

/// `[stack.NAME]`: the settings of a guest's or the receiver's TCP. An arm sets every one of them,
/// whatever the machine's own defaults are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    /// The congestion control by its kernel name; in the simulator `reno`, `cubic`, `dctcp`,
    /// `highspeed`, `vegas`, `illinois` or `reno_by_acks`. Default `cubic`.
    pub congestion_control: String,
    /// Whether it asks for ECN and grants it, and never falls back to a SYN without (`tcp_ecn` 1,
    /// `tcp_ecn_fallback` 0); if not, it neither asks nor grants (`tcp_ecn` 0). Default false.
    pub ecn: bool,
    /// Selective acknowledgements, RFC 2018. Default true.
    pub sack: bool,
    /// Timestamps, RFC 7323: 12 bytes of each segment. Default true.
    pub timestamps: bool,
    /// Loss detection by time, RFC 8985 (`tcp_recovery`). Default true. The simulator's hosts have
    /// none.
    pub rack: bool,
    /// Tail loss probes, RFC 8985 §7 (`tcp_early_retrans` 3; 0 if not). Default true. The
    /// simulator's hosts have none.
    pub early_retransmit: bool,
    /// The window scale that this host announces as a receiver, 0 to 14. Default 7, which Linux
    /// derives from its default receive memory of 6 MiB.
    pub wscale: u8,
    /// The least retransmission timeout, as Linux has it: not of the whole, but of what it adds to
    /// the smoothed round-trip time. 200 ms where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
    /// The series of Debian's kernels that a guest boots: `5.10`, `6.1`, `6.12` or `newest`. Default
    /// `6.1`. Machines only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The highest retransmission timeout. Default 120s, Linux' own. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_max: Option<Nanos>,
    /// The grain of the clock that times retransmissions (RFC 6298 §2, G). Default 1ms. Simulator
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_granularity: Option<Nanos>,
    /// What follows a timeout that F-RTO (RFC 5682) finds spurious. Default `undo`, as Linux does.
    /// On real kernels `off` or `undo` (`tcp_frto`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frto: Option<Frto>,
    /// The initial window in segments, 1 to 20. Default 10 (RFC 6928). Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u8>,
    /// How long an ACK may wait for a second segment (RFC 5681 §4.2, below 500ms); `"0s"`: an ACK
    /// for each segment. Default 40ms, as Linux does. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<Nanos>,
    /// New data on the first two duplicate ACKs (RFC 3042). Default true. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// What this host can hold as a receiver, hence its largest window. Default 6MiB. Simulator
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    /// Holding a runt back while data is in flight (RFC 9293 §3.7.4). Default true. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// Whether the window begins anew after a timeout's time without sending (RFC 5681 §4.1;
    /// `tcp_slow_start_after_idle`). Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_after_idle: Option<bool>,
    /// How the window gets to its threshold after a loss or a mark. Default `jump`, as RFC 5681 and
    /// RFC 3168 have it; Linux walks. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduction: Option<Reduction>,
    /// A host that breaks the protocol: it sends by its congestion window alone (up to 64 MiB),
    /// whatever window it is given. Default false. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignores_window: Option<bool>,
    /// PVTCP, for guests whose CPU is taken away: in a machine the module `guest/pvtcp`. None where
    /// absent. Simulator and machines only.
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

impl Stack {
    /// The TCP header of a data segment in bytes: 20, and 12 of padded timestamps (RFC 7323 §A).
    pub fn header_bytes(&self) -> u32 {
        if self.timestamps { 32 } else { 20 }
    }

    /// The keys that are set and that only the simulator's hosts obey.
    pub(crate) fn simulated_keys(&self) -> Vec<&'static str> {
        let keys = [
            ("rto_max", self.rto_max.is_some()),
            ("rto_granularity", self.rto_granularity.is_some()),
            ("frto", self.frto == Some(Frto::Halve)),
            ("initial_window", self.initial_window.is_some()),
            ("delayed_ack", self.delayed_ack.is_some()),
            ("limited_transmit", self.limited_transmit.is_some()),
            ("receive_buffer", self.receive_buffer.is_some()),
            ("nagle", self.nagle.is_some()),
            ("reduction", self.reduction.is_some()),
            ("ignores_window", self.ignores_window.is_some()),
        ];
        let set = keys.into_iter().filter(|(_, set)| *set);
        set.map(|(key, _)| key).collect()
    }
}

/// How a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// At once.
    Jump,
    /// Over a round trip (RFC 9937), and for a mark too.
    Proportional,
}

/// The answer to a timeout that F-RTO finds spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frto {
    /// It is not looked for.
    Off,
    /// Nothing more is sent again; the window stays reduced (RFC 5682 §3.4 leaves it open).
    Halve,
    /// Window and threshold are as before the timeout (RFC 4015).
    Undo,
}

//! One host's TCP: `[stack.NAME]`. The defaults are what Linux 6 does out of the box, except for
//! `ecn`, where Linux accepts without asking: in an experiment a host either takes part or doesn't.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// `[stack.NAME]`: the settings of a guest's or the receiver's TCP. An arm sets every one of them,
/// whatever the machine's own defaults are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    /// The congestion control by its kernel name. Default `cubic`.
    pub congestion_control: String,
    /// Whether it asks for ECN and grants it, and never falls back to a SYN without (`tcp_ecn` 1,
    /// `tcp_ecn_fallback` 0); if not, it neither asks nor grants (`tcp_ecn` 0). Default false.
    pub ecn: bool,
    /// Selective acknowledgements, RFC 2018. Default true.
    pub sack: bool,
    /// Timestamps, RFC 7323: 12 bytes of each segment. Default true.
    pub timestamps: bool,
    /// Loss detection by time, RFC 8985 (`tcp_recovery`). Default true.
    pub rack: bool,
    /// Tail loss probes, RFC 8985 §7 (`tcp_early_retrans` 3; 0 if not). Default true.
    pub early_retransmit: bool,
    /// The window scale that this host announces as a receiver, 0 to 14. Default 7, which Linux
    /// derives from its default receive memory of 6 MiB.
    pub wscale: u8,
    /// The lowest retransmission timeout; the kernel's own (200 ms) where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
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
        }
    }
}

impl Stack {
    /// The TCP header of a data segment in bytes: 20, and 12 of padded timestamps (RFC 7323 §A).
    pub fn header_bytes(&self) -> u32 {
        if self.timestamps { 32 } else { 20 }
    }
}

//! Parameters of a port's law: `parameters = { beta = 0.5, echo = "classic" }`. Their names are
//! those of the options of `uc attach`.

use serde::{Deserialize, Serialize};
use uc_words::Nanos;

/// The least target of law `delay`: the port's clock counts microseconds.
pub const TARGET_MIN: Nanos = Nanos(1_000);

/// What an operator can choose about a law; where absent, as the law's RFC has it.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Law `dctcp`: AC/DC's priority, 0 to 1 in steps of 1/128; 1 is plain DCTCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Law `dctcp`: the estimate's gain is 1/2^gain, 1 to 10. Default 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<u8>,
    /// Law `dctcp`: the estimate that a flow begins with, 0 to 1. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Law `dctcp`: segments below which no mark cuts a window. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<u8>,
    /// Law `dctcp`: how the receivers echo marks. Default `exact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// Law `delay`: the round-trip time to keep to. It has no default: only who knows the path knows
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Nanos>,
    /// Law `delay`: how much longer the target of a window of one segment is; that of a window of
    /// 100 is not. Default 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_range: Option<Nanos>,
    /// What becomes of guests that negotiate ECN themselves. Default `pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_ecn: Option<GuestEcn>,
    /// Data this many segments beyond the window given is dropped, 1 to 255. No guard where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<u8>,
    /// Whether the port only keeps the shadow and writes nothing. Default false.
    pub observe: bool,
}

impl Parameters {
    /// Whether nothing was chosen.
    pub fn are_default(&self) -> bool {
        *self == Parameters::default()
    }
}

/// How a receiver tells of marks.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Echo {
    /// DCTCP, or any guest behind a port with law `dctcp`.
    Exact,
    /// RFC 3168: ECE until CWR.
    Classic,
}

/// What becomes of a guest that negotiates ECN itself.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestEcn {
    /// It is left alone.
    Pass,
    /// Its offer is taken off, and it is a guest without ECN.
    Translate,
}

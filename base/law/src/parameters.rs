//! Parameters of a port's law: `parameters = { beta = 0.5, echo = "classic" }`. Their names are
//! those of the options of `uc attach`.

use serde::{Deserialize, Serialize};
use uc_core::{Policy, consts};
use uc_words::Nanos;

use crate::law::{Law, Profile};

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

/// The core's policy for a law, profile and parameters of an experiment file.
pub fn policy(law: Law, profile: Profile, parameters: &Parameters) -> Policy {
    let law = match law {
        Law::Pass => consts::LAW_PASS,
        Law::Ecn => consts::LAW_ECN,
        Law::Dctcp => consts::LAW_DCTCP,
        Law::Delay => consts::LAW_DELAY,
        Law::Coupled => consts::LAW_COUPLED,
    };
    let profile = match profile {
        Profile::Linux => consts::PROFILE_LINUX,
        Profile::Rfc => consts::PROFILE_RFC,
    };
    let usual = Policy::new(law, profile);
    let echo = parameters.echo.map(|echo| match echo {
        Echo::Exact => consts::ECHO_EXACT as u8,
        Echo::Classic => consts::ECHO_CLASSIC as u8,
    });
    let guest_ecn = parameters.guest_ecn.map(|treatment| match treatment {
        GuestEcn::Pass => consts::GUEST_ECN_PASS as u8,
        GuestEcn::Translate => consts::GUEST_ECN_TRANSLATE as u8,
    });
    Policy {
        beta_q7: parameters.beta.map_or(usual.beta_q7, q7),
        gain_shift: parameters.gain.unwrap_or(usual.gain_shift),
        initial_alpha_q7: parameters.alpha.map_or(usual.initial_alpha_q7, q7),
        minimum_window_segments: parameters
            .min_window
            .unwrap_or(usual.minimum_window_segments),
        echo: echo.unwrap_or(usual.echo),
        guest_ecn: guest_ecn.unwrap_or(usual.guest_ecn),
        guard_segments: parameters.guard.unwrap_or(usual.guard_segments),
        observe: parameters.observe.into(),
        target_us: parameters.target.map_or(usual.target_us, whole_us),
        target_range_us: parameters
            .target_range
            .map_or(usual.target_range_us, whole_us),
        ..usual
    }
}

/// In whole microseconds, rounded up: the port's clock for round trips.
pub fn whole_us(time: Nanos) -> u32 {
    u32::try_from(time.0.div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// A fraction in 1/128, to the nearest.
fn q7(fraction: f64) -> u8 {
    (fraction * 128.0).round() as u8
}

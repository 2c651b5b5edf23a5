//! Conversion of an experiment's stack into the settings of an endpoint.
//!
//! Loss detection by time (`rack`) and tail loss probes (`early_retransmit`) exist in real kernels
//! only: simulated hosts follow RFC 5681, 6582 and 6675, which have neither.

use uc_experiment::{Experiment, Family, Frto, Guests, Reduction, Stack};
use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, RtoMin, SpuriousTimeout};

use crate::error::SimError;

/// Maximum IP packet on Ethernet, in bytes.
const MTU_BYTES: u32 = 1500;
/// Size of a TCP header without options, as the MSS option counts it (RFC 6691).
const TCP_HEADER_BYTES: u32 = 20;
/// DCTCP with the parameters of RFC 8257 §4.2: g = 1/16, and α = 1 at the start.
const DCTCP: CongestionControl = CongestionControl::Dctcp {
    gain_shift: 4,
    initial_alpha_q10: 1024,
};

/// Returns the stack of a group.
///
/// # Errors
/// [`SimError::Refused`] if the experiment has none of that name.
pub fn stack_of<'a>(experiment: &'a Experiment, group: &Guests) -> Result<&'a Stack, SimError> {
    let found = experiment.stacks.get(&group.stack);
    found.ok_or_else(|| {
        SimError::Refused(format!(
            "there is no [stack.{}]; define it in the experiment",
            group.stack
        ))
    })
}

/// Converts `stack`, named `name` in the experiment, into endpoint settings.
///
/// # Errors
/// [`SimError::Refused`] for settings that no simulated endpoint has.
pub fn config(name: &str, stack: &Stack, family: Family) -> Result<Config, SimError> {
    let default = Config::default();
    let mss_bytes = MTU_BYTES - family.header_bytes() - TCP_HEADER_BYTES;
    let receive_buffer_bytes = stack
        .receive_buffer
        .map_or(default.receive_buffer_bytes, |bytes| bytes.0);
    if receive_buffer_bytes < mss_bytes {
        return Err(SimError::Refused(format!(
            "[stack.{name}] receive_buffer of {receive_buffer_bytes} B holds no segment of \
             {mss_bytes} B, so that its window would stay below one for ever; raise it to two \
             segments or more"
        )));
    }
    Ok(Config {
        congestion_control: congestion_control(name, stack)?,
        ecn: stack.ecn,
        sack: stack.sack,
        timestamps: stack.timestamps,
        mss_bytes: mss_bytes as u16,
        wscale: Some(stack.wscale),
        receive_buffer_bytes,
        initial_window_segments: stack
            .initial_window
            .unwrap_or(default.initial_window_segments),
        rto_min: stack.rto_min.unwrap_or(default.rto_min),
        // the same file runs on Linux, where `rto_min` is the minimum of the variation's term
        rto_min_of: RtoMin::Variation,
        rto_max: stack.rto_max.unwrap_or(default.rto_max),
        rto_granularity: stack.rto_granularity.unwrap_or(default.rto_granularity),
        spurious_timeout: match stack.frto {
            None => default.spurious_timeout,
            Some(Frto::Off) => SpuriousTimeout::Ignored,
            Some(Frto::Halve) => SpuriousTimeout::Halve,
            Some(Frto::Undo) => SpuriousTimeout::Undo,
        },
        delayed_ack: match stack.delayed_ack {
            None => default.delayed_ack,
            Some(Nanos::ZERO) => None,
            Some(delay) => Some(delay),
        },
        quick_acks: stack.quick_acks.unwrap_or(default.quick_acks),
        limited_transmit: stack.limited_transmit.unwrap_or(default.limited_transmit),
        nagle: stack.nagle.unwrap_or(default.nagle),
        reduction: match stack.reduction {
            None => default.reduction,
            Some(Reduction::Jump) => uc_tcp::Reduction::Jump,
            Some(Reduction::Proportional) => uc_tcp::Reduction::Proportional,
        },
        restart_after_idle: stack
            .restart_after_idle
            .unwrap_or(default.restart_after_idle),
        ignores_receive_window: stack.ignores_window.unwrap_or(false),
        ..default
    })
}

/// Checks that the stack's congestion control can be coupled. A coupled controller shares out
/// windows that grow until a loss halves them. A law's answer to a fraction of marks, or to a
/// delay, is about its own flow's queue; nothing defines it for a group's. At a port the shadow is
/// coupled, whatever the guest's law is.
///
/// # Errors
/// [`SimError::Refused`] for guests that couple connections of such a law by themselves.
pub fn check_couples(group: &Guests, stack: &Stack) -> Result<(), SimError> {
    let couples = group.coupling.is_some() && !group.is_coupled_by_port();
    let law = stack.congestion_control.as_str();
    if couples && matches!(law, "dctcp" | "vegas") {
        return Err(SimError::Refused(format!(
            "[stack.{}] congestion_control `{law}` of guests `{}`, whose coupling is their own; \
             take reno or cubic, or couple them at their ports: law = \"coupled\"",
            group.stack, group.name
        )));
    }
    Ok(())
}

fn congestion_control(name: &str, stack: &Stack) -> Result<CongestionControl, SimError> {
    match stack.congestion_control.as_str() {
        "reno" => Ok(CongestionControl::NewReno),
        "reno_by_acks" => Ok(CongestionControl::NewRenoByAcks),
        "cubic" => Ok(CongestionControl::Cubic),
        "dctcp" => Ok(DCTCP),
        "highspeed" => Ok(CongestionControl::HighSpeed),
        "vegas" => Ok(CongestionControl::Vegas),
        "illinois" => Ok(CongestionControl::Illinois),
        other => Err(SimError::Refused(format!(
            "[stack.{name}] congestion_control `{other}` is not in the simulator; take reno, \
             cubic, dctcp, highspeed, vegas or illinois (or reno_by_acks), or run the experiment \
             live"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_stack_is_the_default_endpoint_with_linux_differences() {
        let found = config("a", &Stack::default(), Family::Ipv4).unwrap();
        let expected = Config {
            congestion_control: CongestionControl::Cubic,
            rto_min_of: RtoMin::Variation,
            ..Config::default()
        };
        assert_eq!(found, expected);
        let found = config("a", &Stack::default(), Family::Ipv6).unwrap();
        assert_eq!(found.mss_bytes, 1440);
    }

    #[test]
    fn unsupported_settings_are_refused_with_a_remedy() {
        let bbr = Stack {
            congestion_control: "bbr".into(),
            ..Stack::default()
        };
        let small = Stack {
            receive_buffer: Some(uc_experiment::Bytes(1_000)),
            ..Stack::default()
        };
        for (stack, part) in [(bbr, "bbr"), (small, "holds no segment")] {
            let error = config("odd", &stack, Family::Ipv4).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("odd"), "{error}");
        }
    }

    #[test]
    fn every_congestion_control_of_the_hosts_has_its_name() {
        for (name, expected) in [
            ("reno", CongestionControl::NewReno),
            ("reno_by_acks", CongestionControl::NewRenoByAcks),
            ("cubic", CongestionControl::Cubic),
            ("dctcp", DCTCP),
            ("highspeed", CongestionControl::HighSpeed),
            ("vegas", CongestionControl::Vegas),
            ("illinois", CongestionControl::Illinois),
        ] {
            let stack = Stack {
                congestion_control: name.into(),
                ..Stack::default()
            };
            let found = config("a", &stack, Family::Ipv4).unwrap();
            assert_eq!(found.congestion_control, expected, "{name}");
        }
    }

    #[test]
    fn only_ignores_window_true_makes_a_guest_ignore_its_window() {
        let mut stack = Stack::default();
        for ignores in [None, Some(false), Some(true)] {
            stack.ignores_window = ignores;
            let found = config("a", &stack, Family::Ipv4).unwrap();
            assert_eq!(found.ignores_receive_window, ignores == Some(true));
        }
    }

    #[test]
    fn an_ack_delay_of_zero_acknowledges_each_segment() {
        let stack = Stack {
            delayed_ack: Some(Nanos::ZERO),
            ..Stack::default()
        };
        let found = config("a", &stack, Family::Ipv4).unwrap();
        assert_eq!(found.delayed_ack, None);
    }
}

//! Parameters of law `dctcp` on the command line.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use uc_core::{Policy, consts};

/// Law `dctcp`: every one has RFC 8257's value where it is not given.
#[derive(Args)]
#[command(next_help_heading = "Law dctcp")]
pub struct DctcpArguments {
    /// Priority, 0 to 1 in steps of 1/128: a cut takes α(1 − β/2) of the window; 1: plain DCTCP
    #[arg(long, value_name = "β", value_parser = fraction_q7)]
    beta: Option<u8>,
    /// The estimate's gain is g = 1/2^N, N from 1 to 10; 4: RFC 8257's 1/16
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
    gain: Option<u8>,
    /// The estimate α that a flow begins with, 0 to 1 in steps of 1/128; RFC 8257: 1
    #[arg(long, value_name = "α", value_parser = fraction_q7)]
    alpha: Option<u8>,
    /// Segments below which no mark cuts a window; 2 as Linux, 1 for deep incast
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    min_window: Option<u8>,
    /// How the receivers that this port's guest sends to echo marks
    #[arg(long, value_enum)]
    echo: Option<EchoName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum EchoName {
    /// DCTCP, or any guest behind a port with law dctcp: ECE says which bytes were marked
    Exact,
    /// RFC 3168: asked packet by packet, by CWR on each; the port's segmentation offload must be
    /// off, and there is an ACK for each segment
    Classic,
}

impl DctcpArguments {
    /// The policy with what was given.
    ///
    /// # Errors
    /// If something was given for another law.
    pub fn apply(&self, policy: &mut Policy) -> Result<()> {
        let given = [
            ("beta", self.beta.is_some()),
            ("gain", self.gain.is_some()),
            ("alpha", self.alpha.is_some()),
            ("min-window", self.min_window.is_some()),
            ("echo", self.echo.is_some()),
        ];
        if u32::from(policy.law) != consts::LAW_DCTCP {
            if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
                bail!("--{name} is a parameter of law dctcp: add --law dctcp, or leave it out");
            }
            return Ok(());
        }
        policy.beta_q7 = self.beta.unwrap_or(policy.beta_q7);
        policy.gain_shift = self.gain.unwrap_or(policy.gain_shift);
        policy.initial_alpha_q7 = self.alpha.unwrap_or(policy.initial_alpha_q7);
        policy.minimum_window_segments = self.min_window.unwrap_or(policy.minimum_window_segments);
        if let Some(echo) = self.echo {
            policy.echo = match echo {
                EchoName::Exact => consts::ECHO_EXACT as u8,
                EchoName::Classic => consts::ECHO_CLASSIC as u8,
            };
        }
        Ok(())
    }
}

/// 0 to 1 in 1/128, to the nearest.
fn fraction_q7(text: &str) -> Result<u8, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok((value * 128.0).round() as u8),
        _ => Err("not a number from 0 to 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_taken_to_the_nearest_128th_and_nothing_else_is() {
        for (text, q7) in [
            ("0", 0),
            ("0.25", 32),
            ("0.5", 64),
            ("1", 128),
            ("0.003", 0),
        ] {
            assert_eq!(fraction_q7(text), Ok(q7), "{text}");
        }
        for text in ["-0.1", "1.01", "NaN", "inf", "half", ""] {
            assert!(fraction_q7(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_parameter_of_dctcp_is_refused_under_another_law() {
        let arguments = DctcpArguments {
            beta: Some(32),
            gain: None,
            alpha: None,
            min_window: Some(1),
            echo: Some(EchoName::Classic),
        };
        let mut policy = Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX);
        let refusal = arguments.apply(&mut policy).unwrap_err().to_string();
        assert!(refusal.contains("--beta") && refusal.contains("--law dctcp"));
        let mut policy = Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
        arguments.apply(&mut policy).unwrap();
        let expected = Policy {
            beta_q7: 32,
            minimum_window_segments: 1,
            echo: consts::ECHO_CLASSIC as u8,
            ..Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX)
        };
        assert_eq!(policy, expected);
    }
}

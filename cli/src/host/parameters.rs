//! What an operator can choose about a port's law, on the command line. The names are those of
//! `parameters` in an experiment file.

mod coupled;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
pub use coupled::CoupledArguments;
use uc_experiment::{Echo, GuestEcn, Law, Nanos, Parameters, TARGET_MIN};

/// Each has its law's own value where it is not given.
#[derive(Args, Default)]
pub struct ParameterArguments {
    /// Priority, 0 to 1 in steps of 1/128: a cut takes α(1 − β/2) of the window; 1: plain DCTCP
    #[arg(long, value_name = "β", value_parser = fraction, help_heading = DCTCP)]
    beta: Option<f64>,
    /// The estimate's gain is g = 1/2^N, N from 1 to 10; 4: RFC 8257's 1/16
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10),
          help_heading = DCTCP)]
    gain: Option<u8>,
    /// The estimate α that a flow begins with, 0 to 1 in steps of 1/128; RFC 8257: 1
    #[arg(long, value_name = "α", value_parser = fraction, help_heading = DCTCP)]
    alpha: Option<f64>,
    /// Segments below which no mark cuts a window; 2 as Linux, 1 for deep incast
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..),
          help_heading = DCTCP)]
    min_window: Option<u8>,
    /// How the receivers that this port's guest sends to echo marks
    #[arg(long, value_enum, help_heading = DCTCP)]
    echo: Option<EchoName>,
    /// The round-trip time to keep to, such as 800us: an idle path's and the queue that you accept
    #[arg(long, value_name = "TIME", help_heading = DELAY)]
    target: Option<Nanos>,
    /// How much longer the target of a window of one segment is; that of a window of 100 is not
    #[arg(long, value_name = "TIME", help_heading = DELAY)]
    target_range: Option<Nanos>,
    /// What becomes of a guest that negotiates ECN itself
    #[arg(long, value_enum, help_heading = ANY)]
    guest_ecn: Option<GuestEcnName>,
    /// Drop data that ends more than N segments beyond the window that the guest was given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..),
          help_heading = ANY)]
    guard: Option<u8>,
    /// Keep the law's state for each flow and write nothing: a dry run
    #[arg(long, conflicts_with_all = ["guard", "guest_ecn"], help_heading = ANY)]
    observe: bool,
}

const DCTCP: &str = "Law dctcp";
const DELAY: &str = "Law delay";
const ANY: &str = "Any law";

#[derive(Clone, Copy, ValueEnum)]
enum EchoName {
    /// DCTCP, or any guest behind a port with law dctcp: ECE says which bytes were marked
    Exact,
    /// RFC 3168: asked packet by packet, by CWR on each; the port's segmentation offload must be
    /// off, and there is an ACK for each segment
    Classic,
}

#[derive(Clone, Copy, ValueEnum)]
enum GuestEcnName {
    /// It is left alone
    Pass,
    /// Its offer is taken off, and it is translated like a guest without ECN
    Translate,
}

impl ParameterArguments {
    /// What was given, for this law.
    ///
    /// # Errors
    /// If something was given that the law has no use for.
    pub fn parameters(&self, law: Law) -> Result<Parameters> {
        let parameters = self.all();
        refuse_others(&parameters, law)?;
        if let Some(target) = self.target.filter(|target| *target < TARGET_MIN) {
            bail!("--target {target} is below {TARGET_MIN}: give for example 800us");
        }
        if law == Law::Delay && self.target.is_none() {
            bail!(
                "law delay has no default target: give --target, an idle path's round-trip time \
                 and the queue that you accept"
            );
        }
        if law == Law::Coupled && self.observe {
            bail!(
                "--observe gives no windows, so law coupled has none to share: observe law ecn, or \
                 leave it out"
            );
        }
        Ok(parameters)
    }

    /// What was given, for whatever law.
    fn all(&self) -> Parameters {
        Parameters {
            beta: self.beta,
            gain: self.gain,
            alpha: self.alpha,
            min_window: self.min_window,
            echo: self.echo.map(|echo| match echo {
                EchoName::Exact => Echo::Exact,
                EchoName::Classic => Echo::Classic,
            }),
            guest_ecn: self.guest_ecn.map(|treatment| match treatment {
                GuestEcnName::Pass => GuestEcn::Pass,
                GuestEcnName::Translate => GuestEcn::Translate,
            }),
            target: self.target,
            target_range: self.target_range,
            guard: self.guard,
            observe: self.observe,
        }
    }
}

/// Refuses what the law has no use for.
fn refuse_others(parameters: &Parameters, law: Law) -> Result<()> {
    for (name, is_set, owner) in parameters.owners() {
        let name = name.replace('_', "-");
        match owner {
            Some(owner) if is_set && owner != law => {
                let owner = owner.name();
                bail!("--{name} is a parameter of law {owner}: add --law {owner}, or leave it out")
            }
            None if is_set && law == Law::Pass => {
                bail!("--{name} says nothing under law pass: name another law, or leave it out")
            }
            _ => {}
        }
    }
    Ok(())
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("not a number from 0 to 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::{Policy, consts};
    use uc_experiment::Profile;

    #[test]
    fn fractions_are_taken_to_the_nearest_128th_and_nothing_else_is() {
        for (text, q7) in [
            ("0", 0),
            ("0.25", 32),
            ("0.5", 64),
            ("1", 128),
            ("0.003", 0),
        ] {
            let parameters = Parameters {
                beta: Some(fraction(text).unwrap()),
                ..Parameters::default()
            };
            let policy = uc_law::policy(Law::Dctcp, Profile::Linux, &parameters);
            assert_eq!(policy.beta_q7, q7, "{text}");
        }
        for text in ["-0.1", "1.01", "NaN", "inf", "half", ""] {
            assert!(fraction(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_given_is_the_policys_and_the_rest_is_the_laws_own() {
        let arguments = ParameterArguments {
            beta: Some(0.25),
            min_window: Some(1),
            echo: Some(EchoName::Classic),
            guest_ecn: Some(GuestEcnName::Translate),
            guard: Some(2),
            ..ParameterArguments::default()
        };
        let parameters = arguments.parameters(Law::Dctcp).unwrap();
        let expected = Policy {
            beta_q7: 32,
            minimum_window_segments: 1,
            echo: consts::ECHO_CLASSIC as u8,
            guest_ecn: consts::GUEST_ECN_TRANSLATE as u8,
            guard_segments: 2,
            ..Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX)
        };
        let policy = uc_law::policy(Law::Dctcp, Profile::Linux, &parameters);
        assert_eq!(policy, expected);
    }

    #[test]
    fn a_parameter_is_refused_under_a_law_that_has_no_use_for_it() {
        let refusal = |arguments: &ParameterArguments, law| {
            arguments.parameters(law).unwrap_err().to_string()
        };
        let beta = ParameterArguments {
            beta: Some(0.25),
            ..ParameterArguments::default()
        };
        let text = refusal(&beta, Law::Ecn);
        assert!(text.contains("--beta") && text.contains("--law dctcp"));
        let target = |ns| ParameterArguments {
            target: Some(Nanos(ns)),
            ..ParameterArguments::default()
        };
        let text = refusal(&target(999), Law::Delay);
        assert_eq!(text, "--target 999ns is below 1us: give for example 800us");
        assert!(target(1_000).parameters(Law::Delay).is_ok());
        let observe = ParameterArguments {
            observe: true,
            ..ParameterArguments::default()
        };
        assert!(refusal(&observe, Law::Pass).contains("--observe"));
        assert!(observe.parameters(Law::Ecn).unwrap().observe);
    }
}

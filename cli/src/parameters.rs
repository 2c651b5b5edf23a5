//! Options that set a law's parameters. Their names are those of `parameters` in an experiment file.

mod coupled;

use anyhow::{Result, bail};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
pub use coupled::CoupledArguments;
use uc_core::Policy;
use uc_law::{Law, Parameters, Table, keys, owner};

use super::options::{chosen, long, option};

/// The law's parameters that options set; every other parameter keeps its default value.
#[derive(Default)]
pub struct ParameterArguments(Parameters);

impl Args for ParameterArguments {
    fn augment_args(mut command: Command) -> Command {
        // by law, so that each has one heading
        let mut rows: Vec<_> = Policy::rows().iter().collect();
        rows.sort_by_key(|row| owner(row).is_none());
        for row in rows {
            let heading =
                owner(row).map_or("Any law".to_owned(), |(what, _)| what.replacen('l', "L", 1));
            let mut option = option(row, &heading);
            if row.key == keys::OBSERVE {
                option = option.conflicts_with_all([keys::GUARD, keys::GUEST_ECN]);
            }
            command = command.arg(option);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ParameterArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(chosen(matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0 = chosen(matches).or(std::mem::take(&mut self.0));
        Ok(())
    }
}

impl ParameterArguments {
    /// Returns the parameters that options set, for this law.
    ///
    /// # Errors
    /// An option sets a parameter that the law does not have, or the values contradict each other.
    pub fn parameters(self, law: Law) -> Result<Parameters> {
        let ParameterArguments(parameters) = self;
        if let Some((row, _)) = parameters.iter().find(|(row, _)| !row.is_of(law)) {
            let name = long(row.key);
            match owner(row) {
                Some((what, owner)) => {
                    let owner = owner.name();
                    bail!(
                        "--{name} is a parameter of {what}; add --law {owner}, or remove --{name}"
                    )
                }
                None => {
                    bail!(
                        "--{name} has no effect under law pass; name another law, or remove --{name}"
                    )
                }
            }
        }
        if let Some((key, message)) = parameters.senseless(Some(law)).into_iter().next() {
            bail!("--{}: {message}", long(key));
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::{DctcpParameters, consts};
    use uc_law::{Profile, policy};

    fn given(options: &[&str]) -> Result<ParameterArguments, String> {
        let command = ParameterArguments::augment_args(Command::new("uc"));
        let words = ["uc"].iter().chain(options);
        let matches = command.try_get_matches_from(words);
        let matches = matches.map_err(|error| error.to_string())?;
        ParameterArguments::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    fn refusal(options: &[&str], law: Law) -> String {
        let arguments = given(options).unwrap();
        arguments.parameters(law).unwrap_err().to_string()
    }

    #[test]
    fn fractions_are_taken_to_the_nearest_128th_and_nothing_else_is() {
        for (text, q7) in [
            ("0", 0),
            ("0.25", 32),
            ("0.5", 64),
            ("1", 128),
            ("0.003", 0),
        ] {
            let arguments = given(&["--beta", text]).unwrap();
            let parameters = arguments.parameters(Law::DCTCP).unwrap();
            let policy = policy(Law::DCTCP, Profile::Linux, &parameters);
            assert_eq!(policy.dctcp().beta_q7, q7, "{text}");
        }
        for text in ["-0.1", "1.01", "NaN", "inf"] {
            let refused = refusal(&[&format!("--beta={text}")], Law::DCTCP);
            assert!(refused.starts_with("--beta: is "), "{text}: {refused}");
        }
        for text in ["half", ""] {
            assert!(given(&[&format!("--beta={text}")]).is_err(), "{text}");
        }
    }

    #[test]
    fn options_reach_the_policy_and_the_rest_keeps_its_usual_value() {
        let options = [
            "--beta=0.25",
            "--min-window=1",
            "--echo=classic",
            "--guest-ecn=translate",
            "--guard=2",
        ];
        let parameters = given(&options).unwrap().parameters(Law::DCTCP).unwrap();
        let usual = Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
        let expected = Policy {
            echo: consts::ECHO_CLASSIC as u8,
            guest_ecn: consts::GUEST_ECN_TRANSLATE as u8,
            guard_segments: 2,
            ..usual
        }
        .with_dctcp(DctcpParameters {
            beta_q7: 32,
            minimum_window_segments: 1,
            ..usual.dctcp()
        });
        let policy = policy(Law::DCTCP, Profile::Linux, &parameters);
        assert_eq!(policy, expected);
    }

    #[test]
    fn a_parameter_is_refused_under_a_law_that_has_no_use_for_it() {
        let text = refusal(&["--beta=0.25"], Law::ECN);
        assert!(text.contains("--beta") && text.contains("--law dctcp"));
        let text = refusal(&["--observe"], Law::PASS);
        assert!(text.contains("--observe"), "{text}");
        let text = refusal(&["--observe"], Law::COUPLED);
        assert!(text.contains("none to share"), "{text}");
        let observed = given(&["--observe"]).unwrap().parameters(Law::ECN);
        assert!(observed.unwrap().has(keys::OBSERVE));
        assert!(given(&["--observe", "--guard=1"]).is_err());
    }

    #[test]
    fn law_delay_needs_a_target_that_its_clock_can_tell() {
        let text = refusal(&["--target=999ns"], Law::DELAY);
        assert_eq!(text, "--target: is below 1us; give that or more");
        let target = given(&["--target=1us"]).unwrap();
        assert!(target.parameters(Law::DELAY).is_ok());
        let text = refusal(&[], Law::DELAY);
        assert!(
            text.starts_with("--target: missing, and law delay has no default"),
            "{text}"
        );
    }

    #[test]
    fn numbers_outside_their_range_are_refused_with_it() {
        for (option, range) in [
            ("--gain=0", "give 1 to 10"),
            ("--gain=11", "give 1 to 10"),
            ("--min-window=0", "give 1 to 255 segments"),
            ("--guard=0", "leave it out, or give 1 to 255 segments"),
            ("--guard=256", "give 1 to 255 segments"),
        ] {
            let text = refusal(&[option], Law::DCTCP);
            assert!(text.contains(range), "{option}: {text}");
        }
        let text = given(&["--echo=loud"]).err().unwrap();
        assert!(text.contains("exact, classic"), "{text}");
    }
}

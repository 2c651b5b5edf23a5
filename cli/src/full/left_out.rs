//! The answers of a build without the features `agent` and `top` to the commands that it lacks.

use anyhow::{Result, bail};

use crate::agent::Agent;
use crate::law::Build;
use crate::top::Top;

/// Refuses to run an agent.
///
/// # Errors
/// Always: names the commands that build a full `uc`.
pub fn agent(_: Agent) -> Result<bool> {
    refuse("agent")
}

/// Refuses to build laws.
///
/// # Errors
/// Always: names the commands that build a full `uc`.
pub fn law(_: Build) -> Result<bool> {
    refuse("law")
}

/// Refuses to show ports and flows.
///
/// # Errors
/// Always: names the commands that build a full `uc`.
pub fn top(_: Top) -> Result<bool> {
    refuse("top")
}

fn refuse(command: &str) -> Result<bool> {
    bail!(
        "this program was built without `uc {command}`; to build it with every command: \
         scripts/bootstrap build && cargo build --release -p uc-cli"
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::Arguments;

    /// Parses the options of a command of `uc`.
    fn options<T: FromArgMatches>(words: &[&str]) -> T {
        let words = ["uc"].iter().chain(words);
        let mut matches = Arguments::command().get_matches_from(words);
        while let Some((_, within)) = matches.remove_subcommand() {
            matches = within;
        }
        T::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_command_that_is_left_out_says_in_one_line_how_to_build_it() {
        let refused = [
            ("agent", agent(options(&["agent"]))),
            ("law", law(options(&["law", "build", "abe"]))),
            ("top", top(options(&["top"]))),
        ];
        for (command, refused) in refused {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(&format!("without `uc {command}`")), "{text}");
            assert!(text.contains("cargo build --release -p uc-cli"), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}

//! Finds which options were given, whatever their values, so that options without effect can be
//! refused.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The parsed arguments, and the names of the options that were on the command line.
pub struct Given<T> {
    /// The command-line arguments, parsed.
    pub arguments: T,
    /// Names such as `--law`, in the order of the help text.
    pub options: Vec<String>,
}

impl<T: Args> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let options = options::<T>(matches);
        T::from_arg_matches(matches).map(|arguments| Given { arguments, options })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let options = options::<T>(matches);
        T::from_arg_matches_mut(matches).map(|arguments| Given { arguments, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.options = options::<T>(matches);
        self.arguments.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

fn options<T: Args>(matches: &ArgMatches) -> Vec<String> {
    let command = T::augment_args(Command::new("uc"));
    let named = command.get_arguments().filter_map(|argument| {
        let is_given =
            matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
        let name = argument.get_long()?;
        is_given.then(|| format!("--{name}"))
    });
    named.collect()
}

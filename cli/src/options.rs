//! Command-line options from the core's tables of parameters: one option for each row, with its range, words and
//! description.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use uc_law::{Chosen, Kind, Law, Profile, Row, Table, Value};

/// Makes the command-line option of a parameter. The option accepts every value that can be parsed, even outside the
/// parameter's range, which [`Chosen::out_of_range`] checks later.
pub fn option<Of: Table>(row: &'static Row<Of>, heading: &str) -> Arg {
    let option = Arg::new(row.key)
        .long(long(row.key))
        .help(sentence(row.what))
        .help_heading(heading.to_owned());
    match row.kind {
        Kind::Flag => option.action(ArgAction::SetTrue),
        Kind::Word => {
            let words = row
                .words
                .iter()
                .map(|word| PossibleValue::new(word.word).help(sentence(word.what)));
            let words = PossibleValuesParser::new(words);
            let name = row.key.to_uppercase();
            let option = option.value_name(name);
            option.value_parser(words.try_map(|word| Value::parse(row, &word)))
        }
        kind => option
            .value_name(match kind {
                Kind::Fraction => "X",
                Kind::Microseconds | Kind::Nanoseconds => "TIME",
                Kind::Bytes => "SIZE",
                Kind::Rate => "RATE",
                _ => "N",
            })
            .value_parser(move |text: &str| Value::parse(row, text)),
    }
}

/// Returns the values that the command line gives to a table's rows; rows without an option are
/// skipped. [`Chosen::out_of_range`] checks the ranges of all values later, in one error.
pub fn chosen<Of: Table>(matches: &ArgMatches) -> Chosen<Of> {
    let mut chosen = Chosen::default();
    let has_option = |key| matches.try_contains_id(key).is_ok();
    for row in Of::rows().iter().filter(|row| has_option(row.key)) {
        let value = match row.kind {
            Kind::Flag => Some(Value::Flag(matches.get_flag(row.key))),
            _ => matches.get_one::<Value>(row.key).copied(),
        };
        if let Some(value) = value {
            chosen.set(row, value);
        }
    }
    chosen
}

/// Returns a parameter's key in the spelling of options, with hyphens for underscores.
pub fn long(key: &str) -> String {
    key.replace('_', "-")
}

/// Parses the name of a law. Help lists the laws of the tree. Whether a law of this name exists is checked later, when
/// the laws of --laws are loaded ([`uc_port::law_named`]).
#[derive(Clone)]
pub struct LawName;

impl TypedValueParser for LawName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let law = |law: Law| PossibleValue::new(law.name()).help(sentence(law.what()));
        Some(Box::new(Law::inside().map(law)))
    }
}

/// Returns the parser of the option `--profile`.
pub fn profile() -> impl TypedValueParser<Value = Profile> {
    let words = Profile::words();
    let words = words
        .iter()
        .map(|word| PossibleValue::new(word.word).help(sentence(word.what)));
    PossibleValuesParser::new(words)
        .try_map(|name| Profile::named(&name).ok_or_else(|| format!("there is no profile {name}")))
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

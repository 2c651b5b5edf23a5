//! The names that a folder's table gives its laws.

use uc_core::{Law, law::OUTSIDE_MAX};

use crate::outside::error::LawError;

/// C source that the preprocessor expands to `uc_law_is NAME, name;` for each row of the table.
pub(crate) const SOURCE: &str = "\
#include \"more/table.h\"
#define UC_LAW_IS(NAME, name, ...) uc_law_is NAME, name;
UC_LAWS_MORE(UC_LAW_IS)
";

/// Maximum length of a name, in bytes: `uc_about_law` holds it with a zero.
const NAME_MAX: usize = 23;

/// Checks what the preprocessor made of [`SOURCE`]: there is a law, there are not too many, and each
/// has a name of its own that commands and files can hold.
pub(crate) fn check(expanded: &str) -> Result<(), LawError> {
    let rows = expanded.split("uc_law_is").skip(1);
    let laws: Vec<(&str, &str)> = rows
        .filter_map(|row| row.split_once(';')?.0.split_once(','))
        .map(|(constant, name)| (constant.trim(), name.trim()))
        .collect();
    if laws.is_empty() {
        return Err(LawError::Other(
            "more/table.h defines no law; define UC_LAWS_MORE(X) with a row for each".into(),
        ));
    }
    if laws.len() > OUTSIDE_MAX {
        return Err(LawError::Other(format!(
            "more/table.h has {} laws; the limit is {OUTSIDE_MAX}",
            laws.len()
        )));
    }
    for (i, (constant, name)) in laws.iter().enumerate() {
        let named = || (*name).to_owned();
        if !is_name(name) {
            return Err(LawError::Other(format!(
                "more/table.h: '{name}' is not a valid name of a law; take up to 23 small \
                 letters, digits, \
                 '-' and '_', a letter first",
                name = named()
            )));
        }
        let is_theirs = |law: Law| {
            [*name, *constant]
                .iter()
                .any(|own| own.eq_ignore_ascii_case(law.name()))
        };
        if Law::inside().any(is_theirs) {
            return Err(LawError::Other(format!(
                "more/table.h: the tree has a law of the name '{name}'; choose another",
                name = named()
            )));
        }
        if laws[..i]
            .iter()
            .any(|before| before.0 == *constant || before.1 == *name)
        {
            return Err(LawError::Other(format!(
                "more/table.h: two rows have the name '{name}'; rename one",
                name = named()
            )));
        }
    }
    Ok(())
}

/// Returns whether a law may have this name: a letter, then letters, digits, `_` and `-`.
fn is_name(name: &str) -> bool {
    let is_in = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= NAME_MAX
        && name.bytes().all(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(expanded: &str) -> String {
        check(expanded).unwrap_err().to_string()
    }

    #[test]
    fn one_to_four_laws_with_names_of_their_own_are_accepted() {
        assert!(check("uc_law_is ABE, abe;").is_ok());
        let four = "uc_law_is A, a; uc_law_is B, b; uc_law_is C, c; uc_law_is D, d;";
        assert!(check(four).is_ok());
        assert!(refusal(&format!("{four} uc_law_is E, e;")).contains("5 laws"));
    }

    #[test]
    fn table_without_a_row_is_refused() {
        for expanded in ["", "UC_LAWS_MORE(UC_LAW_IS)"] {
            assert!(refusal(expanded).contains("UC_LAWS_MORE"));
        }
    }

    #[test]
    fn names_of_the_tree_and_names_given_twice_are_refused() {
        for row in ["uc_law_is ECN, mine;", "uc_law_is MINE, ecn;"] {
            assert!(refusal(row).contains("the tree has a law"), "{row}");
        }
        let twice = refusal("uc_law_is A, a; uc_law_is B, a;");
        assert!(twice.contains("two rows"), "{twice}");
    }

    #[test]
    fn names_that_commands_and_files_cannot_hold_are_refused() {
        let long = "a".repeat(NAME_MAX + 1);
        for name in [
            "",
            "13",
            "ABE",
            "my law",
            "--help",
            "\"quoted\"",
            "../x",
            &long,
        ] {
            let said = refusal(&format!("uc_law_is A, a; uc_law_is B, {name};"));
            assert!(said.contains("small letters"), "{name}: {said}");
        }
    }
}

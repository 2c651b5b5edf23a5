//! The names that a folder's table gives its laws.

use uc_core::{Law, law::OUTSIDE_MAX};

use crate::error::LawError;

/// Expands to a line's worth of words for each row: `uc_law_is NAME name`.
pub(crate) const SOURCE: &str = "\
#include \"more/table.h\"
#define UC_LAW_IS(NAME, name, ...) uc_law_is NAME name
UC_LAWS_MORE(UC_LAW_IS)
";

/// Checks what the preprocessor made of [`SOURCE`]: there is a law, there are not too many, and no two
/// laws have one name.
pub(crate) fn check(expanded: &str) -> Result<(), LawError> {
    let mut laws: Vec<[&str; 2]> = Vec::new();
    for row in expanded.split("uc_law_is").skip(1) {
        let mut words = row.split_whitespace();
        laws.extend(words.next().zip(words.next()).map(<[&str; 2]>::from));
    }
    if laws.is_empty() {
        return Err(LawError::NoLaw);
    }
    if laws.len() > OUTSIDE_MAX {
        return Err(LawError::TooMany { laws: laws.len() });
    }
    for (i, [constant, name]) in laws.iter().enumerate() {
        let inside = Law::inside()
            .any(|law| law.name() == *name || law.name().eq_ignore_ascii_case(constant));
        if inside {
            let name = (*name).to_owned();
            return Err(LawError::InTree { name });
        }
        if laws[..i]
            .iter()
            .any(|before| before[0] == *constant || before[1] == *name)
        {
            let name = (*name).to_owned();
            return Err(LawError::Twice { name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(expanded: &str) -> String {
        check(expanded).unwrap_err().to_string()
    }

    #[test]
    fn one_to_four_laws_with_names_of_their_own_are_accepted() {
        assert!(check("uc_law_is ABE abe").is_ok());
        let four = "uc_law_is A a uc_law_is B b uc_law_is C c uc_law_is D d";
        assert!(check(four).is_ok());
        assert!(refusal(&format!("{four} uc_law_is E e")).contains("5 laws"));
    }

    #[test]
    fn table_without_a_row_is_refused() {
        for expanded in ["", "UC_LAWS_MORE(UC_LAW_IS)"] {
            assert!(refusal(expanded).contains("UC_LAWS_MORE"));
        }
    }

    #[test]
    fn names_of_the_tree_and_names_given_twice_are_refused() {
        for row in ["uc_law_is ECN mine", "uc_law_is MINE ecn"] {
            assert!(refusal(row).contains("the tree has a law"), "{row}");
        }
        let twice = refusal("uc_law_is A a uc_law_is B a");
        assert!(twice.contains("two rows"), "{twice}");
    }
}

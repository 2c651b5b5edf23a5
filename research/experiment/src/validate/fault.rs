//! Faults of an experiment, and the checks that every file of checks uses.

use uc_law::Faults;

/// The path of a key, and the problem with its value.
pub(super) type Fault = (String, String);
/// The result of a check; the first fault ends it.
pub(super) type Check = Result<(), Fault>;

pub(super) fn fault(key: impl Into<String>, message: impl Into<String>) -> Check {
    Err((key.into(), message.into()))
}

pub(super) fn ensure(holds: bool, key: &str, message: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err((key.into(), message()))
    }
}

/// Returns the first of the faults of the table at the path `table`; `Ok` if there is none.
pub(super) fn first(table: &str, faults: Faults) -> Check {
    match faults.into_iter().next() {
        Some((key, message)) => fault(format!("{table}.{key}"), message),
        None => Ok(()),
    }
}

/// Checks a name, which becomes part of file names, of overrides (`case.NAME.…`) and of interface
/// names.
pub(super) fn check_name(key: &str, name: &str) -> Check {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    ensure(!name.is_empty() && name.chars().all(good), key, || {
        format!("`{name}` is not a valid name; use letters, digits, `-` and `_`")
    })
}

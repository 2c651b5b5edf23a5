//! A key that a backend can't set.

use crate::arm::Arm;

/// A key that a backend can't set, the error message, and the backends that can set the key.
pub(super) struct Only {
    pub key: String,
    pub message: String,
    pub arms: &'static [Arm],
}

/// Creates the refusal of `key` for all backends but `arms`; `what` begins its message.
pub(super) fn only(key: impl Into<String>, what: &str, arms: &'static [Arm]) -> Only {
    Only {
        key: key.into(),
        message: format!("{what} is for {} only", or(arms, " and ")),
        arms,
    }
}

/// Formats the backends' names, joined by `between`.
pub(super) fn or(arms: &[Arm], between: &str) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
    names.join(between)
}

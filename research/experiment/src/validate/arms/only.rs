//! A key that a backend can't set.

use crate::arm::Arm;

/// A key that this backend can't set, what it requires, and the backends that can.
pub(super) struct Only {
    pub key: String,
    pub message: String,
    pub arms: &'static [Arm],
}

/// Names the key, and the backends that can set it.
pub(super) fn only(key: impl Into<String>, what: &str, arms: &'static [Arm]) -> Only {
    Only {
        key: key.into(),
        message: format!("{what} is for {} only", or(arms, " and ")),
        arms,
    }
}

/// Formats the backends' names.
pub(super) fn or(arms: &[Arm], between: &str) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
    names.join(between)
}

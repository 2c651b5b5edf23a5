//! The gate of live tests: those that need root, a kernel's feature or a program of the machine.
//!
//! Their names begin with `live_`. Where the machine can't run one, it prints `SKIP(live): <need>`
//! and passes, and `scripts/test` counts those lines. With `CI=true` or `UC_LIVE=require` it fails
//! instead, so that nobody takes what was skipped for tested. Those that measure do so [`in_peace`].

use std::fmt::Display;

mod peace;

pub use peace::in_peace;

/// What a live test needs, or `None` and the line that says why there is none.
///
/// # Panics
/// Where live tests are required.
pub fn or_skip<T, E: Display>(needed: Result<T, E>) -> Option<T> {
    needed.map_err(skip).ok()
}

/// Says that this test is skipped for want of `need`.
///
/// # Panics
/// Where live tests are required.
pub fn skip(need: impl Display) {
    let variable = |name: &str| std::env::var(name).ok();
    assert!(
        !are_required(variable),
        "live tests are required here: {need}"
    );
    println!("SKIP(live): {need}");
}

fn are_required(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name, value| variable(name).as_deref() == Some(value);
    is("CI", "true") || is("UC_LIVE", "require")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_tests_are_required_by_ci_and_by_who_asks_for_them_and_by_nobody_else() {
        let required_by =
            |set: &str, to: &str| are_required(|name| (name == set).then(|| to.into()));
        assert!(required_by("CI", "true"));
        assert!(required_by("UC_LIVE", "require"));
        assert!(!required_by("CI", "false"));
        assert!(!required_by("UC_LIVE", "1"));
        assert!(!are_required(|_| None));
    }
}

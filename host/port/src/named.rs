//! Lookup of laws by name, including laws from outside the tree.

use uc_law::Law;
use uc_words::wording::suggest;

use crate::error::PortError;
use crate::store::Store;

/// Returns the law of this name, also if only the pinned programs of this host have it.
///
/// # Errors
/// Names the known laws, and why the pins could not be read.
pub fn law_named(name: &str) -> Result<Law, PortError> {
    if let Some(law) = Law::named(name) {
        return Ok(law);
    }
    let pinned = Store::default().laws();
    if let Ok(laws) = &pinned {
        Law::tell_outside(laws);
    }
    if let Some(law) = Law::named(name) {
        return Ok(law);
    }
    let names: Vec<_> = Law::all().map(Law::name).collect();
    let outside = match pinned {
        Ok(_) => "a law of your own is known while ports run it, or with --laws DIR".to_owned(),
        Err(error) => format!("whether ports run a law of that name is unknown: {error}"),
    };
    Err(PortError::Other(format!(
        "there is no law '{name}'; {known}; {outside}",
        known = suggest(name, &names)
    )))
}

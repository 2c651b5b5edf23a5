//! Checks that parameters fit their group of guests.

use uc_law::keys;

use super::fault::{Check, ensure, first};
use crate::case::Guests;

pub(super) fn check_parameters(key: &str, guests: &Guests) -> Check {
    let key = format!("{key}.parameters");
    first(&key, guests.parameters.faults(guests.law))?;
    let idle = guests.parameters.has(keys::OBSERVE) && guests.share.is_some();
    ensure(!idle, &format!("{key}.observe"), || {
        "writes no windows, so `share` has none to divide; remove observe or share".into()
    })
}

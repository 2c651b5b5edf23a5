//! Parameters that belong to the port's law, and are within what it takes.

use super::{Check, ensure};
use crate::case::{Guests, Law};
use crate::parameters::{Parameters, TARGET_MIN};

/// The estimate's gain is a shift: 1/2 to 1/1024.
const GAIN_MAX: u8 = 10;

pub(super) fn check_parameters(key: &str, guests: &Guests) -> Check {
    let key = format!("{key}.parameters");
    check_owners(&key, guests)?;
    let Parameters {
        beta,
        gain,
        alpha,
        min_window,
        guard,
        guest_ecn,
        observe,
        ..
    } = guests.parameters;
    for (name, value) in [("beta", beta), ("alpha", alpha)] {
        let value = value.unwrap_or_default();
        ensure(
            (0.0..=1.0).contains(&value),
            &format!("{key}.{name}"),
            || format!("is {value}; give 0 to 1"),
        )?;
    }
    check_target(&key, guests)?;
    let gain = gain.unwrap_or(1);
    ensure(
        (1..=GAIN_MAX).contains(&gain),
        &format!("{key}.gain"),
        || format!("is {gain}; the gain is 1/2^gain: give 1 to {GAIN_MAX}"),
    )?;
    ensure(min_window != Some(0), &format!("{key}.min_window"), || {
        "is 0; a window has at least one segment: give 1 or more".into()
    })?;
    ensure(guard != Some(0), &format!("{key}.guard"), || {
        "is 0; leave it out for no guard, or give 1 to 255 segments".into()
    })?;
    let idle = observe && guard.is_some();
    ensure(!idle, &format!("{key}.guard"), || {
        "drops nothing on a port that only observes; leave out one of them".into()
    })?;
    let idle = observe && guests.law == Some(Law::Coupled);
    ensure(!idle, &format!("{key}.observe"), || {
        "gives no windows, so law coupled has none to share; leave it out, or observe law ecn"
            .into()
    })?;
    let idle = observe && guest_ecn.is_some();
    ensure(!idle, &format!("{key}.guest_ecn"), || {
        "changes nothing on a port that only observes; leave out one of them".into()
    })
}

/// Law `delay` keeps to a round-trip time that only who knows the path can tell.
fn check_target(key: &str, guests: &Guests) -> Check {
    let target = guests.parameters.target;
    let told = target.is_some() || guests.law != Some(Law::Delay);
    ensure(told, &format!("{key}.target"), || {
        "missing, and law delay has no default; give an idle path's round-trip time and what the \
         queue may add to it, for example 150us"
            .into()
    })?;
    let least = TARGET_MIN;
    ensure(
        target.is_none_or(|target| target >= least),
        &format!("{key}.target"),
        || format!("is below {least}; give for example 150us"),
    )
}

/// Every parameter that is set is one of the group's law.
fn check_owners(key: &str, guests: &Guests) -> Check {
    let set = &guests.parameters;
    let of_one = [
        ("beta", set.beta.is_some(), Law::Dctcp),
        ("gain", set.gain.is_some(), Law::Dctcp),
        ("alpha", set.alpha.is_some(), Law::Dctcp),
        ("min_window", set.min_window.is_some(), Law::Dctcp),
        ("echo", set.echo.is_some(), Law::Dctcp),
        ("target", set.target.is_some(), Law::Delay),
        ("target_range", set.target_range.is_some(), Law::Delay),
    ];
    for (name, is_set, owner) in of_one {
        let owned = guests.law == Some(owner);
        ensure(owned || !is_set, &format!("{key}.{name}"), || {
            let law = owner.name();
            format!("is a parameter of law {law}; add law = \"{law}\", or leave it out")
        })?;
    }
    let of_any = [
        ("guest_ecn", set.guest_ecn.is_some()),
        ("guard", set.guard.is_some()),
        ("observe", set.observe),
    ];
    let has_law = guests.law.is_some_and(|law| law != Law::Pass);
    for (name, is_set) in of_any {
        ensure(has_law || !is_set, &format!("{key}.{name}"), || {
            "is for a law on the port; add for example law = \"dctcp\", or leave it out".into()
        })?;
    }
    Ok(())
}

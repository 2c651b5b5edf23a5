//! Starts that can be.

use super::{Check, ensure};
use crate::case::Guests;
use crate::start_law::Watch;
use crate::units::Nanos;

const PROBES_MAX: u8 = 32;
const LEAST_MAX: u8 = 16;
const SPAN_MAX: Nanos = Nanos(50_000_000);
const WAIT_MAX: Nanos = Nanos(500_000_000);
/// The core's clock for a path's record counts microseconds in 32 bits.
const RECORD_MAX: Nanos = Nanos(3_600_000_000_000);
const PACE_MIN_BPS: u64 = 100_000;

pub(super) fn check_start_law(key: &str, guests: &Guests) -> Check {
    let watch = &guests.watch;
    let owned = guests.start_law.is_some() || watch.are_default();
    ensure(owned, &format!("{key}.watch"), || {
        "is of the start watch; add start_law = \"watch\", or leave it out".into()
    })?;
    let Watch {
        probes,
        least,
        rounds,
        pace,
        ..
    } = *watch;
    let key = format!("{key}.watch");
    ensure(
        probes.is_none_or(|n| n <= PROBES_MAX),
        &format!("{key}.probes"),
        || format!("more than {PROBES_MAX}; give at most that"),
    )?;
    ensure(
        least.is_none_or(|n| (2..=LEAST_MAX).contains(&n)),
        &format!("{key}.least"),
        || {
            format!(
                "give 2 to {LEAST_MAX} segments: under two, a receiver delays the ACK of the \
                 only one"
            )
        },
    )?;
    ensure(rounds != Some(0), &format!("{key}.rounds"), || {
        "is 0; a start has at least one round: give 1 or more".into()
    })?;
    check_times(&key, watch)?;
    ensure(
        pace.is_none_or(|pace| pace.0 >= PACE_MIN_BPS),
        &format!("{key}.pace"),
        || "is below 100 kbit/s, where nothing would start; give more, or wait = \"0s\"".into(),
    )
}

fn check_times(key: &str, watch: &Watch) -> Check {
    for (name, value, most) in [
        ("span", watch.span, SPAN_MAX),
        ("wait", watch.wait, WAIT_MAX),
        ("fresh", watch.fresh, RECORD_MAX),
        ("idle", watch.idle, RECORD_MAX),
    ] {
        ensure(
            value.is_none_or(|value| value <= most),
            &format!("{key}.{name}"),
            || format!("is more than {most}; give at most that"),
        )?;
    }
    let span = watch.span.is_none_or(|span| span.0 >= 1_000);
    ensure(span, &format!("{key}.span"), || {
        "is below 1us; give that or more, or probes = 0".into()
    })
}

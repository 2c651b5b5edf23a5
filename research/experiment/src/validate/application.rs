//! Checks of applications: payloads, rates and numbers of rounds.

use super::fault::{Check, ensure};
use crate::application::{Application, Sizes};
use crate::units::Bytes;

pub(super) fn check_application(key: &str, application: &Application) -> Check {
    let key = format!("{key}.{}", application.name());
    let some = |field: &str, size: &Bytes| {
        ensure(size.0 > 0, &format!("{key}.{field}"), || {
            "is 0; without payload there is nothing to complete: give for example 10kB".into()
        })
    };
    let rounds = |rounds: u32| {
        ensure(rounds > 0, &format!("{key}.rounds"), || {
            "is 0; give at least 1".into()
        })
    };
    match application {
        Application::Bulk => Ok(()),
        Application::Transfer { size } => some("size", size),
        Application::Request {
            request,
            response,
            rounds: count,
            ..
        } => {
            some("request", request)?;
            some("response", response)?;
            rounds(*count)
        }
        Application::Incast {
            block,
            rounds: count,
        } => {
            some("block", block)?;
            rounds(*count)
        }
        Application::Epochs {
            size,
            rounds: count,
            request,
            ..
        } => {
            some("size", size)?;
            request.map_or(Ok(()), |request| some("request", &request))?;
            rounds(*count)
        }
        Application::Web { rate, load, sizes } => {
            ensure(rate.is_some() != load.is_some(), &key, || {
                "how often do transfers arrive? Give either `rate` or `load`".into()
            })?;
            let rate = rate.unwrap_or(1.0);
            ensure(
                rate.is_finite() && rate > 0.0,
                &format!("{key}.rate"),
                || format!("{rate} arrivals a second; give more than 0"),
            )?;
            let load = load.unwrap_or(1.0);
            ensure(load > 0.0 && load <= 1.0, &format!("{key}.load"), || {
                format!("{load} of the link; give above 0 to 1")
            })?;
            check_sizes(&format!("{key}.sizes"), sizes)
        }
        // Its hosts and times are checked with the topology.
        Application::List(_) => Ok(()),
        Application::Messages { sizes, every } => {
            ensure(
                every.is_none_or(|every| every.0 > 0),
                &format!("{key}.every"),
                || "is 0; leave it out for one after the other, or give for example 100ms".into(),
            )?;
            check_sizes(&format!("{key}.sizes"), sizes)
        }
    }
}

fn check_sizes(key: &str, sizes: &Sizes) -> Check {
    let points = match sizes {
        Sizes::Fixed(size) => {
            return ensure(size.0 > 0, key, || "is 0; give for example 10kB".into());
        }
        Sizes::Points(points) => points,
    };
    let mut before = (Bytes(0), 0.0);
    for (i, &(size, probability)) in points.iter().enumerate() {
        let key = format!("{key}.{i}");
        ensure(size >= before.0, &key, || {
            format!("{size} is below {}; let the sizes rise", before.0)
        })?;
        ensure(size.0 > 0 || probability == 0.0, &key, || {
            "transfers without payload; give size 0B the probability 0.0".into()
        })?;
        ensure((before.1..=1.0).contains(&probability), &key, || {
            let least = before.1;
            format!(
                "{probability} is not a cumulative probability after {least}; give a number from \
                 {least} to 1"
            )
        })?;
        before = (size, probability);
    }
    ensure(before.1 == 1.0, key, || {
        let reached = before.1;
        format!("the last cumulative probability is {reached}; let the last size have 1.0")
    })
}

//! Whether an experiment makes sense: numbers that can be, names that exist.

use std::collections::BTreeSet;

use crate::case::{Case, Guests};
use crate::error::Error;
use crate::expect::Expectation;
use crate::measure::Measure;
use crate::network::{Network, Queue};
use crate::place::suggest;
use crate::schema::Experiment;
use crate::stack::Stack;

/// A key's path and what is wrong with it.
type Fault = (String, String);
type Check = Result<(), Fault>;

impl Experiment {
    /// Checks that the experiment can be run and judged.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first impossible number or unknown name, with its place.
    pub fn validate(&self) -> Result<(), Error> {
        check(self).map_err(|(key, message)| {
            let place = self.origin.place(&key);
            Error::Invalid {
                place,
                key,
                message,
            }
        })
    }
}

fn fault(key: impl Into<String>, message: impl Into<String>) -> Check {
    Err((key.into(), message.into()))
}

fn ensure(holds: bool, key: &str, message: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err((key.into(), message()))
    }
}

fn check(experiment: &Experiment) -> Check {
    check_name("name", &experiment.name)?;
    check_times(experiment)?;
    check_network(&experiment.network)?;
    for (name, stack) in &experiment.stacks {
        check_stack(&format!("stack.{name}"), stack)?;
    }
    ensure(!experiment.cases.is_empty(), "case", || {
        "no case; add a [[case]]".into()
    })?;
    let mut names = BTreeSet::new();
    for (i, case) in experiment.cases.iter().enumerate() {
        let key = format!("case.{i}");
        check_name(&format!("{key}.name"), &case.name)?;
        ensure(names.insert(&case.name), &format!("{key}.name"), || {
            format!(
                "a second case `{}`; give every case a name of its own",
                case.name
            )
        })?;
        check_case(&key, case, experiment)?;
    }
    for (i, expect) in experiment.expects.iter().enumerate() {
        check_expect(&format!("expect.{i}"), expect, experiment)?;
    }
    Ok(())
}

/// Names become parts of file names, of overrides (`case.NAME.…`) and of interface names.
fn check_name(key: &str, name: &str) -> Check {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    ensure(!name.is_empty() && name.chars().all(good), key, || {
        format!("`{name}` is no name; use letters, digits, `-` and `_`")
    })
}

fn check_times(experiment: &Experiment) -> Check {
    let Experiment {
        duration,
        settle,
        tail,
        sample,
        ..
    } = experiment;
    ensure(duration.0 > 0, "duration", || {
        "is 0; give a run some time, for example 37s".into()
    })?;
    let dropped = settle.0.checked_add(tail.0);
    ensure(
        dropped.is_some_and(|dropped| dropped < duration.0),
        "duration",
        || {
            format!(
                "nothing is left to measure: settle {settle} and tail {tail} take all of {duration}"
            )
        },
    )?;
    ensure(sample.0 > 0, "sample", || {
        "is 0; give for example 100ms".into()
    })?;
    let measured = experiment.measured_ns();
    ensure(
        sample.0 <= (measured.end - measured.start) / 2,
        "sample",
        || format!("{sample} leaves fewer than two samples in the measured part; make it smaller"),
    )?;
    ensure(experiment.repeat > 0, "repeat", || {
        "is 0; run it at least once".into()
    })
}

fn check_network(network: &Network) -> Check {
    let rate = |key: &str, bps: u64| {
        ensure(bps > 0, key, || {
            "is 0; nothing would ever arrive: give for example 10Mbit".into()
        })
    };
    rate("network.rate", network.rate.0)?;
    rate("network.access_rate", network.access_rate().0)?;
    match &network.queue {
        Queue::Droptail { limit } => check_limit(limit.0),
        Queue::Threshold { limit, mark } => {
            check_limit(limit.0)?;
            ensure(mark.0 < limit.0, "network.queue.mark", || {
                format!("{mark} is not below the limit {limit}: it would never mark")
            })
        }
        Queue::Red { .. } => check_red(&network.queue),
    }
}

fn check_limit(limit_bytes: u32) -> Check {
    // A queue that can't hold one full Ethernet frame passes nothing.
    ensure(limit_bytes >= 1514, "network.queue.limit", || {
        "holds not even one full packet; give at least 1514B".into()
    })
}

fn check_red(queue: &Queue) -> Check {
    let Queue::Red {
        min,
        max,
        limit,
        burst,
        probability,
        packet,
        rate,
        ..
    } = queue
    else {
        return Ok(());
    };
    check_limit(limit.0)?;
    ensure(min.0 > 0, "network.queue.min", || {
        "is 0; give for example 30000B".into()
    })?;
    ensure(min < max, "network.queue.max", || {
        format!("{max} is not above min {min}")
    })?;
    ensure(max <= limit, "network.queue.limit", || {
        format!("{limit} is below max {max}")
    })?;
    ensure(
        (0.0..=1.0).contains(probability),
        "network.queue.probability",
        || format!("{probability} is no probability; give 0 to 1"),
    )?;
    ensure(packet.0 > 0, "network.queue.packet", || {
        "is 0; give for example 1500B".into()
    })?;
    // tc-red derives the average's weight from burst + 1 − min/avpkt, which must stay positive.
    let least = min.0 / packet.0;
    ensure(
        *burst > 0 && *burst + 1 > least,
        "network.queue.burst",
        || {
            format!(
                "{burst} packets are less than min/packet; give at least {}",
                least.max(1)
            )
        },
    )?;
    ensure(
        rate.is_none_or(|rate| rate.0 > 0),
        "network.queue.rate",
        || "is 0; leave it out for the bottleneck's rate".into(),
    )
}

fn check_stack(key: &str, stack: &Stack) -> Check {
    let name = &stack.congestion_control;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    // TCP_CA_NAME_MAX is 16 with the closing zero.
    let named = !name.is_empty() && name.len() < 16 && name.chars().all(good);
    ensure(named, &format!("{key}.congestion_control"), || {
        format!("`{name}` is no kernel name; give for example reno")
    })?;
    ensure(stack.wscale <= 14, &format!("{key}.wscale"), || {
        format!("{} is above 14, the largest (RFC 7323 §2.3)", stack.wscale)
    })?;
    ensure(
        stack.rto_min.is_none_or(|rto| rto.0 > 0),
        &format!("{key}.rto_min"),
        || "is 0; leave it out for the kernel's own".into(),
    )
}

fn check_case(key: &str, case: &Case, experiment: &Experiment) -> Check {
    if case.guests.is_empty() {
        return fault(format!("{key}.guests"), "no guests; add a [[case.guests]]");
    }
    let mut names = BTreeSet::new();
    let mut hosts = 0u32;
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        check_name(&format!("{key}.name"), &guests.name)?;
        ensure(names.insert(&guests.name), &format!("{key}.name"), || {
            format!("a second group `{}` in case `{}`", guests.name, case.name)
        })?;
        check_guests(&key, guests, experiment)?;
        hosts = hosts.saturating_add(guests.count);
    }
    // Addresses are one octet, of which the receiver takes one too (10.77.0.2 to 10.77.0.254).
    ensure(hosts <= 250, &format!("{key}.guests"), || {
        format!("{hosts} guests in one case; a network holds at most 250")
    })
}

fn check_guests(key: &str, guests: &Guests, experiment: &Experiment) -> Check {
    let at_least_one = |name: &str, value: u32| {
        ensure(value > 0, &format!("{key}.{name}"), || {
            "is 0; give at least 1".into()
        })
    };
    at_least_one("count", guests.count)?;
    at_least_one("flows", guests.flows)?;
    if let Some(host) = &guests.host {
        check_name(&format!("{key}.host"), host)?;
    }
    ensure(
        experiment.stacks.contains_key(&guests.stack),
        &format!("{key}.stack"),
        || {
            let known: Vec<&str> = experiment.stacks.keys().map(String::as_str).collect();
            let suggestion = suggest(&guests.stack, &known);
            format!("no [stack.{}]; {suggestion}", guests.stack)
        },
    )
}

fn check_expect(key: &str, expect: &Expectation, experiment: &Experiment) -> Check {
    check_measure(&format!("{key}.measure"), &expect.measure, experiment)?;
    let numbers = [expect.at_most, expect.at_least, expect.paper];
    let within = expect.within.unwrap_or_default();
    let finite = numbers
        .into_iter()
        .flatten()
        .chain(within)
        .all(f64::is_finite);
    ensure(finite, key, || {
        "bounds and the paper's number must be finite".into()
    })?;
    match (expect.within, expect.at_most, expect.at_least) {
        (None, None, None) => fault(
            key,
            "expects nothing; add within = [low, high], at_most or at_least",
        ),
        (Some([low, high]), None, None) => ensure(low <= high, &format!("{key}.within"), || {
            format!("{low} is above {high}; write [low, high]")
        }),
        (Some(_), ..) => fault(
            format!("{key}.within"),
            "stands beside at_most or at_least; keep one of them",
        ),
        (None, Some(high), Some(low)) => ensure(low <= high, &format!("{key}.at_least"), || {
            format!("{low} is above at_most {high}")
        }),
        _ => Ok(()),
    }
}

fn check_measure(key: &str, measure: &Measure, experiment: &Experiment) -> Check {
    if let Measure::Ratio { of, to } = measure {
        check_measure(&format!("{key}.of"), of, experiment)?;
        return check_measure(&format!("{key}.to"), to, experiment);
    }
    let Some(name) = measure.case() else {
        return Ok(());
    };
    let Some(case) = experiment.case(name) else {
        let known: Vec<&str> = experiment
            .cases
            .iter()
            .map(|case| case.name.as_str())
            .collect();
        return fault(
            format!("{key}.case"),
            format!("no case `{name}`; {}", suggest(name, &known)),
        );
    };
    for (field, group) in measure.groups() {
        ensure(
            case.group(group).is_some(),
            &format!("{key}.{field}"),
            || {
                let known: Vec<&str> = case
                    .guests
                    .iter()
                    .map(|guests| guests.name.as_str())
                    .collect();
                format!(
                    "no group `{group}` in case `{name}`; {}",
                    suggest(group, &known)
                )
            },
        )?;
    }
    Ok(())
}

//! Checks of the patterns of a single switch or a fat-tree.

use super::fault::{Check, ensure, fault};
use crate::application::Application;
use crate::case::Guests;
use crate::network::Topology;
use crate::pattern::Pattern;

pub(super) fn check_pattern(key: &str, guests: &Guests, topology: Topology) -> Check {
    let key_pattern = format!("{key}.pattern");
    let name = topology.name();
    let (hosts, pattern) = match (topology.hosts(), &guests.pattern) {
        (Some(hosts), Some(pattern)) => (hosts, pattern),
        (Some(_), None) => {
            return fault(
                key_pattern,
                format!(
                    "missing, and in a {name} it says who sends to whom; add for example pattern = \
                     {{ stride = [1] }}"
                ),
            );
        }
        (None, None) => return Ok(()),
        (None, Some(_)) => {
            return fault(
                key_pattern,
                format!("in a {name} it is given who sends to whom; leave it out"),
            );
        }
    };
    ensure(guests.host.is_none(), &format!("{key}.host"), || {
        "the pattern says which host a guest is on; leave it out".into()
    })?;
    check_ends(&key_pattern, pattern, hosts)?;
    check_count(&format!("{key}.count"), guests.count, pattern, hosts)?;
    check_carried(&key_pattern, pattern, &guests.application)
}

/// Checks that receivers exist and that no host sends to itself.
fn check_ends(key: &str, pattern: &Pattern, hosts: u32) -> Check {
    match pattern {
        Pattern::Stride(steps) => {
            ensure(!steps.is_empty(), &format!("{key}.stride"), || {
                "is an empty list; give for example [1]".into()
            })?;
            let mut wrong = steps.iter().filter(|step| !(1..hosts).contains(step));
            wrong.next().map_or(Ok(()), |step| {
                let most = hosts - 1;
                let message =
                    format!("{step} leads to no other of {hosts} hosts; give 1 to {most}");
                fault(format!("{key}.stride"), message)
            })
        }
        Pattern::Shuffle { parallel } => {
            ensure(*parallel > 0, &format!("{key}.shuffle.parallel"), || {
                "is 0; give at least 1".into()
            })
        }
        Pattern::Random => Ok(()),
        Pattern::FanIn { to } => ensure(*to < hosts, &format!("{key}.fan-in.to"), || {
            format!("{to} is beyond the {hosts} hosts; give 0 to {}", hosts - 1)
        }),
    }
}

fn check_count(key: &str, count: u32, pattern: &Pattern, hosts: u32) -> Check {
    if let Pattern::FanIn { .. } = pattern {
        let most = hosts - 1;
        return ensure(count <= most, key, || {
            format!(
                "{count} guests, and {most} hosts without the receiving one; give {most} or fewer"
            )
        });
    }
    ensure(count == hosts, key, || {
        let name = pattern.name();
        format!("is {count}; every host takes part in a {name}: give {hosts}")
    })
}

/// Checks that traffic to several hosts consists of transfers or messages.
fn check_carried(key: &str, pattern: &Pattern, application: &Application) -> Check {
    let (suits, mend) = match pattern {
        Pattern::Stride(steps) if steps.len() == 1 => return Ok(()),
        Pattern::FanIn { .. } => return Ok(()),
        Pattern::Stride(_) => (
            matches!(application, Application::Transfer { .. }),
            "a transfer, or name one step",
        ),
        Pattern::Shuffle { .. } => (
            matches!(application, Application::Transfer { .. }),
            "a transfer",
        ),
        Pattern::Random => (
            matches!(
                application,
                Application::Web { .. } | Application::Messages { .. }
            ),
            "web or messages",
        ),
    };
    ensure(suits, key, || {
        let carried = application.name();
        format!("{carried} has one receiver, and here are several; give application {mend}")
    })
}

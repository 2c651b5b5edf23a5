//! Searches for the flow that the user describes by words.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::Result;
use uc_port::{Attached, FlowView, Passed, Programs, Store};

use crate::seen::{flow, name_of};

/// The result of a search for one flow.
#[derive(Debug)]
pub enum Found {
    /// Exactly one flow matches: the flow, and its name by [`flow::name`].
    One(Box<(FlowView, String)>),
    /// One or several flows with the same ends, which are not in the flow table and recently passed unmodified, each
    /// with its name.
    Passed(Vec<(Passed, String)>),
    /// Names of several flows that match, sorted.
    Several(Vec<String>),
    /// No flow matches.
    None,
}

/// Splits the arguments at spaces, however they were quoted, and returns the first three words: port, guest and remote
/// of a line of `uc flows`.
pub fn words(arguments: &[String]) -> Vec<String> {
    let words = arguments
        .iter()
        .flat_map(|argument| argument.split_whitespace());
    words.map(str::to_owned).take(3).collect()
}

/// Returns whether the words match the name in order: each word is contained in a part of the name (port, guest or
/// remote), and each in a later part than the word before.
fn fits(name: &str, words: &[String]) -> bool {
    let mut parts = name.split(' ');
    words
        .iter()
        .all(|word| parts.any(|part| part.contains(word.as_str())))
}

/// Returns whether the words match whole parts of the name in order.
fn fits_whole(name: &str, words: &[String]) -> bool {
    let mut parts = name.split(' ');
    words.iter().all(|word| parts.any(|part| part == word))
}

/// Returns the candidates whose names match the words. If some match with whole parts, returns only these.
fn fitting<T>(candidates: Vec<(T, String)>, words: &[String]) -> Vec<(T, String)> {
    let fit: Vec<_> = candidates
        .into_iter()
        .filter(|(_, name)| fits(name, words))
        .collect();
    if fit.iter().any(|(_, name)| fits_whole(name, words)) {
        return fit
            .into_iter()
            .filter(|(_, name)| fits_whole(name, words))
            .collect();
    }
    fit
}

fn named<T>(
    items: Vec<T>,
    ports: &[Attached],
    ends: impl Fn(&T) -> (u32, u16, SocketAddr, SocketAddr),
) -> Vec<(T, String)> {
    let name = |item: &T| {
        let (ifindex, vlan, guest, remote) = ends(item);
        flow::name(&name_of(ifindex, ports), vlan, guest, remote)
    };
    items
        .into_iter()
        .map(|item| {
            let name = name(&item);
            (item, name)
        })
        .collect()
}

/// Searches the flow table; if nothing matches there, the flows that recently passed unmodified.
pub fn find(store: &Store, programs: &Programs, words: &[String]) -> Result<Found> {
    let ports = store.attached(programs)?;
    let flows = named(programs.flows()?, &ports, |flow| {
        (flow.ifindex, flow.vlan, flow.guest, flow.remote)
    });
    let mut fit = fitting(flows, words);
    match fit.len() {
        0 => {}
        1 => {
            return Ok(fit
                .pop()
                .map_or(Found::None, |flow| Found::One(Box::new(flow))));
        }
        _ => return Ok(Found::Several(distinct(fit))),
    }
    let passed = named(programs.passed()?, &ports, |passed| {
        (passed.ifindex, passed.vlan, passed.guest, passed.remote)
    });
    let fit = fitting(passed, words);
    Ok(match fit.as_slice() {
        [] => Found::None,
        // Several connections with the same ends.
        [first, rest @ ..] if rest.iter().all(|other| other.1 == first.1) => Found::Passed(fit),
        _ => Found::Several(distinct(fit)),
    })
}

fn distinct<T>(fit: Vec<(T, String)>) -> Vec<String> {
    let names: BTreeSet<String> = fit.into_iter().map(|(_, name)| name).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = [
        "vnet3 10.0.0.1:4000 10.0.0.2:80",
        "vnet3 10.0.0.1:40001 10.0.0.2:80",
        "vnet30 10.0.0.1:50000 10.0.0.2:443",
    ];

    fn found(text: &str) -> Vec<usize> {
        let candidates = NAMES.map(str::to_owned).into_iter().enumerate();
        let words = words(&[text.to_owned()]);
        let fit = fitting(candidates.collect(), &words);
        fit.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn parts_of_a_line_match_in_its_order_only() {
        assert_eq!(found(":443"), [2]);
        assert_eq!(found(":4000"), [0, 1], "both are parts");
        assert_eq!(found("vnet3 :80"), [0, 1]);
        assert_eq!(found(":80 vnet3"), [] as [usize; 0], "not in its order");
        assert_eq!(found("nothing"), [] as [usize; 0]);
    }

    #[test]
    fn whole_words_match_before_parts() {
        assert_eq!(found("10.0.0.1:4000"), [0]);
        assert_eq!(found("vnet3"), [0, 1]);
        for (at, name) in NAMES.iter().enumerate() {
            assert_eq!(found(name), [at], "a whole line is one flow");
        }
    }
}

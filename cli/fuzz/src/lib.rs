//! Fuzz targets: parsers of input that people, guests and other programs write. A target panics if the parser's result
//! violates what the parser promises; a panic of the parser itself needs no check. `scripts/fuzz` searches for such
//! inputs, and `tests/corpora.rs` replays the inputs that reach all code known to be reached.
//!
//! Not tested here: HTTP, which hyper and axum parse, and netlink's answers, which rtnetlink parses.

use uc_agent::guest_names::{self, Kind};
use uc_experiment::Experiment;
use uc_guest::coupling::wire::Frame;
use uc_policy::{Policy, PolicyError};

/// A parser under test.
pub struct Target {
    /// Name of the parser, and of the folder of its corpus.
    pub name: &'static str,
    /// Runs the parser on an input.
    pub parse: fn(&[u8]),
}

/// The parsers under test, sorted by name.
pub const TARGETS: &[Target] = &[
    Target {
        name: "attachment",
        parse: |bytes| with_text(bytes, |text| guest(Kind::Attachment, text)),
    },
    Target {
        name: "domain",
        parse: |bytes| with_text(bytes, |text| guest(Kind::Domain, text)),
    },
    Target {
        name: "experiment",
        parse: |bytes| with_text(bytes, experiment),
    },
    Target {
        name: "frame",
        parse: frame,
    },
    Target {
        name: "policy",
        parse: |bytes| {
            with_text(bytes, |text| {
                policy(text, Policy::parse);
                policy(text, Policy::parse_fleet);
            })
        },
    },
];

fn with_text(bytes: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        parse(text);
    }
}

/// Checks that a refusal names a place in the text, and that a valid policy is parsed to the same policy after it is
/// written as text.
fn policy(text: &str, parse: fn(&str, &str) -> Result<Policy, PolicyError>) {
    match parse("policy", text) {
        Ok(policy) => {
            let written = toml::to_string(&policy.file).expect("can be written");
            let again = parse("policy", &written).expect("a written policy is valid");
            assert_eq!(again.file, policy.file);
        }
        Err(error) => {
            let lines = text.split('\n').count();
            assert!(!error.faults().is_empty(), "{error}");
            for fault in error.faults() {
                assert!((1..=lines).contains(&fault.line), "{fault}");
            }
        }
    }
}

fn experiment(text: &str) {
    if let Ok(experiment) = Experiment::from_str("experiment", text) {
        // Refusals need no check; that they come, and in time, is the promise.
        _ = experiment.validate();
    }
}

/// Checks that a guest's name has the prefix of the software that named the guest.
fn guest(kind: Kind, text: &str) {
    let prefix = match kind {
        Kind::Domain => "libvirt:",
        Kind::Attachment => "cni:",
    };
    if let Some((name, _)) = guest_names::read(kind, text) {
        assert!(name.starts_with(prefix), "{name}");
    }
}

/// Checks that a decoded frame is not longer than its bytes, and that it is encoded to the same bytes. Most random
/// bytes have a wrong checksum, so the input is also tried with the right one.
fn frame(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    Frame::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        if let Ok(Some((frame, length))) = Frame::decode(bytes) {
            assert!(length <= bytes.len());
            let encoded = frame.encode();
            assert_eq!(encoded.len(), length);
            assert_eq!(Frame::decode(&encoded), Ok(Some((frame, length))));
        }
    }
}

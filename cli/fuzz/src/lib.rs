//! Fuzz targets: the parsers of what people, guests and other programs write. A target panics where a
//! parser breaks its promise; a parser that panics itself needs no check. `scripts/fuzz` looks for
//! such inputs, `tests/corpora.rs` replays those that reach all code known to be reached.
//!
//! Not here: HTTP (hyper and axum parse it), and netlink's answers (rtnetlink does).

use uc_agent::guest_names::{self, Kind};
use uc_experiment::Experiment;
use uc_guest::coupling::wire::Frame;
use uc_policy::{Policy, PolicyError};

/// A parser under test.
pub struct Target {
    /// The name, also of its corpus.
    pub name: &'static str,
    /// Parses an input.
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

/// A refusal names a place in the text, and a valid policy is read again as it was written.
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

/// A name has the prefix of whoever gave it.
fn guest(kind: Kind, text: &str) {
    let prefix = match kind {
        Kind::Domain => "libvirt:",
        Kind::Attachment => "cni:",
    };
    if let Some((name, _)) = guest_names::read(kind, text) {
        assert!(name.starts_with(prefix), "{name}");
    }
}

/// A frame is not longer than its bytes, and encoded as it was decoded. Most random bytes have a wrong
/// checksum, so they are also tried with the right one.
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

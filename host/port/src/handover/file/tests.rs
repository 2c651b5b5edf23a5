use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest::{prop_assert, prop_oneof};
use uc_core::{Policy, consts};

use super::*;

const UNTIL_NS: u64 = 5_000_000_000;
const LAWS: [u32; 4] = [
    consts::LAW_ECN,
    consts::LAW_DCTCP,
    consts::LAW_DELAY,
    consts::LAW_COUPLED,
];

/// Some tag, which depends on every byte.
fn sign(bytes: &[u8]) -> u64 {
    uc_words::fnv::fnv1a(bytes)
}

fn is_signed(bytes: &[u8], tag: u64) -> bool {
    sign(bytes) == tag
}

/// A flow that a host may have.
fn flow(port: u16) -> HandedFlow {
    let law = LAWS[usize::from(port) % LAWS.len()];
    let mut state = Flow::from(FlowState {
        stage: consts::TRANSLATING as u8,
        mss_bytes: 1460,
        seen_ns: UNTIL_NS - u64::from(port),
        policy: Policy::new(law, consts::PROFILE_LINUX),
        ..FlowState::default()
    });
    if state.has_annex() {
        state.annex.coupled.events = 7;
    }
    let (guest, remote) = match port % 2 {
        0 => ("10.1.0.2", "10.2.0.2"),
        _ => ("fd01::2", "fd02::2"),
    };
    HandedFlow {
        guest: SocketAddr::new(guest.parse().unwrap(), port),
        remote: SocketAddr::new(remote.parse().unwrap(), 80),
        vlan: port % 3,
        dscps: [10, 0],
        state,
    }
}

fn handover(flows: impl IntoIterator<Item = HandedFlow>) -> Handover {
    Handover {
        realtime_ns: 1_700_000_000_000_000_000,
        monotonic_ns: UNTIL_NS,
        flows: flows.into_iter().collect(),
    }
}

fn file(flows: u16) -> Vec<u8> {
    handover((1..=flows).map(flow)).write(sign).unwrap()
}

fn read(bytes: &[u8]) -> Result<Handover, HandoverError> {
    Handover::read(bytes, is_signed)
}

/// Signs a file again after a change.
fn signed_again(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - TAG_BYTES;
    let tag = sign(&bytes[..end]);
    bytes[end..].copy_from_slice(&tag.to_le_bytes());
    bytes
}

/// Number of random cases; `UC_HANDOVER_CASES` sets another.
fn cases() -> u32 {
    let asked = std::env::var("UC_HANDOVER_CASES").ok();
    asked.map_or(100_000, |asked| asked.parse().unwrap())
}

/// Checks a property of random values, of a fixed seed.
fn for_all<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(cases())
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    runner.run(strategy, test).unwrap();
}

#[test]
fn a_file_is_read_back_as_it_was_written() {
    for flows in [0, 1, 2, 300] {
        let before = handover((1..=flows).map(flow));
        let bytes = before.write(sign).unwrap();
        assert_eq!(bytes.len(), 44 + 324 * usize::from(flows));
        assert_eq!(read(&bytes), Ok(before));
    }
}

#[test]
fn a_file_that_is_cut_or_continued_is_refused() {
    let whole = file(3);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        match length {
            0..8 => assert_eq!(error, HandoverError::Foreign),
            _ => assert!(matches!(error, HandoverError::Length { .. }), "{error}"),
        }
    }
    let twice = [whole.clone(), whole].concat();
    assert!(matches!(read(&twice), Err(HandoverError::Length { .. })));
}

#[test]
fn another_format_layout_number_of_flows_and_key_are_named() {
    let change = |at: usize, word: u32| {
        let mut bytes = file(2);
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        read(&signed_again(bytes)).unwrap_err().to_string()
    };
    let format = change(8, 2);
    assert!(
        format.contains("number 2") && format.contains("number 1"),
        "{format}"
    );
    let layout = change(12, 99);
    let own = format!("layout {FLOW_LAYOUT}");
    assert!(
        layout.contains("layout 99") && layout.contains(&own),
        "{layout}"
    );
    assert!(change(16, 1).contains("1): it has 692 bytes"));
    assert!(change(16, u32::MAX).contains("4294967295 flows"));
    let other = Handover::read(&file(2), |bytes, tag| sign(bytes) + 1 == tag);
    assert_eq!(other, Err(HandoverError::NotSigned));
}

#[test]
fn a_flow_that_no_host_has_is_refused_by_its_number() {
    type Change = fn(&mut HandedFlow);
    let changes: [(&str, Change); 10] = [
        ("twice", |second| *second = flow(1)),
        ("no port", |second| second.guest.set_port(0)),
        ("no address", |second| {
            second.remote.set_ip("0.0.0.0".parse().unwrap())
        }),
        ("many", |second| {
            second.guest.set_ip("224.0.0.1".parse().unwrap())
        }),
        ("two families", |second| {
            second.remote.set_ip("fd02::2".parse().unwrap())
        }),
        ("VLAN", |second| second.vlan = 4096),
        ("DSCP", |second| second.dscps[1] = 64),
        ("later", |second| second.state.seen_ns = UNTIL_NS + 1),
        ("no segment", |second| second.state.mss_bytes = 0),
        ("alpha", |second| {
            second.state.policy = Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
            second.state.dctcp.alpha_q30 = (1 << 30) + 1;
        }),
    ];
    for (name, change) in changes {
        let mut flows = [1, 2, 3].map(flow);
        change(&mut flows[1]);
        let bytes = handover(flows).write(sign).unwrap();
        let error = read(&bytes).expect_err(name);
        let at = matches!(error, HandoverError::Flow { number: 2, .. });
        assert!(at, "{name}: {error}");
    }
}

#[test]
fn an_unknown_law_and_a_handshake_are_no_fault_of_the_file() {
    let mut flows = [1, 2].map(flow);
    flows[0].state.policy.law = 200;
    flows[1].state.stage = consts::SYN_SENT as u8;
    let obstacles = flows.each_ref().map(|flow| obstacle(&flow.state));
    assert!(obstacles.iter().all(Option::is_some), "{obstacles:?}");
    assert!(read(&handover(flows).write(sign).unwrap()).is_ok());
}

#[test]
fn no_change_of_a_file_passes_unsigned() {
    let whole = file(3);
    let length = whole.len();
    let changes = vec((0..length, 1..=255_u8), 1..4);
    for_all(&changes, |changes| {
        let mut bytes = whole.clone();
        for (at, with) in changes {
            bytes[at] ^= with;
        }
        // two changes of one byte may cancel each other
        prop_assert!(bytes == whole || read(&bytes).is_err());
        Ok(())
    });
}

/// With its key another host can write anything, but only sound flows get in.
#[test]
fn signed_random_bytes_give_sound_flows_or_an_error() {
    let whole = file(3);
    let end = whole.len() - TAG_BYTES;
    let random = prop_oneof![
        // bytes of flows changed
        vec((HEAD_BYTES..end, any::<u8>()), 1..12).prop_map(|changes| (changes, None)),
        // a whole flow replaced
        vec(any::<u8>(), ROW_BYTES).prop_map(|row| (Vec::new(), Some(row))),
        (vec((0..end, any::<u8>()), 1..4), Just(None::<Vec<u8>>)),
    ];
    let passed = Cell::new(0_u32);
    for_all(&random, |(changes, row)| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Some(row) = row {
            bytes[HEAD_BYTES..HEAD_BYTES + ROW_BYTES].copy_from_slice(&row);
        }
        let bytes = signed_again(bytes);
        if let Ok(handover) = read(&bytes) {
            passed.set(passed.get() + 1);
            for flow in &handover.flows {
                prop_assert!(flow.state.is_sound() || obstacle(&flow.state).is_some());
                prop_assert!(flow.state.seen_ns <= handover.monotonic_ns);
            }
            prop_assert!(handover.write(sign).unwrap() == bytes);
        }
        Ok(())
    });
    let passed = passed.get();
    assert!(passed > cases() / 20 && passed < cases(), "{passed}");
}

#[test]
fn random_bytes_are_no_file() {
    for_all(&vec(any::<u8>(), 0..600), |bytes| {
        prop_assert!(read(&bytes).is_err());
        Ok(())
    });
}

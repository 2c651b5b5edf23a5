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
        fits: true,
    }
}

fn handover(flows: impl IntoIterator<Item = HandedFlow>) -> Handover {
    Handover {
        realtime_ns: 1_700_000_000_000_000_000,
        monotonic_ns: UNTIL_NS,
        flows: flows.into_iter().collect(),
        dropped: Vec::new(),
    }
}

fn file(flows: u16) -> Vec<u8> {
    handover((1..=flows).map(flow)).write(sign).unwrap()
}

/// Returns where a file's flows begin.
fn rows_at() -> usize {
    HEAD_BYTES + Handover::description().len()
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
        let length = rows_at() + ROW_BYTES * usize::from(flows) + TAG_BYTES;
        assert_eq!(bytes.len(), length);
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
            8..48 => assert_eq!(error, HandoverError::Short(length)),
            _ => assert!(matches!(error, HandoverError::Length { .. }), "{error}"),
        }
    }
    let twice = [whole.clone(), whole].concat();
    assert!(matches!(read(&twice), Err(HandoverError::Length { .. })));
}

#[test]
fn another_format_description_number_of_flows_and_key_are_named() {
    let change = |at: usize, word: u32| {
        let mut bytes = file(2);
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        read(&signed_again(bytes)).unwrap_err().to_string()
    };
    let format = change(8, 1);
    assert!(
        format.contains("number 1") && format.contains("number 2"),
        "{format}"
    );
    let whole = file(2).len();
    assert!(change(16, 1).contains(&format!("1): it has {whole} bytes")));
    assert!(change(16, u32::MAX).contains("4294967295 flows"));
    for (at, word) in [(12, u32::MAX), (36, u32::MAX)] {
        assert!(change(at, word).contains("description of a flow"));
    }
    for (at, word) in [(12, 0), (36, 0), (36, 300)] {
        assert!(change(at, word).contains("cut short"));
    }
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
    let (rows_at, end) = (rows_at(), whole.len() - TAG_BYTES);
    let random = prop_oneof![
        // bytes of flows changed
        vec((rows_at..end, any::<u8>()), 1..12).prop_map(|changes| (changes, None)),
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
            bytes[rows_at..rows_at + ROW_BYTES].copy_from_slice(&row);
        }
        let bytes = signed_again(bytes);
        if let Ok(handover) = read(&bytes) {
            passed.set(passed.get() + 1);
            for flow in &handover.flows {
                prop_assert!(flow.state.is_sound() || flow.obstacle().is_some());
                prop_assert!(flow.state.seen_ns <= handover.monotonic_ns);
            }
            let is_described = bytes[..rows_at] == whole[..rows_at];
            prop_assert!(!is_described || handover.write(sign).unwrap() == bytes);
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

/// Returns the description of flows that have a field more, in front of the others.
fn described_with_a_field_more() -> String {
    let own = Handover::description();
    let (first, fields) = own.split_once('\n').unwrap();
    let (flow, annex) = fields.split_once("uc_annex").unwrap();
    let moved = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        words[1] = (words[1].parse::<usize>().unwrap() + 4).to_string();
        words.join(" ") + "\n"
    };
    assert_eq!(first, format!("uc_flow {}", size_of::<FlowState>()));
    let flow: String = flow.lines().map(moved).collect();
    let bytes = size_of::<FlowState>() + 4;
    format!("uc_flow {bytes}\nadded 0 4 unsigned\n{flow}uc_annex{annex}")
}

#[test]
fn flows_of_another_layout_are_read_by_the_names_of_their_fields() {
    let before = handover((1..=20).map(flow));
    let described = described_with_a_field_more();
    let mut bytes = before.write_as(&described, sign).unwrap();
    let end = bytes.len() - TAG_BYTES;
    for row in bytes[HEAD_BYTES + described.len()..end].chunks_exact_mut(ROW_BYTES + 4) {
        row[FLOW_AT..FLOW_AT + 4].copy_from_slice(&7_u32.to_le_bytes());
    }
    let after = read(&signed_again(bytes)).unwrap();
    assert_eq!(after.flows, before.flows);
    assert_eq!(after.dropped(), ["added"]);
}

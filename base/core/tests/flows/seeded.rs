//! proptest with a seed that every failure prints: `UC_SEED=… cargo test` runs it again.

use std::hash::{BuildHasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// The seed of this run: `UC_SEED`, or a new one.
pub fn seed() -> u64 {
    match std::env::var("UC_SEED") {
        Ok(text) => text.parse().expect("UC_SEED is a decimal number"),
        Err(_) => RandomState::new().hash_one("undercurrent"),
    }
}

/// Runs `test` over `cases` values; a failure is shrunk and printed with the seed.
pub fn for_all<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let seed = seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    match TestRunner::new_with_rng(config, rng).run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => {
            panic!("UC_SEED={seed}: {reason}\nsmallest input: {input:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("UC_SEED={seed}: aborted: {reason}"),
    }
}

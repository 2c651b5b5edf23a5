//! The shadow beside Linux's own TCP, on random short flows.
//!
//! Each flow is between two kernels in namespaces, over a path that drops, marks, reorders,
//! duplicates and stalls as a seed draws it. The segments that pass the guest's port are recorded, and
//! after each step what the guest's kernel holds ([`linux::drive`]). Afterwards the core follows the
//! record ([`linux::follow`]), and its window, threshold and view of losses are compared with the
//! kernel's at each step ([`linux::judge`]). Each difference has a class ([`linux::class`]); some are
//! explained, the others fail the test. Copies of the core with planted faults follow the same
//! records, and each must fail.

mod linux;
mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use linux::case::{Case, LOSS_KINDS};
use linux::class::{Class, Finding};
use linux::judge::{Verdict, judge};
use linux::record::Record;
use linux::world::{Counts, World};
use linux::{drive, planted, told};
use uc_core::mutant::{Mutant, compile};
use uc_core::{COMPILED, Core};

/// Flows without `UC_CASES`.
const CASES: u64 = 500;
/// Losses at each place, under each law, one way and both, without `UC_LOSSES`.
const LOSSES: u64 = 5;
const THREADS: usize = 2;
/// How often a flow with a fault is played again, and how many such flows.
const TRIES: u32 = 3;
const AGAIN_MAX: usize = 10;
/// Faults that are told in full.
const TOLD_MAX: u64 = 5;
/// Flows of which one may differ, time and again, in a way that no class explains.
const UNEXPLAINED_SELDOM: usize = 10_000;
/// The flows that may have a known fault: a part of all, and some more.
const KNOWN_PERCENT_MAX: usize = 1;
const KNOWN_MORE: usize = 5;

/// All flows of a run, and what the guests' kernels counted.
struct Run {
    flows: Vec<(Case, Record)>,
    counts: Counts,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a decimal number")))
}

/// Plays the flows once for all tests; `None` where the machine can't.
fn run() -> Option<&'static Run> {
    static RUN: OnceLock<Option<Run>> = OnceLock::new();
    let run = RUN.get_or_init(|| support::live().then(play));
    run.as_ref()
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    number("UC_SEED").unwrap_or(now.as_secs())
}

fn play() -> Run {
    let seed = seed();
    let first = number("UC_FIRST").unwrap_or(0);
    let cases = number("UC_CASES").unwrap_or(CASES);
    let run = play_flows(first..first + cases, &|index| Case::draw(seed, index));
    println!(
        "{} flows of seed {seed}, from flow {first}",
        run.flows.len()
    );
    run
}

/// Plays flows in two worlds at once.
fn play_flows(indices: Range<u64>, draw: &(dyn Fn(u64) -> Case + Sync)) -> Run {
    let next = AtomicU64::new(indices.start);
    let draw = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        (index < indices.end).then(|| draw(index))
    };
    let flows = Mutex::new(Vec::new());
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let world = World::new();
                let mut done = |case, record| flows.lock().unwrap().push((case, record));
                drive::play(&world, &draw, &mut done);
                counts.lock().unwrap().add(&world);
            });
        }
    });
    let mut flows: Vec<(Case, Record)> = flows.into_inner().unwrap();
    flows.retain(|(_, record)| !record.is_mixed);
    flows.sort_by_key(|(case, _)| case.index);
    let counts = counts.into_inner().unwrap();
    Run { flows, counts }
}

/// Returns whether a flow that had a fault has one again: a timer may fire while an ACK is on its way
/// through the port, and then the two have seen them in another order.
fn has_fault_again(case: &Case) -> bool {
    let again = (0..TRIES).flat_map(|_| play_flows(0..1, &|_| case.clone()).flows);
    verdicts(&again.collect::<Vec<_>>(), COMPILED)
        .iter()
        .any(is_faulty)
}

fn verdicts(flows: &[(Case, Record)], core: Core) -> Vec<Verdict> {
    let judged = |(case, record): &(Case, Record)| judge(case, record, core);
    flows.iter().map(judged).collect()
}

fn is_faulty(verdict: &Verdict) -> bool {
    verdict
        .findings
        .iter()
        .any(|finding| finding.class.is_fault())
}

/// Prints how many flows have differences of each class, and some of them.
fn tell(run: &Run, verdicts: &[Verdict]) {
    let mut classes: BTreeMap<Class, Vec<u64>> = BTreeMap::new();
    for ((case, _), verdict) in run.flows.iter().zip(verdicts) {
        for finding in &verdict.findings {
            let flows = classes.entry(finding.class).or_default();
            if flows.last() != Some(&case.index) {
                flows.push(case.index);
            }
        }
    }
    for (class, flows) in classes {
        let some = &flows[..flows.len().min(6)];
        println!("{:6} {}: {some:?}", flows.len(), class.words());
    }
    let sum = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum::<u64>();
    let unfinished = run.flows.iter().filter(|(_, record)| !record.finished);
    println!(
        "{} steps compared; {} timeouts, {} recoveries, {} undone; {} flows did not end in time",
        sum(|verdict| verdict.compared),
        sum(|verdict| verdict.timeouts.into()),
        sum(|verdict| verdict.fast.into()),
        sum(|verdict| verdict.undone.into()),
        unfinished.count(),
    );
    println!("the kernels' counters: {:?}", run.counts);
}

#[test]
fn live_the_shadow_does_what_linux_does() {
    let Some(run) = run() else { return };
    let verdicts = verdicts(&run.flows, COMPILED);
    let all = run.flows.iter().zip(&verdicts);
    let faulty: Vec<_> = all.filter(|(_, verdict)| is_faulty(verdict)).collect();
    let most = number("UC_TOLD").unwrap_or(TOLD_MAX) as usize;
    for ((case, record), verdict) in faulty.iter().take(most) {
        let fault = verdict.findings.iter().find(|one| one.class.is_fault());
        println!("{}", told::told(case, record, COMPILED, fault.unwrap()));
    }
    tell(run, &verdicts);
    let again = |faulty: &&(&(Case, Record), &Verdict)| has_fault_again(&faulty.0.0);
    let lasting = faulty.iter().take(AGAIN_MAX).filter(again).count();
    let lasting_max = run.flows.len() / UNEXPLAINED_SELDOM;
    assert!(
        lasting <= lasting_max,
        "{lasting} flows with a fault, see above"
    );
    let known = |verdict: &&Verdict| verdict.findings.iter().any(|one| one.class.is_known());
    let known = verdicts.iter().filter(known).count();
    let known_max = run.flows.len() * KNOWN_PERCENT_MAX / 100 + KNOWN_MORE;
    assert!(
        known <= known_max,
        "{known} flows with a known fault, of {known_max} at most"
    );
}

#[test]
fn live_a_loss_at_any_place_is_taken_for_a_loss() {
    if !support::live() {
        return;
    }
    let seed = seed();
    let losses = number("UC_LOSSES").unwrap_or(LOSSES);
    let run = play_flows(0..losses * LOSS_KINDS, &|index| {
        Case::with_one_loss(seed, index)
    });
    let verdicts = verdicts(&run.flows, COMPILED);
    println!("{} losses, seed {seed}", run.flows.len());
    tell(&run, &verdicts);
    let all = run.flows.iter().zip(&verdicts);
    let mut wrong = 0;
    for ((case, record), verdict) in all.clone() {
        let is_wrong = |one: &&Finding| one.class.is_known() || one.class.is_fault();
        if let Some(first) = verdict.findings.iter().find(is_wrong) {
            println!("{}", told::told(case, record, COMPILED, first));
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "seed {seed}");
    // a machine that stalls lets timers expire
    let is_fast = |verdict: &Verdict| (verdict.fast, verdict.timeouts) == (1, 0);
    let fast = all.filter(|(_, verdict)| is_fast(verdict)).count();
    assert!(fast * 10 >= run.flows.len() * 9, "{fast} fast recoveries");
}

#[test]
fn live_each_planted_fault_is_found() {
    let Some(run) = run() else { return };
    let right = verdicts(&run.flows, COMPILED);
    let scratch = tempfile::tempdir().unwrap();
    let missed = |fault: &Mutant| {
        let core = compile(scratch.path(), Some(fault));
        let wrong = verdicts(&run.flows, core);
        let both = right.iter().zip(&wrong);
        let found = both.filter(|(right, wrong)| !is_faulty(right) && is_faulty(wrong));
        let mut classes: BTreeMap<Class, usize> = BTreeMap::new();
        for finding in found.flat_map(|(_, wrong)| &wrong.findings) {
            if finding.class.is_fault() {
                *classes.entry(finding.class).or_default() += 1;
            }
        }
        println!("{}: {classes:?}", fault.name);
        classes.is_empty().then_some(fault.name)
    };
    let (first, second) = planted::FAULTS.split_at(planted::FAULTS.len() / 2);
    let missed = std::thread::scope(|scope| {
        let all = |faults: &'static [Mutant]| faults.iter().filter_map(missed).collect();
        let second = scope.spawn(move || -> Vec<&str> { all(second) });
        let mut missed: Vec<&str> = all(first);
        missed.extend(second.join().unwrap());
        missed
    });
    assert!(missed.is_empty(), "not found: {missed:?}");
}

//! The agent on a host where every system call may fail, be cut short, or be the last one before a kill or
//! a power cut, while interfaces come, go and change their names. The agent, its store, libbpf and
//! Rust's library are the real ones; the system below them is simulated (`uc-faults`).
//!
//! `story.rs`: the events; `wanted.rs` and `trials.rs`: what must hold; `policy.rs`: what the operator wants;
//! `agent.rs`: the agent's process.

mod agent;
mod policy;
mod story;
mod trials;
mod wanted;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use uc_faults::End;
use uc_port::{LAYOUT, ProgramObject};

use policy::Intent;
use story::Story;

/// Number of seeds that are played, unless `UC_CASES` names another.
const CASES: u64 = 10_000;
/// Number of failures after which no further seed is played.
const FAILURES_MAX: usize = 10;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a decimal number")))
}

/// Compiles port programs that do nothing, in two versions.
fn objects() -> Vec<ProgramObject> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = Path::new("host/agent/tests/faults/port.bpf.c");
    let layout = format!("-DUC_LAYOUT={LAYOUT:#x}ULL");
    let folder = tempfile::tempdir().unwrap();
    let object = |build: &str| {
        let path = folder.path().join(format!("{build}.o"));
        let build = format!("-DUC_BUILD=\"{build}\"");
        uc_clang::bpf(&root, source, &path, &[&layout, &build]).unwrap();
        ProgramObject::read(&path).unwrap()
    };
    vec![object("one"), object("two")]
}

/// A seed; if its story panics, prints how to repeat it.
struct Seed(u64);

impl Seed {
    fn command(&self) -> String {
        let test = "cargo test -p uc-agent --lib faults::after_any";
        format!("UC_SEED={} UC_CASES=1 {test}", self.0)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat it: {}", self.command());
        }
    }
}

/// Plays a seed's story. If it ends badly, returns the reason and the last calls; otherwise `None`.
fn failure(seed: &Seed, objects: &[ProgramObject]) -> Option<String> {
    Story::new(seed.0, objects, false).play().err()?;
    let mut again = Story::new(seed.0, objects, true);
    let why = again.play().err().unwrap_or("not when played again".into());
    let notes = again.world.last_notes();
    Some(format!("{notes}\n{why}\nrepeat it: {}", seed.command()))
}

#[test]
fn after_any_faults_the_host_comes_to_what_the_policy_wants_and_no_flow_is_lost() {
    // The log that the verifier would write is 16 MiB of zeroes, which glibc would fill in by hand.
    // SAFETY: a plain setting of the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    let objects = objects();
    // libbpf remembers what a kernel can do: it learns that without mishaps
    assert_eq!(Story::new(0, &objects, false).settle(), Ok(()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = number("UC_SEED").unwrap_or(now.as_nanos() as u64 >> 10);
    let cases = number("UC_CASES").unwrap_or(CASES);
    println!("seeds {first} to {}", first + cases - 1);
    let told = |seed: &Seed| {
        let failure = failure(seed, &objects);
        failure.iter().for_each(|failure| println!("{failure}\n"));
        failure.is_some()
    };
    let seeds = (first..first + cases).map(Seed);
    let failed = seeds.filter(told).take(FAILURES_MAX).count();
    assert_eq!(failed, 0, "seeds failed, see above");
}

#[test]
fn after_a_failure_or_a_kill_at_any_call_of_a_change_the_host_comes_to_what_is_wanted() {
    let objects = objects();
    assert_eq!(Story::new(0, &objects, false).settle(), Ok(()));
    let (all, fewer) = (["v1", "v2", "v3"], ["v1", "v2"]);
    let changes: [([&[&str]; 3], usize); 4] = [
        ([&fewer, &all, &all], 0),
        ([&all, &fewer, &fewer], 0),
        ([&all, &[], &all], 0),
        ([&all, &all, &all], 1),
    ];
    for (policies, installed) in changes {
        for end in [None, Some(End::Kill)] {
            let is_reached = |after: &u64| {
                let mut story = Story::new(0, &objects, true);
                let ended = story.change_once(policies.map(Intent::of), installed, (*after, end));
                ended.unwrap_or_else(|why| {
                    let notes = story.world.last_notes();
                    panic!("{notes}\n{policies:?}, {end:?} at call {after}: {why}")
                })
            };
            let calls = (0..).take_while(is_reached).count();
            assert!(calls > 100, "{policies:?}: {calls}");
        }
    }
}

#[test]
fn after_a_failure_or_a_kill_at_any_call_a_policy_on_trial_has_its_trial() {
    let objects = objects();
    assert_eq!(Story::new(0, &objects, false).settle(), Ok(()));
    let ports = |ports: &[&str]| Intent::of(ports);
    let (all, fewer) = (["v1", "v2", "v3"], ["v1", "v2"]);
    let first = [ports(&fewer), ports(&all).tried(), ports(&all).tried()];
    let second = [ports(&all).tried(), ports(&fewer).tried(), ports(&all)];
    let kill = Some(End::Kill);
    for (policies, end) in [(&first, None), (&first, kill), (&second, kill)] {
        let is_reached = |after: &u64| {
            let mut story = Story::new(0, &objects, true).of_fleet();
            let ended = story.change_once(policies.clone(), 0, (*after, end));
            ended.unwrap_or_else(|why| {
                let notes = story.world.last_notes();
                panic!("{notes}\n{policies:?}, {end:?} at call {after}: {why}")
            })
        };
        let calls = (0..).take_while(is_reached).count();
        assert!(calls > 100, "{policies:?}: {calls}");
    }
}

#[test]
fn a_seed_has_the_same_story_each_time() {
    let objects = objects();
    assert_eq!(Story::new(0, &objects, false).settle(), Ok(()));
    for seed in 1..10 {
        let played = || {
            let mut story = Story::new(seed, &objects, true);
            let end = story.play();
            (end, story.world.calls(), story.world.last_notes())
        };
        assert_eq!(played(), played(), "seed {seed}");
    }
}

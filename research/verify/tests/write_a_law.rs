//! Follows `docs/write-a-law.md`: writes its files, applies its edit, runs its commands, and checks
//! what the law does: of ABE (RFC 8511) a mark takes 15 % of the window and a loss half of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use uc_core::{Core, Edit, Flow, Loaded, Policy, Reason, Segment, consts};

const MSS: u32 = 1_000;
const ISS: u32 = 0xffff_f000; // wraps within a few segments
const WINDOW_SEGMENTS: u32 = 20;
/// Number of the page's law where it is compiled from its own folder (`UC_LAW_OUTSIDE`).
const OUTSIDE: u32 = 12;
/// Number of the page's law where it stands in the source tree, after all others.
const INSIDE: u32 = consts::LAW_COUPLED + 1;
/// A number that no law has.
const NONE: u32 = 13;

const ACK: u8 = consts::ACK as u8;
const CWR: u8 = consts::CWR as u8;
const ECE: u8 = consts::ECE as u8;
const SYN: u8 = consts::SYN as u8;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies a folder and those in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room for a folder");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("room for a file");
        }
    }
}

/// Runs a command in a folder; it must succeed.
fn run(command: &mut Command, root: &Path, what: &str) {
    let output = command.current_dir(root).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{text}");
}

/// The page's blocks in order: language, the file that the sentence before names, text.
fn blocks(page: &str) -> Vec<(String, Option<String>, String)> {
    let mut blocks = Vec::new();
    let mut file = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), file.take(), text.join("\n") + "\n"));
        } else if let Some(begin) = line.strip_suffix("`:") {
            file = begin.rsplit('`').next().map(str::to_owned);
        }
    }
    blocks
}

/// A folder in which all that the page says was done.
fn followed() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    copy(&repository().join("core"), &root.path().join("core"));
    let base = repository().join("base").canonicalize().expect("a path");
    symlink(base, root.path().join("base")).expect("room for a link");
    let page = fs::read_to_string(repository().join("docs/write-a-law.md")).expect("the page");
    let mut seen = Vec::new();
    for (language, file, text) in blocks(&page) {
        match (language.as_str(), file) {
            ("c", Some(file)) => {
                let path = root.path().join(file);
                fs::create_dir_all(path.parent().expect("a folder")).expect("room for a folder");
                fs::write(path, text).expect("room for a file");
            }
            ("diff", _) => {
                fs::write(root.path().join("edit"), &text).expect("room for a file");
                let mut apply = Command::new("git");
                run(apply.args(["apply", "edit"]), root.path(), &text);
            }
            ("sh", _) => run(Command::new("sh").args(["-ec", &text]), root.path(), &text),
            other => panic!("a block that the test cannot follow: {other:?}"),
        }
        seen.push(language);
    }
    assert_eq!(seen, ["c", "c", "sh", "c", "diff", "sh"]);
    root
}

/// A core that the page compiled.
fn loaded(root: &Path, library: &str) -> Loaded {
    // SAFETY: built from uc-core's own shim.c; the law touches no struct of the contract.
    unsafe { Loaded::open_library(&root.join(library)) }.expect("the library that was just built")
}

fn syn() -> Segment {
    Segment {
        seq: ISS,
        flags: SYN,
        window: 65_535,
        mss_bytes: MSS as u16,
        options: consts::OPT_MSS as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

fn policy(law: u32) -> Policy {
    Policy {
        initial_window_segments: WINDOW_SEGMENTS as u8,
        ..Policy::new(law, consts::PROFILE_RFC)
    }
}

/// A flow under the law, with its whole initial window in flight.
struct Guest<'a> {
    core: &'a Loaded,
    flow: Flow,
    now_ns: u64,
}

impl Guest<'_> {
    fn sending(core: &Loaded, law: u32) -> Guest<'_> {
        let mut guest = Guest {
            core,
            flow: Flow::default(),
            now_ns: 1_000_000_000,
        };
        let (reason, edit) = core.open(&mut guest.flow, &policy(law), &syn(), guest.now_ns);
        assert_eq!(reason, Reason::TRANSLATED);
        assert_eq!(edit.flags, SYN | ECE | CWR, "the host offers ECN for it");
        guest.translate(Segment {
            ack: ISS.wrapping_add(1),
            flags: SYN | ACK | ECE,
            direction: consts::TO_GUEST as u8,
            ..syn()
        });
        guest.translate(Segment {
            seq: ISS.wrapping_add(1),
            payload_bytes: WINDOW_SEGMENTS * MSS,
            wire_payload_bytes: MSS as u16,
            flags: ACK,
            options: 0,
            ..syn()
        });
        guest
    }

    fn translate(&mut self, segment: Segment) -> Edit {
        self.now_ns += 10_000;
        let (reason, edit) = self.core.translate(&mut self.flow, &segment, self.now_ns);
        assert_eq!(reason, Reason::TRANSLATED);
        edit
    }

    fn ack(&mut self, segments: u32, flags: u8) -> Edit {
        self.translate(Segment {
            ack: ISS.wrapping_add(1 + segments * MSS),
            flags: ACK | flags,
            options: 0,
            direction: consts::TO_GUEST as u8,
            ..syn()
        })
    }
}

fn takes_15_percent_on_a_mark_and_half_on_a_loss(core: &Loaded, law: u32) {
    let mut marked = Guest::sending(core, law);
    marked.ack(1, ECE);
    assert_eq!((marked.flow.reno.cwnd, marked.flow.cuts), (17 * MSS, 1));

    let mut lost = Guest::sending(core, law);
    for _ in 0..4 {
        lost.ack(0, 0);
    }
    assert_eq!((lost.flow.reno.ssthresh, lost.flow.losses), (10 * MSS, 1));

    let mut by_law_ecn = Guest::sending(core, consts::LAW_ECN);
    by_law_ecn.ack(1, ECE);
    assert_eq!(by_law_ecn.flow.reno.cwnd, 10 * MSS);
}

fn passes(reason: Reason, edit: &Edit) {
    assert_eq!((reason, edit.flags), (Reason::NO_POLICY, SYN));
}

#[test]
fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree() {
    let root = followed();
    let outside = loaded(root.path(), "abe/core.so");
    takes_15_percent_on_a_mark_and_half_on_a_loss(&outside, OUTSIDE);
    let inside = loaded(root.path(), "core.so");
    takes_15_percent_on_a_mark_and_half_on_a_loss(&inside, INSIDE);

    // flows pass under a number that no law has, also where another core has one
    let mut flow = Flow::default();
    for (core, law) in [(&outside, NONE), (&outside, INSIDE), (&inside, OUTSIDE)] {
        let (reason, edit) = core.open(&mut flow, &policy(law), &syn(), 1);
        passes(reason, &edit);
    }
    for law in [OUTSIDE, INSIDE] {
        let (reason, edit) = uc_core::open(&mut flow, &policy(law), &syn(), 1);
        passes(reason, &edit);
    }
}

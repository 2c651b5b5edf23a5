//! Copies of the core with one fault each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use uc_core::Loaded;

/// A fault: the file, the text to replace, which occurs once, and its replacement.
#[derive(Debug)]
pub struct Planted {
    pub name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const fn planted(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Planted {
    Planted {
        name,
        file,
        right,
        wrong,
    }
}

pub const FAULTS: [Planted; 7] = [
    planted(
        "blocks of SACK are no news",
        "track.h",
        "else if (segment->options & UC_OPT_SACK)\n\t\tflow->repeated = segment->mss_bytes;",
        "",
    ),
    planted(
        "a timeout is undone after a duplicate",
        "undo.h",
        "literal ? !acked_bytes : (!acked_bytes && flow->repeated) || ece",
        "literal ? !acked_bytes : ece",
    ),
    planted(
        "a tail loss probe is a timeout",
        "track.h",
        "if (sack && end == flow->snd_nxt &&",
        "if (0 &&",
    ),
    planted(
        "retransmitted data are timed",
        "track.h",
        "if (!guarded)\n\t\t\tuc_stop_timing(flow, annex);",
        "",
    ),
    planted(
        "duplicates are counted beyond an ACK",
        "track.h",
        "flow->dup_acks = 0;\n\tflow->bits &= ~UC_FLOW_TIMED_OUT;",
        "flow->bits &= ~UC_FLOW_TIMED_OUT;",
    ),
    planted(
        "each ECE reduces",
        "laws/reno.h",
        "if (ack->ece && flow->ca == UC_CA_OPEN) {",
        "if (ack->ece) {",
    ),
    planted(
        "a recovery ends with the first ACK",
        "laws/reno_linux.h",
        ": !uc_before(flow->snd_una, reno->recover);",
        ": 1;",
    ),
];

fn folder(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Copies a folder of headers to `to`, with the fault planted.
fn copy(from: &Path, to: &Path, fault: &Planted) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target, fault);
            continue;
        }
        let mut text = fs::read_to_string(&path).unwrap();
        if path.ends_with(Path::new("core").join(fault.file)) {
            let times = text.matches(fault.right).count();
            assert_eq!(times, 1, "{}: occurrences in {}", fault.name, fault.file);
            text = text.replace(fault.right, fault.wrong);
        }
        fs::write(&target, text).unwrap();
    }
}

/// Compiles the core with this fault, in the folder `scratch`.
pub fn compile(scratch: &Path, fault: &Planted) -> Loaded {
    let name = fault.name.replace(' ', "-");
    let headers = scratch.join(&name);
    copy(&folder("../../core"), &headers, fault);
    let library = scratch.join(name + ".so");
    let mut clang = Command::new("clang");
    clang
        .args(["-shared", "-fPIC", "-O0", "-std=gnu11", "-w", "-o"])
        .arg(&library)
        .arg("-I")
        .arg(&headers)
        .arg(folder("../../base/core/src/shim.c"));
    let output = clang.output().expect("clang runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", fault.name);
    // SAFETY: built from uc-core's own shim.c; no fault touches a struct of the contract.
    unsafe { Loaded::open_library(&library) }.expect("the library that was just built")
}

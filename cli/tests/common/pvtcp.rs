//! The module guest/pvtcp for guests that are VMs: built, stored, loaded and unloaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use uc_lab::vm::machine::PATIENCE;
use uc_lab::vm::message::{Answer, Request};
use uc_lab::vm::{Machine, VmError};

use super::live_vm;

/// The kernel that guests boot by default.
pub const SERIES: &str = "6.1";
/// Kernels on which the module is tested.
pub const KERNELS: [&str; 2] = [SERIES, "6.12"];
/// Path of the module in the guest.
const INSIDE: &str = "/tmp/uc_pvtcp.ko";
/// Name of the function that takes samples of the round-trip time.
pub const SAMPLES: &str = "tcp_ack_update_rtt";

/// Returns the module for `series`, hooking `symbol` instead of the function that takes samples.
/// Each is compiled once in a test program: tests that want the same one wait for it.
pub fn build(series: &str, symbol: &str) -> Vec<u8> {
    static BUILT: Mutex<BTreeMap<(String, String), Vec<u8>>> = Mutex::new(BTreeMap::new());
    // Another test's failed build leaves the table valid.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let module = built.entry((series.to_owned(), symbol.to_owned()));
    module.or_insert_with(|| compile(series, symbol)).clone()
}

/// Compiles the module as a DKMS package would: outside the tree.
fn compile(series: &str, symbol: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().unwrap();
    let run = |place: &Path, arguments: &[String]| {
        let mut make = Command::new("make");
        let output = make.arg("-C").arg(place).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "make {arguments:?}: {text}");
        assert!(!text.contains("warning:"), "{text}");
    };
    let destination = format!("DESTDIR={}", folder.path().display());
    run(&root.join("guest/pvtcp"), &["dkms".into(), destination]);
    let source = std::fs::read_dir(folder.path().join("usr/src")).unwrap();
    let source = source.map(|entry| entry.unwrap().path()).next().unwrap();
    let text = std::fs::read_to_string(source.join("uc_pvtcp.c")).unwrap();
    let text = text.replace(&format!("\"{SAMPLES}\""), &format!("\"{symbol}\""));
    assert!(text.contains(symbol));
    std::fs::write(source.join("uc_pvtcp.c"), text).unwrap();
    let headers = headers(series);
    let headers = format!("KDIR={}", headers.display());
    run(&source, &[headers, "CC=gcc".into()]);
    let module = source.join("uc_pvtcp.ko");
    // Debug information is most of the file, and the VM's memory is small.
    let strip = Command::new("strip").arg("-g").arg(&module).status();
    assert!(strip.unwrap().success());
    std::fs::read(module).unwrap()
}

fn headers(series: &str) -> PathBuf {
    let kernel = uc_lab::vm::Kernel::find(series).unwrap();
    kernel.modules().with_file_name("build")
}

/// Returns `true` if this machine can run these tests: QEMU, the kernels and their headers.
pub fn can_run() -> bool {
    if !live_vm(&KERNELS) {
        return false;
    }
    let missing = |series: &str| !headers(series).join("Makefile").exists();
    let missing = KERNELS.into_iter().find(|series| missing(series));
    if let Some(series) = missing {
        uc_live::skip(format!(
            "no headers for modules: scripts/vm-kernels --headers {series}"
        ));
    }
    missing.is_none()
}

/// Writes the module into a guest.
pub fn store(machine: &mut Machine, module: &[u8]) -> Result<(), VmError> {
    machine.order(&Request::Store {
        path: INSIDE.into(),
        bytes: module.into(),
    })
}

/// Returns the request that loads the module.
pub fn insert(parameters: &str) -> Request {
    Request::Insert {
        path: INSIDE.into(),
        parameters: parameters.into(),
    }
}

/// Returns the request that unloads the module.
pub fn remove() -> Request {
    Request::Remove {
        module: "uc_pvtcp".into(),
    }
}

/// Reads a text file of the guest.
pub fn read(machine: &mut Machine, path: &str) -> String {
    let request = Request::Read { path: path.into() };
    match machine.ask(&request, PATIENCE).unwrap() {
        Answer::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

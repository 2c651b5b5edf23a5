//! Puts the commit that is built, and that of its core, into the program: every result names them.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|changes| !changes.is_empty());
    println!(
        "cargo:rustc-env=UC_COMMIT={commit}{}",
        if dirty { "+changes" } else { "" }
    );
    let core = git(&["rev-parse", "--short=12", "HEAD:core"]);
    let core = core.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=UC_CORE={core}");
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        // the reflog, too: an amended message changes neither of the others
        for file in ["HEAD", "index", "logs/HEAD"] {
            let path = format!("{folder}/{file}");
            if Path::new(&path).exists() {
                println!("cargo:rerun-if-changed={path}");
            }
        }
    }
}

//! Compiles a program for the kernel: clang, then libbpf's linker.

use std::fs;
use std::path::{Path, PathBuf};

use libbpf_rs::{Linker, libbpf_sys};

use crate::WARNINGS;
use crate::run::{ClangError, clang, run};

/// Compiles `source` into the object file `object`, which libbpf loads. Clang runs in `folder`, from
/// which it finds relative paths; the object names its sources as they were given. `more` are further
/// arguments of clang, such as `-DNAME` or `-IFOLDER`.
///
/// `#include <bpf/…>` finds the headers of the libbpf that the project links. While it runs, a folder
/// named like the object with `.work` appended holds them.
pub fn bpf(folder: &Path, source: &Path, object: &Path, more: &[&str]) -> Result<(), ClangError> {
    let work = object.with_added_extension("work");
    let made = compile(folder, source, &work, more)
        .and_then(|compiled| link(&folder.join(compiled), &folder.join(object)));
    let work = folder.join(work);
    let removed = fs::remove_dir_all(&work).map_err(|error| ClangError::write(&work, error));
    made.and(removed)
}

/// Runs clang and returns the path of the object in `work`, which still has debug information.
fn compile(
    folder: &Path,
    source: &Path,
    work: &Path,
    more: &[&str],
) -> Result<PathBuf, ClangError> {
    write_headers(&folder.join(work).join("bpf"))?;
    let compiled = work.join("program.o");
    let arch = target_arch();
    let mut clang = clang(folder);
    clang
        // Debian keeps <asm/types.h> in a folder of the architecture, which `-target bpf` omits.
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .arg(format!("-D__TARGET_ARCH_{}", kernel_arch(&arch)))
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2"])
        // BTF names sources by path.
        .arg("-ffile-compilation-dir=.")
        // BPF has no stack protector; some distributions' clang turns it on.
        .arg("-fno-stack-protector")
        .args(WARNINGS)
        .args(more)
        .arg("-I")
        .arg(work)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&compiled);
    run(&mut clang, source)?;
    Ok(compiled)
}

/// Links the object file `compiled` into `object`, which keeps BTF and drops all other debug information.
fn link(compiled: &Path, object: &Path) -> Result<(), ClangError> {
    let linked = Linker::new(object).and_then(|mut linker| {
        linker.add_file(compiled)?;
        linker.link()
    });
    linked.map_err(|source| ClangError::Link {
        path: object.to_owned(),
        source,
    })
}

/// Writes libbpf's headers for programs into a folder, which it creates.
fn write_headers(folder: &Path) -> Result<(), ClangError> {
    fs::create_dir_all(folder).map_err(|error| ClangError::write(folder, error))?;
    for (name, text) in libbpf_sys::API_HEADERS {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| ClangError::write(&path, error))?;
    }
    Ok(())
}

/// Returns the architecture that is compiled for, by Rust's name; in a build script, cargo's target.
fn target_arch() -> String {
    std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| std::env::consts::ARCH.to_owned())
}

/// Returns the kernel's name of an architecture, which libbpf's `bpf_tracing.h` asks for.
fn kernel_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "powerpc64" => "powerpc",
        "riscv64" => "riscv",
        "loongarch64" => "loongarch",
        other => other,
    }
}

//! Compiles the watch programs for the kernel, and natively the code that they share with user space; generates Rust
//! types for both.

use std::path::{Path, PathBuf};

/// Structs and constants that this crate writes into maps.
const WRITTEN: [&str; 6] = [
    "uc_watch_port",
    "uc_watch_allowance",
    "uc_watch_control",
    "uc_watch_prefix",
    "uc_probe_key",
    "bpf_spin_lock",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    let shim = manifest.join("src/shim.c");
    // with all folders in them
    for folder in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo:rerun-if-changed={}", shim.display());
    uc_clang::bpf(
        &root,
        Path::new("bpf/watch/watch.bpf.c"),
        &out.join("watch.bpf.o"),
        &[],
    )?;
    native(&root, &out, &shim)
}

fn native(root: &Path, out: &Path, shim: &Path) -> Result<(), Box<dyn std::error::Error>> {
    uc_clang::native()
        .file(shim)
        .include(root)
        .compile("uc_watch");

    bindgen::Builder::default()
        .header(shim.to_string_lossy())
        .clang_arg(format!("-I{}", root.display()))
        .allowlist_function("uc_shim_watch_.*")
        .allowlist_type(
            "uc_key|uc_held|uc_probe|uc_probe_key|uc_probe_signed|uc_watch_port|uc_watch_control",
        )
        .allowlist_type("uc_watch_allowance|uc_watch_slot|uc_path_key|uc_path_slot")
        .allowlist_type("uc_watch_prefix|uc_watch_event")
        .allowlist_var("UC_PROBE_.*|UC_DATA_.*|UC_HELD_.*")
        .blocklist_type("uc_watch_policy|uc_watch_flow|uc_watch_path|uc_watch_bucket")
        .raw_line("use uc_core::watch::Bucket as uc_watch_bucket;")
        .raw_line("use uc_core::watch::Path as uc_watch_path;")
        .raw_line("use uc_core::watch::Start as uc_watch_flow;")
        .raw_line("use uc_core::watch::StartPolicy as uc_watch_policy;")
        .parse_callbacks(Box::new(uc_clang::InMaps { written: &WRITTEN }))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

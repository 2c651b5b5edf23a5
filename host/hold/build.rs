//! Compiles the hold's programs for the kernel, and generates Rust types for the structs that they share with user
//! space.

use std::path::{Path, PathBuf};

/// Structs and constants that this crate writes into maps.
const WRITTEN: [&str; 5] = [
    "uc_hold_control",
    "uc_hold_flow",
    "uc_hold_port",
    "uc_hold_syns",
    "uc_key",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    // with all folders in them
    for folder in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    uc_clang::bpf(
        &root,
        Path::new("bpf/hold/hold.bpf.c"),
        &out.join("hold.bpf.o"),
        &[],
    )?;
    bindgen::Builder::default()
        .header(root.join("bpf/hold/layout.h").display().to_string())
        .allowlist_type(
            "uc_key|uc_hold_control|uc_hold_head|uc_hold_passed|uc_hold_port|uc_hold_flow",
        )
        .allowlist_var("UC_HOLD_.*")
        .parse_callbacks(Box::new(uc_clang::InMaps { written: &WRITTEN }))
        .derive_default(true)
        .derive_eq(true)
        .derive_ord(true)
        .derive_hash(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

//! Compiles the guests' congestion controls with clang, and generates the Rust types of their state.

use std::path::{Path, PathBuf};

/// Structs and constants that this crate writes into maps.
const WRITTEN: [&str; 6] = [
    "uc_ctrl_group_key",
    "uc_ctrl_policy",
    "uc_ccc_policy",
    "uc_ctrl_weight_key",
    "uc_pvtcp_policy",
    "uc_tune_settings",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    let guest = root.join("guest");
    // with all folders in them
    for folder in ["bpf", "guest", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    for name in ["dctcp", "ctrltcp", "pvtcp", "tune"] {
        compile(&guest, &out, name)?;
    }

    bindgen::Builder::default()
        .header(guest.join("dctcp.h").to_string_lossy())
        .header(guest.join("ctrltcp.h").to_string_lossy())
        .header(guest.join("pvtcp.h").to_string_lossy())
        .header(guest.join("tune.h").to_string_lossy())
        .allowlist_type("uc_dctcp|uc_ctrl.*|uc_pvtcp.*|uc_tune_.*")
        .allowlist_var("UC_PVTCP_.*|UC_TUNE_.*")
        // these two are the core's, and have their Rust face there
        .blocklist_type("uc_ccc|uc_ccc_link")
        .parse_callbacks(Box::new(uc_clang::InMaps { written: &WRITTEN }))
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

fn compile(guest: &Path, out: &Path, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    uc_clang::bpf(
        guest,
        Path::new(&format!("{name}.bpf.c")),
        &out.join(format!("{name}.bpf.o")),
        // the context that BPF_PROG takes the arguments from
        &["-Wno-unused-parameter"],
    )?;
    Ok(())
}

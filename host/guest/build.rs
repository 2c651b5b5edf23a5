//! Compiles the guests' congestion controls with clang, and makes the Rust face of their state.

use std::path::{Path, PathBuf};

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    let guest = root.join("guest");
    // with all folders in them
    for folder in ["guest", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    for name in ["dctcp", "ctrltcp", "pvtcp"] {
        compile(&guest, &out, name)?;
    }

    bindgen::Builder::default()
        .header(guest.join("dctcp.h").to_string_lossy())
        .header(guest.join("ctrltcp.h").to_string_lossy())
        .header(guest.join("pvtcp.h").to_string_lossy())
        .allowlist_type("uc_dctcp|uc_ctrl.*|uc_pvtcp.*")
        .allowlist_var("UC_PVTCP_.*")
        // these two are the core's, and have their Rust face there
        .blocklist_type("uc_ccc|uc_ccc_link")
        .parse_callbacks(Box::new(CoreTypes))
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

fn compile(guest: &Path, out: &Path, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    uc_clang::bpf(
        &guest.join(format!("{name}.bpf.c")),
        &out.join(format!("{name}.bpf.o")),
        // the context that BPF_PROG takes the arguments from
        &["-Wno-unused-parameter"],
    )?;
    Ok(())
}

/// What bindgen can't see of the core's own types.
#[derive(Debug)]
struct CoreTypes;

impl ParseCallbacks for CoreTypes {
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        _trait: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

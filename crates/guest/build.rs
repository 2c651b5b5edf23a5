//! Compiles the guests' congestion controls with clang, and makes the Rust face of their state.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let guest = manifest.join("../../guest").canonicalize()?;
    for entry in std::fs::read_dir(&guest)? {
        println!("cargo:rerun-if-changed={}", entry?.path().display());
    }
    // Debian keeps <asm/types.h> in a folder of the host's architecture, which -target bpf leaves.
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    libbpf_cargo::SkeletonBuilder::new()
        .source(guest.join("dctcp.bpf.c"))
        .obj(out.join("dctcp.bpf.o"))
        .clang_args([
            "-I",
            asm.as_str(),
            "-mcpu=v3",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            // the context that BPF_PROG takes the arguments from
            "-Wno-unused-parameter",
        ])
        .build()?;

    bindgen::Builder::default()
        .header(guest.join("dctcp.h").to_string_lossy())
        .allowlist_type("uc_dctcp")
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

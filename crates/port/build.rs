//! Compiles the tenant-port programs with clang, and makes the Rust face of what lies in their maps.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    // with all folders in them
    for folder in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    // Debian keeps <asm/types.h> in a folder of the host's architecture, which -target bpf leaves.
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    libbpf_cargo::SkeletonBuilder::new()
        .source(root.join("bpf/port.bpf.c"))
        .obj(out.join("port.bpf.o"))
        .clang_args([
            "-I",
            asm.as_str(),
            "-mcpu=v3",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
        ])
        .build()?;

    bindgen::Builder::default()
        .header(root.join("bpf/layout.h").to_string_lossy())
        .allowlist_type("uc_key|uc_slot|uc_hand|uc_place|__sk_buff")
        .allowlist_type("uc_port_coupling|uc_priority_key|uc_group|uc_group_guest|uc_member")
        .blocklist_type("uc_flow|uc_ccc|uc_ccc_policy|uc_ccc_guest|uc_ccc_flow")
        .raw_line("use uc_core::Flow as uc_flow;")
        .raw_line("use uc_core::coupling::{Group as uc_ccc, GroupPolicy as uc_ccc_policy};")
        .raw_line("use uc_core::coupling::{Guest as uc_ccc_guest, Member as uc_ccc_flow};")
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

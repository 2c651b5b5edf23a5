//! Compiles the tenant-port programs with clang, and generates Rust types for the structs in their maps.

mod sources;

use std::path::{Path, PathBuf};

use uc_words::fnv::fnv1a;

/// Structs and constants that this crate writes into maps.
const WRITTEN: [&str; 8] = [
    "uc_key",
    "uc_slot",
    "uc_cursor",
    "uc_secret",
    "uc_page",
    "uc_page_key",
    "uc_port_state",
    "bpf_spin_lock",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../..").canonicalize()?;
    // with all folders in them
    for folder in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let header = |name: &str| root.join("bpf/port").join(name).display().to_string();
    let layout = layout_number(&header("layout.h"))?;
    uc_clang::bpf(
        &root,
        Path::new("bpf/port/port.bpf.c"),
        &out.join("port.bpf.o"),
        &[&format!("-DUC_LAYOUT={layout:#x}ULL")],
    )?;
    let enter = Path::new("bpf/port/enter.bpf.c");
    uc_clang::bpf(&root, enter, &out.join("enter.bpf.o"), &[])?;
    write_numbers(layout, &out)?;
    if std::env::var_os("CARGO_FEATURE_OUTSIDE").is_some() {
        sources::write(&root, &out)?;
    }

    bindgen::Builder::default()
        .headers([header("layout.h"), header("about.h")])
        .allowlist_type("uc_key|uc_slot|uc_bucket|uc_secret|uc_asking|uc_turn|uc_cursor|__sk_buff")
        .allowlist_type("uc_port_coupling|uc_priority_key|uc_group|uc_group_guest|uc_member")
        .allowlist_type("uc_ring|uc_event|uc_event_kind|uc_agreed|uc_closing|uc_passed")
        .allowlist_var("UC_EVENTS_KEPT|UC_PASSED_KEPT|UC_SLOT_ANNEXED|UC_SLOT_HALF_OPEN|UC_SLOT_LISTED")
        .allowlist_type("uc_port_state|uc_counts|uc_page_key|uc_page|uc_about")
        .allowlist_var("UC_PORTS_MAX|UC_NUMBER_.*|UC_REMOTES_KEPT|UC_PAGE_RULES|UC_PLACES_SWEPT|UC_HALF_OPEN_PART|UC_BUCKET.*|UC_NO_PLACE|UC_ABOUT_MARK")
        .blocklist_type("uc_rule|uc_match|uc_policy")
        .blocklist_type("uc_hooks")
        .blocklist_type("uc_flow|uc_ccc|uc_ccc_policy|uc_ccc_guest|uc_ccc_flow")
        .raw_line("use uc_core::FlowState as uc_flow;")
        .raw_line("use uc_core::rule::CompiledRule as uc_rule;")
        .raw_line("use uc_core::coupling::{Group as uc_ccc, GroupPolicy as uc_ccc_policy};")
        .raw_line("use uc_core::coupling::{Guest as uc_ccc_guest, Member as uc_ccc_flow};")
        .parse_callbacks(Box::new(uc_clang::InMaps { written: &WRITTEN }))
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .generate_comments(false)
        .generate()?
        .write_to_file(out.join("layout.rs"))?;
    Ok(())
}

/// Returns a number that identifies the layout of the maps: a hash of its structs and constants.
fn layout_number(header: &str) -> Result<u64, Box<dyn std::error::Error>> {
    // with all that lies in a value, and the constants that say what it means
    let layout = bindgen::Builder::default()
        .header(header)
        .allowlist_type("uc_.*")
        .allowlist_var("UC_.*")
        .derive_debug(false)
        .generate_comments(false)
        .generate()?
        .to_string();
    Ok(fnv1a(layout.as_bytes()))
}

/// Writes the layout's number, and a number of this build's object, as Rust constants.
fn write_numbers(layout: u64, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let build = fnv1a(&std::fs::read(out.join("port.bpf.o"))?);
    let numbers = format!(
        "/// Number of the layout of the maps; programs of another layout cannot use them.\n\
         pub const LAYOUT: u64 = {layout:#x};\n\
         pub(crate) const BUILD: u64 = {build:#x};\n",
    );
    std::fs::write(out.join("numbers.rs"), numbers)?;
    Ok(())
}

//! Compiles the C core natively, and generates its Rust bindings.

use std::path::PathBuf;

use uc_words::fnv::fnv1a;

/// C structs that user space writes into maps: flows of another host, policies and rules, and a host's answer to a
/// guest's group; and the reports that tests send to programs.
const WRITTEN: [&str; 21] = [
    "uc_flow",
    "uc_reno",
    "uc_prr",
    "uc_dctcp",
    "uc_policy",
    "uc_parameters",
    "uc_dctcp_parameters",
    "uc_delay_parameters",
    "uc_annex",
    "uc_delay",
    "uc_timer",
    "uc_coupled",
    "uc_ccc_segments",
    "uc_hooks",
    "uc_match",
    "uc_rule",
    "uc_watch_policy",
    "uc_watch_bucket",
    "uc_ccc_policy",
    "uc_ccc_report",
    "uc_ccc_told",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let shims = [
        "shim",
        "shim_coupling",
        "shim_dupack",
        "shim_hooks",
        "shim_law",
        "shim_rule",
        "shim_watch",
        "shim_steal",
        "shim_unanswered",
    ];
    let shims = shims.map(|shim| manifest.join(format!("src/{shim}.c")));
    let core = manifest.join("../../core");
    for shim in &shims {
        println!("cargo:rerun-if-changed={}", shim.display());
    }
    // with all folders in it
    println!("cargo:rerun-if-changed={}", core.display());

    let face = bindgen::Builder::default()
        .headers(shims.each_ref().map(|shim| shim.to_string_lossy()))
        .clang_arg(format!("-I{}", core.display()))
        .allowlist_function("uc_shim_.*")
        .allowlist_type("uc_.*")
        .allowlist_var("UC_.*|uc_shim_table")
        .blocklist_type("uc_given")
        .opaque_type("uc_parameters")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .parse_callbacks(Box::new(uc_clang::InMaps { written: &WRITTEN }))
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .no_default("core_table")
        .no_partialeq("core_table")
        .generate_comments(false)
        .generate()?
        .to_string();
    let number = format!("{:#x}", fnv1a(face.as_bytes()));
    uc_clang::native()
        .files(&shims)
        .include(&core)
        .define("UC_LAYOUT", &*format!("{number}ULL"))
        .compile("uc_core");
    let layout = format!(
        "/// Number of the structs and functions of the native core: a library of another number must not \
         be called.\n\
         pub const LAYOUT: u64 = {number};\n"
    );
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("core.rs"), face + &layout)?;
    Ok(())
}

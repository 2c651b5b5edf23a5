//! How C is compiled here, for the build scripts of the crates that have some: the same warnings
//! are errors wherever the core runs.

#[cfg(feature = "bindgen")]
mod in_maps;

#[cfg(feature = "bpf")]
use std::path::Path;

#[cfg(feature = "bindgen")]
pub use in_maps::InMaps;

/// In both homes. The core's headers hold functions that not every program calls.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"];

/// Compiles a program for the kernel into an object file; `more` are further arguments of clang.
///
/// # Errors
///
/// What clang says of the source, or that there is no clang.
#[cfg(feature = "bpf")]
pub fn bpf(source: &Path, object: &Path, more: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    // Debian keeps <asm/types.h> in a folder of the host's architecture, which -target bpf leaves.
    let asm = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let arguments = [asm.as_str(), "-mcpu=v3"]
        .into_iter()
        .chain(WARNINGS)
        .chain(more.iter().copied());
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .obj(object)
        .clang_args(arguments)
        .build()?;
    Ok(())
}

/// The compiler of what runs natively.
///
/// Undefined behaviour in the core is a bug of every home: in builds for tests it traps, which needs
/// no runtime library.
#[must_use]
pub fn native() -> cc::Build {
    let mut build = cc::Build::new();
    build.compiler("clang").std("gnu11");
    for warning in WARNINGS {
        build.flag(warning);
    }
    // as Cargo tells build scripts
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build
            .flag("-fsanitize=undefined")
            .flag("-fsanitize-trap=undefined");
    }
    build
}

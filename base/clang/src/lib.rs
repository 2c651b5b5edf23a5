//! Compiles the project's C with clang, natively and for the kernel. The same warnings are errors
//! wherever the core runs.
//!
//! Build scripts use both compilers. All but [`native()`] runs outside build scripts as well.

#[cfg(feature = "bindgen")]
mod in_maps;

#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "bpf")]
mod library;
#[cfg(feature = "bpf")]
mod run;

#[cfg(feature = "bpf")]
pub use bpf::bpf;
#[cfg(feature = "bindgen")]
pub use in_maps::InMaps;
#[cfg(feature = "bpf")]
pub use library::{library, preprocess};
#[cfg(feature = "bpf")]
pub use run::ClangError;

/// Warnings of every compilation. The core's headers hold functions that not every program calls.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"];

/// Returns the compiler for C that runs natively; only for build scripts, whose variables it reads.
///
/// In debug builds undefined behaviour traps, which needs no runtime library.
#[must_use]
pub fn native() -> cc::Build {
    let mut build = cc::Build::new();
    build.compiler("clang").std("gnu11");
    for warning in WARNINGS {
        build.flag(warning);
    }
    // Cargo sets PROFILE for build scripts.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build
            .opt_level(3) // tests run millions of packets through the core
            .flag("-fsanitize=undefined")
            .flag("-fsanitize-trap=undefined");
    }
    build
}

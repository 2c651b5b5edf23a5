//! bindgen's output for `shim.c` and the others of that name.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code
)]

include!(concat!(env!("OUT_DIR"), "/core.rs"));

//! The program that libFuzzer runs; `UC_TARGET` names the target.
#![no_main]

use std::sync::OnceLock;

use uc_fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("UC_TARGET").expect("UC_TARGET names a target");
        let found = TARGETS.iter().find(|target| target.name == name);
        found.unwrap_or_else(|| panic!("UC_TARGET: no target is called `{name}`"))
    })
}

/// Runs the chosen parser on one input of libFuzzer.
#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, length: usize) -> i32 {
    let bytes = match length {
        0 => &[],
        // SAFETY: libFuzzer passes so many bytes, which stay until the call returns.
        _ => unsafe { std::slice::from_raw_parts(data, length) },
    };
    (target().parse)(bytes);
    0
}

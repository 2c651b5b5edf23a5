//! Two other algorithms on ctrlTCP's interface, as its paper sketches them: LISA (`lisa.h`) and the
//! Congestion Manager (`manager.h`). They show that the interface carries more than one algorithm.
//! The test compiles them itself, since nothing else uses them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;
use uc_core::coupling::{Answer, Report};

/// LISA: newcomers take their first window from a flow in slow start. All zero: no flow is known.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Lisa {
    pub giver: u64,
    pub giver_bytes: u32,
    pub owed_bytes: u32,
}

/// A flow of [`Lisa`]; id 0: not registered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LisaMember {
    pub id: u64,
}

/// The Congestion Manager: one congestion control for a macroflow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Manager {
    pub cut_ns: u64,
    pub cwnd_bytes: u32,
    pub ssthresh_bytes: u32,
    pub acked_bytes: u32,
    pub flows: u32,
}

/// A flow of [`Manager`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ManagerMember {
    pub registered: u8,
    pub state: u8,
}

impl Lisa {
    /// Enters a connection; `id` is not 0.
    pub fn register(&mut self, flow: &mut LisaMember, id: u64, report: &Report) -> Answer {
        type Register =
            unsafe extern "C" fn(*mut Lisa, *mut LisaMember, u64, *const Report, *mut Answer);
        let mut answer = Answer::default();
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe { symbol::<Register>("uc_shim_lisa_register")(self, flow, id, report, &mut answer) };
        answer
    }

    /// Reports what the connection's law has computed.
    pub fn update(&mut self, flow: &LisaMember, report: &Report) -> Answer {
        type Update =
            unsafe extern "C" fn(*mut Lisa, *const LisaMember, *const Report, *mut Answer);
        let mut answer = Answer::default();
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe { symbol::<Update>("uc_shim_lisa_update")(self, flow, report, &mut answer) };
        answer
    }

    /// Removes a connection that has ended.
    pub fn leave(&mut self, flow: &mut LisaMember) {
        type Leave = unsafe extern "C" fn(*mut Lisa, *mut LisaMember);
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe { symbol::<Leave>("uc_shim_lisa_leave")(self, flow) };
    }
}

impl Manager {
    /// Enters a connection.
    pub fn register(&mut self, flow: &mut ManagerMember, report: &Report) -> Answer {
        type Register =
            unsafe extern "C" fn(*mut Manager, *mut ManagerMember, *const Report, *mut Answer);
        let mut answer = Answer::default();
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe { symbol::<Register>("uc_shim_manager_register")(self, flow, report, &mut answer) };
        answer
    }

    /// Reports what has happened to the connection.
    pub fn update(&mut self, flow: &mut ManagerMember, report: &Report, now_ns: u64) -> Answer {
        type Update =
            unsafe extern "C" fn(*mut Manager, *mut ManagerMember, *const Report, u64, *mut Answer);
        let mut answer = Answer::default();
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe {
            symbol::<Update>("uc_shim_manager_update")(self, flow, report, now_ns, &mut answer);
        }
        answer
    }

    /// Removes a connection that has ended.
    pub fn leave(&mut self, flow: &mut ManagerMember) {
        type Leave = unsafe extern "C" fn(*mut Manager, *mut ManagerMember);
        // SAFETY: shim.c declares the symbol so; the pointers are valid, and C keeps none of them.
        unsafe { symbol::<Leave>("uc_shim_manager_leave")(self, flow) };
    }
}

/// Returns a function of the library, which stays loaded for the life of the process.
///
/// # Safety
/// `F` must be the type with which shim.c declares the function.
unsafe fn symbol<F: Copy>(name: &str) -> F {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(build);
    // SAFETY: the caller answers for the type.
    unsafe { *library.get(name.as_bytes()).expect("shim.c has it") }
}

/// Compiles `shim.c` and loads it; undefined behaviour traps, as in the core's own debug build.
fn build() -> Library {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("peers.so");
    let clang = Command::new("clang")
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra"])
        .args(["-Werror", "-Wno-unused-function"])
        .args(["-fsanitize=undefined", "-fsanitize-trap=undefined"])
        .arg("-I")
        .arg(here.join("../../core"))
        .arg(here.join("tests/peers/shim.c"))
        .arg("-o")
        .arg(&library)
        .output()
        .expect("clang runs");
    assert!(
        clang.status.success(),
        "{}",
        String::from_utf8_lossy(&clang.stderr)
    );
    // SAFETY: the library has no initialisers.
    unsafe { Library::new(library) }.expect("the library that was just built")
}

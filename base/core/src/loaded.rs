//! A core from a shared library: a changed copy of this one, or one with laws from outside the tree.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::{Library, Symbol};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::coupling::{Answer, Report};
use crate::law::{LawRow, LawsFn, outside_rows};
use crate::{Awaits, Core, Edit, Flow, LAYOUT, Policy, Reason, Segment};

type OpenFn = unsafe extern "C" fn(*mut Flow, *const Policy, *const Segment, u64, *mut Edit) -> u32;
type OpenAskedFn = unsafe extern "C" fn(
    *mut Flow,
    *const Policy,
    *const Segment,
    *const Segment,
    u64,
    *mut Edit,
) -> u32;
type TranslateFn = unsafe extern "C" fn(*mut Flow, *const Segment, u64, *mut Edit) -> u32;
type WindowFn = unsafe extern "C" fn(*const Flow) -> u32;
type AlphaFn = unsafe extern "C" fn(*const Flow, *mut u32) -> u8;
type AwaitsFn = unsafe extern "C" fn(*mut Flow) -> u8;
type ReportFn = unsafe extern "C" fn(*mut Flow, u64, *mut Report);
type TellFn = unsafe extern "C" fn(*mut Flow, *const Segment, u8, *const Answer, *mut Edit);

/// A core compiled from other headers into a shared library: mutation tests ask whether a changed
/// core is told from the right one, and the simulator runs laws from outside the tree.
#[derive(Clone, Debug)]
pub struct Loaded {
    open: OpenFn,
    reopen: OpenFn,
    open_asked: OpenAskedFn,
    translate: TranslateFn,
    adopt: OpenFn,
    window_bytes: WindowFn,
    alpha_q30: AlphaFn,
    awaits: AwaitsFn,
    report: ReportFn,
    tell_share: TellFn,
    /// `None` in a library without the tables (`shim_law.c`).
    laws: Option<LawsFn>,
    /// Keeps the library of the function pointers above mapped.
    _library: Arc<Mapped>,
}

/// A library that is mapped, and after it the file in memory from which it was.
///
/// The loader knows libraries by path, here that of an open file: while the file is open, no other library
/// gets the path.
#[derive(Debug)]
struct Mapped(
    Library,
    #[allow(dead_code, reason = "held open")] Option<File>,
);

/// Reasons why a library cannot be the core of a process.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The loader refuses the file.
    #[error(
        "{}: the core with the laws was not loaded: {why}; build them on this machine with `uc law build`",
        path.display()
    )]
    Load {
        /// Path of the library.
        path: PathBuf,
        /// The system's or the loader's reason.
        why: String,
    },
    /// The library was made for other structs.
    #[error(
        "{}: it was built by another version of uc; build the laws again with `uc law build` of this \
         version",
        path.display()
    )]
    OtherVersion {
        /// Path of the library.
        path: PathBuf,
    },
}

impl Loaded {
    /// Loads a library built from this crate's `shim.c` and some `core/*.h`.
    ///
    /// # Safety
    /// The library must have been built from this crate's `shim.c` with the contract's structs
    /// (`segment.h`, `flow.h`, `policy.h`, `edit.h`) unchanged.
    ///
    /// # Errors
    /// The loader's own: no such file, no such symbol.
    pub unsafe fn open_library(path: &Path) -> Result<Loaded, libloading::Error> {
        // SAFETY: the library has no initialisers; the caller answers for its contents.
        let library = unsafe { Library::new(path) }?;
        // SAFETY: as above.
        unsafe { Loaded::of(Mapped(library, None)) }
    }

    /// Loads a library that `uc law build` made, from the bytes of its file. `path` names it in errors.
    ///
    /// The library is loaded from memory: a file that was built again is another library, and a worker
    /// needs none.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn of_built(bytes: &[u8], path: &Path) -> Result<Loaded, LibraryError> {
        let refused = |why: String| LibraryError::Load {
            path: path.to_owned(),
            why,
        };
        let file = in_memory(bytes).map_err(|error| refused(error.to_string()))?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let of_loader = |error: libloading::Error| {
            let why = error.to_string();
            let prefix = format!("{name}: ");
            refused(why.strip_prefix(&prefix).unwrap_or(&why).to_owned())
        };
        // SAFETY: libraries of `uc law build` have no initialisers.
        let library = unsafe { Library::new(&name) }.map_err(of_loader)?;
        // SAFETY: shim.c declares the symbol as a constant of 64 bits.
        let own = unsafe { library.get::<*const u64>(b"uc_shim_layout\0") };
        // SAFETY: as above.
        if own.is_ok_and(|own| unsafe { **own } == LAYOUT) {
            // SAFETY: the number shows that shim.c was compiled with this program's structs.
            unsafe { Loaded::of(Mapped(library, Some(file))) }.map_err(of_loader)
        } else {
            Err(LibraryError::OtherVersion {
                path: path.to_owned(),
            })
        }
    }

    /// Takes the entry points of a library.
    ///
    /// # Safety
    /// As of [`Loaded::open_library`].
    unsafe fn of(mapped: Mapped) -> Result<Loaded, libloading::Error> {
        /// Returns the function of this name.
        ///
        /// # Safety
        /// `shim.c` must declare the name with this signature.
        unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, libloading::Error> {
            // SAFETY: the caller answers for the signature.
            unsafe { library.get(name.as_bytes()) }.map(|symbol: Symbol<'_, F>| *symbol)
        }
        let library = &mapped.0;
        // SAFETY: shim.c declares each name with the signature of the field.
        unsafe {
            Ok(Loaded {
                open: function(library, "uc_shim_open\0")?,
                reopen: function(library, "uc_shim_reopen\0")?,
                open_asked: function(library, "uc_shim_open_asked\0")?,
                translate: function(library, "uc_shim_translate\0")?,
                adopt: function(library, "uc_shim_adopt\0")?,
                window_bytes: function(library, "uc_shim_window_bytes\0")?,
                alpha_q30: function(library, "uc_shim_alpha_q30\0")?,
                awaits: function(library, "uc_shim_awaits\0")?,
                report: function(library, "uc_shim_report\0")?,
                tell_share: function(library, "uc_shim_tell_share\0")?,
                laws: function(library, "uc_shim_laws\0").ok(),
                _library: Arc::new(mapped),
            })
        }
    }

    /// Returns the rows of the library's laws from outside the tree.
    pub fn laws(&self) -> Vec<LawRow> {
        let Some(laws) = self.laws else {
            return Vec::new();
        };
        // SAFETY: the library stays mapped as long as self.
        unsafe { outside_rows(laws) }
    }

    fn begin(
        &self,
        by: OpenFn,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        let mut edit = Edit::default();
        // SAFETY: all four pointers are valid for the call and the C side keeps none of them; the
        // library stays mapped as long as self.
        let reason = unsafe { by(flow, policy, segment, now_ns, &mut edit) };
        (Reason::from_code(reason), edit)
    }
}

/// Returns a file in memory with these bytes.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(c"core.so", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

impl Core for Loaded {
    fn open(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.begin(self.open, flow, policy, segment, now_ns)
    }

    fn reopen(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.begin(self.reopen, flow, policy, answer, now_ns)
    }

    fn open_asked(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        syn: &Segment,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        let mut edit = Edit::default();
        // SAFETY: as above, five pointers.
        let reason = unsafe { (self.open_asked)(flow, policy, syn, answer, now_ns, &mut edit) };
        (Reason::from_code(reason), edit)
    }

    fn translate(&self, flow: &mut Flow, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let mut edit = Edit::default();
        // SAFETY: as above, three pointers.
        let reason = unsafe { (self.translate)(flow, segment, now_ns, &mut edit) };
        (Reason::from_code(reason), edit)
    }

    fn adopt(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.begin(self.adopt, flow, policy, segment, now_ns)
    }

    fn window_bytes(&self, flow: &Flow) -> u32 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { (self.window_bytes)(flow) }
    }

    fn alpha_q30(&self, flow: &Flow) -> Option<u32> {
        let mut alpha_q30 = 0;
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        let has_one = unsafe { (self.alpha_q30)(flow, &mut alpha_q30) } != 0;
        has_one.then_some(alpha_q30)
    }

    fn awaits(&self, flow: &mut Flow) -> Option<Awaits> {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        let awaits = unsafe { (self.awaits)(flow) };
        (awaits != 0).then_some(Awaits(awaits))
    }

    fn report(&self, flow: &mut Flow, now_ns: u64) -> Report {
        let mut report = Report::default();
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { (self.report)(flow, now_ns, &mut report) };
        report
    }

    fn tell_share(
        &self,
        flow: &mut Flow,
        segment: &Segment,
        awaits: Awaits,
        answer: Option<&Answer>,
        edit: &mut Edit,
    ) {
        let answer = answer.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the pointers are valid for the call, `answer` may be null, and the C side keeps
        // none.
        unsafe { (self.tell_share)(flow, segment, awaits.0, answer, edit) };
    }
}

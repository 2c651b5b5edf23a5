//! The core's entry points as a value, so that a platform can be run with a changed copy of the core.

use crate::{Edit, Flow, Policy, Reason, Segment};

/// Some compiled core: the deployed one ([`Compiled`]), or a copy with a fault planted in it.
pub trait Core {
    /// [`crate::open`] of this core.
    fn open(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit);

    /// [`crate::reopen`] of this core.
    fn reopen(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit);

    /// [`crate::open_asked`] of this core.
    fn open_asked(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        syn: &Segment,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit);

    /// [`crate::translate`] of this core.
    fn translate(&self, flow: &mut Flow, segment: &Segment, now_ns: u64) -> (Reason, Edit);

    /// [`crate::adopt`] of this core.
    fn adopt(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit);
}

/// The core that this crate was built with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compiled;

impl Core for Compiled {
    fn open(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        crate::open(flow, policy, segment, now_ns)
    }

    fn reopen(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        crate::reopen(flow, policy, answer, now_ns)
    }

    fn open_asked(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        syn: &Segment,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        crate::open_asked(flow, policy, syn, answer, now_ns)
    }

    fn translate(&self, flow: &mut Flow, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        crate::translate(flow, segment, now_ns)
    }

    fn adopt(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        crate::adopt(flow, policy, segment, now_ns)
    }
}

/// A core compiled from other headers into a shared library: mutation tests ask whether a changed
/// core is told from the right one.
#[cfg(feature = "loaded")]
#[derive(Clone, Debug)]
pub struct Loaded {
    open: OpenFn,
    reopen: OpenFn,
    open_asked: OpenAskedFn,
    translate: TranslateFn,
    adopt: OpenFn,
    /// Keeps those above mapped.
    _library: std::sync::Arc<libloading::Library>,
}

#[cfg(feature = "loaded")]
type OpenFn = unsafe extern "C" fn(*mut Flow, *const Policy, *const Segment, u64, *mut Edit) -> u32;
#[cfg(feature = "loaded")]
type OpenAskedFn = unsafe extern "C" fn(
    *mut Flow,
    *const Policy,
    *const Segment,
    *const Segment,
    u64,
    *mut Edit,
) -> u32;
#[cfg(feature = "loaded")]
type TranslateFn = unsafe extern "C" fn(*mut Flow, *const Segment, u64, *mut Edit) -> u32;

#[cfg(feature = "loaded")]
impl Loaded {
    /// Loads a library built from this crate's `shim.c` and some `core/*.h`.
    ///
    /// # Safety
    /// The library must have been built from this crate's `shim.c` with the contract's structs
    /// (`segment.h`, `flow.h`, `policy.h`, `edit.h`) unchanged.
    ///
    /// # Errors
    /// The loader's own: no such file, no such symbol.
    pub unsafe fn open_library(path: &std::path::Path) -> Result<Loaded, libloading::Error> {
        // SAFETY: the library has no initialisers; the caller answers for its contents.
        let library = unsafe { libloading::Library::new(path) }?;
        // SAFETY: shim.c declares the symbol with this signature.
        let open = unsafe { *library.get::<OpenFn>(b"uc_shim_open\0")? };
        // SAFETY: as above.
        let reopen = unsafe { *library.get::<OpenFn>(b"uc_shim_reopen\0")? };
        // SAFETY: as above.
        let open_asked = unsafe { *library.get::<OpenAskedFn>(b"uc_shim_open_asked\0")? };
        // SAFETY: as above.
        let translate = unsafe { *library.get::<TranslateFn>(b"uc_shim_translate\0")? };
        // SAFETY: as above.
        let adopt = unsafe { *library.get::<OpenFn>(b"uc_shim_adopt\0")? };
        Ok(Loaded {
            open,
            reopen,
            open_asked,
            translate,
            adopt,
            _library: std::sync::Arc::new(library),
        })
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

#[cfg(feature = "loaded")]
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
}

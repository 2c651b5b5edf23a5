//! The core that decides in this process.

use std::path::Path;
use std::sync::OnceLock;

use crate::coupling::{Answer, Report};
use crate::{Awaits, Compiled, Core, Edit, Flow, LibraryError, Loaded, Policy, Reason, Segment};

/// The library that decides in this process, if one does.
static LIBRARY: OnceLock<Loaded> = OnceLock::new();

/// The core that decides in this process: [`Compiled`], or a library with laws from outside the tree.
#[derive(Clone, Copy, Debug)]
pub struct Running(Option<&'static Loaded>);

impl Running {
    /// Returns the core that decides now.
    pub fn now() -> Running {
        Running(LIBRARY.get())
    }

    /// Has a library that `uc law build` made for the layout of this number decide from now on, until
    /// the process ends. Once a library decides, a later one is ignored.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn decide_by(path: &Path, layout: u64) -> Result<(), LibraryError> {
        let library = Loaded::open_built(path, layout)?;
        LIBRARY.get_or_init(|| library);
        Ok(())
    }

    fn core(self) -> &'static dyn Core {
        match self.0 {
            Some(library) => library,
            None => &Compiled,
        }
    }
}

impl Core for Running {
    fn open(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.core().open(flow, policy, segment, now_ns)
    }

    fn reopen(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.core().reopen(flow, policy, answer, now_ns)
    }

    fn open_asked(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        syn: &Segment,
        answer: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.core().open_asked(flow, policy, syn, answer, now_ns)
    }

    fn translate(&self, flow: &mut Flow, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        self.core().translate(flow, segment, now_ns)
    }

    fn adopt(
        &self,
        flow: &mut Flow,
        policy: &Policy,
        segment: &Segment,
        now_ns: u64,
    ) -> (Reason, Edit) {
        self.core().adopt(flow, policy, segment, now_ns)
    }

    fn window_bytes(&self, flow: &Flow) -> u32 {
        self.core().window_bytes(flow)
    }

    fn alpha_q30(&self, flow: &Flow) -> Option<u32> {
        self.core().alpha_q30(flow)
    }

    fn awaits(&self, flow: &mut Flow) -> Option<Awaits> {
        self.core().awaits(flow)
    }

    fn report(&self, flow: &mut Flow, now_ns: u64) -> Report {
        self.core().report(flow, now_ns)
    }

    fn tell_share(
        &self,
        flow: &mut Flow,
        segment: &Segment,
        awaits: Awaits,
        answer: Option<&Answer>,
        edit: &mut Edit,
    ) {
        self.core().tell_share(flow, segment, awaits, answer, edit);
    }
}

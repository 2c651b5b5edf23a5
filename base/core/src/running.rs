//! The core that decides for the flows of a simulated run.

use std::path::Path;

use crate::coupling::{Answer, Report};
use crate::law::OUTSIDE_NUMBERS;
use crate::{
    Awaits, Compiled, Core, Edit, Flow, Law, LawRow, LibraryError, Loaded, Policy, Reason, Segment,
};

/// A core that decides for flows: [`Compiled`], or a library with laws from outside the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running(Option<&'static Loaded>);

impl Running {
    /// Loads a library that `uc law build` made, from the bytes of its file; it stays in memory until the
    /// process ends. `path` names it in errors.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn of_library(bytes: &[u8], path: &Path) -> Result<Running, LibraryError> {
        let library = Loaded::of_built(bytes, path)?;
        Ok(Running(Some(Box::leak(Box::new(library)))))
    }

    /// Returns the rows of its laws from outside the tree.
    pub fn laws(self) -> Vec<LawRow> {
        self.0.map(Loaded::laws).unwrap_or_default()
    }

    /// Tells whether it has the law; flows pass it unmodified under a law that it lacks.
    pub fn has(self, law: Law) -> bool {
        let number = law.number();
        !OUTSIDE_NUMBERS.contains(&number.into())
            || self.laws().iter().any(|row| row.number == number)
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

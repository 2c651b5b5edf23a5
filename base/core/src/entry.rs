//! The core's entry points as a value, so that a platform can be run with a changed copy of the core.

use crate::coupling::{Answer, Report};
use crate::{Awaits, Edit, Flow, Policy, Reason, Segment};

/// Name of the native core that `uc law build` makes, with the laws of a folder.
pub const LIBRARY: &str = "core.so";

/// Some compiled core: the deployed one ([`Compiled`]), or a copy with a fault planted in it or with
/// more laws. What depends on a flow's law is asked of the core that opened the flow.
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

    /// [`crate::window_bytes`] of this core.
    fn window_bytes(&self, flow: &Flow) -> u32;

    /// [`crate::law::alpha_q30`] of this core.
    fn alpha_q30(&self, flow: &Flow) -> Option<u32>;

    /// [`crate::awaits`] of this core.
    fn awaits(&self, flow: &mut Flow) -> Option<Awaits>;

    /// [`crate::report`] of this core.
    fn report(&self, flow: &mut Flow, now_ns: u64) -> Report;

    /// [`crate::tell_share`] of this core.
    fn tell_share(
        &self,
        flow: &mut Flow,
        segment: &Segment,
        awaits: Awaits,
        answer: Option<&Answer>,
        edit: &mut Edit,
    );
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

    fn window_bytes(&self, flow: &Flow) -> u32 {
        crate::window_bytes(flow)
    }

    fn alpha_q30(&self, flow: &Flow) -> Option<u32> {
        crate::law::alpha_q30(flow)
    }

    fn awaits(&self, flow: &mut Flow) -> Option<Awaits> {
        crate::awaits(flow)
    }

    fn report(&self, flow: &mut Flow, now_ns: u64) -> Report {
        crate::report(flow, now_ns)
    }

    fn tell_share(
        &self,
        flow: &mut Flow,
        segment: &Segment,
        awaits: Awaits,
        answer: Option<&Answer>,
        edit: &mut Edit,
    ) {
        crate::tell_share(flow, segment, awaits, answer, edit);
    }
}

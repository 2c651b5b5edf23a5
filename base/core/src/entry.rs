//! The entry points of a core. What depends on a flow's law is asked of the core that opened the flow.

use crate::coupling::{Answer, Group, Guest, Member, Report};
use crate::law::{self, OUTSIDE_NUMBERS};
use crate::{Edit, Flow, Law, LawRow, Policy, Reason, Segment, sys};

/// Name of the native core that `uc law build` makes, with the laws of a folder.
pub const LIBRARY: &str = "core.so";

/// A compiled core: the deployed one ([`COMPILED`]), or a library with a fault planted in it or with more
/// laws.
#[derive(Clone, Copy, Debug)]
pub struct Core(&'static sys::core_table);

/// The core that this crate was built with.
// SAFETY: nothing writes to the table.
pub static COMPILED: Core = Core(unsafe { &sys::uc_shim_table });

impl Default for Core {
    fn default() -> Core {
        COMPILED
    }
}

/// Shows that the group decides the window of the last segment of [`Core::translate`]; for
/// [`Core::tell_share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaits(u8);

/// A step in a flow's life: what becomes of the segment, and of the flow.
pub type Step = sys::uc_step;
/// A peer's SYN that the guest has not answered; without meaning if no SYN is stored.
pub type Asked = sys::uc_asked;

impl Step {
    /// Returns why the core translates, passes or drops the segment.
    pub fn reason(&self) -> Reason {
        Reason::from_code(self.reason)
    }

    /// Returns whether the flow of [`Core::unknown`] is to be entered.
    pub fn enters(&self) -> bool {
        self.then & sys::UC_STEP_ENTERS != 0
    }

    /// Returns whether the flow of [`Core::known`] is to be removed.
    pub fn removes(&self) -> bool {
        self.then & sys::UC_STEP_REMOVES != 0
    }

    /// Returns whether the platform must then call [`Core::unknown`] for the segment.
    pub fn is_anew(&self) -> bool {
        self.then & sys::UC_STEP_ANEW != 0
    }
}

/// Calls a function of a core's table.
macro_rules! call {
    ($core:expr, $function:ident($($argument:expr),*)) => {{
        let function = $core.0.$function.expect("shim.c fills the table");
        // SAFETY: all pointers are valid for the call, and the C side keeps none of them.
        unsafe { function($($argument),*) }
    }};
}

impl Core {
    /// Returns the core with the table of a library that stays mapped.
    #[cfg(feature = "loaded")]
    pub(crate) fn of_table(table: &'static sys::core_table) -> Core {
        Core(table)
    }

    /// Returns the rows of the core's laws from outside the tree.
    pub fn laws(self) -> Vec<LawRow> {
        let mut count = 0;
        let rows = call!(self, laws(&mut count));
        // SAFETY: the C side has written the count and returned an array of so many rows that stays.
        let rows = unsafe { std::slice::from_raw_parts(rows, count as usize) };
        let outside = rows
            .iter()
            .filter(|row| OUTSIDE_NUMBERS.contains(&row.number.into()));
        outside.map(law::row).collect()
    }

    /// Tells whether the core has the law: one of the tree's, or of its own. Flows pass unmodified under a
    /// law that it lacks.
    pub fn has(self, law: Law) -> bool {
        let number = law.number();
        !OUTSIDE_NUMBERS.contains(&number.into())
            || self.laws().iter().any(|row| row.number == number)
    }

    /// Handles a segment of no known flow (`uc_step_unknown` of `core/step.h`). `flow` is zeroed, and to be entered if
    /// the step says so. `given`: the policy of a flow that begins now, and its weight in the windows of a group (0: it
    /// shares none). `asked` is the peer's SYN that the guest has not answered, before the call and after it.
    pub fn unknown(
        self,
        flow: &mut Flow,
        given: (&Policy, u8),
        asked: &mut Asked,
        segment: &Segment,
        now_ns: u64,
    ) -> (Step, Edit) {
        let (mut step, mut edit) = (Step::default(), Edit::default());
        let (policy, share) = given;
        call!(
            self,
            unknown(
                flow, policy, share, asked, segment, now_ns, &mut edit, &mut step
            )
        );
        (step, edit)
    }

    /// Handles a SYN or SYN-ACK of a known flow (`uc_step_known` of `core/step.h`). `given`: the policy of a flow that
    /// begins now, and its weight in the windows of a group; 0: it shares none.
    pub fn known(
        self,
        flow: &mut Flow,
        given: (&Policy, u8),
        segment: &Segment,
        now_ns: u64,
    ) -> (Step, Edit) {
        let (mut step, mut edit) = (Step::default(), Edit::default());
        let (policy, share) = given;
        call!(
            self,
            known(flow, policy, share, segment, now_ns, &mut edit, &mut step)
        );
        (step, edit)
    }

    /// Translates any segment but a SYN of a known flow. If the reason [`Reason::drops`], drop the segment and keep the
    /// flow. [`Reason::NO_HANDSHAKE`]: pass the segment, keep the flow. Otherwise write the edit, and remove the flow
    /// if the reason [`Reason::forgets`] it.
    pub fn translate(self, flow: &mut Flow, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let mut edit = Edit::default();
        let reason = call!(self, translate(flow, segment, now_ns, &mut edit));
        (Reason::from_code(reason), edit)
    }

    /// Returns the law's window in bytes from `snd_una`; 2³¹−1: the law doesn't limit the flow.
    pub fn window_bytes(self, flow: &Flow) -> u32 {
        call!(self, window_bytes(flow))
    }

    /// Returns the estimate α of marked bytes in 1/2^30 if the flow's law keeps it as DCTCP does; otherwise `None`.
    pub fn alpha_q30(self, flow: &Flow) -> Option<u32> {
        let mut alpha_q30 = 0;
        let has_one = call!(self, alpha_q30(flow, &mut alpha_q30)) != 0;
        has_one.then_some(alpha_q30)
    }

    /// Returns what [`Core::tell_share`] needs if the flow's group decides the window of the segment; otherwise `None`.
    /// To be called directly after [`Core::translate`].
    pub fn awaits(self, flow: &mut Flow) -> Option<Awaits> {
        let awaits = call!(self, awaits(flow));
        (awaits != 0).then_some(Awaits(awaits))
    }

    /// Makes a coupled flow's report to its group. A loss is reported once.
    pub fn report(self, flow: &mut Flow, now_ns: u64) -> Report {
        let mut report = Report::default();
        call!(self, report(flow, now_ns, &mut report));
        report
    }

    /// Gives a flow's report to its group, and returns the group's answer. A flow that has not registered yet registers
    /// with priority 1.
    pub fn ask_group(
        self,
        (group, guest, member): (&mut Group, &mut Guest, &mut Member),
        report: &Report,
        now_ns: u64,
    ) -> Answer {
        let mut answer = Answer::default();
        call!(
            self,
            ask_group(group, guest, member, report, now_ns, &mut answer)
        );
        answer
    }

    /// Writes the window by the group's answer into the edit; without an answer, the shadow's own.
    pub fn tell_share(
        self,
        flow: &mut Flow,
        segment: &Segment,
        awaits: Awaits,
        answer: Option<&Answer>,
        edit: &mut Edit,
    ) {
        let answer = answer.map_or(std::ptr::null(), std::ptr::from_ref);
        call!(self, tell_share(flow, segment, awaits.0, answer, edit));
    }
}

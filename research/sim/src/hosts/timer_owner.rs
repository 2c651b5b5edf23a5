//! Whose a timer is.

/// The owner of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimerOwner {
    End(usize),
    Flow(usize),
    Start(usize),
    Core(usize),
    /// A virtual machine's number, and whether its migration begins or ends.
    Migration(usize, bool),
}

//! The owners of timers.

/// The part of the simulation to which a timer belongs.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimerOwner {
    End(usize),
    Flow(usize),
    Start(usize),
    Core(usize),
    /// A virtual machine's number, and whether its migration begins (true) or ends.
    Migration(usize, bool),
}

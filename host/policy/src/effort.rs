//! A bound on the time that a policy's checks take. They compare rules, patterns and flows with one
//! another, so their time grows with the square of the text. Whoever writes the policy of a fleet must
//! not be able to keep all its agents busy.

use std::cell::Cell;

/// Maximum number of comparisons that the checks of one policy make; each takes at most 100 ns.
const STEPS_MAX: u64 = 1 << 24;
/// Maximum number of members of a list, and of keys of a table.
pub(crate) const MEMBERS_MAX: usize = 8192;
/// Maximum number of values of a policy: keys, members of lists, and their content.
pub(crate) const VALUES_MAX: usize = 1 << 17;
/// Maximum number of priorities in a `coupling` table.
pub(crate) const PRIORITIES_MAX: usize = 1024;

/// The comparisons that the checks of one policy may still make.
#[derive(Debug)]
pub(crate) struct Effort(Cell<u64>);

impl Effort {
    pub(crate) fn new() -> Effort {
        Effort(Cell::new(STEPS_MAX))
    }

    /// Subtracts `steps` comparisons from those left. Returns whether any are left.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(steps as u64));
        self.0.get() > 0
    }

    /// Returns whether no comparison is left, so that the result of the checks is unknown.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Describes a policy whose checks need more comparisons, and the remedy.
pub(crate) fn too_much() -> String {
    format!(
        "takes too long to check: its rules, patterns and prefixes would be compared more than \
         {STEPS_MAX} times with one another; use wider patterns (with `*`) or fewer rules"
    )
}

//! Search for a smaller plan with the same verdict: delta debugging (Zeller and Hildebrandt,
//! "Simplifying and Isolating Failure-Inducing Input", 2002) over the plan's lists, then smaller
//! numbers.

use crate::plan::{Direction, Plan};

/// Maximum number of plans tried in one search.
const TRIES_MAX: u32 = 20_000;

/// Returns the smallest plan found for which `fails` still holds.
pub fn shrink(plan: &Plan, fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut search = Search {
        best: plan.clone(),
        fails,
        tries: 0,
    };
    loop {
        let size = search.best.size();
        search.packets();
        search.lists();
        search.numbers();
        if search.best.size() >= size || search.tries >= TRIES_MAX {
            return search.best;
        }
    }
}

struct Search<F> {
    best: Plan,
    fails: F,
    tries: u32,
}

impl<F: FnMut(&Plan) -> bool> Search<F> {
    /// Keeps the changed plan if it still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if plan == self.best || plan.check().is_err() || self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let failed = (self.fails)(&plan);
        if failed {
            self.best = plan;
        }
        failed
    }

    /// Shortens the run, as long as the senders still differ.
    fn packets(&mut self) {
        let mut step = self.best.packets / 2;
        while step > 0 {
            while self.best.packets > step && self.attempt(|plan| plan.packets -= step) {}
            step /= 2;
        }
    }

    fn lists(&mut self) {
        self.list(|plan| &mut plan.data.lost);
        self.list(|plan| &mut plan.acks.lost);
        self.list(|plan| &mut plan.data.marked);
        self.list(|plan| &mut plan.data.late);
        self.list(|plan| &mut plan.acks.late);
        self.list(|plan| &mut plan.data.held);
        self.list(|plan| &mut plan.acks.held);
        self.list(|plan| &mut plan.stalls);
        self.list(|plan| &mut plan.handovers);
        self.list(|plan| &mut plan.bursts);
    }

    /// Removes runs of entries from a list, long runs first, as long as the plan still fails.
    fn list<T>(&mut self, list: impl Fn(&mut Plan) -> &mut Vec<T>) {
        let mut length = list(&mut self.best).len();
        while length > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let left_out = self.attempt(|plan| {
                    let entries = list(plan);
                    let to = (from + length).min(entries.len());
                    entries.drain(from..to);
                });
                if !left_out {
                    from += length;
                }
            }
            length /= 2;
        }
    }

    fn numbers(&mut self) {
        self.attempt(|plan| plan.iss = 0);
        self.attempt(|plan| plan.mss_bytes = 1_000);
        self.attempt(|plan| plan.receive_buffer_segments = u16::MAX / plan.mss_bytes);
        self.way(|plan| &mut plan.data);
        self.way(|plan| &mut plan.acks);
        for index in 0..self.best.bursts.len() {
            self.attempt(|plan| plan.bursts[index].pause_us = 0);
            self.attempt(|plan| plan.bursts[index].pause_rto_permille = 0);
            self.halve(|plan| &mut plan.bursts[index].segments);
        }
        for index in 0..self.best.stalls.len() {
            self.halve(|plan| &mut plan.stalls[index].pause_us);
        }
        for index in 0..self.best.handovers.len() {
            self.attempt(|plan| plan.handovers[index].clock = 0);
            self.attempt(|plan| plan.handovers[index].layout = 0);
        }
    }

    fn way(&mut self, way: impl Fn(&mut Plan) -> &mut Direction) {
        self.attempt(|plan| way(plan).queue_packets = 0);
        self.attempt(|plan| way(plan).mark_packets = 0);
        self.attempt(|plan| way(plan).delay_us = 10_000);
        self.attempt(|plan| way(plan).packet_us = 0);
        self.attempt(|plan| way(plan).packet_us = 100);
        for index in 0..way(&mut self.best).late.len() {
            self.halve(|plan| &mut way(plan).late[index].1);
        }
        for index in 0..way(&mut self.best).held.len() {
            self.halve(|plan| &mut way(plan).held[index].1);
        }
    }

    fn halve(&mut self, number: impl Fn(&mut Plan) -> &mut u32) {
        while *number(&mut self.best) > 1 && self.attempt(|plan| *number(plan) /= 2) {}
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use crate::draw::draw;

    #[test]
    fn shrinking_leaves_only_what_makes_a_plan_fail() {
        let plan = (0..)
            .map(|number| draw(5, number))
            .find(|plan| plan.data.lost.len() > 20);
        let plan = plan.expect("there is a case with losses");
        let culprit = plan.data.lost[13];
        let small = shrink(&plan, |plan| {
            plan.data.lost.contains(&culprit) && plan.packets > culprit
        });
        assert_eq!(small.data.lost, [culprit]);
        assert_eq!(small.packets, culprit + 1);
        assert!(small.data.marked.is_empty() && small.acks.lost.is_empty());
        assert!(small.bursts.is_empty() && small.stalls.is_empty());
    }
}

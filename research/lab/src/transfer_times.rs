//! The transfers of one flow: its sender notes when each begins, the receiver's thread when each
//! has arrived. Both read the same clock.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uc_experiment::Completion;
use uc_net::Nanos;

/// The transfers of one flow, one after the other in one stream of bytes.
#[derive(Debug, Default)]
pub struct TransferTimes {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    transfers: Vec<Transfer>,
    /// Payload of all transfers so far, in bytes.
    begun_bytes: u64,
    /// Transfers in flight: the number of each, and the flow's total of delivered bytes at which it has arrived.
    waiting: VecDeque<(usize, u64)>,
}

#[derive(Debug)]
struct Transfer {
    began: Nanos,
    arrived: Option<Nanos>,
    bytes: u64,
}

impl TransferTimes {
    /// Adds a transfer of `bytes` that begins at `at`.
    pub fn begin(&self, at: Nanos, bytes: u64) {
        let mut state = self.state();
        state.begun_bytes += bytes;
        let entry = (state.transfers.len(), state.begun_bytes);
        state.waiting.push_back(entry);
        state.transfers.push(Transfer {
            began: at,
            arrived: None,
            bytes,
        });
    }

    /// Notes that the receiving application has the stream's first `delivered_bytes` at `at`.
    pub fn delivered(&self, delivered_bytes: u64, at: Nanos) {
        let mut state = self.state();
        let is_here = |&mut (_, until_bytes): &mut (usize, u64)| until_bytes <= delivered_bytes;
        let mut any = false;
        while let Some((number, _)) = state.waiting.pop_front_if(is_here) {
            state.transfers[number].arrived = Some(at);
            any = true;
        }
        if any {
            self.arrived.notify_one();
        }
    }

    /// Waits until all transfers have arrived, at most `timeout`, and returns whether they have.
    pub fn wait_arrived(&self, timeout: Duration) -> bool {
        let on_its_way = |state: &mut State| !state.waiting.is_empty();
        let waited = self
            .arrived
            .wait_timeout_while(self.state(), timeout, on_its_way);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.is_empty()
    }

    /// Returns the transfers in the order of their start; times count from `started`.
    pub fn completions(&self, started: Nanos) -> Vec<Completion> {
        let completion = |transfer: &Transfer| Completion {
            started_ns: transfer.began.since(started).0,
            finished_ns: transfer.arrived.map(|at| at.since(started).0),
            bytes: transfer.bytes,
            ideal_ns: None,
        };
        self.state().transfers.iter().map(completion).collect()
    }

    /// Locks the state. No method panics with the lock held, so a poisoned state is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_arrive_with_their_last_byte_in_order() {
        let times = TransferTimes::default();
        times.begin(Nanos(1_000), 10);
        times.begin(Nanos(1_100), 20);
        times.begin(Nanos(1_200), 1);
        times.delivered(9, Nanos(1_300));
        assert!(!times.wait_arrived(Duration::ZERO));
        times.delivered(30, Nanos(1_400));
        let found = times.completions(Nanos(1_000));
        let both: Vec<_> = found
            .iter()
            .map(|it| (it.started_ns, it.finished_ns))
            .collect();
        assert_eq!(both, [(0, Some(400)), (100, Some(400)), (200, None)]);
        assert_eq!(found[1].bytes, 20);
        times.delivered(31, Nanos(1_500));
        assert!(times.wait_arrived(Duration::ZERO));
    }
}

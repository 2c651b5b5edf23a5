//! The pauses of transfers. Those through the port are measured by the progress of those through
//! the other port, and the other way round, not by a clock: a pause of both is the machine's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::network::PACE_BYTES_PER_S;
use crate::common::transfer::Transfer;

/// Bytes that a flow sends in 200 ms: a pause that a user would notice.
const STALL_BYTES: u64 = PACE_BYTES_PER_S as u64 / 5;

/// The pauses of some transfers in one period.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// Minimum of the bytes that each of the other transfers has sent during this transfer's
    /// longest pause.
    longest_bytes: u64,
    /// Number of pauses of at least `STALL_BYTES`.
    pub stalls: u32,
    /// The longest pause by the clock, for people only.
    longest: Duration,
}

/// The last progress of one transfer.
struct Seen {
    acked_bytes: u64,
    others: Vec<u64>,
    at: Instant,
    stalls: bool,
}

/// Returns the acknowledged bytes that the senders' kernels report, which needs no running thread.
fn acked(transfers: &[Transfer]) -> Vec<u64> {
    let acked = |transfer: &Transfer| transfer.info().bytes_acked;
    transfers.iter().map(acked).collect()
}

impl Pauses {
    /// Takes a sample of the transfers, and of `others`, all of which have to make progress before
    /// a pause counts: samples of them before and after that of the transfers. The machine may stop the
    /// observer between two samples, so a pause lasts until the last sample without progress, and what
    /// the others sent during it is what they had sent before that sample, less what they had sent after
    /// its beginning.
    fn look(&mut self, seen: &mut [Seen], acked: &[u64], others: [&[u64]; 2]) {
        let [before, after] = others;
        for (seen, &acked_bytes) in seen.iter_mut().zip(acked) {
            if acked_bytes != seen.acked_bytes {
                *seen = Seen::now(acked_bytes, after);
                continue;
            }
            let sent = before
                .iter()
                .zip(&seen.others)
                .map(|(now, then)| now.saturating_sub(*then));
            let bytes = sent.min().unwrap_or(0);
            self.longest_bytes = self.longest_bytes.max(bytes);
            self.longest = self.longest.max(seen.at.elapsed());
            if bytes > STALL_BYTES && !seen.stalls {
                self.stalls += 1;
                seen.stalls = true;
            }
        }
    }
}

impl Seen {
    fn now(acked_bytes: u64, others: &[u64]) -> Self {
        Self {
            acked_bytes,
            others: others.to_vec(),
            at: Instant::now(),
            stalls: false,
        }
    }
}

/// Watches the progress of the port's transfers and of the others, each against the other ones.
pub struct Observer {
    pauses: Arc<Mutex<[Pauses; 2]>>,
    stop: Arc<AtomicBool>,
}

impl Observer {
    pub fn watch<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        transfers: &'scope [Vec<Transfer>; 2],
    ) -> Self {
        let observer = Self {
            pauses: Arc::default(),
            stop: Arc::default(),
        };
        let (pauses, stop) = (Arc::clone(&observer.pauses), Arc::clone(&observer.stop));
        scope.spawn(move || {
            let look = || [0, 1, 0, 1].map(|side: usize| acked(&transfers[side]));
            let seen = |one: &[u64], others: &[u64]| -> Vec<Seen> {
                one.iter().map(|acked| Seen::now(*acked, others)).collect()
            };
            let [_, beside, port, beside_after] = look();
            let mut port_seen = seen(&port, &beside_after);
            let mut beside_seen = seen(&beside, &port);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                let [port_before, beside, port, beside_after] = look();
                let mut pauses = pauses.lock().unwrap();
                pauses[0].look(&mut port_seen, &port, [&beside, &beside_after]);
                pauses[1].look(&mut beside_seen, &beside, [&port_before, &port]);
            }
        });
        observer
    }

    /// Returns what was seen since the last call, with and without programs on the port.
    pub fn take(&self, what: &str) -> [Pauses; 2] {
        let pauses = std::mem::take(&mut *self.pauses.lock().unwrap());
        println!(
            "{what}: on the port {:?}, beside it {:?}",
            pauses[0], pauses[1]
        );
        pauses
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

//! Real-time priority of a thread.

use std::thread;
use std::time::Duration;

use uc_net::Nanos;

use crate::clock;

/// Maximum time without a sleep, and the length of a sleep that counts: 6 % of the time.
const AWAKE_MAX: Nanos = Nanos(640_000);
const REST: Nanos = Nanos(40_000);

/// Moves the calling thread to the lowest real-time priority: it runs as soon as a frame is due and
/// sleeps otherwise. Returns whether the kernel allowed it (CAP_SYS_NICE).
pub fn be_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live struct of the call's type; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// The rests of a real-time thread. Linux leaves 5 % of a core to threads without that priority: a thread
/// that never sleeps is stopped for 50 ms in each second (`sched(7)`). Short rests prevent it.
pub(crate) struct Rest {
    ended: Nanos,
}

impl Rest {
    /// Returns the rests of a thread that has just slept.
    pub fn since(now: Nanos) -> Self {
        Self { ended: now }
    }

    /// Sleeps if the thread has been awake for too long. Returns the time afterwards.
    pub fn take(&mut self) -> Nanos {
        let now = clock::now();
        if now.since(self.ended) <= AWAKE_MAX {
            return now;
        }
        thread::sleep(Duration::from_nanos(REST.0));
        self.ended = clock::now();
        self.ended
    }

    /// Notes that the thread waited for an event: it has slept if that took as long as a rest.
    pub fn waited(&mut self, from: Nanos, to: Nanos) {
        if to.since(from) >= REST {
            self.ended = to;
        }
    }
}

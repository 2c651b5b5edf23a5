//! Real-time priority of a thread.

use std::thread;
use std::time::Duration;

use uc_net::Nanos;

use crate::clock;

/// Time awake after which the thread rests.
const AWAKE_MAX: Nanos = Nanos(640_000);
/// Minimum length of a rest. A wait for an event that is at least as long counts as a rest.
const REST: Nanos = Nanos(40_000);
/// Divisor: a rest takes 1/16 of the time awake before it, so the thread rests for 1/17 of all time.
const REST_PART: u64 = 16;

/// Moves the calling thread to the lowest real-time priority: it runs as soon as a frame is due,
/// unless it rests ([`Rest`]), and sleeps otherwise. Returns whether the kernel allowed it (CAP_SYS_NICE).
pub fn be_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live struct of the call's type; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// The rests of a real-time thread. Linux guarantees threads without real-time priority 5 % of a core: up to 6.11 it
/// stops a real-time thread that takes more (`sched(7)`), from 6.12 on only when other threads starve. Such a stop
/// takes 50 ms; short rests prevent it.
pub(crate) struct Rest {
    ended: Nanos,
}

impl Rest {
    /// Starts counting at `now`, as if a rest had just ended.
    pub fn since(now: Nanos) -> Self {
        Self { ended: now }
    }

    /// Sleeps if the thread has been awake for too long. Returns the time afterwards.
    pub fn take(&mut self) -> Nanos {
        let now = clock::now();
        let Some(rest) = self.due(now) else {
            return now;
        };
        thread::sleep(Duration::from_nanos(rest.0));
        self.ended = clock::now();
        self.ended
    }

    /// Returns how long the thread must rest at `now`; `None` if it need not.
    fn due(&self, now: Nanos) -> Option<Nanos> {
        let awake = now.since(self.ended);
        (awake > AWAKE_MAX).then(|| REST.max(Nanos(awake.0 / REST_PART)))
    }

    /// Notes that the thread waited for an event: that is a rest if it took at least `REST`.
    pub fn slept(&mut self, from: Nanos, to: Nanos) {
        if to.since(from) >= REST {
            self.ended = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_rests_for_a_seventeenth_of_the_time_however_long_it_was_awake() {
        let mut rest = Rest::since(Nanos(1_000_000));
        assert_eq!(rest.due(Nanos(1_640_000)), None);
        assert_eq!(rest.due(Nanos(1_641_000)), Some(Nanos(40_062)));
        assert_eq!(rest.due(Nanos(17_000_000)), Some(Nanos(1_000_000)));
        rest.slept(Nanos(1_600_000), Nanos(1_639_000));
        assert!(rest.due(Nanos(1_641_000)).is_some(), "a short wait counted");
        rest.slept(Nanos(1_600_000), Nanos(1_640_000));
        assert_eq!(rest.due(Nanos(2_280_000)), None);
    }
}

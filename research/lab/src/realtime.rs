//! Real-time priority of a thread.

/// Moves the calling thread to the lowest real-time priority: it runs as soon as a frame is due and
/// sleeps otherwise. Returns whether the kernel allowed it (CAP_SYS_NICE).
pub fn be_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live struct of the call's type; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

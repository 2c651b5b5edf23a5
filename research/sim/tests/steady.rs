//! Memory does not grow with simulated time: in the steady state a packet costs no allocation.

#[path = "../examples/field/mod.rs"]
mod field;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use field::{Field, Transport};
use uc_net::{BitsPerSec, Nanos};
use uc_sim::World;

/// The system's allocator, with counters.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it came; the counters are no memory
// of anybody's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn steady_state_packets_cost_no_allocation_and_memory_stays_flat() {
    for transport in [Transport::NewReno, Transport::Dctcp] {
        let field = Field {
            transport,
            pairs: 50,
            rate: BitsPerSec::from_mbit(1_000),
            rto_min: Nanos::from_millis(10),
            start_spread: Nanos::from_millis(1),
            seed: 1,
        };
        let (scenario, bottleneck) = field.scenario().expect("a dumbbell");
        let mut world = World::new(&scenario).expect("a world");
        let packets = |world: &mut World| {
            let report = world.hosts.link(bottleneck).expect("the bottleneck");
            report.stats.sent_packets
        };
        // All instruments are on, as in a run's measured part.
        world.hosts.time_packets(true);
        world.run_until(Nanos::from_secs(1)).expect("it runs");
        let (sent, live) = (packets(&mut world), LIVE_BYTES.load(Ordering::Relaxed));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        world.run_until(Nanos::from_secs(10)).expect("it runs");
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let sent = packets(&mut world) - sent;
        let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(live);
        assert!(sent > 500_000, "{transport:?}: {sent} packets");
        // In fact none; but a table may still reach a length that it never had.
        assert!(
            allocations < 100,
            "{transport:?}: {allocations} allocations for {sent} packets; seed 1; \
             cargo test -p uc-sim --test steady"
        );
        assert!(
            grown < 65_536,
            "{transport:?}: {grown} bytes more after ten times as long"
        );
    }
}

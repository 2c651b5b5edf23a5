//! One sender over a bottleneck: the queue of each congestion control.

use crate::pipe::{Pipe, Weather};
use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl};

/// Time of a segment on the bottleneck; the round trip of 20 ms holds a hundred.
const SEGMENT_US: u64 = 200;
const FITS: u32 = 100;

fn pipe(congestion_control: CongestionControl, segment_us: u64, queue: u64) -> Pipe {
    let config = Config {
        congestion_control,
        ..Config::default()
    };
    let weather = Weather {
        segment_us,
        queue,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&config, &config, weather, 1);
    pipe.open();
    pipe.write(true, u64::MAX);
    pipe
}

/// Returns the fraction of the link's capacity used between `from` and `to`.
fn utilisation(pipe: &mut Pipe, from: Nanos, to: Nanos) -> f64 {
    pipe.run_until(from);
    let before = pipe.server.totals().delivered_bytes;
    pipe.run_until(to);
    let bytes = pipe.server.totals().delivered_bytes - before;
    let segments = to.since(from).0 / Nanos::from_micros(pipe.weather.segment_us).0;
    bytes as f64 / (segments * 1448) as f64
}

#[test]
fn vegas_fills_the_link_with_a_queue_of_two_to_four_segments_and_no_loss() {
    let mut pipe = pipe(CongestionControl::Vegas, SEGMENT_US, 300);
    let carried = utilisation(&mut pipe, Nanos::from_secs(20), Nanos::from_secs(30));
    assert!(carried > 0.999, "{carried}");
    let info = pipe.client.info();
    let queued = (info.cwnd_bytes / info.smss_bytes).saturating_sub(FITS);
    assert!((2..=6).contains(&queued), "{queued} segments queued");
    assert_eq!(pipe.client.totals().retransmits, 0);
}

#[test]
fn illinois_fills_the_link_and_never_waits_for_its_timer() {
    let mut pipe = pipe(CongestionControl::Illinois, SEGMENT_US, 100);
    let carried = utilisation(&mut pipe, Nanos::from_secs(10), Nanos::from_secs(60));
    assert!(carried > 0.999, "{carried}");
    // at the full queue it halves, as NewReno does, and before that grows as slowly as α = 0.3
    let recoveries = pipe.client.totals().fast_recoveries;
    assert!((5..=60).contains(&recoveries), "{recoveries}");
    assert_eq!(pipe.client.totals().timeouts, 0);
}

#[test]
fn with_a_short_queue_highspeed_and_illinois_carry_more_than_newreno() {
    let carried = |law| {
        // four hundred segments on the path, and a tenth of that in the queue
        let mut pipe = pipe(law, SEGMENT_US / 4, 40);
        utilisation(&mut pipe, Nanos::from_secs(10), Nanos::from_secs(60))
    };
    let newreno = carried(CongestionControl::NewReno);
    assert!((0.70..0.90).contains(&newreno), "{newreno}");
    for law in [CongestionControl::HighSpeed, CongestionControl::Illinois] {
        let more = carried(law);
        assert!(more > newreno, "{law:?}: {more}, NewReno {newreno}");
    }
}

//! Lockout: two guests behind a full queue in which the guest with the larger window always finds
//! room, since its packets arrive in step with the departures. The other guest's packets are lost
//! each time its retransmission timer fires.

use uc_guest::coupling::host::{Host, Policy};
use uc_guest::coupling::wire::{GroupName, GroupReport};

const MSS: u32 = 1448;
const MS: u64 = 1_000_000;
/// Bytes in flight that the path and its queue hold.
const ROOM_BYTES: u32 = 250_000;

fn report(window_bytes: u32) -> GroupReport {
    GroupReport {
        name: GroupName::default(),
        opened_ns: 1,
        window_bytes,
        ssthresh_bytes: 1 << 30,
        flight_bytes: window_bytes,
        used_bytes: window_bytes,
        srtt_us: 8 * 200_000,
        mss_bytes: MSS as u16,
        ..GroupReport::default()
    }
}

/// A host with a guest of weight 3 that never loses and one of weight 1 whose data never arrives;
/// each reports every 10 ms while its group is reported.
struct Pair {
    host: Host,
    now_ns: u64,
    heavy: GroupReport,
    light: GroupReport,
}

impl Pair {
    /// Creates both guests after slow start, in a queue that the heavy one fills alone.
    fn new() -> Self {
        let mut host = Host::new(Policy::default());
        assert_eq!((host.add(3), host.add(1)), (0, 1));
        let mut pair = Self {
            host,
            now_ns: MS,
            heavy: report(100 * MSS),
            light: report(10 * MSS),
        };
        while pair.heavy.window_bytes < 4 * ROOM_BYTES {
            pair.heavy.acked_bytes += u64::from(pair.heavy.window_bytes / 20);
            pair.heavy.grown_bytes = pair.heavy.acked_bytes;
            pair.light.acked_bytes += u64::from(pair.light.window_bytes / 20);
            pair.turn(true);
            assert!(pair.now_ns < 10_000 * MS, "{:?}", pair.host.shares());
        }
        pair
    }

    fn turn(&mut self, light_speaks: bool) {
        self.now_ns += 10 * MS;
        let heard = [(0, &mut self.heavy), (1, &mut self.light)];
        for (id, said) in heard {
            let speaks = id == 0 || light_speaks;
            let groups = if speaks { vec![*said] } else { Vec::new() };
            let answers = self.host.hear(id, self.now_ns, &groups, self.now_ns);
            for answer in answers.unwrap() {
                said.taken_ns = self.now_ns;
                let stalled = said.stalled;
                said.window_bytes = if stalled { MSS } else { answer.window_bytes };
                (said.flight_bytes, said.used_bytes) = (said.window_bytes, said.window_bytes);
            }
        }
    }

    /// Fires the retransmission timer of the guest with less weight: its kernel reduces the window
    /// to one segment, and counts one more reduction.
    fn time_out(&mut self) {
        self.light.cuts += 1;
        (self.light.cut_from_bytes, self.light.cut_to_bytes) = (self.light.window_bytes, MSS);
        (self.light.cut_age_us, self.light.stalled) = (0, true);
        self.light.window_bytes = MSS;
    }
}

#[test]
fn a_guest_with_timeouts_only_makes_the_other_give_way() {
    // Between two timeouts its group may be reported or not; both cases are tested.
    for reported in [true, false] {
        let mut pair = Pair::new();
        let mut rto_ms = 300;
        while pair.heavy.window_bytes > ROOM_BYTES / 2 {
            let before = pair.heavy.window_bytes;
            pair.time_out();
            pair.turn(true);
            for step in 1..rto_ms / 10 {
                pair.light.cut_age_us = step as u32 * 10_000;
                pair.turn(reported);
            }
            let now = pair.heavy.window_bytes;
            assert!(now < before * 3 / 4, "{reported}: {before}, then {now}");
            rto_ms *= 2;
        }
        println!("{reported}: after {} timeouts", pair.light.cuts);
        assert!(pair.light.cuts <= 6, "{reported}: {}", pair.light.cuts);
    }
}

#[test]
fn one_timeout_is_one_event_however_often_its_group_comes_and_goes() {
    let mut pair = Pair::new();
    let before = pair.heavy.window_bytes;
    pair.time_out();
    pair.turn(true);
    pair.turn(true);
    let cut = pair.heavy.window_bytes;
    for step in 1..200 {
        pair.light.cut_age_us = step * 10_000;
        pair.turn(step % 20 < 10);
    }
    assert!(
        cut < before && pair.heavy.window_bytes >= cut,
        "{before}, {cut}: {:?}",
        pair.heavy
    );
}

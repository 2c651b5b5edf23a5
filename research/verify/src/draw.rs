//! Random plans, drawn from a case number and a seed.
//!
//! Each plan first draws its own rates and then the packets that they hit, so that cases differ in
//! kind and not only in detail: quiet cases that reach congestion avoidance, cases where windows
//! and retransmissions are lost together, cases that the network never limits.

use uc_net::random::Stream;

use crate::plan::{After, Burst, Direction, Handover, Plan, Stall};

/// Draws the plan of case `number` of the campaign with this `seed`.
pub fn draw(seed: u64, number: u64) -> Plan {
    let mut stream = Stream::new(seed, &format!("case {number}"));
    let random = &mut stream;
    let mss_bytes = pick(random, &[1_460, 1_460, 1_448, 1_000, 536, 300]);
    let packets = 400 + random.below(801) as u32;
    let packet_us = log_uniform(random, 1, 1_500);
    let mut data = Direction {
        delay_us: log_uniform(random, 20, 80_000),
        packet_us,
        ..Direction::default()
    };
    draw_queue(random, &mut data);
    let mut acks = Direction {
        delay_us: log_uniform(random, 20, 80_000),
        packet_us: pick(random, &[0, 1, packet_us / 2]),
        ..Direction::default()
    };
    draw_losses(random, &mut data, &mut acks, packets);
    draw_marks(random, &mut data, packets);
    draw_detours(random, &mut data, &mut acks, packets);
    for way in [&mut data, &mut acks] {
        for list in [&mut way.lost, &mut way.marked] {
            list.sort_unstable();
            list.dedup();
        }
        way.late.sort_unstable();
        way.late.dedup_by_key(|late| late.0);
    }
    Plan {
        // one in four wraps within the case
        iss: if random.below(4) == 0 {
            u32::MAX - random.below(300_000) as u32
        } else {
            random.bits32()
        },
        mss_bytes,
        initial_window_segments: 2 + random.below(9) as u8,
        receive_buffer_segments: draw_buffer(random, mss_bytes),
        packets,
        data,
        acks,
        bursts: draw_bursts(random, packets),
        stalls: draw_stalls(random, packets),
        handovers: Vec::new(),
    }
}

/// Draws a plan like [`draw`], in half of the cases with directions that stop.
pub fn draw_stopping(seed: u64, number: u64) -> Plan {
    let mut plan = draw(seed, number);
    let mut stream = Stream::new(seed, &format!("stops of case {number}"));
    draw_held(&mut stream, &mut plan);
    plan
}

/// Draws a plan like [`draw_stopping`] in which the guest's flow moves up to four times, through layouts of other
/// versions. Half of the clocks wrap a 32-bit count of microseconds within 2.05 s.
pub fn draw_moving(seed: u64, number: u64) -> Plan {
    let mut plan = draw_stopping(seed, number);
    let mut stream = Stream::new(seed, &format!("moves of case {number}"));
    let random = &mut stream;
    for _ in 0..1 + random.below(4) {
        let clock = match random.below(2) {
            0 => log_uniform(random, 1, u32::MAX),
            _ => (1 + random.below(8) as u32) * WRAP_UNITS - random.below(16_000) as u32,
        };
        let segment = random.below(2 * u64::from(plan.packets)) as u32;
        plan.handovers.push(Handover {
            segment,
            clock,
            layout: random.bits32(),
        });
    }
    plan.handovers.sort_unstable();
    plan
}

/// Units of 128 µs after which a count of microseconds wraps.
const WRAP_UNITS: u32 = 1 << 25;

fn pick<T: Copy>(random: &mut Stream, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// Draws a number; every octave between the bounds is equally likely.
fn log_uniform(random: &mut Stream, from: u32, to: u32) -> u32 {
    let octaves = u64::from((to / from).ilog2());
    let low = u64::from(from) << random.below(octaves + 1);
    (low + random.below(low)).min(u64::from(to)) as u32
}

fn draw_buffer(random: &mut Stream, mss_bytes: u16) -> u16 {
    let most = u64::from(u16::MAX / mss_bytes);
    let segments = match random.below(4) {
        0 => 2 + random.below(10),
        1 => 2 + random.below(most - 1),
        _ => most,
    };
    segments.min(most) as u16
}

fn draw_queue(random: &mut Stream, way: &mut Direction) {
    if random.below(3) == 0 {
        return;
    }
    way.queue_packets = log_uniform(random, 4, 128);
    if random.below(2) == 0 {
        way.mark_packets = 1 + random.below(u64::from(way.queue_packets)) as u32;
    }
}

/// Adds the packet numbers below `packets` that a probability of `ppm` selects.
fn sprinkle(random: &mut Stream, list: &mut Vec<u32>, ppm: u32, packets: u32) {
    if ppm > 0 {
        list.extend((0..packets).filter(|_| random.chance_ppm(ppm)));
    }
}

fn draw_losses(random: &mut Stream, data: &mut Direction, acks: &mut Direction, packets: u32) {
    let ppm = pick(random, &[0, 0, 1_000, 3_000, 10_000, 30_000]);
    sprinkle(random, &mut data.lost, ppm, packets);
    let ppm = pick(random, &[0, 0, 1_000, 10_000, 50_000, 200_000]);
    sprinkle(random, &mut acks.lost, ppm, packets);
    // several losses in one window, and losses of the retransmissions
    for _ in 0..random.below(6) {
        let at = random.below(u64::from(packets)) as u32;
        let among = 2 + random.below(24) as u32;
        data.lost
            .extend((at..at + among).filter(|_| random.below(2) == 0));
    }
    // a dead link: timeouts, and timeouts of the retransmission
    for _ in 0..random.below(3) {
        let at = random.below(u64::from(packets)) as u32;
        let length = log_uniform(random, 2, 48);
        let way = if random.below(3) == 0 {
            &mut *acks
        } else {
            &mut *data
        };
        way.lost.extend(at..at + length);
    }
}

fn draw_marks(random: &mut Stream, data: &mut Direction, packets: u32) {
    let ppm = pick(random, &[0, 1_000, 5_000, 20_000, 100_000, 500_000]);
    sprinkle(random, &mut data.marked, ppm, packets);
    // a mark next to a loss, on either side
    for _ in 0..random.below(6) {
        let at = 8 + random.below(u64::from(packets)) as u32;
        let near = at + random.below(16) as u32 - 8;
        data.lost.push(at);
        data.marked.push(near);
    }
}

fn draw_detours(random: &mut Stream, data: &mut Direction, acks: &mut Direction, packets: u32) {
    for way in [data, acks] {
        let ppm = pick(random, &[0, 0, 0, 2_000, 20_000]);
        let mut hit = Vec::new();
        sprinkle(random, &mut hit, ppm, packets);
        for number in hit {
            // most are overtaken by a few packets, some arrive after the timer fires
            let late_us = if random.below(8) == 0 {
                log_uniform(random, 1_000, 500_000)
            } else {
                (way.packet_us + 1) * (1 + random.below(8) as u32)
            };
            way.late.push((number, late_us));
        }
    }
}

/// Draws stops of a direction: some last longer than the sender's retransmission timeout, which is then spurious,
/// others shorter.
fn draw_held(random: &mut Stream, plan: &mut Plan) {
    if random.below(2) == 0 {
        return;
    }
    for _ in 0..1 + random.below(4) {
        let at = random.below(u64::from(plan.packets)) as u32;
        let way = if random.below(3) == 0 {
            &mut plan.data
        } else {
            &mut plan.acks
        };
        way.held.push((at, log_uniform(random, 20_000, 2_000_000)));
    }
    for way in [&mut plan.data, &mut plan.acks] {
        way.held.sort_unstable();
        way.held.dedup_by_key(|held| held.0);
    }
}

fn draw_bursts(random: &mut Stream, packets: u32) -> Vec<Burst> {
    let endless = Burst {
        after: After::Acked,
        pause_us: 0,
        pause_rto_permille: 0,
        segments: 2 * packets,
        odd_bytes: 0,
    };
    if random.below(2) == 0 {
        return vec![endless];
    }
    let largest = log_uniform(random, 4, 256);
    let mut bursts = Vec::new();
    let mut written = 0;
    while written < packets {
        let segments = 1 + random.below(u64::from(largest)) as u32;
        let mut burst = Burst {
            segments,
            ..endless
        };
        match random.below(8) {
            0..4 => burst.after = After::Sent,
            4..7 => burst.pause_rto_permille = random.below(600) as u32,
            _ => burst.pause_rto_permille = 1_600 + random.below(3_000) as u32,
        }
        burst.pause_us = pick(random, &[0, 1, 100, 1_000, 20_000]);
        bursts.push(burst);
        written += segments;
    }
    bursts
}

fn draw_stalls(random: &mut Stream, packets: u32) -> Vec<Stall> {
    if random.below(3) > 0 {
        return Vec::new();
    }
    let mut arrivals = 0;
    let mut stalls = Vec::new();
    for _ in 0..1 + random.below(4) {
        arrivals += 1 + random.below(u64::from(packets) / 3) as u32;
        let pause_us = log_uniform(random, 100, 3_000_000);
        stalls.push(Stall { arrivals, pause_us });
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_repeats_and_equals_its_replay_file() {
        for number in 0..200 {
            let plan = draw_moving(7, number);
            assert_eq!(plan, draw_moving(7, number));
            let text = plan.to_toml();
            let read = Plan::parse(&text).expect("a drawn plan is valid");
            assert_eq!(read, plan, "seed 7, case {number}");
        }
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn log_uniform_stays_within_its_bounds() {
        let mut stream = Stream::new(1, "bounds");
        let drawn: Vec<u32> = (0..10_000)
            .map(|_| log_uniform(&mut stream, 20, 1_500))
            .collect();
        assert!(drawn.iter().all(|value| (20..=1_500).contains(value)));
        assert!(drawn.iter().any(|&value| value < 40) && drawn.iter().any(|&value| value > 1_200));
    }
}

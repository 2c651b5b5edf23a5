//! Computes goodputs from two reads of the flow table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::flow::FlowRow;

/// Returns the bytes from one sequence number to a later one; 0 if `to` is earlier.
fn moved(from: u32, to: u32) -> u64 {
    u64::try_from(to.wrapping_sub(from) as i32).unwrap_or(0)
}

fn bits_per_s(bytes: u64, time: Duration) -> u64 {
    let time_us = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 8_000_000 / time_us).unwrap_or(u64::MAX)
}

/// Writes into the flows of `after` their goodput since `before`, which was read `time` earlier. Flows that `before`
/// lacks get none. More than 2 GB between two reads look like a step backward and count as 0.
pub fn measure(before: &[FlowRow], after: &mut [FlowRow], time: Duration) {
    let old: BTreeMap<&str, &FlowRow> = before
        .iter()
        .map(|flow| (flow.name.as_str(), flow))
        .collect();
    for flow in after {
        let Some(old) = old.get(flow.name.as_str()) else {
            continue;
        };
        flow.sent_bits_per_s = Some(bits_per_s(moved(old.snd_una, flow.snd_una), time));
        let received = moved(old.echoed_ack, flow.echoed_ack);
        flow.received_bits_per_s = Some(bits_per_s(received, time));
    }
}

/// Formats a rate with a unit for people, such as `9.3 Mbit/s`.
pub fn in_words(bits_per_s: u64) -> String {
    let value = bits_per_s as f64;
    match bits_per_s {
        0..1_000 => format!("{bits_per_s} bit/s"),
        1_000..1_000_000 => format!("{:.1} kbit/s", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} Mbit/s", value / 1e6),
        _ => format!("{:.2} Gbit/s", value / 1e9),
    }
}

/// Formats a rate in bit/s in at most six characters, such as `9.3M`.
pub fn short(bits_per_s: u64) -> String {
    let value = bits_per_s as f64;
    match bits_per_s {
        0..1_000 => bits_per_s.to_string(),
        1_000..1_000_000 => format!("{:.1}k", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", value / 1e6),
        _ => format!("{:.1}G", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_across_the_end_of_the_sequence_space() {
        assert_eq!(moved(u32::MAX - 99, 900), 1000);
        assert_eq!(moved(900, u32::MAX - 99), 0, "backward");
        assert_eq!(bits_per_s(1000, Duration::from_millis(500)), 16_000);
    }

    #[test]
    fn a_rate_gets_a_fitting_unit() {
        let said = [10, 1_500, 20_000_000, 3_000_000_000].map(in_words);
        assert_eq!(
            said,
            ["10 bit/s", "1.5 kbit/s", "20.0 Mbit/s", "3.00 Gbit/s"]
        );
    }

    #[test]
    fn a_short_rate_has_a_letter_for_its_unit() {
        let said = [10, 1_500, 999_900_000, 3_000_000_000].map(short);
        assert_eq!(said, ["10", "1.5k", "999.9M", "3.0G"]);
    }
}

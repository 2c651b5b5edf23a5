//! The kernel's values of guests' sockets compared with those of the flows' shadows.

use serde::{Deserialize, Serialize};

use super::shadow::Values;

/// A flow's socket in the guest's network namespace, and the flow's shadow at the same moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruthRow {
    /// Name of the socket's congestion control.
    pub congestion_control: String,
    /// The socket's congestion window in segments, as `ss -i` prints it.
    pub cwnd_segments: u32,
    /// Maximum payload of the socket's segments, in bytes.
    pub mss_bytes: u32,
    /// The socket's retransmission timeout in microseconds.
    pub rto_us: u32,
    /// The values that the kernel has for the socket.
    pub kernel: Values,
    /// The values of the flow's shadow.
    pub shadow: Values,
    /// Each value of the shadow, divided by the kernel's.
    pub ratio: Ratios,
}

/// The values of a shadow, divided by the values of the guest's socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Congestion window: shadow ÷ kernel; `None` if one of them is unknown.
    pub cwnd: Option<f64>,
    /// Slow-start threshold: shadow ÷ kernel; `None` if one of them is unknown.
    pub ssthresh: Option<f64>,
    /// Smoothed round-trip time: shadow ÷ kernel; `None` if one of them is unknown.
    pub srtt: Option<f64>,
}

impl Ratios {
    /// Divides each value of `dividend` by the same value of `divisor`; `None` where one of them is unknown or the
    /// divisor is 0.
    pub fn of(dividend: &Values, divisor: &Values) -> Ratios {
        let windows = |a: Option<u64>, b: Option<u64>| ratio(a? as f64, b? as f64);
        let times = |a: Option<u32>, b: Option<u32>| ratio(a?.into(), b?.into());
        Ratios {
            cwnd: windows(dividend.cwnd_bytes, divisor.cwnd_bytes),
            ssthresh: windows(dividend.ssthresh_bytes, divisor.ssthresh_bytes),
            srtt: times(dividend.srtt_us, divisor.srtt_us),
        }
    }
}

fn ratio(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

/// Differences between shadows and guests' sockets, over all flows that are printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthSummary {
    /// Number of flows whose socket was found.
    pub flows: usize,
    /// Distribution of the flows' congestion windows, shadow ÷ kernel; `None` if no flow has both.
    pub cwnd: Option<Spread>,
    /// Distribution of the flows' slow-start thresholds, shadow ÷ kernel; `None` if no flow has
    /// both.
    pub ssthresh: Option<Spread>,
    /// Distribution of the flows' smoothed round-trip times, shadow ÷ kernel; `None` if no flow has
    /// both.
    pub srtt: Option<Spread>,
    /// Ports whose guests' sockets can't be read.
    pub absent: Vec<AbsentRow>,
}

/// Ratios of one quantity over several flows: shadow ÷ kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of flows that have the ratio.
    pub flows: usize,
    /// The median; of an even number of ratios, the greater of the two in the middle.
    pub median: f64,
    /// The ratio that differs most from 1 as a factor: 0.5 and 2 differ equally.
    pub worst: f64,
    /// Name of the flow with the worst ratio.
    pub worst_flow: String,
}

/// A port whose guests' sockets can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentRow {
    /// Name of the port.
    pub port: String,
    /// Why the sockets behind the port can't be read, in words.
    pub why: String,
}

impl Spread {
    /// Summarizes ratios, each with its flow's name; `None` if there are no ratios.
    fn of(mut ratios: Vec<(f64, &str)>) -> Option<Spread> {
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let factor = |ratio: f64| ratio.max(1.0 / ratio);
        let (worst, flow) = *ratios
            .iter()
            .max_by(|a, b| factor(a.0).total_cmp(&factor(b.0)))?;
        Some(Spread {
            flows: ratios.len(),
            median: ratios[ratios.len() / 2].0,
            worst,
            worst_flow: flow.to_owned(),
        })
    }
}

impl TruthSummary {
    /// Summarizes the ratios of these flows, each given with its name.
    pub fn of<'a>(
        rows: impl Iterator<Item = (&'a str, &'a TruthRow)> + Clone,
        absent: Vec<AbsentRow>,
    ) -> TruthSummary {
        let spread = |ratio: fn(&Ratios) -> Option<f64>| {
            let named = rows.clone();
            Spread::of(
                named
                    .filter_map(|(name, row)| Some((ratio(&row.ratio)?, name)))
                    .collect(),
            )
        };
        TruthSummary {
            flows: rows.clone().count(),
            cwnd: spread(|ratio| ratio.cwnd),
            ssthresh: spread(|ratio| ratio.ssthresh),
            srtt: spread(|ratio| ratio.srtt),
            absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(cwnd_bytes: u64, srtt_us: u32) -> Values {
        Values {
            cwnd_bytes: Some(cwnd_bytes),
            ssthresh_bytes: None,
            srtt_us: Some(srtt_us),
        }
    }

    #[test]
    fn ratios_divide_by_what_the_kernel_knows() {
        let ratio = Ratios::of(&values(500, 300), &values(1000, 100));
        assert_eq!(
            (ratio.cwnd, ratio.ssthresh, ratio.srtt),
            (Some(0.5), None, Some(3.0))
        );
        assert_eq!(
            Ratios::of(&values(500, 300), &values(0, 0)),
            Ratios::default()
        );
    }

    #[test]
    fn worst_ratio_is_the_farthest_factor_in_either_direction() {
        let of = |ratios: &[f64]| {
            Spread::of(ratios.iter().map(|ratio| (*ratio, "flow")).collect()).unwrap()
        };
        assert_eq!(
            (of(&[0.25, 1.0, 3.0]).median, of(&[0.25, 1.0, 3.0]).worst),
            (1.0, 0.25)
        );
        assert_eq!(of(&[5.0, 0.25, 1.1]).worst, 5.0);
        assert_eq!(of(&[1.0]).flows, 1);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}

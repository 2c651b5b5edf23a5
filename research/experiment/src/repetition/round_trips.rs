//! Round-trip times: smoothed, as the senders have them, and packet by packet.

use super::Repetition;
use crate::histogram::Histogram;
use crate::measure_error::MeasureError;
use crate::statistic::Statistic;

impl Repetition<'_> {
    pub(super) fn rtt(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            series
                .mean_rtt_s()
                .ok_or("no sample with a measured round-trip time; measure longer")
        })
    }

    pub(super) fn packet_rtt(
        &self,
        case: &str,
        of: &str,
        statistic: Statistic,
    ) -> Result<f64, MeasureError> {
        let mut all = Histogram::default();
        for flow in self.flows(case, of)? {
            let unknown = || self.lacks(case, flow, "no round trips of packets; run it --on sim");
            all.merge(flow.packet_rtt.as_ref().ok_or_else(unknown)?);
        }
        let none = || {
            let why = format!(
                "no packet of group `{of}` was sent once and acknowledged in the measured part; give \
                 it more time, or a shorter settle"
            );
            self.no_number(case, &why)
        };
        let time_ns = all.statistic(statistic).ok_or_else(none)?;
        Ok(time_ns / 1e9)
    }
}

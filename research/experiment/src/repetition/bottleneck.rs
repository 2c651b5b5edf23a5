//! Measures of the bottlenecks: queue length, marks and drops.

use super::Repetition;
use crate::measure::QueueUnit;
use crate::measure_error::MeasureError;
use crate::record::{LinkTotals, QueueSample};
use crate::statistic::Statistic;
use crate::units::Nanos;

impl Repetition<'_> {
    pub(super) fn queue(
        &self,
        case: &str,
        statistic: Statistic,
        unit: QueueUnit,
        during: Option<[Nanos; 2]>,
    ) -> Result<f64, MeasureError> {
        let part_ns = self.part(during);
        let inside = |s: &&QueueSample| (part_ns.start..=part_ns.end).contains(&s.at_ns);
        let rate_bps = self.experiment.network.rate.0 as f64;
        let length = |sample: &QueueSample| match unit {
            QueueUnit::Packets => f64::from(sample.backlog_packets),
            QueueUnit::Bytes => sample.backlog_bytes as f64,
            QueueUnit::Seconds => sample.backlog_bytes as f64 * 8.0 / rate_bps,
        };
        let samples = self.record(case)?.queue.iter().filter(inside);
        let lengths: Vec<f64> = samples.map(length).collect();
        let none = || self.no_bottleneck(case, "no sample of the bottleneck's queue");
        statistic.of(&lengths).ok_or_else(none)
    }

    pub(super) fn marked(&self, case: &str) -> Result<f64, MeasureError> {
        let totals = self.bottlenecks(case)?;
        let what = || "what crossed the bottlenecks".into();
        let (above, below) = (totals.marked_packets as f64, totals.packets as f64);
        self.divide(case, above, below, what)
    }

    pub(super) fn lost(&self, case: &str) -> Result<f64, MeasureError> {
        let totals = self.bottlenecks(case)?;
        let what = || "what reached the bottlenecks".into();
        let reached = totals.packets + totals.dropped_packets;
        self.divide(case, totals.dropped_packets as f64, reached as f64, what)
    }

    /// Returns the totals of all bottlenecks together.
    fn bottlenecks(&self, case: &str) -> Result<LinkTotals, MeasureError> {
        let record = self.record(case)?;
        if record.bottlenecks.is_empty() {
            return Err(self.no_bottleneck(case, "no link that is named as a bottleneck"));
        }
        let mut sum = LinkTotals::default();
        for name in &record.bottlenecks {
            let missing = || self.no_bottleneck(case, &format!("no totals of link `{name}`"));
            let link = record.links.get(name).ok_or_else(missing)?;
            sum.packets += link.packets;
            sum.bytes += link.bytes;
            sum.dropped_packets += link.dropped_packets;
            sum.marked_packets += link.marked_packets;
        }
        Ok(sum)
    }

    fn no_bottleneck(&self, case: &str, lacks: &str) -> MeasureError {
        self.no_number(case, &format!("the record has {lacks}"))
    }
}

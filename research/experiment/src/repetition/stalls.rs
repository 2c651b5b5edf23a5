//! Measures of a guest's timers and clock when its CPU is taken away.

use super::Repetition;
use crate::measure::Event;
use crate::measure_error::MeasureError;
use crate::record::Stalls;
use crate::statistic::Statistic;

impl Repetition<'_> {
    pub(super) fn events(&self, case: &str, of: &str, what: Event) -> Result<f64, MeasureError> {
        let count = |stalls: &Stalls| match what {
            Event::SpuriousTimeouts => stalls.spurious_timeouts,
            Event::DetectedTimeouts => stalls.detected_timeouts,
            Event::Backoffs => stalls.backoffs,
            Event::DuplicateAcks => stalls.duplicate_acks,
            Event::NeedlessSegments => stalls.needless_segments,
            Event::DeferredTimers => stalls.deferred_timers,
            Event::FilteredSamples => stalls.filtered_samples,
        };
        let counts = self.stalls(case, of)?;
        Ok(counts.iter().map(count).sum::<u64>() as f64)
    }

    pub(super) fn clock_jump(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        let jumps = self.stalls(case, of)?;
        let jumps = jumps.iter().map(|stalls| stalls.clock_jump_ticks);
        Ok(jumps.max().unwrap_or(0) as f64)
    }

    fn stalls(&self, case: &str, of: &str) -> Result<Vec<Stalls>, MeasureError> {
        let flows = self.flows(case, of)?.into_iter();
        let unknown = "no count of what its timers went through; run it --on sim";
        flows
            .map(|flow| flow.stalls.ok_or_else(|| self.lacks(case, flow, unknown)))
            .collect()
    }

    pub(super) fn rto(
        &self,
        case: &str,
        of: &str,
        statistic: Statistic,
    ) -> Result<f64, MeasureError> {
        let mut times_s = Vec::new();
        for (flow, series) in self.group(case, of, &self.part(None))? {
            let before = times_s.len();
            let times_us = series.samples().iter().filter_map(|sample| sample.rto_us);
            times_s.extend(times_us.map(|us| f64::from(us) / 1e6));
            if times_s.len() == before {
                return Err(self.lacks(
                    case,
                    flow,
                    "no samples of its retransmission timeout: no connection of it was open at a \
                     sample; measure longer, or sample more often",
                ));
            }
        }
        statistic.of(&times_s).ok_or_else(|| self.no_flow(case, of))
    }

    /// Returns a counter of the run.
    pub(super) fn counter(&self, case: &str, name: &str) -> Result<f64, MeasureError> {
        let count = self.record(case)?.counters.get(name);
        let unknown = || {
            let why = format!(
                "the record has no counter `{name}`; take a name of `counters` in records.json"
            );
            self.no_number(case, &why)
        };
        count.map(|&count| count as f64).ok_or_else(unknown)
    }
}

//! One repetition of an experiment: a record of every case, and the measures computed from them.

mod alpha;
mod bottleneck;
mod rates;
mod round_trips;
mod stalls;
mod transfers;
mod windows;

use std::ops::Range;

use crate::measure::{Measure, OfGroup};
use crate::measure_error::{MeasureError, Which};
use crate::record::{FlowRecord, RunRecord};
use crate::schema::Experiment;
use crate::series::Series;
use crate::sweep::Point;
use crate::units::Nanos;

/// All records of one repetition.
#[derive(Clone, Debug)]
pub struct Repetition<'a> {
    experiment: &'a Experiment,
    run: u32,
    at: &'a [(String, String)],
    records: Vec<&'a RunRecord>,
}

impl<'a> Repetition<'a> {
    /// Selects the records of repetition `run` among `records`, of an experiment without a sweep.
    pub fn of(experiment: &'a Experiment, records: &'a [RunRecord], run: u32) -> Self {
        Self {
            experiment,
            run,
            at: &[],
            records: records.iter().filter(|record| record.run == run).collect(),
        }
    }

    /// Selects the records of repetition `run` at `point` among `records`.
    pub fn at(point: &'a Point, records: &'a [RunRecord], run: u32) -> Self {
        let here = |record: &&RunRecord| record.run == run && record.point == point.number;
        Self {
            experiment: &point.experiment,
            run,
            at: &point.labels,
            records: records.iter().filter(here).collect(),
        }
    }

    fn which(&self) -> Which {
        Which {
            run: self.run,
            at: self.at.to_vec(),
        }
    }

    /// Returns whether every case of the measure was run in this repetition.
    pub fn has_cases_of(&self, measure: &Measure) -> bool {
        let ran = |case: &&str| self.records.iter().any(|record| record.case == **case);
        measure.cases().iter().all(ran)
    }

    /// Computes a measure. The result is in that measure's unit.
    ///
    /// # Errors
    /// A record, flow, transfer or sample that the measure needs is missing, or the denominator of
    /// its ratio is 0.
    pub fn measure(&self, measure: &Measure) -> Result<f64, MeasureError> {
        match measure {
            Measure::Share {
                case,
                of,
                to,
                during,
            } => self.share(case, of, to, *during),
            Measure::Jain {
                case,
                of,
                by,
                during,
            } => self.jain(case, of, *by, *during),
            Measure::Goodput { case, of, during } => self.goodput(case, of, *during),
            Measure::Utilisation { case, during } => self.utilisation(case, *during),
            Measure::Retransmitted { case } => self.retransmitted(case),
            Measure::Retransmits(OfGroup { case, of }) => self.retransmits(case, of),
            Measure::Drops(OfGroup { case, of }) => self.drops(case, of),
            Measure::SendWindow(OfGroup { case, of }) => self.send_window(case, of),
            Measure::WindowAbove(OfGroup { case, of }) => self.window_above(case, of),
            Measure::SawtoothPeriod(OfGroup { case, of }) => self.sawtooth_period(case, of),
            Measure::SawtoothPeak(OfGroup { case, of }) => self.sawtooth_peak(case, of),
            Measure::SawtoothTrough(OfGroup { case, of }) => self.sawtooth_trough(case, of),
            Measure::WindowError { case, of, signed } => self.window_error(case, of, *signed),
            Measure::Rtt(OfGroup { case, of }) => self.rtt(case, of),
            Measure::PacketRtt {
                case,
                of,
                statistic,
            } => self.packet_rtt(case, of, *statistic),
            Measure::Alpha { case, of, which } => self.alpha(case, of, *which),
            Measure::AlphaError { case, of, against } => self.alpha_error(case, of, *against),
            Measure::Fct {
                case,
                of,
                statistic,
                sizes,
                slowdown,
            } => self.fct(case, of, *statistic, *sizes, *slowdown),
            Measure::Unfinished { case, of, sizes } => self.unfinished(case, of, *sizes),
            Measure::Timeouts(OfGroup { case, of }) => self.timeouts(case, of),
            Measure::Events { case, of, what } => self.events(case, of, *what),
            Measure::ClockJump(OfGroup { case, of }) => self.clock_jump(case, of),
            Measure::Rto {
                case,
                of,
                statistic,
            } => self.rto(case, of, *statistic),
            Measure::Counter { case, name } => self.counter(case, name),
            Measure::AckGaps { case, of, from, to } => self.ack_gaps(case, of, *from, *to),
            Measure::Queue {
                case,
                statistic,
                unit,
                during,
            } => self.queue(case, *statistic, *unit, *during),
            Measure::Marked { case } => self.marked(case),
            Measure::Lost { case } => self.lost(case),
            Measure::Ratio { of, to } => {
                let (above, below) = (self.measure(of)?, self.measure(to)?);
                divided(above, below, to, || self.which())
            }
        }
    }

    /// Returns the mean of `value` over the flows of a group, in the measured part.
    fn mean(
        &self,
        case: &str,
        group: &str,
        value: impl Fn(Series<'_>) -> Result<f64, &'static str>,
    ) -> Result<f64, MeasureError> {
        let flows = self.group(case, group, &self.part(None))?;
        let count = flows.len() as f64;
        let values = flows
            .into_iter()
            .map(|(flow, series)| value(series).map_err(|what| self.lacks(case, flow, what)));
        Ok(values.sum::<Result<f64, MeasureError>>()? / count)
    }

    /// Returns the part `during` of the run, or the measured part without it, in nanoseconds; samples at both ends
    /// count.
    fn part(&self, during: Option<[Nanos; 2]>) -> Range<u64> {
        during.map_or(self.experiment.measured_ns(), |[from, to]| from.0..to.0)
    }

    fn record(&self, case: &str) -> Result<&'a RunRecord, MeasureError> {
        let found = self.records.iter().find(|record| record.case == case);
        let missing = || MeasureError::NoRecord {
            case: case.into(),
            which: self.which(),
        };
        found.copied().ok_or_else(missing)
    }

    /// Returns the flows of one group; an error if there is none.
    fn flows(&self, case: &str, group: &str) -> Result<Vec<&'a FlowRecord>, MeasureError> {
        let flows = self.record(case)?.flows.iter();
        let flows: Vec<_> = flows.filter(|flow| flow.group == group).collect();
        if flows.is_empty() {
            return Err(self.no_flow(case, group));
        }
        Ok(flows)
    }

    /// Returns the flows of one group, each with its samples of a part of the run; an error if there is no flow.
    fn group(
        &self,
        case: &str,
        group: &str,
        part_ns: &Range<u64>,
    ) -> Result<Vec<(&'a FlowRecord, Series<'a>)>, MeasureError> {
        let flows = self.flows(case, group)?.into_iter();
        flows.map(|flow| self.series(case, flow, part_ns)).collect()
    }

    /// Returns the flows of all groups, each with its samples of a part of the run; an error if a group of the file has
    /// no flow.
    fn all(
        &self,
        case: &str,
        part_ns: &Range<u64>,
    ) -> Result<Vec<(&'a FlowRecord, Series<'a>)>, MeasureError> {
        let groups = self
            .experiment
            .case(case)
            .map_or(&[][..], |case| &case.guests);
        for guests in groups {
            self.flows(case, &guests.name)?;
        }
        self.record(case)?
            .flows
            .iter()
            .map(|flow| self.series(case, flow, part_ns))
            .collect()
    }

    fn series(
        &self,
        case: &str,
        flow: &'a FlowRecord,
        part_ns: &Range<u64>,
    ) -> Result<(&'a FlowRecord, Series<'a>), MeasureError> {
        let series = Series::of(flow, part_ns).ok_or_else(|| {
            let (from, to) = (Nanos(part_ns.start), Nanos(part_ns.end));
            self.lacks(
                case,
                flow,
                &format!("fewer than two samples between {from} and {to}"),
            )
        })?;
        let group = self.experiment.case(case);
        let observed = group.is_some_and(|case| case.is_observed(&flow.group));
        Ok((flow, series.observed(observed)))
    }

    fn lacks(&self, case: &str, flow: &FlowRecord, what: &str) -> MeasureError {
        let FlowRecord { group, index, .. } = flow;
        self.no_number(case, &format!("flow {index} of group `{group}` has {what}"))
    }

    fn no_flow(&self, case: &str, group: &str) -> MeasureError {
        self.no_number(case, &format!("no flow of group `{group}` was recorded"))
    }

    /// Returns the error for a number that can't be computed from the run of `case`; `why` gives the reason.
    fn no_number(&self, case: &str, why: &str) -> MeasureError {
        MeasureError::NoNumber(format!("case `{case}`, {}: {why}", self.which()))
    }

    fn divide(
        &self,
        case: &str,
        above: f64,
        below: f64,
        what: impl Fn() -> String,
    ) -> Result<f64, MeasureError> {
        if below == 0.0 {
            return Err(self.no_number(case, &is_zero(&what())));
        }
        Ok(above / below)
    }
}

/// Divides the two sides of a ratio; an error if the denominator, the measure `to`, is 0.
pub(crate) fn divided(
    above: f64,
    below: f64,
    to: &Measure,
    which: impl Fn() -> Which,
) -> Result<f64, MeasureError> {
    if below == 0.0 {
        return Err(zero_below(to, which()));
    }
    Ok(above / below)
}

/// Returns the error of a denominator that is 0.
pub(crate) fn zero_below(to: &Measure, which: Which) -> MeasureError {
    let case = to.case().unwrap_or("a ratio");
    let why = is_zero("the measure below the line");
    MeasureError::NoNumber(format!("case `{case}`, {which}: {why}"))
}

fn is_zero(what: &str) -> String {
    format!("{what} is 0, and nothing can be divided by it")
}

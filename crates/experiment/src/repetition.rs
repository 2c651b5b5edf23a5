//! One repetition of an experiment: a record of every case, and the measures taken from them.

use std::fmt;

use crate::case::Guests;
use crate::error::Error;
use crate::measure::Measure;
use crate::record::{FlowRecord, RunRecord};
use crate::sawtooth::Sawtooth;
use crate::schema::Experiment;
use crate::series::Series;
use crate::sweep::Point;
use crate::units::Nanos;

/// An Ethernet header; preamble, check sequence and gap are not counted by the emulated links.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// One repetition at one point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The repetition, from 0.
    pub run: u32,
    /// Axes and their labels.
    pub at: Vec<(String, String)>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repetition {}", self.run)?;
        for (number, (axis, label)) in self.at.iter().enumerate() {
            write!(
                f,
                "{}{axis} {label}",
                if number == 0 { " at " } else { ", " }
            )?;
        }
        Ok(())
    }
}

/// Why a measure could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The experiment's sweep can't be applied.
    #[error(transparent)]
    Points(Error),
    /// A case was not run.
    #[error("case `{case}` has no record of {which}; run it, or leave out what expects it")]
    NoRecord {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
    },
    /// A group sent nothing that was recorded.
    #[error("case `{case}`, {which}: no flow of group `{group}` was recorded")]
    NoFlow {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
    },
    /// A flow has nothing to compute this measure from.
    #[error("case `{case}`, {which}: flow {index} of group `{group}` has {lacks}")]
    Flow {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
        /// The flow's number in its group.
        index: u32,
        /// What it lacks.
        lacks: String,
    },
    /// A ratio with nothing below the line.
    #[error("{case}, {which}: {what} is 0, and nothing can be divided by it")]
    Zero {
        /// Which case.
        case: String,
        /// Which run.
        which: Which,
        /// What is below the line.
        what: String,
    },
}

/// All records of one repetition.
#[derive(Clone, Debug)]
pub struct Repetition<'a> {
    experiment: &'a Experiment,
    run: u32,
    at: &'a [(String, String)],
    records: Vec<&'a RunRecord>,
}

impl<'a> Repetition<'a> {
    /// The records of repetition `run` among `records`, of an experiment without a sweep.
    pub fn of(experiment: &'a Experiment, records: &'a [RunRecord], run: u32) -> Self {
        Self {
            experiment,
            run,
            at: &[],
            records: records.iter().filter(|record| record.run == run).collect(),
        }
    }

    /// The records of repetition `run` at `point` among `records`.
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

    /// The measure's number. Its unit is the measure's own.
    ///
    /// # Errors
    /// A record, a group or the samples that it needs are missing, or it divides by 0.
    pub fn measure(&self, measure: &Measure) -> Result<f64, MeasureError> {
        match measure {
            Measure::Share { case, of, to } => {
                let above = self.mean(case, of, |series| Ok(series.goodput_bps()))?;
                let below = self.mean(case, to, |series| Ok(series.goodput_bps()))?;
                self.divide(case, above, below, || {
                    format!("the goodput of group `{to}`")
                })
            }
            Measure::Jain { case } => self.jain(case),
            Measure::Goodput { case, of } => self.mean(case, of, |series| Ok(series.goodput_bps())),
            Measure::Utilisation { case } => self.utilisation(case),
            Measure::Retransmitted { case } => {
                let rate =
                    |series: Series<'_>| series.rate_bps(|sample| sample.bytes_retransmitted);
                let resent_bps: f64 = self.all(case)?.into_iter().map(|(_, s)| rate(s)).sum();
                Ok(resent_bps / self.experiment.network.rate.0 as f64)
            }
            Measure::Retransmits { case, of } => {
                let count =
                    |series: Series<'_>| series.growth(|sample| sample.total_retransmits.into());
                let flows = self.group(case, of)?;
                Ok(flows
                    .into_iter()
                    .map(|(_, series)| count(series))
                    .sum::<u64>() as f64)
            }
            Measure::Drops { case, of } => {
                let flows = self.group(case, of)?;
                Ok(flows.into_iter().map(|(flow, _)| flow.drops).sum::<u64>() as f64)
            }
            Measure::SendWindow { case, of } => self.mean(case, of, |series| {
                series
                    .mean_window_segments()
                    .ok_or("no segment size in its samples")
            }),
            Measure::WindowAbove { case, of } => self.mean(case, of, |series| {
                series.window_above().ok_or("no sample with a full window")
            }),
            Measure::SawtoothPeriod { case, of } => self.mean(case, of, |series| {
                Sawtooth::of(&series.send_window())
                    .period_s()
                    .ok_or("fewer than two cuts")
            }),
            Measure::SawtoothPeak { case, of } => self.mean(case, of, |series| {
                Sawtooth::of(&series.send_window())
                    .peak_segments()
                    .ok_or("no cut")
            }),
            Measure::SawtoothTrough { case, of } => self.mean(case, of, |series| {
                Sawtooth::of(&series.send_window())
                    .trough_segments()
                    .ok_or("no finished cut")
            }),
            Measure::Ratio { of, to } => {
                let (above, below) = (self.measure(of)?, self.measure(to)?);
                let case = to.case().unwrap_or("a ratio");
                self.divide(case, above, below, || "the measure below the line".into())
            }
        }
    }

    fn jain(&self, case: &str) -> Result<f64, MeasureError> {
        let flows = self.all(case)?;
        let rates: Vec<f64> = flows
            .into_iter()
            .map(|(_, series)| series.goodput_bps())
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let below = rates.len() as f64 * squares;
        self.divide(case, sum * sum, below, || "every flow's goodput".into())
    }

    /// Σ goodput · (MSS + headers) / MSS over the rate: what the useful payload costs on the wire.
    fn utilisation(&self, case: &str) -> Result<f64, MeasureError> {
        let server = self.experiment.server_stack();
        let mut wire_bps = 0.0;
        for (flow, series) in self.all(case)? {
            let mss_bytes = f64::from(series.last().mss_bytes);
            if mss_bytes == 0.0 {
                return Err(self.lacks(case, flow, "no segment size in its last sample"));
            }
            let guests = self
                .experiment
                .case(case)
                .and_then(|case| case.group(&flow.group));
            let stack = |guests: &Guests| self.experiment.stacks.get(&guests.stack);
            let sender = guests.and_then(stack).unwrap_or(&server);
            // Timestamps take both ends (RFC 7323 §3.2).
            let tcp_bytes = sender.header_bytes().min(server.header_bytes());
            let ip_bytes = self.experiment.network.family.header_bytes();
            let header_bytes = f64::from(ETHERNET_HEADER_BYTES + ip_bytes + tcp_bytes);
            wire_bps += series.goodput_bps() * (mss_bytes + header_bytes) / mss_bytes;
        }
        Ok(wire_bps / self.experiment.network.rate.0 as f64)
    }

    /// The mean over the flows of a group.
    fn mean(
        &self,
        case: &str,
        group: &str,
        value: impl Fn(Series<'_>) -> Result<f64, &'static str>,
    ) -> Result<f64, MeasureError> {
        let flows = self.group(case, group)?;
        let count = flows.len() as f64;
        let values = flows
            .into_iter()
            .map(|(flow, series)| value(series).map_err(|what| self.lacks(case, flow, what)));
        Ok(values.sum::<Result<f64, MeasureError>>()? / count)
    }

    fn record(&self, case: &str) -> Result<&'a RunRecord, MeasureError> {
        let found = self.records.iter().find(|record| record.case == case);
        let missing = || MeasureError::NoRecord {
            case: case.into(),
            which: self.which(),
        };
        found.copied().ok_or_else(missing)
    }

    /// The flows of one group, at least one.
    fn group(
        &self,
        case: &str,
        group: &str,
    ) -> Result<Vec<(&'a FlowRecord, Series<'a>)>, MeasureError> {
        let flows = self
            .record(case)?
            .flows
            .iter()
            .filter(|flow| flow.group == group);
        let flows = flows
            .map(|flow| self.series(case, flow))
            .collect::<Result<Vec<_>, _>>()?;
        if flows.is_empty() {
            let group = group.into();
            return Err(MeasureError::NoFlow {
                case: case.into(),
                which: self.which(),
                group,
            });
        }
        Ok(flows)
    }

    /// The flows of all groups, at least one of each group that the file names.
    fn all(&self, case: &str) -> Result<Vec<(&'a FlowRecord, Series<'a>)>, MeasureError> {
        let groups = self
            .experiment
            .case(case)
            .map_or(&[][..], |case| &case.guests);
        for guests in groups {
            self.group(case, &guests.name)?;
        }
        self.record(case)?
            .flows
            .iter()
            .map(|flow| self.series(case, flow))
            .collect()
    }

    fn series(
        &self,
        case: &str,
        flow: &'a FlowRecord,
    ) -> Result<(&'a FlowRecord, Series<'a>), MeasureError> {
        let measured_ns = self.experiment.measured_ns();
        let series = Series::of(flow, &measured_ns).ok_or_else(|| {
            let (from, to) = (Nanos(measured_ns.start), Nanos(measured_ns.end));
            self.lacks(
                case,
                flow,
                &format!("fewer than two samples between {from} and {to}"),
            )
        })?;
        Ok((flow, series))
    }

    fn lacks(&self, case: &str, flow: &FlowRecord, what: &str) -> MeasureError {
        MeasureError::Flow {
            case: case.into(),
            which: self.which(),
            group: flow.group.clone(),
            index: flow.index,
            lacks: what.into(),
        }
    }

    fn divide(
        &self,
        case: &str,
        above: f64,
        below: f64,
        what: impl Fn() -> String,
    ) -> Result<f64, MeasureError> {
        if below == 0.0 {
            let case = format!("case `{case}`");
            return Err(MeasureError::Zero {
                case,
                which: self.which(),
                what: what(),
            });
        }
        Ok(above / below)
    }
}

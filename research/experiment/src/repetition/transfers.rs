//! Measures of transfers that complete, and of timeouts and gaps that delay them.

use super::Repetition;
use crate::measure_error::MeasureError;
use crate::record::{ACK_GAP_BIN, Completion};
use crate::statistic::Statistic;
use crate::units::{Bytes, Nanos};

impl<'a> Repetition<'a> {
    pub(super) fn fct(
        &self,
        case: &str,
        of: &str,
        statistic: Statistic,
        sizes: Option<[Bytes; 2]>,
        slowdown: bool,
    ) -> Result<f64, MeasureError> {
        let end = self.experiment.duration;
        let mut values = Vec::new();
        for transfer in self.transfers(case, of, sizes)? {
            let time = transfer.time(end);
            values.push(match (slowdown, transfer.ideal_ns) {
                (false, _) => time.as_secs_f64(),
                (true, Some(ideal_ns)) => time.0 as f64 / ideal_ns.max(1) as f64,
                (true, None) => {
                    let flow = self.flows(case, of)?[0];
                    let why = "no shortest times of its transfers; give it application transfer, web \
                               or list, and run it --on sim";
                    return Err(self.lacks(case, flow, why));
                }
            });
        }
        let none = || {
            let why = match sizes {
                None => format!(
                    "no transfer of group `{of}` began in the measured part; give it more time, or a \
                     shorter settle"
                ),
                Some(_) => format!(
                    "no transfer of group `{of}` in the measured part is of these sizes; give it more \
                     time"
                ),
            };
            self.no_number(case, &why)
        };
        statistic.of(&values).ok_or_else(none)
    }

    pub(super) fn unfinished(
        &self,
        case: &str,
        of: &str,
        sizes: Option<[Bytes; 2]>,
    ) -> Result<f64, MeasureError> {
        let transfers = self.transfers(case, of, sizes)?;
        let cut_off = transfers.filter(|transfer| transfer.finished_ns.is_none());
        Ok(cut_off.count() as f64)
    }

    /// Returns the transfers of a group that began in the measured part, of these sizes.
    fn transfers(
        &self,
        case: &str,
        of: &str,
        sizes: Option<[Bytes; 2]>,
    ) -> Result<impl Iterator<Item = &'a Completion> + use<'a>, MeasureError> {
        let measured_ns = self.experiment.measured_ns();
        let flows = self.flows(case, of)?.into_iter();
        let transfers = flows.flat_map(|flow| &flow.completions);
        let sizes = sizes.map_or(0..u64::MAX, |[from, to]| from.0.into()..to.0.into());
        Ok(transfers.filter(move |transfer| {
            measured_ns.contains(&transfer.started_ns) && sizes.contains(&transfer.bytes)
        }))
    }

    pub(super) fn timeouts(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        let mut sum = 0;
        for flow in self.flows(case, of)? {
            let unknown = || {
                self.lacks(
                    case,
                    flow,
                    "no count of timeouts: give its guest one flow, or run it --on sim",
                )
            };
            sum += u64::from(flow.timeouts.ok_or_else(unknown)?);
        }
        Ok(sum as f64)
    }

    pub(super) fn ack_gaps(
        &self,
        case: &str,
        of: &str,
        from: Nanos,
        to: Option<Nanos>,
    ) -> Result<f64, MeasureError> {
        let first = (from.0 / ACK_GAP_BIN.0) as usize;
        let end = to.map_or(usize::MAX, |to| (to.0 / ACK_GAP_BIN.0) as usize);
        let mut sum = 0;
        for flow in self.flows(case, of)? {
            let unknown = || self.lacks(case, flow, "no gaps between its ACKs; run it --on sim");
            let bins = flow.ack_gaps.as_ref().ok_or_else(unknown)?;
            let inside = bins.iter().take(end).skip(first);
            sum += inside.map(|count| u64::from(*count)).sum::<u64>();
        }
        Ok(sum as f64)
    }
}

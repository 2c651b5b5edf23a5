//! Measures of goodput and retransmissions.

use std::collections::BTreeMap;

use super::Repetition;
use crate::case::Guests;
use crate::measure::SharedBy;
use crate::measure_error::MeasureError;
use crate::record::FlowRecord;
use crate::series::Series;
use crate::stack::Stack;
use crate::units::Nanos;

/// Size of an Ethernet header; preamble, frame check sequence and gap are not counted by the
/// emulated links.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// A sender whose goodput counts once in Jain's index: the group's name and the number of the flow or guest in it, or a
/// guest's name and `None`.
type Sharer<'a> = (&'a str, Option<u32>);

impl Repetition<'_> {
    pub(super) fn goodput(
        &self,
        case: &str,
        of: &str,
        during: Option<[Nanos; 2]>,
    ) -> Result<f64, MeasureError> {
        let flows = self.group(case, of, &self.part(during))?;
        let count = flows.len() as f64;
        let rates = flows.into_iter().map(|(_, series)| series.goodput_bps());
        Ok(rates.sum::<f64>() / count)
    }

    pub(super) fn share(
        &self,
        case: &str,
        of: &str,
        to: &str,
        during: Option<[Nanos; 2]>,
    ) -> Result<f64, MeasureError> {
        let above = self.goodput(case, of, during)?;
        let below = self.goodput(case, to, during)?;
        let what = || format!("the goodput of group `{to}`");
        self.divide(case, above, below, what)
    }

    pub(super) fn jain(
        &self,
        case: &str,
        of: &[String],
        by: SharedBy,
        during: Option<[Nanos; 2]>,
    ) -> Result<f64, MeasureError> {
        let part_ns = self.part(during);
        let mut flows = Vec::new();
        for group in of {
            flows.extend(self.group(case, group, &part_ns)?);
        }
        if of.is_empty() {
            flows = self.all(case, &part_ns)?;
        }
        let mut rates: BTreeMap<Sharer<'_>, f64> = BTreeMap::new();
        for (flow, series) in flows {
            *rates.entry(self.sharer(case, by, flow)).or_default() += series.goodput_bps();
        }
        let rates: Vec<f64> = rates.into_values().collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let below = rates.len() as f64 * squares;
        self.divide(case, sum * sum, below, || "every flow's goodput".into())
    }

    /// Returns the flow or guest to which a flow's goodput counts.
    fn sharer<'a>(&'a self, case: &str, by: SharedBy, flow: &'a FlowRecord) -> Sharer<'a> {
        if by == SharedBy::Flow {
            return (&flow.group, Some(flow.index));
        }
        let case = self.experiment.case(case);
        let Some(guests) = case.and_then(|case| case.group(&flow.group)) else {
            return (&flow.group, None);
        };
        match guests
            .group()
            .and_then(|coupling| coupling.guest.as_deref())
        {
            Some(guest) => (guest, None),
            None => (&flow.group, Some(flow.index / guests.flows.max(1))),
        }
    }

    /// Returns Σ goodput · (MSS + headers) / MSS divided by the bottleneck's rate: the part of that rate that segments
    /// with useful payload take.
    pub(super) fn utilisation(
        &self,
        case: &str,
        during: Option<[Nanos; 2]>,
    ) -> Result<f64, MeasureError> {
        let server = match self.experiment.case(case) {
            Some(case) => self.experiment.receiver_stack(case),
            None => Stack::default(),
        };
        let mut wire_bps = 0.0;
        for (flow, series) in self.all(case, &self.part(during))? {
            let guests = self
                .experiment
                .case(case)
                .and_then(|case| case.group(&flow.group));
            let stack = |guests: &Guests| self.experiment.stacks.get(&guests.stack);
            let sender = guests.and_then(stack).unwrap_or(&server);
            // Timestamps need both ends (RFC 7323 §3.2).
            let tcp_bytes = sender.header_bytes().min(server.header_bytes());
            let ip_bytes = self.experiment.network.family.header_bytes();
            let header_bytes = ETHERNET_HEADER_BYTES + ip_bytes + tcp_bytes;
            // connections may be too short for any sample to see one
            let full_bytes = ETHERNET_HEADER_BYTES + self.experiment.network.mtu.0 - header_bytes;
            let mss_bytes = f64::from(series.mss_bytes().unwrap_or(full_bytes));
            wire_bps += series.goodput_bps() * (mss_bytes + f64::from(header_bytes)) / mss_bytes;
        }
        Ok(wire_bps / self.experiment.network.rate.0 as f64)
    }

    pub(super) fn retransmitted(&self, case: &str) -> Result<f64, MeasureError> {
        let rate = |series: Series<'_>| series.rate_bps(|sample| sample.bytes_retransmitted);
        let flows = self.all(case, &self.part(None))?.into_iter();
        let resent_bps: f64 = flows.map(|(_, series)| rate(series)).sum();
        Ok(resent_bps / self.experiment.network.rate.0 as f64)
    }

    pub(super) fn retransmits(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        let count = |series: Series<'_>| series.growth(|sample| sample.total_retransmits.into());
        let flows = self.group(case, of, &self.part(None))?.into_iter();
        Ok(flows.map(|(_, series)| count(series)).sum::<u64>() as f64)
    }

    pub(super) fn drops(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        let flows = self.flows(case, of)?.into_iter();
        Ok(flows.map(|flow| flow.drops).sum::<u64>() as f64)
    }
}

//! Samples of every flow's state at its sender, at its receiver and in its port's program.

use std::time::Duration;

use uc_experiment::{FlowRecord, FlowSample};
use uc_guest::DctcpState;
use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::flow::FiveTuple;
use crate::load::{Counted, Load, Running};
use crate::plan::Plan;
use crate::ports::Ports;
use crate::tcp_info::TcpInfo;

/// Returns the sender's part of a sample. Other parts and the time are for the caller to fill in.
pub fn of_sender(info: &TcpInfo, dctcp: Option<DctcpState>) -> FlowSample {
    FlowSample {
        cwnd_segments: info.snd_cwnd,
        snd_wnd_bytes: info.snd_wnd,
        srtt_us: info.rtt_us,
        unacked_segments: info.unacked,
        bytes_sent: info.bytes_sent,
        bytes_retransmitted: info.bytes_retrans,
        total_retransmits: info.total_retrans,
        mss_bytes: info.snd_mss,
        rto_us: info.is_open().then_some(info.rto_us),
        guest_alpha_q30: dctcp.map(|dctcp| dctcp.alpha_q30),
        ..FlowSample::default()
    }
}

/// The samples of one run.
#[derive(Debug)]
pub(crate) struct Sampler {
    started: Nanos,
    tuples: Vec<FiveTuple>,
    translated: Vec<bool>,
    records: Vec<FlowRecord>,
}

impl Sampler {
    /// Creates a sampler without samples; the run began at `started`.
    pub fn new(plan: &Plan, load: &dyn Load, started: Nanos) -> Self {
        let flows = load.flows();
        let record = |flow: &Running| FlowRecord {
            group: flow.group.clone(),
            index: flow.index,
            ..FlowRecord::default()
        };
        // Of a flow with many connections the port has as many shadows.
        let translated = |flow: &Running| {
            let guest = &plan.guests[flow.guest];
            let mut parts = guest.parts.iter().filter(|part| part.group == flow.group);
            guest.law.is_some() && parts.all(|part| part.arrivals.is_none())
        };
        Self {
            started,
            tuples: flows.iter().map(|flow| flow.tuple).collect(),
            translated: flows.iter().map(translated).collect(),
            records: flows.iter().map(record).collect(),
        }
    }

    /// Returns the time since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now().since(self.started).0)
    }

    /// Adds one sample of every flow.
    pub fn sample(&mut self, load: &mut dyn Load, ports: &mut dyn Ports) -> Result<(), LabError> {
        for (number, seen) in load.sample()?.into_iter().enumerate() {
            let shadow = self.translated[number]
                .then(|| ports.shadow(&self.tuples[number]))
                .flatten();
            let record = &mut self.records[number];
            record.negotiated_ecn = seen.negotiated_ecn;
            record.samples.push(FlowSample {
                at_ns: seen.at.since(self.started).0,
                shadow_window_bytes: shadow.map(|shadow| shadow.window_bytes),
                shadow_alpha_q30: shadow.and_then(|shadow| shadow.alpha_q30),
                ..seen.sample
            });
        }
        Ok(())
    }

    /// Returns the connections, in the record's order.
    pub fn tuples(&self) -> Vec<FiveTuple> {
        self.tuples.clone()
    }

    /// Returns the flows with their samples, and with the timeouts and transfers that were counted.
    pub fn finish(mut self, counted: Counted) -> Vec<FlowRecord> {
        for (record, timeouts) in self.records.iter_mut().zip(counted.timeouts) {
            record.timeouts = timeouts;
        }
        for (record, completions) in self.records.iter_mut().zip(counted.completions) {
            record.completions = completions;
        }
        self.records
    }
}

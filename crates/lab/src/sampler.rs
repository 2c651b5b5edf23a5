//! Reads every flow's state at its sender, at its receiver and in its port's program.

use std::os::fd::AsFd;
use std::time::Duration;

use uc_experiment::{FlowRecord, FlowSample};
use uc_net::Nanos;

use crate::clock;
use crate::congestion::CongestionControls;
use crate::error::LabError;
use crate::plan::Plan;
use crate::ports::Ports;
use crate::tcp_info::TcpInfo;
use crate::traffic::{Flow, Traffic};

/// The samples of one run.
#[derive(Debug)]
pub(crate) struct Sampler {
    started: Nanos,
    guests: Vec<String>,
    translated: Vec<bool>,
    records: Vec<FlowRecord>,
}

impl Sampler {
    /// No samples yet; the run began at `started`.
    pub fn new(plan: &Plan, traffic: &Traffic, started: Nanos) -> Self {
        let guest = |flow: &Flow| &plan.guests[flow.guest];
        let record = |flow: &Flow| FlowRecord {
            group: flow.part.group.clone(),
            index: flow.index,
            ..FlowRecord::default()
        };
        let flows = traffic.flows();
        Self {
            started,
            guests: flows.iter().map(|flow| guest(flow).label.clone()).collect(),
            translated: flows.iter().map(|flow| guest(flow).law.is_some()).collect(),
            records: flows.iter().map(record).collect(),
        }
    }

    /// Since the run began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now().since(self.started).0)
    }

    /// Adds one sample of every flow.
    pub fn sample(
        &mut self,
        traffic: &Traffic,
        congestion: &CongestionControls,
        ports: &mut dyn Ports,
    ) -> Result<(), LabError> {
        for (number, flow) in traffic.flows().iter().enumerate() {
            let at_ns = clock::now().since(self.started).0;
            let socket = flow.socket.as_fd();
            let failed = |action| {
                let node = self.guests[number].clone();
                move |source| LabError::Socket {
                    node,
                    action,
                    source,
                }
            };
            let info = TcpInfo::read(socket).map_err(failed("reading TCP_INFO"))?;
            let dctcp = congestion.dctcp_state(socket);
            let dctcp = dctcp.map_err(failed("reading its DCTCP"))?;
            let shadow = self.translated[number]
                .then(|| ports.shadow(&flow.tuple))
                .flatten();
            let record = &mut self.records[number];
            record.negotiated_ecn = info.negotiated_ecn();
            record.samples.push(FlowSample {
                at_ns,
                delivered_bytes: flow.delivered_bytes(),
                cwnd_segments: info.snd_cwnd,
                snd_wnd_bytes: info.snd_wnd,
                srtt_us: info.rtt_us,
                unacked_segments: info.unacked,
                bytes_sent: info.bytes_sent,
                bytes_retransmitted: info.bytes_retrans,
                total_retransmits: info.total_retrans,
                mss_bytes: info.snd_mss,
                shadow_window_bytes: shadow.map(|shadow| shadow.window_bytes),
                shadow_alpha_q30: shadow.and_then(|shadow| shadow.alpha_q30),
                guest_alpha_q30: dctcp.map(|dctcp| dctcp.alpha_q30),
                ..FlowSample::default()
            });
        }
        Ok(())
    }

    /// The flows with their samples, in the traffic's order.
    pub fn finish(self) -> Vec<FlowRecord> {
        self.records
    }
}

//! Samples of flows and of the bottleneck at one time, as in the record.

use uc_experiment::{FlowRecord, FlowSample, QueueSample};
use uc_net::LinkId;
use uc_tcp::{CongestionControl, Info, Totals};

use crate::app::{Applications, Flow, Retired, add_totals};
use crate::end::End;
use crate::hosts::{Hosts, Side};
use crate::plan::Label;
use crate::port::Port;

/// Adds a sample of every flow, and the events of its law since the last sample.
pub fn sample_flows(
    hosts: &mut Hosts,
    applications: &mut Applications,
    records: &mut [FlowRecord],
) {
    for (flow, record) in applications.flows_mut().iter_mut().zip(records) {
        flow.take_events(hosts, &mut record.events);
        let sample = sample(hosts, flow);
        record.negotiated_ecn |= flow
            .open()
            .any(|slot| hosts.end(slot, Side::Guest).connection.info().ecn);
        record.samples.push(sample);
    }
}

/// Samples a flow. Counters are sums over its connections; windows and times are those of its youngest open connection.
fn sample(hosts: &Hosts, flow: &Flow) -> FlowSample {
    let (totals, delivered_bytes) = totals(hosts, flow);
    let youngest = flow.open().next_back();
    let guest = youngest.map(|slot| hosts.end(slot, Side::Guest));
    let info = guest.map_or_else(Info::default, |end| end.connection.info());
    let port = guest.and_then(|end| end.port.as_deref());
    let mss_bytes = info.smss_bytes.max(1);
    let native = flow.plan().guest_config.congestion_control;
    let is_dctcp = matches!(native, CongestionControl::Dctcp { .. });
    FlowSample {
        at_ns: hosts.now().0,
        delivered_bytes,
        cwnd_segments: info.cwnd_bytes / mss_bytes,
        snd_wnd_bytes: info.send_window_bytes,
        srtt_us: u32::try_from(info.srtt.0 / 1_000).unwrap_or(u32::MAX),
        unacked_segments: info.flight_bytes.div_ceil(mss_bytes),
        bytes_sent: totals.sent_bytes,
        bytes_retransmitted: totals.retransmitted_bytes,
        total_retransmits: u32::try_from(totals.retransmits).unwrap_or(u32::MAX),
        mss_bytes: info.smss_bytes,
        shadow_window_bytes: port.and_then(Port::window_bytes),
        shadow_alpha_q30: port.and_then(Port::alpha_q30),
        exact_alpha_q30: guest.and_then(exact_alpha_q30),
        guest_alpha_q30: guest.filter(|_| is_dctcp).map(|_| info.alpha_q10 << 20),
        rto_us: guest.map(|_| u32::try_from(info.rto.0 / 1_000).unwrap_or(u32::MAX)),
    }
}

fn exact_alpha_q30(end: &End) -> Option<u32> {
    end.instruments.as_ref()?.exact.as_ref()?.alpha_q30()
}

/// Returns the counters of the guest's ends so far, and the bytes delivered to the receiving
/// application.
pub fn totals(hosts: &Hosts, flow: &Flow) -> (Totals, u64) {
    let retired = flow.retired();
    let (mut totals, mut delivered_bytes) = (retired.guest, retired.delivered_bytes);
    for slot in flow.open() {
        let [guest, receiver] = [Side::Guest, Side::Receiver].map(|side| hosts.end(slot, side));
        add_totals(&mut totals, guest.connection.totals());
        delivered_bytes += receiver.connection.totals().delivered_bytes;
    }
    (totals, delivered_bytes)
}

/// Returns the sums over all of a flow's connections so far, open and closed.
pub fn sums(hosts: &Hosts, flow: &Flow) -> Retired {
    let mut sums = flow.retired().clone();
    for slot in flow.open() {
        sums.add(hosts, slot);
    }
    sums
}

/// Samples the queue of a bottleneck now; `None` for a link of another topology.
pub fn sample_queue(hosts: &mut Hosts, bottleneck: LinkId) -> Option<QueueSample> {
    let at_ns = hosts.now().0;
    let report = hosts.link(bottleneck)?;
    Some(QueueSample {
        at_ns,
        backlog_bytes: report.backlog.bytes,
        backlog_packets: u32::try_from(report.backlog.packets).unwrap_or(u32::MAX),
        average_bytes: report.average_bytes,
    })
}

/// Creates a record without samples for each flow.
pub fn empty_records(labels: &[Label]) -> Vec<FlowRecord> {
    let record = |label: &Label| FlowRecord {
        group: label.group.clone(),
        index: label.index,
        ..FlowRecord::default()
    };
    labels.iter().map(record).collect()
}

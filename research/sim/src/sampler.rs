//! Samples of flows and of the bottleneck at one time, as in the record.

use uc_experiment::{FlowRecord, FlowSample, QueueSample};
use uc_net::LinkId;
use uc_tcp::{CongestionControl, Info, Totals};

use crate::app::{Flow, Retired, add_totals};
use crate::end::End;
use crate::hosts::{Hosts, Side};
use crate::parts::Parts;
use crate::plan::{Label, Plan};
use crate::port::Port;
use crate::world::World;

/// Adds a sample of every flow, and the events of its law since the last sample.
pub fn sample_flows(parts: &Parts, plan: &Plan, records: &mut [FlowRecord]) {
    let guests = plan.scenario.flows.iter().map(|flow| flow.guest);
    let homes: Vec<usize> = guests.map(|guest| parts.part_of_host(guest)).collect();
    for (part, mut world) in parts.worlds().enumerate() {
        let World {
            hosts,
            applications,
        } = &mut **world;
        let flows = applications.flows_mut().iter_mut().zip(&mut *records);
        for ((flow, record), _) in flows.zip(&homes).filter(|(_, home)| **home == part) {
            flow.take_events(hosts, &mut record.events);
            record.negotiated_ecn |= flow
                .open()
                .any(|slot| hosts.end(slot, Side::Guest).connection.info().ecn);
            record.samples.push(sample(hosts, flow));
        }
    }
    if parts.are_several() {
        add_delivered(parts, &homes, records);
    }
}

/// Adds to the last samples what receivers got that are in other parts than the guests.
fn add_delivered(parts: &Parts, homes: &[usize], records: &mut [FlowRecord]) {
    for (part, world) in parts.worlds().enumerate() {
        let flows = world.applications.flows().iter();
        for ((flow, record), home) in flows.zip(&mut *records).zip(homes) {
            if let Some(sample) = record.samples.last_mut().filter(|_| *home != part) {
                sample.delivered_bytes += totals(&world.hosts, flow).1;
            }
        }
    }
}

/// Samples a flow: counters are the sums over its connections; windows and times are the
/// youngest's.
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

/// Returns the sums over all of a flow's connections so far.
pub fn sums(hosts: &Hosts, flow: &Flow) -> Retired {
    let mut sums = flow.retired().clone();
    for slot in flow.open() {
        sums.add(hosts, slot);
    }
    sums
}

/// Samples the queue of a bottleneck now.
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

/// Creates records without samples.
pub fn empty_records(labels: &[Label]) -> Vec<FlowRecord> {
    let record = |label: &Label| FlowRecord {
        group: label.group.clone(),
        index: label.index,
        ..FlowRecord::default()
    };
    labels.iter().map(record).collect()
}

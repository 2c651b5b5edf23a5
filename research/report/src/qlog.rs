//! A flow as a qlog trace: the main schema's version 0.3, as a sequence of JSON texts (RFC 7464), and
//! for its samples and events the recovery events of QUIC's schema where they mean the same.
//!
//! `docs/simulator.md` names the fields that are no part of the schema: all begin with `uc_`.

use std::io::Write;

use serde_json::{Map, Value, json};
use uc_experiment::{FlowRecord, FlowSample, LawEvent, LawEventKind};

use crate::Error;

/// Context of a flow that its record does not have.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Experiment, case and repetition in words.
    pub title: &'a str,
    /// Whether the law's window is the flow's: a law translates the flow, and does not only observe it.
    pub is_translated: bool,
    /// Start of the run, in milliseconds since 1970-01-01 UTC; 0 on a virtual clock.
    pub began_unix_ms: u64,
}

/// Writes the trace of a flow, in order of time; an event comes before a sample of the same time.
///
/// # Errors
/// [`Error::Qlog`] if it can't be written.
pub fn write(flow: &FlowRecord, origin: Origin<'_>, mut out: impl Write) -> Result<(), Error> {
    put(&mut out, &head(flow, origin))?;
    let mut events = flow.events.iter().peekable();
    for sample in &flow.samples {
        while let Some(event) = events.next_if(|event| event.at_ns <= sample.at_ns) {
            of_event(event)
                .iter()
                .try_for_each(|text| put(&mut out, text))?;
        }
        put(&mut out, &of_sample(sample, origin.is_translated))?;
    }
    for event in events {
        of_event(event)
            .iter()
            .try_for_each(|text| put(&mut out, text))?;
    }
    out.flush().map_err(Error::Qlog)
}

/// Writes one text of the sequence.
fn put(out: &mut impl Write, text: &Value) -> Result<(), Error> {
    writeln!(out, "\u{1e}{text}").map_err(Error::Qlog)
}

fn head(flow: &FlowRecord, origin: Origin<'_>) -> Value {
    let window = if origin.is_translated {
        "the law's"
    } else {
        "the guest's own"
    };
    json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": format!("{}, {} {}", origin.title, flow.group, flow.index),
        "trace": {
            "description": format!("congestion_window is {window}"),
            "vantage_point": { "name": "sender", "type": "unknown" },
            "common_fields": {
                "protocol_type": ["TCP"],
                "group_id": format!("{}-{}", flow.group, flow.index),
                "time_format": "relative",
                "reference_time": origin.began_unix_ms,
            },
        },
    })
}

fn event(at_ns: u64, name: &str, data: Value) -> Value {
    json!({ "time": milliseconds(at_ns), "name": name, "data": data })
}

fn milliseconds(at_ns: u64) -> f64 {
    at_ns as f64 / 1e6
}

fn of_sample(sample: &FlowSample, is_translated: bool) -> Value {
    let mss_bytes = u64::from(sample.mss_bytes);
    let guest_bytes = u64::from(sample.cwnd_segments) * mss_bytes;
    let law_bytes = sample.shadow_window_bytes.map(u64::from);
    let window = law_bytes.filter(|_| is_translated).unwrap_or(guest_bytes);
    let segments = sample.unacked_segments;
    let mut data = Map::new();
    let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
    // Without a connection there is no window.
    if mss_bytes > 0 {
        put("congestion_window", window.into());
        put("bytes_in_flight", (u64::from(segments) * mss_bytes).into());
        put("packets_in_flight", segments.into());
        put("uc_guest_window", guest_bytes.into());
        put("uc_receive_window", sample.snd_wnd_bytes.into());
    }
    // 0 before the first measurement
    if sample.srtt_us > 0 {
        put("smoothed_rtt", (f64::from(sample.srtt_us) / 1e3).into());
    }
    put("uc_delivered_bytes", sample.delivered_bytes.into());
    put("uc_sent_bytes", sample.bytes_sent.into());
    put("uc_retransmitted_packets", sample.total_retransmits.into());
    if let Some(bytes) = law_bytes {
        put("uc_law_window", bytes.into());
    }
    if let Some(alpha) = sample.shadow_alpha_q30 {
        put("uc_alpha", (f64::from(alpha) / f64::from(1 << 30)).into());
    }
    if let Some(us) = sample.rto_us {
        put("uc_rto", (f64::from(us) / 1e3).into());
    }
    event(sample.at_ns, "recovery:metrics_updated", data.into())
}

/// Returns the texts for an event of the law: first a loss, if the event shows one, then the new state, then ssthresh.
fn of_event(event_of_law: &LawEvent) -> Vec<Value> {
    let LawEvent { at_ns, kind, .. } = *event_of_law;
    let lost = |trigger: &str| {
        let data = json!({ "trigger": trigger });
        event(at_ns, "recovery:packet_lost", data)
    };
    let state = |new: &str| {
        let mut data = ours(event_of_law);
        data["new"] = new.into();
        event(at_ns, "recovery:congestion_state_updated", data)
    };
    let mut texts = match kind {
        LawEventKind::Cut => vec![state("window_reduced")],
        LawEventKind::Floor => vec![state("minimum_window")],
        LawEventKind::FastRetransmit => {
            vec![lost("reordering_threshold"), state("recovery")]
        }
        LawEventKind::Timeout => vec![lost("pto_expired"), state("loss")],
        LawEventKind::Recovered => vec![state("open")],
        LawEventKind::Guarded => vec![event(at_ns, "uc:guarded", ours(event_of_law))],
    };
    if let Some(bytes) = event_of_law
        .ssthresh_bytes
        .filter(|_| kind != LawEventKind::Guarded)
    {
        let data = json!({ "ssthresh": bytes });
        texts.push(event(at_ns, "recovery:metrics_updated", data));
    }
    texts
}

fn ours(event: &LawEvent) -> Value {
    json!({
        "uc_event": event.kind.label(),
        "uc_events": event.times,
        "uc_window_before": event.before_bytes,
        "uc_window_after": event.after_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header and the events of a flow's trace.
    fn trace(flow: &FlowRecord, is_translated: bool) -> Vec<Value> {
        let origin = Origin {
            title: "t",
            is_translated,
            began_unix_ms: 5,
        };
        let mut text = Vec::new();
        write(flow, origin, &mut text).expect("is written");
        let text = String::from_utf8(text).expect("is UTF-8");
        let texts = text.split('\u{1e}').skip(1);
        texts
            .map(|text| serde_json::from_str(text).expect("is JSON"))
            .collect()
    }

    fn flow() -> FlowRecord {
        let sample = |at_ns: u64| FlowSample {
            at_ns,
            cwnd_segments: 40,
            mss_bytes: 1_000,
            srtt_us: 12_345,
            unacked_segments: 7,
            shadow_window_bytes: Some(9_000),
            ..FlowSample::default()
        };
        let event = |at_ns: u64, kind: LawEventKind| LawEvent {
            at_ns,
            kind,
            times: 2,
            before_bytes: 9_000,
            after_bytes: 1_000,
            ssthresh_bytes: Some(4_500),
        };
        FlowRecord {
            group: "g".into(),
            index: 3,
            samples: vec![sample(0), sample(2_000_000)],
            events: vec![
                event(1_500_000, LawEventKind::Timeout),
                event(2_000_001, LawEventKind::Guarded),
            ],
            ..FlowRecord::default()
        }
    }

    #[test]
    fn samples_and_events_are_in_order_of_time_and_in_the_units_of_the_schema() {
        let texts = trace(&flow(), true);
        let fields = &texts[0]["trace"]["common_fields"];
        assert_eq!(
            (&fields["reference_time"], &fields["group_id"]),
            (&json!(5), &json!("g-3"))
        );
        let told = texts[1..]
            .iter()
            .map(|text| (text["time"].clone(), text["name"].clone()));
        let metrics = "recovery:metrics_updated";
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (json!(0.0), json!(metrics)),
                (json!(1.5), json!("recovery:packet_lost")),
                (json!(1.5), json!("recovery:congestion_state_updated")),
                (json!(1.5), json!(metrics)),
                (json!(2.0), json!(metrics)),
                (json!(2.000001), json!("uc:guarded")),
            ]
        );
        assert_eq!(texts[2]["data"], json!({ "trigger": "pto_expired" }));
        assert_eq!(texts[3]["data"]["new"], "loss");
        assert_eq!(texts[3]["data"]["uc_events"], 2);
        assert_eq!(texts[4]["data"], json!({ "ssthresh": 4_500 }));
        let sample = &texts[5]["data"];
        assert_eq!(sample["smoothed_rtt"], 12.345);
        assert_eq!(sample["bytes_in_flight"], 7_000);
        assert_eq!(sample["congestion_window"], 9_000);
    }

    #[test]
    fn an_observed_flow_keeps_its_own_window() {
        let texts = trace(&flow(), false);
        assert_eq!(texts[1]["data"]["congestion_window"], 40_000);
        assert_eq!(texts[1]["data"]["uc_law_window"], 9_000);
    }
}

//! Comparison of a script's expectations with the segments and measures seen.

use uc_net::Ecn;
use uc_tcp::{Segment, flags};

use super::endpoint::Endpoint;
use super::parse::{Bound, Pattern, flag_letters};
use super::{OUR_ISS, PEER_ISS, show};

/// Compares the segments sent with `pattern`, one by one.
pub fn sends(endpoint: &mut Endpoint, pattern: &Pattern) -> Result<(), String> {
    for _ in 0..pattern.times {
        let Some((from, to, size)) = pattern.range else {
            sent_as(endpoint, pattern, None)?;
            continue;
        };
        let mut from = from;
        loop {
            let end = if size == 0 { to } else { to.min(from + size) };
            sent_as(endpoint, pattern, Some((from, end)))?;
            from = end;
            if from == to {
                break;
            }
        }
    }
    Ok(())
}

fn sent_as(
    endpoint: &mut Endpoint,
    pattern: &Pattern,
    range: Option<(u32, u32)>,
) -> Result<(), String> {
    let wanted = match range {
        Some((from, to)) => format!("{from}:{to}"),
        None => "a bare segment".to_owned(),
    };
    let Some((at, segment)) = endpoint.sent.pop_front() else {
        return Err(format!("expected {wanted}, seen nothing"));
    };
    let readable = endpoint.readable(&segment);
    let differs = if at == endpoint.now {
        differences(&readable, pattern, range)
    } else {
        vec![format!("the time {}", endpoint.clock(endpoint.now))]
    };
    if differs.is_empty() {
        return Ok(());
    }
    Err(format!(
        "expected {wanted} with {}; seen at {}: > {}",
        differs.join(", "),
        endpoint.clock(at),
        show(&readable, OUR_ISS, PEER_ISS)
    ))
}

/// Returns the fields of `pattern` in which `segment` differs.
fn differences(segment: &Segment, pattern: &Pattern, range: Option<(u32, u32)>) -> Vec<String> {
    let mut wants = Vec::new();
    let mut want = |holds: bool, what: String| {
        if !holds {
            wants.push(what);
        }
    };
    let from = segment.seq.wrapping_sub(OUR_ISS);
    let seen = (from, from.wrapping_add(u32::from(segment.payload_bytes)));
    let wanted = range.unwrap_or((seen.0, seen.0));
    want(
        seen == wanted,
        format!("the range {}:{}", wanted.0, wanted.1),
    );
    let letters = flag_letters(pattern.flags);
    want(
        segment.flags & !flags::PSH == pattern.flags & !flags::PSH,
        format!("flags {letters}"),
    );
    let ecn = pattern.ecn.unwrap_or(Ecn::NotEct);
    want(segment.ecn == ecn, format!("{ecn:?}"));
    if let Some((ack, ..)) = pattern.ack {
        want(
            segment.ack.wrapping_sub(PEER_ISS) == ack,
            format!("ack={ack}"),
        );
    }
    if let Some(window) = pattern.window {
        want(segment.window == window, format!("win={window}"));
    }
    let options = &segment.options;
    if let Some(stamps) = pattern.timestamps {
        want(options.timestamps == stamps, format!("ts={stamps:?}"));
    }
    if let Some(blocks) = &pattern.sack {
        let blocks_seen: Vec<(u32, u32)> = options.sack.as_slice().iter().map(relative).collect();
        want(&blocks_seen == blocks, format!("sack={blocks:?}"));
    }
    if let Some(mss) = pattern.mss {
        want(options.mss_bytes == mss, format!("mss={mss}"));
    }
    if let Some(scale) = pattern.wscale {
        want(options.wscale == scale, format!("wscale={scale:?}"));
    }
    if let Some(permitted) = pattern.sack_permitted {
        want(
            options.sack_permitted == permitted,
            format!("sackok={permitted}"),
        );
    }
    wants
}

fn relative((from, to): &(u32, u32)) -> (u32, u32) {
    (from.wrapping_sub(PEER_ISS), to.wrapping_sub(PEER_ISS))
}

/// Checks a measure of the endpoint against its bound.
pub fn check(endpoint: &Endpoint, bound: &Bound) -> Result<(), String> {
    let seen = measure(endpoint, &bound.name)?;
    let (holds, relation) = match bound.relation {
        '=' => (seen == bound.value, "="),
        '<' => (seen <= bound.value, "<="),
        _ => (seen >= bound.value, ">="),
    };
    if holds {
        return Ok(());
    }
    Err(format!(
        "expected {}{relation}{}, seen {seen}",
        bound.name, bound.value
    ))
}

/// Returns a measure in bytes, nanoseconds or counts; 1 for yes, 0 for no.
fn measure(endpoint: &Endpoint, name: &str) -> Result<u64, String> {
    let (info, totals) = (endpoint.connection.info(), endpoint.connection.totals());
    Ok(match name {
        "cwnd" => info.cwnd_bytes.into(),
        "ssthresh" => info.ssthresh_bytes.into(),
        "window" => info.send_window_bytes.into(),
        "flight" => info.flight_bytes.into(),
        "smss" => info.smss_bytes.into(),
        "srtt" => info.srtt.0,
        "rto" => info.rto.0,
        "alpha" => info.alpha_q10.into(),
        "ecn" => info.ecn.into(),
        "recovery" => info.in_recovery.into(),
        "loss" => info.in_loss.into(),
        "established" => endpoint.connection.is_established().into(),
        "closed" => endpoint.connection.is_closed().into(),
        "delivered" => totals.delivered_bytes,
        "acknowledged" => totals.acknowledged_bytes,
        "sent" => totals.sent_bytes,
        "retransmitted" => totals.retransmitted_bytes,
        "retransmits" => totals.retransmits,
        "timeouts" => totals.timeouts,
        "spurious" => totals.spurious_timeouts,
        "recoveries" => totals.fast_recoveries,
        "cuts" => totals.ecn_cuts,
        "dupacks" => totals.duplicate_acks,
        "marks" => totals.ce_received,
        other => return Err(format!("an endpoint has no `{other}`")),
    })
}

//! A network without loss, for a part of a script.

use uc_net::Nanos;
use uc_tcp::flags;

use super::OUR_ISS;
use super::endpoint::Endpoint;
use super::parse::{Pattern, Setting, duration, number_in};

/// Acknowledges every segment sent before `until` after `rtt`, each `mark`-th with ECE. ACKs then
/// on the way arrive if the script goes on serving.
pub fn serve(endpoint: &mut Endpoint, until: Nanos, settings: &[Setting]) -> Result<(), String> {
    let (mut rtt, mut mark, mut count) = (None, u64::MAX, 0_u64);
    for (key, value) in settings {
        match key.as_str() {
            "rtt" => rtt = Some(duration(value)?),
            "mark" => mark = number_in(value)?,
            other => return Err(format!("serve has no `{other}`")),
        }
    }
    let rtt = rtt.ok_or("serve needs an rtt=")?;
    loop {
        for (at, segment) in std::mem::take(&mut endpoint.sent) {
            let from = segment.seq.wrapping_sub(OUR_ISS);
            count += 1;
            let echo = if count.is_multiple_of(mark) {
                flags::ECE
            } else {
                0
            };
            let ack = (at + rtt, from + segment.sequence_bytes(), flags::ACK | echo);
            endpoint.served.push_back(ack);
        }
        let due = endpoint.served.front().map_or(Nanos::MAX, |(due, ..)| *due);
        let timer = endpoint.connection.deadline().unwrap_or(Nanos::MAX);
        endpoint.advance(due.min(timer).max(endpoint.now).min(until))?;
        if !endpoint.sent.is_empty() {
            continue;
        }
        if due.min(timer) > until {
            return Ok(());
        }
        if due <= timer {
            let (_, ack, flags) = endpoint.served.pop_front().ok_or("no ACK is due")?;
            endpoint.arrives(
                &Pattern {
                    flags,
                    times: 1,
                    ..Pattern::default()
                },
                ack,
            );
        }
    }
}

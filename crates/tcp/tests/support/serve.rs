//! A network without loss, for as long as a script wants one.

use std::collections::VecDeque;

use uc_net::Nanos;
use uc_tcp::flags;

use super::OUR_ISS;
use super::endpoint::Endpoint;
use super::parse::{Pattern, Setting, duration, number_in};

/// Up to `until` every segment is acknowledged `rtt` after it was sent, each
/// `mark`-th of them with ECE.
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
    let mut acks = VecDeque::new();
    loop {
        for (at, segment) in endpoint.sent.drain(..) {
            let from = segment.seq.wrapping_sub(OUR_ISS);
            count += 1;
            let echo = if count.is_multiple_of(mark) {
                flags::ECE
            } else {
                0
            };
            acks.push_back((at + rtt, from + segment.sequence_bytes(), flags::ACK | echo));
        }
        let due = acks.front().map_or(Nanos::MAX, |(due, ..)| *due);
        let timer = endpoint.connection.deadline().unwrap_or(Nanos::MAX);
        endpoint.advance(due.min(timer).min(until))?;
        if due.min(timer) > until {
            endpoint.sent.clear();
            return Ok(());
        }
        if due <= timer && endpoint.sent.is_empty() {
            let (_, ack, flags) = acks.pop_front().ok_or("no ACK is due")?;
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

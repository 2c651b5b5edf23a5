//! A small script language for one endpoint, after packetdrill's idea: its inputs, its required
//! output, and the times of both.
//!
//! ```text
//! # RFC 5681 §3.1: slow start opens the window by one SMSS for each ACK of new data.
//! config initial_window=2          settings, upon `Config::textbook()` (or: config default …)
//! handshake mss=1000 win=60000     the peer agrees to whatever is offered, but for what is said
//! 0ms    write 100000              the application writes
//!        > 1:2001/1000             must be sent now: two segments of 1,000 bytes
//! 100ms  < ack=1001                arrives from the peer (x3: three times; ack=1..9/2: a series)
//!        > 2001:4001/1000
//!        expect cwnd=3000 flight=3000
//! +300ms > 1001:2001               must be sent 300 ms later, nothing before it
//! 1s     quiet                     nothing up to here
//! 9s     serve rtt=100ms mark=4    every segment acknowledged after 100 ms, each fourth with ECE
//! ```
//!
//! Sequence numbers count from the SYN of their sender: the first byte of data is 1. On the wire
//! both ends start so that they wrap within the scripts. Time counts from the end of `handshake`.
//! A segment that is not expected is a failure. Of an expected segment the flags (but PSH), the
//! payload and the ECN field are always compared; `ack`, `win`, `ts`, `sack`, `mss`, `wscale` and
//! `sackok` where they are written. A segment without a range is a bare ACK at any sequence number.
//! Flags as tcpdump writes them (`.` is ACK, `W` is CWR, `E` is ECE); none means `.`.

pub mod compare;
pub mod endpoint;
pub mod parse;
pub mod run;
pub mod serve;
pub mod settings;

use uc_tcp::Segment;

/// The endpoint's initial sequence number: 4,096 before the wrap.
pub const OUR_ISS: u32 = 0u32.wrapping_sub(4096);
/// The peer's initial sequence number: 4,096 before the sign changes.
pub const PEER_ISS: u32 = (1 << 31) - 4096;

/// Formats a segment in the script language; sequence numbers count from the sender's SYN.
pub fn show(segment: &Segment, iss: u32, other_iss: u32) -> String {
    let from = segment.seq.wrapping_sub(iss);
    let mut text = format!(
        "{} {from}:{}",
        parse::flag_letters(segment.flags),
        from.wrapping_add(u32::from(segment.payload_bytes))
    );
    text += &format!(" ack={}", segment.ack.wrapping_sub(other_iss));
    text += &format!(" win={}", segment.window);
    let options = &segment.options;
    if let Some((value, echo)) = options.timestamps {
        text += &format!(" ts={value}:{echo}");
    }
    let blocks: Vec<String> = options
        .sack
        .as_slice()
        .iter()
        .map(|(from, to)| {
            let (from, to) = (from.wrapping_sub(other_iss), to.wrapping_sub(other_iss));
            format!("{from}:{to}")
        })
        .collect();
    if !blocks.is_empty() {
        text += &format!(" sack={}", blocks.join(","));
    }
    if options.mss_bytes > 0 {
        text += &format!(" mss={}", options.mss_bytes);
    }
    if let Some(scale) = options.wscale {
        text += &format!(" wscale={scale}");
    }
    if options.sack_permitted {
        text += " sackok=yes";
    }
    match segment.ecn {
        uc_net::Ecn::NotEct => text,
        ecn => text + &format!(" {ecn:?}").to_lowercase(),
    }
}

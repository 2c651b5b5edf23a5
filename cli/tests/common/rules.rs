//! RFC 3168's rules for a sender of data, checked on a capture of the network.

use super::capture::{CWR, ECE, RST, SYN, Segment};

const NOT_ECT: u8 = 0;
const ECT0: u8 = 2;

/// Counts of a sender's segments, checked against RFC 3168 segment by segment.
#[derive(Debug, Default)]
pub struct Sent {
    /// Segments of new data.
    pub new_segments: u32,
    /// Segments with the codepoint not-ECT.
    pub not_ect_segments: u32,
    /// Number of retransmitted data segments.
    pub retransmissions: u32,
    /// Segments with CWR.
    pub cuts: u32,
    /// ACKs with ECE for the sender.
    pub echoes: u32,
}

/// Panics at the first segment from `sender_port` that RFC 3168 does not allow.
pub fn assert_rfc3168(segments: &[Segment], sender_port: u16) -> Sent {
    let mut sent = Sent::default();
    let mut next = None;
    // An echo or a loss that no CWR has answered yet.
    let mut reason_to_cut = false;
    for segment in segments {
        if segment.source_port != sender_port {
            let is_echo = segment.has(ECE) && !segment.has(SYN);
            reason_to_cut |= is_echo;
            sent.echoes += u32::from(is_echo);
            continue;
        }
        if segment.has(SYN) {
            next = Some(segment.seq.wrapping_add(1));
            continue;
        }
        let end = segment.seq.wrapping_add(segment.payload_bytes);
        let is_new = next.is_some_and(|next| segment.seq.wrapping_sub(next) as i32 >= 0);
        let is_data = segment.payload_bytes > 0;
        if is_data && is_new {
            assert!(!segment.retransmission, "tshark disagrees: {segment:?}");
            next = Some(end);
            sent.new_segments += 1;
            sent.not_ect_segments += u32::from(segment.ecn == NOT_ECT);
            assert!([NOT_ECT, ECT0].contains(&segment.ecn), "{segment:?}");
        } else {
            // §6.1.4 pure ACKs, §6.1.5 retransmissions; RFC 5562 and §6.1.1 for SYN and RST.
            sent.retransmissions += u32::from(is_data);
            reason_to_cut |= is_data;
            assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
        }
        if segment.has(CWR) {
            // §6.1.2: on the first new data after a reduction, once for each.
            assert!(is_data && is_new && reason_to_cut, "{segment:?}");
            reason_to_cut = false;
            sent.cuts += 1;
        }
        assert!(!segment.has_any(RST), "{segment:?}");
    }
    sent
}

/// Counts the retransmissions of `sender_port`: data segments that begin before its SND.NXT.
pub fn sent_again(segments: &[Segment], sender_port: u16) -> u32 {
    let mut next = None;
    let mut again = 0;
    let data = segments
        .iter()
        .filter(|segment| segment.source_port == sender_port && segment.payload_bytes > 0);
    for segment in data {
        let is_new = next.is_none_or(|next| segment.seq.wrapping_sub(next) as i32 >= 0);
        if is_new {
            next = Some(segment.seq.wrapping_add(segment.payload_bytes));
        } else {
            again += 1;
        }
    }
    again
}

//! Frames that are made from others: parts of super-segments, ACKs, and edited copies.
//!
//! Each new frame has a partial checksum: the field holds the sum of the pseudo-header, and the kernel or
//! the guest's interface completes it. So a frame with a wrong checksum must not be used here: it would
//! become a valid one.

use std::ops::Range;

use etherparse::checksum::Sum16BitWords;

use crate::frame::{
    ACK, CHECKSUM, Checksum, ETHERNET_BYTES, FLAGS, Frame, KIND_NOP, KIND_SACK, SEQ, WINDOW,
};

const IPV6_BYTES: usize = 40;
/// Mask of the ECN codepoint in the second byte of the IP header; in IPv6 it lies four bits higher.
const ECN_BITS: u8 = 0x03;
/// TCP flags that a part of a super-segment, or a bare ACK, may lack.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;
const URGENT: usize = 18;

impl Frame {
    /// Makes a frame with the same headers and this part of the payload. It is a super-segment if the part
    /// is longer than one segment on the wire.
    pub fn cut(&self, part: Range<usize>) -> Self {
        let mut bytes = self.bytes[..self.payload.start].to_vec();
        let from = self.payload.start;
        bytes.extend_from_slice(&self.bytes[from + part.start..from + part.end]);
        let mut cut = Self {
            payload: from..bytes.len(),
            bytes,
            tcp_at: self.tcp_at,
            gso_bytes: match part.len() > self.gso_bytes {
                true => self.gso_bytes,
                false => 0,
            },
            checksum: Checksum::Partial,
            marks: self.marks,
        };
        cut.set(
            SEQ,
            self.seq().wrapping_add(part.start as u32).to_be_bytes(),
        );
        cut.set(FLAGS, [self.flags() & !self.flags_off(&part)]);
        if !cut.is_ipv6() && self.gso_bytes > 0 {
            let id = u16::from_be_bytes([cut.bytes[18], cut.bytes[19]]);
            let id = id.wrapping_add((part.start / self.gso_bytes) as u16);
            cut.bytes[18..20].copy_from_slice(&id.to_be_bytes());
        }
        cut.finish();
        cut
    }

    /// Returns the flags that this part of the payload does not carry: CWR, unless it is the first part
    /// (RFC 3168 §6.1.2); FIN and PSH, unless it is the last.
    pub fn flags_off(&self, part: &Range<usize>) -> u8 {
        let first = if part.start > 0 { CWR } else { 0 };
        let last = if part.end < self.payload.len() {
            FIN | PSH
        } else {
            0
        };
        first | last
    }

    /// Makes an ACK of the headers, without payload, SYN, FIN, PSH, URG, CWR and SACK blocks.
    pub fn bare_ack(&self, seq: u32) -> Self {
        let mut bare = self.cut(0..0);
        bare.set(SEQ, seq.to_be_bytes());
        bare.set(FLAGS, [self.flags() & !(SYN | FIN | PSH | URG | CWR)]);
        bare.set(URGENT, [0, 0]);
        bare.remove_sack();
        bare.finish();
        bare
    }

    /// Writes the ACK number and the window field into the frame, and corrects its checksum.
    pub fn set_ack(&mut self, ack: u32, window: u16) {
        self.set(ACK, ack.to_be_bytes());
        self.set(WINDOW, window.to_be_bytes());
        self.finish();
    }

    /// Overwrites the SACK option of the frame with NOPs.
    pub fn remove_sack(&mut self) {
        let found = self.options().find(|(kind, _)| *kind == KIND_SACK);
        if let Some((_, value)) = found {
            self.bytes[value.start - 2..value.end].fill(KIND_NOP);
            self.finish();
        }
    }

    /// Overwrites both values of the timestamps option, if the frame has that option.
    pub fn set_timestamps(&mut self, value: [u8; 8]) {
        if let Some(at) = self.timestamps_at() {
            self.bytes[at].copy_from_slice(&value);
            self.finish();
        }
    }

    /// Clears the ECN codepoint and CWR, which a retransmission does not carry (RFC 3168 §6.1.5).
    pub fn remove_ecn(&mut self) {
        let shift = if self.is_ipv6() { 4 } else { 0 };
        self.bytes[ETHERNET_BYTES + 1] &= !(ECN_BITS << shift);
        self.set(FLAGS, [self.flags() & !CWR]);
        self.finish();
    }

    fn set<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.bytes[self.tcp_at + at..self.tcp_at + at + N].copy_from_slice(&value);
    }

    /// Writes the lengths and the checksums of the headers.
    fn finish(&mut self) {
        let bytes = self.payload.end - ETHERNET_BYTES;
        if self.is_ipv6() {
            let length = (bytes - IPV6_BYTES) as u16;
            self.bytes[18..20].copy_from_slice(&length.to_be_bytes());
        } else {
            self.bytes[16..18].copy_from_slice(&(bytes as u16).to_be_bytes());
            self.bytes[24..26].fill(0);
            let header = Sum16BitWords::new().add_slice(&self.bytes[ETHERNET_BYTES..self.tcp_at]);
            self.bytes[24..26].copy_from_slice(&header.ones_complement().to_ne_bytes());
        }
        let pseudo = !self.pseudo_header().ones_complement();
        self.set(CHECKSUM, pseudo.to_ne_bytes());
        self.checksum = Checksum::Partial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, delivered, frame};

    #[test]
    fn bare_ack_has_the_headers_numbers_and_timestamps_but_no_payload_end_or_sack() {
        for is_ipv6 in [false, true] {
            for gso_bytes in [0, 100] {
                let bare = frame(is_ipv6, &[7; 250], gso_bytes).bare_ack(5);
                let (header, payload) = delivered(&bare);
                assert!(payload.is_empty());
                let numbers = (header.sequence_number, header.acknowledgment_number);
                assert_eq!(numbers, (5, samples::ACK));
                assert_eq!(header.window_size, samples::WINDOW);
                assert!(header.ack && !header.fin && !header.psh && !header.cwr);
                assert_eq!(bare.sack(), [(0, 0); 4]);
                assert!(bare.timestamps().is_some());
            }
        }
    }

    #[test]
    fn bare_ack_points_to_no_urgent_data() {
        for is_ipv6 in [false, true] {
            let mut urgent = frame(is_ipv6, b"payload", 0);
            urgent.set(FLAGS, [urgent.flags() | URG]);
            urgent.set(URGENT, [0, 3]);
            let (header, _) = delivered(&urgent.bare_ack(5));
            assert_eq!((header.urg, header.urgent_pointer), (false, 0));
        }
    }

    #[test]
    fn largest_frame_that_is_handed_over_has_a_length_that_its_header_can_hold() {
        let headers = frame(false, &[], 0).header_bytes();
        let payload = vec![7; crate::layout::UC_HOLD_SUPER_BYTES as usize - headers];
        let mut largest = frame(false, &[], 0);
        largest.bytes.extend(payload);
        largest.payload.end = largest.bytes.len();
        largest.set_ack(1, 2);
        let length = u16::from_be_bytes([largest.bytes[16], largest.bytes[17]]);
        assert_eq!(usize::from(length) + ETHERNET_BYTES, largest.bytes.len());
    }

    #[test]
    fn edited_frames_have_the_new_fields_and_valid_checksums() {
        for is_ipv6 in [false, true] {
            let mut edited = frame(is_ipv6, b"payload", 0);
            assert_eq!(edited.checksum(), Checksum::Complete);
            edited.bytes[ETHERNET_BYTES + 1] |= if is_ipv6 { 0x20 } else { 2 };
            edited.set_ack(123, 45);
            edited.set_timestamps([9; 8]);
            edited.remove_sack();
            edited.remove_ecn();
            let (header, payload) = delivered(&edited);
            assert_eq!(payload, b"payload");
            let numbers = (header.acknowledgment_number, header.window_size);
            assert_eq!(numbers, (123, 45));
            assert!(header.fin && header.psh && !header.cwr);
            assert_eq!(edited.timestamps(), Some([9; 8]));
            assert_eq!(edited.sack(), [(0, 0); 4]);
            assert_eq!(edited.bytes[ETHERNET_BYTES + 1], 0);
        }
    }
}

//! What a hold keeps of a packet: a part of a frame that is one segment on the wire.

use std::ops::Range;
use std::rc::Rc;

use uc_hold_core::{AckEdit, Packet, Segment, flags};

use crate::flow::Flow;
use crate::frame::Frame;

/// Memory of a segment in addition to its headers and payload, in bytes: counters, pointers, and the entry
/// of its queue.
const BESIDE_BYTES: usize = 160;
/// Kind of the window scale option (RFC 7323 §2.2).
const KIND_WSCALE: u8 = 3;

/// One segment on the wire: a part of a frame, which other segments may share.
#[derive(Clone, Debug)]
pub struct HeldSegment {
    flow: Flow,
    frame: Rc<Frame>,
    /// Range of the frame's payload bytes that the segment has.
    part: Range<usize>,
}

impl HeldSegment {
    /// Returns the segments of a frame, in their order. A frame without payload is one segment.
    pub fn of(flow: Flow, frame: Frame) -> impl Iterator<Item = HeldSegment> {
        let frame = Rc::new(frame);
        let step = match frame.gso_bytes() {
            0 => frame.payload_bytes().max(1),
            bytes => bytes,
        };
        let end = frame.payload_bytes();
        (0..end.max(1)).step_by(step).map(move |from| HeldSegment {
            flow,
            part: from..(from + step).min(end),
            frame: Rc::clone(&frame),
        })
    }

    /// Returns the fields of the segment that a hold reads.
    pub fn segment(&self) -> Segment {
        let frame = &self.frame;
        let own = frame.flags() & !frame.flags_off(&self.part);
        let is_syn = own & flags::SYN != 0;
        let wscale = |(kind, at): (u8, Range<usize>)| match (kind, &frame.bytes()[at]) {
            (KIND_WSCALE, [shift]) => Some(*shift),
            _ => None,
        };
        Segment {
            seq: frame.seq().wrapping_add(self.part.start as u32),
            ack: frame.ack(),
            payload_bytes: self.part.len() as u32,
            window: frame.window(),
            flags: own,
            wscale: frame.options().filter(|_| is_syn).find_map(wscale),
            sack: frame.sack(),
        }
    }

    /// Returns a copy with a frame of its own, so that the copy does not keep other segments in memory.
    pub fn alone(&self) -> HeldSegment {
        match self.is_whole() {
            true => self.clone(),
            false => self.with(self.frame.cut(self.part.clone())),
        }
    }

    /// Returns the segment as a frame of its own, to be edited.
    pub fn to_frame(&self) -> Frame {
        match self.is_whole() {
            true => Frame::clone(&self.frame),
            false => self.frame.cut(self.part.clone()),
        }
    }

    /// Returns a segment of the same flow that is a whole frame.
    fn with(&self, frame: Frame) -> HeldSegment {
        HeldSegment {
            flow: self.flow,
            part: 0..frame.payload_bytes(),
            frame: Rc::new(frame),
        }
    }

    /// Returns the flow of the segment.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    fn is_whole(&self) -> bool {
        self.part == (0..self.frame.payload_bytes())
    }
}

impl Packet for HeldSegment {
    fn bytes(&self) -> usize {
        self.frame.header_bytes() + self.part.len() + BESIDE_BYTES
    }

    fn bare_ack(&self, seq: u32) -> Self {
        self.with(self.frame.bare_ack(seq))
    }
}

/// A frame towards the guest, joined from neighbouring segments of one super-segment that get the same edits.
#[derive(Debug)]
pub struct Joined {
    piece: HeldSegment,
    ack: Option<AckEdit>,
    without_sack: bool,
}

impl Joined {
    /// Begins a joined frame with one held segment.
    pub fn new(piece: HeldSegment, ack: Option<AckEdit>, without_sack: bool) -> Self {
        Self {
            piece,
            ack,
            without_sack,
        }
    }

    /// Adds the next segment and returns `None`, if it continues the same frame with the same edits; otherwise returns
    /// it.
    pub fn add(&mut self, next: Joined) -> Option<Joined> {
        let (own, other) = (&mut self.piece, &next.piece);
        let is_next = Rc::ptr_eq(&own.frame, &other.frame) && own.part.end == other.part.start;
        if is_next && (self.ack, self.without_sack) == (next.ack, next.without_sack) {
            own.part.end = other.part.end;
            return None;
        }
        Some(next)
    }

    /// Calls `send` with the joined and edited frame, and returns its result. If nothing changes, it is the frame that
    /// arrived.
    pub fn send<T>(&self, send: impl FnOnce(&Frame) -> T) -> T {
        if self.ack.is_none() && !self.without_sack && self.piece.is_whole() {
            return send(&self.piece.frame);
        }
        let mut frame = self.piece.to_frame();
        if let Some(AckEdit { ack, window }) = self.ack {
            frame.set_ack(ack, window);
        }
        if self.without_sack {
            frame.remove_sack();
        }
        send(&frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::Checksum;
    use crate::layout::uc_key;
    use crate::samples::{self, delivered, frame};

    fn flow() -> Flow {
        uc_key::default().into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_of_a_super_segment_are_its_bytes_in_order_and_join_to_it_again(
            is_ipv6: bool, length in 1..5000_usize, gso_bytes in 50..1500_usize, apart in 0..9_usize,
        ) {
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let gso_bytes = if length > gso_bytes { gso_bytes } else { 0 };
            let whole = frame(is_ipv6, &payload, gso_bytes);
            let pieces: Vec<HeldSegment> = HeldSegment::of(flow(), whole.clone()).collect();
            prop_assert_eq!(pieces.len(), whole.segments());
            let mut at = 0;
            for piece in &pieces {
                let segment = piece.segment();
                let alone = piece.alone().to_frame();
                let (header, part) = delivered(&alone);
                let is_last = at + part.len() == length;
                prop_assert_eq!(&payload[at..at + part.len()], &part);
                prop_assert_eq!(segment.seq, samples::SEQ.wrapping_add(at as u32));
                prop_assert_eq!(header.sequence_number, segment.seq);
                prop_assert_eq!(segment.payload_bytes as usize, part.len());
                prop_assert_eq!((header.fin, header.psh, header.cwr), (is_last, is_last, at == 0));
                prop_assert_eq!(segment.flags, alone.flags());
                prop_assert_eq!(alone.gso_bytes(), 0);
                at += part.len();
            }
            prop_assert_eq!(at, length);

            // As one again, and as two super-segments with different edits.
            for split_at in [pieces.len(), apart.min(pieces.len())] {
                let mut sent: Vec<Frame> = Vec::new();
                let mut joined: Option<Joined> = None;
                for (at, piece) in pieces.iter().enumerate() {
                    let ack = (at >= split_at).then_some(AckEdit { ack: 5, window: 6 });
                    let next = Joined::new(piece.clone(), ack, false);
                    let left = match &mut joined {
                        None => Some(next),
                        Some(before) => before.add(next),
                    };
                    if let Some(next) = left && let Some(before) = joined.replace(next) {
                        before.send(|frame| sent.push(frame.clone()));
                    }
                }
                joined.unwrap().send(|frame| sent.push(frame.clone()));
                if split_at == pieces.len() {
                    prop_assert_eq!(&sent[..], std::slice::from_ref(&whole));
                }
                prop_assert!(sent.len() <= 2);
                let bytes: Vec<u8> = sent
                    .iter()
                    .flat_map(|frame| frame.bytes()[frame.header_bytes()..].to_vec())
                    .collect();
                prop_assert_eq!(&bytes, &payload);
                for frame in sent.iter().filter(|frame| frame.checksum() == Checksum::Partial) {
                    let is_super = frame.payload_bytes() > gso_bytes;
                    prop_assert_eq!(frame.gso_bytes(), if is_super { gso_bytes } else { 0 });
                }
            }
        }
    }

    #[test]
    fn frame_without_payload_is_one_piece() {
        let pieces: Vec<HeldSegment> = HeldSegment::of(flow(), frame(false, &[], 0)).collect();
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].segment().payload_bytes, 0);
    }
}

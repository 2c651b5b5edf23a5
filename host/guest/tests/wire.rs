//! Decoding of any bytes: a frame or an error, in bounded memory, and never a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use uc_guest::coupling::frames::Frames;
use uc_guest::coupling::wire::{
    FRAME_BYTES_MAX, Frame, GROUPS_MAX, GroupAnswer, GroupName, GroupReport, Parts, WireError,
};

fn name() -> impl Strategy<Value = GroupName> {
    (any::<[u8; 16]>(), any::<u64>()).prop_map(|(remote, space)| GroupName { remote, space })
}

fn report() -> impl Strategy<Value = GroupReport> {
    let flags = (any::<u16>(), any::<bool>(), any::<bool>());
    (name(), any::<[u64; 4]>(), any::<[u32; 9]>(), flags).prop_map(
        |(
            name,
            [opened_ns, grown_bytes, acked_bytes, taken_ns],
            n,
            (mss_bytes, limited, stalled),
        )| {
            GroupReport {
                name,
                opened_ns,
                grown_bytes,
                acked_bytes,
                taken_ns,
                window_bytes: n[0],
                ssthresh_bytes: n[1],
                flight_bytes: n[2],
                used_bytes: n[3],
                srtt_us: n[4],
                cuts: n[5],
                cut_age_us: n[6],
                cut_from_bytes: n[7],
                cut_to_bytes: n[8],
                mss_bytes,
                limited,
                stalled,
            }
        },
    )
}

fn answer() -> impl Strategy<Value = GroupAnswer> {
    (name(), any::<u64>(), any::<[u32; 4]>()).prop_map(|(name, opened_ns, n)| GroupAnswer {
        name,
        opened_ns,
        window_bytes: n[0],
        ssthresh_bytes: n[1],
        cuts: n[2],
        cut_age_us: n[3],
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let parts = prop_oneof![
        vec(report(), 0..=GROUPS_MAX).prop_map(Parts::Report),
        vec(answer(), 0..=GROUPS_MAX).prop_map(Parts::Answer),
    ];
    (any::<u64>(), parts).prop_map(|(at_ns, parts)| Frame { at_ns, parts })
}

/// Decodes all frames of bytes that come in pieces of this length.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, WireError> {
    let mut frames = Frames::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(piece.clamp(1, FRAME_BYTES_MAX)) {
        frames.push(piece);
        while let Some(frame) = frames.take()? {
            found.push(frame);
        }
        assert!(frames.held_bytes() <= 2 * FRAME_BYTES_MAX);
    }
    Ok(found)
}

proptest! {
    #[test]
    fn frames_are_decoded_as_encoded_however_they_are_split(
        sent in vec(frame(), 0..5), piece in 1..FRAME_BYTES_MAX,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
        prop_assert_eq!(read(&bytes, piece).unwrap(), sent);
    }

    #[test]
    fn an_incomplete_frame_is_waited_for(frame in frame(), at in any::<prop::sample::Index>()) {
        let bytes = frame.encode();
        let end = at.index(bytes.len());
        prop_assert_eq!(Frame::decode(&bytes[..end]).unwrap(), None);
    }

    #[test]
    fn a_changed_bit_is_detected(
        frame in frame(), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let mut bytes = frame.encode();
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        // A changed number of parts may make the decoder wait for more bytes.
        prop_assert!(!matches!(Frame::decode(&bytes), Ok(Some(_))));
    }

    #[test]
    fn garbage_is_refused_or_waited_for_in_bounded_memory(
        bytes in vec(any::<u8>(), 0..4 * FRAME_BYTES_MAX), piece in 1..FRAME_BYTES_MAX,
    ) {
        let found = read(&bytes, piece);
        prop_assert!(found.map_or(true, |frames| frames.is_empty()));
    }

    #[test]
    fn garbage_after_a_frame_is_refused(
        frame in frame(), bytes in vec(any::<u8>(), 4..FRAME_BYTES_MAX),
    ) {
        prop_assume!(!bytes.starts_with(b"UcCC"));
        let all = [frame.encode(), bytes].concat();
        prop_assert_eq!(read(&all, FRAME_BYTES_MAX), Err(WireError::Garbage));
    }

    #[test]
    fn the_tail_of_a_dead_process_frame_is_skipped(
        left in frame(), from in any::<prop::sample::Index>(), sent in frame(),
        piece in 1..200_usize,
    ) {
        let left = left.encode();
        // Any tail of the frame, but not the whole frame.
        let rest = &left[1 + from.index(left.len() - 1)..];
        prop_assume!(!rest.windows(4).any(|four| four == b"UcCC"));
        let bytes = [rest, &sent.encode()].concat();
        prop_assert_eq!(read(&bytes, piece).unwrap(), vec![sent]);
    }
}

#[test]
fn an_unknown_version_is_refused_at_once() {
    let frame = Frame {
        at_ns: 1,
        parts: Parts::Report(Vec::new()),
    };
    let mut bytes = frame.encode();
    bytes[4] = 2;
    assert_eq!(Frame::decode(&bytes[..5]), Err(WireError::Version(2)));
}

#[test]
fn endless_garbage_is_refused_after_a_frames_length() {
    let garbage = vec![0x55; 2 * FRAME_BYTES_MAX];
    assert_eq!(read(&garbage, 100), Err(WireError::Garbage));
}

#[test]
fn too_many_parts_are_refused_before_they_arrive() {
    let frame = Frame {
        at_ns: 1,
        parts: Parts::Answer(Vec::new()),
    };
    let mut bytes = frame.encode();
    bytes[6..8].copy_from_slice(&(GROUPS_MAX as u16 + 1).to_le_bytes());
    let refusal = Frame::decode(&bytes);
    assert!(
        matches!(refusal, Err(WireError::Shape { .. })),
        "{refusal:?}"
    );
}

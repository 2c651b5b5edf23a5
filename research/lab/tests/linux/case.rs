//! What a flow is: drawn from a seed and an index, and the same whenever it is drawn.

use std::time::Duration;

use uc_core::{Policy, consts};
use uc_net::random::Stream;

/// Most segments that the guest sends.
const SEGMENTS_MAX: u64 = 300;

/// The segments of which [`Case::with_one_loss`] loses one: of the first flight, of slow start, of
/// windows that the far end's autotuning limits.
const PLACES: [u32; 12] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 100, 150, 200];
/// How many kinds of such a flow follow each other: each place under each law, one way and both.
pub const LOSS_KINDS: u64 = PLACES.len() as u64 * 2 * 2;

/// What the option of time stamps takes of a segment.
const STAMPS_BYTES: u16 = 12;

/// A flow: its options, what its ends write and read, and what the path does to its packets.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub index: u64,
    /// The port's law.
    pub law: u32,
    /// Whether the port writes: then the guest lacks ECN, and the network does not mark.
    pub translated: bool,
    pub ecn: bool,
    pub sack: bool,
    pub timestamps: bool,
    /// Scale of the far end's windows.
    pub wscale: u8,
    /// The guest's `TCP_MAXSEG`.
    pub mss: u16,
    pub writes: Vec<Write>,
    /// What the far end sends.
    pub far_writes: Vec<Write>,
    pub reading: Reading,
    /// Whether the guest's last data is followed by a FIN.
    pub fin: bool,
    pub path: Path,
}

/// One call of write(2).
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub bytes: u32,
    pub pause_before: Duration,
}

/// How the far end reads.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    AtOnce,
    /// Reads `bytes` at a time.
    Slowly {
        every: Duration,
        bytes: usize,
    },
}

/// The path between the ends; the serializer is in the guest's direction only.
#[derive(Clone, Debug)]
pub struct Path {
    pub one_way: Duration,
    /// Time that a packet takes on the bottleneck.
    pub packet: Duration,
    /// Longest queue there, in packets.
    pub queue: u32,
    /// The queue from which on ECT packets are marked.
    pub mark_at: Option<u32>,
    pub to_far: Faults,
    pub to_guest: Faults,
    /// When after the SYN both directions stop, and for how long: packets wait meanwhile.
    pub stall: Option<(Duration, Duration)>,
    /// When after the SYN all packets of the guest are dropped, and for how long.
    pub outage: Option<(Duration, Duration)>,
    /// The guest's segment of data, counted from 1, that is dropped.
    pub lost: Option<u32>,
}

/// Faults of one direction, in parts per million of its packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub drop_ppm: u32,
    /// How many packets in a row are dropped.
    pub burst: u32,
    pub mark_ppm: u32,
    pub duplicate_ppm: u32,
    pub reorder_ppm: u32,
    /// By how much a reordered packet is later.
    pub later: Duration,
}

impl Case {
    /// Draws the flow.
    pub fn draw(seed: u64, index: u64) -> Case {
        let stream = &mut Stream::new(seed, &format!("flow {index}"));
        let translated = stream.below(3) == 0;
        let ecn = !translated && stream.below(4) != 0;
        let one_way = Duration::from_micros(1000 + stream.below(4000));
        let mss = [536, 1000, 1440, 1460][stream.below(4) as usize];
        let segments = log_uniform(stream, SEGMENTS_MAX);
        Case {
            seed,
            index,
            law: consts::LAW_ECN,
            translated,
            ecn,
            sack: stream.below(2) == 0,
            timestamps: stream.below(2) == 0,
            wscale: stream.below(15) as u8,
            mss,
            writes: writes(stream, segments, mss.into()),
            far_writes: match stream.below(5) {
                0 => far_writes(stream),
                _ => Vec::new(),
            },
            reading: match stream.below(8) {
                0 => Reading::Slowly {
                    every: Duration::from_micros(500 + stream.below(10_000)),
                    bytes: 2000 << stream.below(5),
                },
                _ => Reading::AtOnce,
            },
            fin: stream.below(2) == 0,
            path: Path::draw(stream, one_way, ecn),
        }
    }

    /// Draws a translated flow of 250 segments that loses one: each place under each of two laws, one
    /// way and beside data of the far end.
    pub fn with_one_loss(seed: u64, index: u64) -> Case {
        let stream = &mut Stream::new(seed, &format!("loss {index}"));
        let places = PLACES.len() as u64;
        let [place, rest] = [index % places, index / places];
        let mss = [1440, 1460][stream.below(2) as usize];
        Case {
            seed,
            index,
            law: [consts::LAW_ECN, consts::LAW_DCTCP][rest as usize % 2],
            translated: true,
            ecn: false,
            sack: true,
            timestamps: stream.below(2) == 0,
            wscale: 1 + stream.below(9) as u8,
            mss,
            writes: vec![Write {
                bytes: 250 * u32::from(mss),
                pause_before: Duration::ZERO,
            }],
            far_writes: match rest / 2 % 2 {
                0 => Vec::new(),
                _ => (0..4).flat_map(|_| far_writes(stream)).collect(),
            },
            reading: Reading::AtOnce,
            fin: false,
            path: Path {
                one_way: Duration::from_micros(1000 + stream.below(4000)),
                packet: Duration::from_micros(10 + stream.below(90)),
                queue: 400,
                mark_at: None,
                to_far: Faults::default(),
                to_guest: Faults::default(),
                stall: None,
                outage: None,
                lost: Some(PLACES[place as usize]),
            },
        }
    }

    /// Returns whether the guest offers SACK, time stamps and ECN.
    pub fn offers(&self) -> [bool; 3] {
        [self.sack, self.timestamps, self.ecn]
    }

    /// Returns whether the port does not translate the flow: one unit of its window is more than a
    /// segment.
    pub fn is_coarse(&self) -> bool {
        let stamps = if self.timestamps { STAMPS_BYTES } else { 0 };
        self.translated && 1 << self.wscale > u32::from(self.mss - stamps)
    }

    /// Returns the port's policy: profile `linux`, observed unless translated.
    pub fn policy(&self) -> Policy {
        let mut policy = Policy::new(self.law, consts::PROFILE_LINUX);
        if !self.translated {
            policy.modes = consts::MODE_OBSERVE as u8;
        }
        policy
    }
}

impl Path {
    fn draw(stream: &mut Stream, one_way: Duration, ecn: bool) -> Path {
        let marks = ecn && stream.below(3) != 0;
        Path {
            one_way,
            packet: Duration::from_micros(log_uniform(stream, 200)),
            queue: 5 + log_uniform(stream, 200) as u32,
            mark_at: marks.then(|| 2 + stream.below(30) as u32),
            to_far: Faults::draw(stream, one_way, ecn),
            to_guest: match stream.below(3) {
                0 => Faults::draw(stream, one_way, false),
                _ => Faults::default(),
            },
            stall: (stream.below(6) == 0).then(|| {
                let after = Duration::from_micros(3000 + stream.below(40_000));
                (after, Duration::from_millis(100 + stream.below(500)))
            }),
            outage: (stream.below(5) == 0).then(|| {
                let after = Duration::from_micros(3000 + stream.below(40_000));
                (after, Duration::from_micros(2000 + stream.below(20_000)))
            }),
            lost: None,
        }
    }
}

impl Faults {
    fn draw(stream: &mut Stream, one_way: Duration, ecn: bool) -> Faults {
        let mut faults = Faults::default();
        if stream.below(3) != 0 {
            faults.drop_ppm = 3_000 << stream.below(6);
            faults.burst = 1 + stream.below(4).saturating_sub(1) as u32;
        }
        if ecn && stream.below(3) == 0 {
            faults.mark_ppm = 3_000 << stream.below(5);
        }
        if stream.below(4) == 0 {
            faults.reorder_ppm = 5_000 << stream.below(5);
            faults.later = one_way * (1 + stream.below(24) as u32) / 8;
        }
        if stream.below(8) == 0 {
            faults.duplicate_ppm = 5_000 << stream.below(4);
        }
        faults
    }
}

/// Draws a number from 1 to `most`, each order of magnitude as often.
fn log_uniform(stream: &mut Stream, most: u64) -> u64 {
    let bits = stream.below(u64::from(most.ilog2()) + 1);
    (1 + stream.below(2 << bits)).min(most)
}

/// Cuts the guest's data into writes: one, or several with pauses between.
fn writes(stream: &mut Stream, segments: u64, mss: u64) -> Vec<Write> {
    let mut rest = segments * mss - stream.below(mss);
    let several = stream.below(3) == 0;
    let mut all = Vec::new();
    while rest > 0 {
        let bytes = match several && all.len() < 8 {
            true => rest.min(1 + stream.below(segments.div_ceil(2) * mss)),
            false => rest,
        };
        let pause_before = match all.is_empty() {
            true => Duration::ZERO,
            // Some pauses are longer than the minimum RTO: the window restarts after them.
            false => {
                let longest_us = if stream.below(8) == 0 {
                    400_000
                } else {
                    20_000
                };
                Duration::from_micros(stream.below(longest_us))
            }
        };
        all.push(Write {
            bytes: bytes as u32,
            pause_before,
        });
        rest -= bytes;
    }
    all
}

/// Draws what the far end sends: requests, or a flow of its own.
fn far_writes(stream: &mut Stream) -> Vec<Write> {
    let write = |stream: &mut Stream| Write {
        bytes: 1 + log_uniform(stream, 60_000) as u32,
        pause_before: Duration::from_micros(stream.below(15_000)),
    };
    (0..=stream.below(6)).map(|_| write(stream)).collect()
}

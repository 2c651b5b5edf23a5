//! The queue of HWatch's theorems, with the windows that the core grants for its marks.

use uc_core::Segment;
use uc_core::consts::{ACK, CE, ECT0, FROM_GUEST, OPT_MSS, SYN, TO_GUEST};
use uc_core::watch::{Bucket, Path, Start, StartPolicy};
use uc_net::random::Stream;
use uc_net::{BitsPerSec, Ecn, Length, Link, LinkSpec, Nanos, Packet, QueueSpec, Verdict};

pub const SEED: u64 = 42;
pub const ROUNDS: u32 = 500;
pub const DATA_BYTES: u32 = 1_500;
/// Time of a data packet at 10 Gb/s.
pub const DATA_NS: u64 = 1_200;
pub const MSS: u16 = 1_000;
/// The first packet of data of every flow.
pub const BEGIN: u32 = 1;

#[derive(Clone, Debug)]
pub struct Parcel {
    pub flow: u32,
    size_bytes: u32,
    pub ecn: Ecn,
}

impl Packet for Parcel {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow(&self) -> u32 {
        self.flow
    }
}

/// A bottleneck whose time advances only on request.
pub struct Bottleneck {
    link: Link<Parcel>,
    pub now: Nanos,
    peak: u64,
    pub drops: u64,
}

impl Bottleneck {
    /// Creates the bottleneck with threshold K and queue B = 7K, in packets of data.
    pub fn new(k: u64) -> Bottleneck {
        let queue = QueueSpec::Threshold {
            limit: Length::Bytes(7 * k * u64::from(DATA_BYTES)),
            mark: Length::Bytes(k * u64::from(DATA_BYTES)),
            drop_not_ect: false,
        };
        let spec = LinkSpec::new(BitsPerSec(10_000_000_000), Nanos::ZERO, queue);
        let mut bottleneck = Bottleneck {
            link: Link::new(&spec, SEED, "bottleneck").expect("a sound link"),
            now: Nanos::ZERO,
            peak: 0,
            drops: 0,
        };
        // The packet in transmission is in no queue.
        bottleneck.offer(0, DATA_BYTES);
        bottleneck
    }

    pub fn offer(&mut self, flow: u32, size_bytes: u32) -> Option<Ecn> {
        let mut verdict = None;
        let parcel = Parcel {
            flow,
            size_bytes,
            ecn: Ecn::Ect0,
        };
        self.link
            .offer(self.now, parcel, &mut |saw, _| verdict = Some(saw));
        let backlog = self.link.report(self.now).backlog;
        self.peak = self.peak.max(backlog.bytes);
        match verdict {
            Some(Verdict::Dropped(_)) => {
                self.drops += 1;
                None
            }
            Some(Verdict::Marked) => Some(Ecn::Ce),
            _ => Some(Ecn::Ect0),
        }
    }

    pub fn offer_data(&mut self, packets: u64) {
        for _ in 0..packets {
            self.offer(0, DATA_BYTES);
        }
    }

    /// Fills the queue to this many packets, as long flows would.
    pub fn fill_to(&mut self, packets: u64) {
        let have = self.link.report(self.now).backlog.packets;
        self.offer_data(packets.saturating_sub(have));
    }

    /// Advances time by the transmission of this many packets.
    pub fn wait(&mut self, packets: u64) {
        self.now += Nanos(packets * DATA_NS);
        while self.link.receive(self.now).is_some() {}
    }

    /// Returns the next packet that arrives behind the queue by `until`, at its time of arrival,
    /// which becomes the present.
    pub fn receive(&mut self, until: Nanos) -> Option<Parcel> {
        let next = self.link.next_event().filter(|&next| next <= until)?;
        self.now = next;
        self.link.receive(next).map(|(_, parcel)| parcel)
    }

    pub fn peak_packets(&self) -> u64 {
        self.peak.div_ceil(DATA_BYTES.into())
    }
}

/// The policy of the theorems: the paper's half of the marked probes.
pub fn policy(probes: u8) -> StartPolicy {
    StartPolicy {
        probes,
        marked_part: 2,
        ..StartPolicy::usual()
    }
}

/// Starts a flow whose probes had these marks: its state, and its first window in segments.
pub fn begin(marks: &[Option<Ecn>], random: &mut Stream) -> (Start, u64) {
    let policy = policy(marks.len() as u8);
    let mut start = Start::default();
    for (index, mark) in marks.iter().enumerate() {
        let Some(ecn) = mark else { continue };
        let ecn = if *ecn == Ecn::Ce { CE } else { ECT0 };
        start.probe(index as u8, marks.len() as u8, ecn as u8);
    }
    let mut syn = Segment {
        seq: BEGIN - 1,
        flags: SYN as u8,
        options: OPT_MSS as u8,
        mss_bytes: MSS,
        direction: TO_GUEST as u8,
        ..Segment::default()
    };
    start.arrives(&syn);
    (syn.flags, syn.direction) = ((SYN | ACK) as u8, FROM_GUEST as u8);
    syn.ack = BEGIN;
    syn.window = u16::MAX;
    let ends = (&mut Path::default(), &Bucket::default());
    let answer = start.leaves(&policy, ends, &syn, 1, random.bits32());
    (start, u64::from(answer.window / MSS))
}

/// Returns the marks of flows' probes, ten each, which all reach an empty queue at one time.
pub fn probe(k: u64, flows: u64) -> Vec<Vec<Option<Ecn>>> {
    let mut probing = Bottleneck::new(k);
    (0..flows)
        .map(|_| (0..10).map(|_| probing.offer(1, DATA_BYTES)).collect())
        .collect()
}

pub fn queue_before(k: u64, random: &mut Stream) -> u64 {
    [0, k, 2 * k, random.below(2 * k + 1)][random.below(4) as usize]
}

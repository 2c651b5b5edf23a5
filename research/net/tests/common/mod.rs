//! A packet type and link descriptions for the tests.
#![allow(dead_code, reason = "every test file uses its own part of this")]

use uc_net::{
    BitsPerSec, DropReason, Ecn, HostId, Length, LinkId, LinkSpec, Nanos, Packet, QueueSpec,
    RedSpec, Sink, Star,
};

/// A packet with a flow and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub flow: u32,
    pub number: u64,
    pub size_bytes: u32,
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
        assert!(
            self.ecn.can_be_marked(),
            "CE on a packet that is not ECT: {self:?}"
        );
        self.ecn = Ecn::Ce;
    }

    fn flow(&self) -> u32 {
        self.flow
    }
}

pub fn parcel(number: u64, size_bytes: u32, ecn: Ecn) -> Parcel {
    Parcel {
        flow: ecn.bits().into(),
        number,
        size_bytes,
        ecn,
    }
}

/// Describes RED with thresholds that a few dozen packets reach.
pub fn small_red(ecn: bool) -> QueueSpec {
    QueueSpec::Red(RedSpec {
        min_bytes: 5_000,
        max_bytes: 15_000,
        limit_bytes: 30_000,
        burst_packets: 6,
        packet_bytes: 1_000,
        probability_ppm: 300_000,
        bandwidth: BitsPerSec::from_mbit(10),
        ecn,
    })
}

/// Returns every discipline, small enough to overflow.
pub fn disciplines() -> Vec<QueueSpec> {
    let threshold = |drop_not_ect| QueueSpec::Threshold {
        limit: Length::Bytes(20_000),
        mark: Length::Packets(5),
        drop_not_ect,
    };
    vec![
        QueueSpec::DropTail {
            limit: Length::Bytes(10_000),
        },
        QueueSpec::DropTail {
            limit: Length::Packets(10),
        },
        threshold(false),
        threshold(true),
        small_red(true),
        small_red(false),
    ]
}

pub fn link_10_mbit(queue: QueueSpec) -> LinkSpec {
    LinkSpec::new(BitsPerSec::from_mbit(10), Nanos::from_micros(250), queue)
}

pub fn endless() -> QueueSpec {
    QueueSpec::DropTail {
        limit: Length::Packets(1_000_000),
    }
}

/// One call to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Delivered(Nanos, HostId, Parcel),
    Dropped(Nanos, LinkId, Parcel, DropReason),
    Marked(Nanos, LinkId, Parcel),
}

/// A sink that records every call, in order.
#[derive(Default)]
pub struct Journal(pub Vec<Told>);

impl Sink<Parcel> for Journal {
    fn deliver(&mut self, at: Nanos, host: HostId, packet: Parcel) {
        self.0.push(Told::Delivered(at, host, packet));
    }

    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &Parcel, reason: DropReason) {
        self.0.push(Told::Dropped(at, link, packet.clone(), reason));
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &Parcel) {
        self.0.push(Told::Marked(at, link, packet.clone()));
    }
}

/// Builds a star whose access links are ten times as fast as its bottleneck.
pub fn star(senders: u32, bottleneck: LinkSpec) -> Star {
    let access = LinkSpec::new(
        BitsPerSec::from_mbit(100),
        Nanos::from_micros(250),
        endless(),
    );
    Star::new(senders, access, bottleneck).unwrap()
}

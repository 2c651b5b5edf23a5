//! What a random flow is made of.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{option, prop_oneof};
use uc_core::{Policy, Segment, consts};

use super::law::{Law, laws};

/// The options of one end's SYN or SYN-ACK, and its window field.
#[derive(Clone, Debug)]
pub struct Offer {
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack: bool,
    pub timestamps: bool,
    pub window: u16,
}

/// What is odd about a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    None,
    /// The guest asks for (or answers with) ECN itself.
    GuestEcn,
    /// The peer doesn't ask (or answer).
    PeerRefuses,
    /// The peer's SYN-ACK has ECE and CWR: a reflection, not an answer.
    PeerReflects,
    GuestSigned,
    PeerSigned,
    GuestMptcp,
    PeerMptcp,
    GuestAccurateEcn,
    PeerAccurateEcn,
    /// The other end's SYN comes instead of its SYN-ACK.
    Simultaneous,
    /// Nothing is heard of the guest before the SYN-ACK.
    MissingSyn,
}

/// What policy sets in addition to the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// A guest that negotiates ECN is treated as one that doesn't.
    pub strips_ecn: bool,
    pub guard_segments: u8,
    /// At most one of them: the host writes nothing, or lets nothing go untranslated.
    pub observe: bool,
    pub strict: bool,
    /// Offers that the port removes from SYN and SYN-ACK, as in a policy's modes.
    pub withheld: u8,
}

/// Offers that policy may take off.
const WITHHELD: u32 = consts::WITHHELD_WSCALE | consts::WITHHELD_SACK | consts::WITHHELD_TIMESTAMPS;

/// Every treatment there is.
pub fn treatments() -> impl Strategy<Value = Treatment> {
    (
        any::<bool>(),
        prop_oneof![2 => Just(0u8), 2 => 1u8..4, 1 => any::<u8>()],
        prop_oneof![2 => Just((false, false)), 1 => Just((true, false)), 2 => Just((false, true))],
        prop_oneof![2 => Just(0), 1 => any::<u8>()],
    )
        .prop_map(
            |(strips_ecn, guard_segments, (observe, strict), withheld)| Treatment {
                strips_ecn,
                guard_segments,
                observe,
                strict,
                withheld: withheld & consts::WITHHELD_ANY as u8,
            },
        )
}

/// How the flow begins.
#[derive(Clone, Debug)]
pub struct Setup {
    pub law: Law,
    pub treatment: Treatment,
    /// The flow's weight in a group's window; 0: it shares none.
    pub share: u8,
    pub linux: bool,
    /// The peer's segments without data are ECN-capable too, as a DCTCP sender's are.
    pub peer_dctcp: bool,
    pub guest_opens: bool,
    pub initial_window_segments: u8,
    pub ecn_syns: u8,
    /// SYNs sent before one is answered.
    pub syns: u8,
    pub iss: u32,
    pub irs: u32,
    pub guest: Offer,
    pub peer: Offer,
    /// The peer's first ACKs say in its scale what its SYN-ACK said without; else the field stays.
    pub steady_window: bool,
    pub oddity: Oddity,
}

impl Setup {
    /// An end's offer as the other end sees it.
    fn seen(&self, offer: &Offer) -> Offer {
        let mut seen = offer.clone();
        let treatment = self.treatment;
        if treatment.observe {
            return seen;
        }
        let has = |bit| u32::from(treatment.withheld) & bit == 0;
        seen.wscale = seen.wscale.filter(|_| has(consts::WITHHELD_WSCALE));
        seen.timestamps &= has(consts::WITHHELD_TIMESTAMPS);
        seen
    }

    /// The payload of a full segment that both ends agree on (RFC 9293 §3.7.1, RFC 7323 §3.2).
    pub fn mss(&self) -> u16 {
        let (guest, peer) = (self.seen(&self.guest), self.seen(&self.peer));
        let stamps = if guest.timestamps && peer.timestamps {
            12
        } else {
            0
        };
        let mss = |offer: &Offer| offer.mss.unwrap_or(536).max(48);
        mss(&guest).min(mss(&peer)) - stamps
    }

    /// The scale of the peer's windows (RFC 7323 §2.2, §2.3).
    pub fn scale(&self) -> u8 {
        match (self.seen(&self.guest).wscale, self.seen(&self.peer).wscale) {
            (Some(_), Some(scale)) => scale.min(14),
            _ => 0,
        }
    }

    /// The scale of the guest's windows.
    pub fn guest_scale(&self) -> u8 {
        match (self.seen(&self.guest).wscale, self.seen(&self.peer).wscale) {
            (Some(scale), Some(_)) => scale.min(14),
            _ => 0,
        }
    }

    /// Is a unit of the peer's window more than a segment?
    pub fn is_coarse(&self) -> bool {
        1u32 << self.scale() > u32::from(self.mss())
    }

    /// Has a translated flow ECN on the network?
    pub fn has_ecn(&self) -> bool {
        let refused = match self.oddity {
            Oddity::PeerRefuses | Oddity::PeerReflects => true,
            // a peer's SYN offers classic ECN, too
            Oddity::PeerAccurateEcn => self.guest_opens,
            _ => false,
        };
        self.law.wants_ecn() && !refused
    }

    pub fn policy(&self) -> Policy {
        let guest_ecn = if self.treatment.strips_ecn {
            consts::GUEST_ECN_TRANSLATE
        } else {
            consts::GUEST_ECN_PASS
        };
        Policy {
            ecn_syns: self.ecn_syns,
            initial_window_segments: self.initial_window_segments,
            guest_ecn: guest_ecn as u8,
            guard_segments: self.treatment.guard_segments,
            modes: self.treatment.withheld
                | match self.treatment {
                    Treatment { observe: true, .. } => consts::MODE_OBSERVE as u8,
                    Treatment { strict: true, .. } => consts::MODE_STRICT as u8,
                    _ => 0,
                },
            ..self.law.policy(self.linux)
        }
    }
}

/// The receiver's window field on an ACK.
#[derive(Clone, Copy, Debug)]
pub enum Window {
    Keep,
    Set(u16),
    Zero,
}

/// One move of the guest, the peer or the network between them.
#[derive(Clone, Debug)]
pub enum Step {
    /// New data: `segments` full ones, then `runt` bytes; as one super-segment or one by one.
    Send {
        segments: u8,
        runt: u16,
        gso: bool,
        /// Only what the window given allows.
        obey: bool,
    },
    /// `segments` again, from the `skip`-th after una on.
    Retransmit {
        skip: u8,
        segments: u8,
    },
    /// An ACK of `segments` more and `bytes`, perhaps with data, perhaps with ECE.
    Ack {
        segments: u8,
        bytes: u16,
        window: Window,
        ece: bool,
        payload: u16,
        /// ECN codepoint of the packet.
        ecn: u8,
        cwr: bool,
    },
    /// ACKs of the same number, which report data behind a hole where SACK is agreed.
    Duplicates {
        times: u8,
        ece: bool,
        /// The last of them repeats the report before it.
        stale: bool,
        /// By how much each enlarges the window field.
        grows: u16,
        payload: u16,
    },
    /// An ACK overtaken by later ones.
    OldAck {
        bytes_back: u32,
    },
    GuestAck {
        window: u16,
    },
    /// A SYN of a new connection of the same two ends; with the rest of its handshake, or the old
    /// one goes on.
    Anew {
        guest_opens: bool,
        answered: bool,
        /// What both first numbers have moved by.
        moved: u32,
    },
    /// A sender that finds a smaller path MTU.
    PathMtu {
        payload_bytes: u16,
    },
    Fin {
        guest: bool,
    },
    Rst {
        guest: bool,
        ecn: u8,
        flags: u8,
    },
    /// The last handshake segment of the peer again.
    PeerHandshakeAgain,
    Wait {
        ms: u32,
    },
    /// Any segment at all, on this flow's addresses.
    Garbage(Box<Segment>),
}

/// A whole flow.
#[derive(Clone, Debug)]
pub struct Plan {
    pub setup: Setup,
    pub steps: Vec<Step>,
}

fn offers() -> impl Strategy<Value = Offer> {
    (
        option::weighted(0.95, prop_oneof![6 => 500u16..9000, 1 => any::<u16>()]),
        option::weighted(0.9, prop_oneof![8 => 0u8..=14, 1 => any::<u8>()]),
        any::<bool>(),
        any::<bool>(),
        prop_oneof![3 => Just(65535u16), 3 => Just(64240u16), 2 => any::<u16>()],
    )
        .prop_map(|(mss, wscale, sack, timestamps, window)| Offer {
            mss,
            wscale,
            sack,
            timestamps,
            window,
        })
}

fn oddities() -> impl Strategy<Value = Oddity> {
    prop_oneof![
        40 => Just(Oddity::None),
        1 => Just(Oddity::GuestEcn),
        1 => Just(Oddity::PeerRefuses),
        1 => Just(Oddity::PeerReflects),
        1 => Just(Oddity::GuestSigned),
        1 => Just(Oddity::PeerSigned),
        1 => Just(Oddity::GuestMptcp),
        1 => Just(Oddity::PeerMptcp),
        1 => Just(Oddity::GuestAccurateEcn),
        1 => Just(Oddity::PeerAccurateEcn),
        1 => Just(Oddity::Simultaneous),
        1 => Just(Oddity::MissingSyn),
    ]
}

/// Sequence numbers, often just below the wrap.
fn sequence_numbers() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0xffff_0000u32..=0xffff_ffff,
        0x7fff_0000u32..=0x8000_0000
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    (
        (
            laws(),
            any::<bool>(),
            any::<bool>(),
            prop_oneof![Just(0u8), any::<u8>()],
        ),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        prop_oneof![3 => Just(10u8), 1 => 1u8..=255],
        prop_oneof![Just(consts::ECN_SYNS_ALWAYS as u8), 1u8..4],
        1u8..4,
        (sequence_numbers(), sequence_numbers()),
        (offers(), offers()),
        oddities(),
    )
        .prop_map(
            |(laws, who, iw, ecn_syns, syns, numbers, offers, oddity)| Setup {
                law: laws.0,
                peer_dctcp: laws.1,
                treatment: Treatment {
                    strips_ecn: laws.2,
                    ..Treatment::default()
                },
                share: laws.3,
                linux: who.0,
                guest_opens: who.1,
                steady_window: who.2,
                initial_window_segments: iw,
                ecn_syns,
                syns,
                iss: numbers.0,
                irs: numbers.1,
                guest: offers.0,
                peer: offers.1,
                oddity,
            },
        )
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        8 => Just(Window::Keep),
        2 => any::<u16>().prop_map(Window::Set),
        1 => Just(Window::Zero),
    ]
}

/// Any segment; its sequence numbers are offsets that the walk adds to where the flow stands.
pub fn segments() -> impl Strategy<Value = Segment> {
    (
        (
            prop_oneof![0u32..5000, any::<u32>()],
            prop_oneof![0u32..5000, any::<u32>()],
        ),
        prop_oneof![Just(0u32), 0u32..3000, 0u32..200_000],
        (any::<u16>(), any::<u16>(), any::<u16>()),
        (any::<u8>(), 0u8..0x80, any::<u8>(), 0u8..4, 0u8..2),
    )
        .prop_map(|((seq, ack), payload_bytes, words, bytes)| Segment {
            seq,
            ack,
            payload_bytes,
            // a super-segment has a size to be cut by; anything else is its own size
            wire_payload_bytes: if words.0.is_multiple_of(4) || payload_bytes > 65535 {
                words.0.max(1).min(payload_bytes.min(65535) as u16)
            } else {
                payload_bytes as u16
            },
            window: words.1,
            mss_bytes: words.2,
            wscale: bytes.0,
            options: bytes.1,
            flags: bytes.2,
            ecn: bytes.3,
            direction: bytes.4,
            blind: u8::from(words.1.is_multiple_of(8)),
        })
}

fn acks() -> impl Strategy<Value = Step> {
    (
        (0u8..12, prop_oneof![3 => Just(0u16), 1 => 0u16..3000]),
        windows(),
        (
            proptest::bool::weighted(0.15),
            proptest::bool::weighted(0.2),
        ),
        (prop_oneof![3 => Just(0u16), 1 => 1u16..1400], 0u8..4),
    )
        .prop_map(
            |((segments, bytes), window, (ece, cwr), (payload, ecn))| Step::Ack {
                segments,
                bytes,
                window,
                ece,
                payload,
                ecn,
                cwr,
            },
        )
}

fn steps(garbage: bool) -> impl Strategy<Value = Step> {
    let orderly = prop_oneof![
        30 => (0u8..12, prop_oneof![3 => Just(0u16), 1 => 0u16..1400], any::<bool>(), any::<bool>())
            .prop_map(|(segments, runt, gso, obey)| Step::Send { segments, runt, gso, obey }),
        8 => (prop_oneof![3 => Just(0u8), 1 => 0u8..12], 1u8..4)
            .prop_map(|(skip, segments)| Step::Retransmit { skip, segments }),
        35 => acks(),
        12 => (
            (1u8..6, proptest::bool::weighted(0.2), proptest::bool::weighted(0.3)),
            prop_oneof![3 => Just(0u16), 1 => 1u16..9_000],
            prop_oneof![3 => Just(0u16), 1 => 1u16..1_400],
        )
            .prop_map(|((times, ece, stale), grows, payload)| Step::Duplicates {
                times,
                ece,
                stale,
                grows,
                payload,
            }),
        2 => (1u32..100_000).prop_map(|bytes_back| Step::OldAck { bytes_back }),
        5 => any::<u16>().prop_map(|window| Step::GuestAck { window }),
        1 => (1u16..1500).prop_map(|payload_bytes| Step::PathMtu { payload_bytes }),
        1 => any::<bool>().prop_map(|guest| Step::Fin { guest }),
        1 => (any::<bool>(), 0u8..4, any::<u8>())
            .prop_map(|(guest, ecn, flags)| Step::Rst { guest, ecn, flags }),
        1 => Just(Step::PeerHandshakeAgain),
        4 => prop_oneof![3 => 0u32..50, 1 => 0u32..5000].prop_map(|ms| Step::Wait { ms }),
    ];
    prop_oneof![
        40 => orderly,
        u32::from(garbage) => segments().prop_map(|segment| Step::Garbage(Box::new(segment))),
    ]
}

/// Whole flows of up to `steps_max` steps, with random segments among them or not.
pub fn plans(steps_max: usize, garbage: bool) -> impl Strategy<Value = Plan> {
    (setups(), vec(steps(garbage), 0..steps_max)).prop_map(|(setup, steps)| Plan { setup, steps })
}

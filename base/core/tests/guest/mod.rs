//! A guest of full segments for tests that read as prose: what it sends and what is answered,
//! counted in segments.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

use uc_core::{Edit, Flow, Policy, Reason, Segment, consts};

pub const MSS: u32 = 1000;
const ISS: u32 = 0xffff_f000; // wraps within a few segments
pub const IRS: u32 = 7_000;

const ACK: u8 = consts::ACK as u8;
const CWR: u8 = consts::CWR as u8;
const ECE: u8 = consts::ECE as u8;
const SYN: u8 = consts::SYN as u8;

pub struct Guest {
    pub flow: Flow,
    pub now_ns: u64,
    /// First unacknowledged byte and next new one, as guest and peer know them.
    pub una: u32,
    pub nxt: u32,
    /// Number of ACKs that reported data behind a hole.
    news: u16,
}

impl Guest {
    /// A guest that has connected to a peer with MSS 1,000, no timestamps, no window scaling.
    pub fn connected(profile: u8, initial_window_segments: u8, sack: bool) -> Guest {
        let policy = Policy {
            initial_window_segments,
            ..Policy::new(consts::LAW_ECN, profile.into())
        };
        Guest::under(policy, sack)
    }

    /// Connects a guest under any policy; if the policy only observes, the guest asks for ECN
    /// itself.
    pub fn under(policy: Policy, sack: bool) -> Guest {
        Guest::asking(
            policy,
            sack,
            u32::from(policy.modes) & consts::MODE_OBSERVE != 0,
        )
    }

    /// Connects a guest under any policy that asks for ECN or doesn't.
    pub fn asking(policy: Policy, sack: bool, asks: bool) -> Guest {
        let sack = if sack { consts::OPT_SACK as u8 } else { 0 };
        let syn = Segment {
            seq: ISS,
            flags: SYN | if asks { ECE | CWR } else { 0 },
            window: 65535,
            mss_bytes: MSS as u16,
            options: consts::OPT_MSS as u8 | sack,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        };
        let mut guest = Guest {
            flow: Flow::default(),
            now_ns: 1_000_000_000,
            una: ISS.wrapping_add(1),
            nxt: ISS.wrapping_add(1),
            news: 0,
        };
        let (reason, _) = crate::steps::open(&mut guest.flow, &policy, &syn, guest.now_ns);
        assert_eq!(reason, Reason::TRANSLATED);
        let syn_ack = Segment {
            seq: IRS,
            ack: guest.una,
            flags: SYN | ACK | ECE,
            direction: consts::TO_GUEST as u8,
            ..syn
        };
        guest.pass(&syn_ack);
        guest
    }

    pub fn pass(&mut self, segment: &Segment) -> Edit {
        self.now_ns += 10_000;
        let (reason, edit) = uc_core::COMPILED.translate(&mut self.flow, segment, self.now_ns);
        assert_eq!(reason, Reason::TRANSLATED);
        edit
    }

    /// New full segments, one by one; the last one's edit.
    pub fn send(&mut self, segments: u32) -> Edit {
        let mut edit = Edit::default();
        for _ in 0..segments {
            edit = self.pass(&self.data(self.nxt));
            self.nxt = self.nxt.wrapping_add(MSS);
        }
        edit
    }

    /// The first unacknowledged segment again.
    pub fn retransmit(&mut self) -> Edit {
        let bytes = MSS.min(self.nxt.wrapping_sub(self.una));
        self.pass(&Segment {
            payload_bytes: bytes,
            wire_payload_bytes: bytes as u16,
            ..self.data(self.una)
        })
    }

    /// Retransmits the last segment.
    pub fn probe_tail(&mut self) -> Edit {
        self.pass(&self.data(self.nxt.wrapping_sub(MSS)))
    }

    /// A full segment.
    pub fn data(&self, seq: u32) -> Segment {
        Segment {
            seq,
            ack: IRS + 1,
            payload_bytes: MSS,
            wire_payload_bytes: MSS as u16,
            window: 1000,
            flags: ACK,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        }
    }

    pub fn ack(&mut self, segments: u32) -> Edit {
        self.acknowledge(segments * MSS, 0)
    }

    pub fn ack_ece(&mut self, segments: u32) -> Edit {
        self.acknowledge(segments * MSS, ECE)
    }

    pub fn ack_bytes(&mut self, bytes: u32) -> Edit {
        self.acknowledge(bytes, 0)
    }

    pub fn ack_bytes_ece(&mut self, bytes: u32) -> Edit {
        self.acknowledge(bytes, ECE)
    }

    pub fn duplicate(&mut self, times: u32) {
        for _ in 0..times {
            self.acknowledge(0, 0);
        }
    }

    pub fn duplicate_ece(&mut self, times: u32) {
        for _ in 0..times {
            self.acknowledge(0, ECE);
        }
    }

    fn acknowledge(&mut self, bytes: u32, flags: u8) -> Edit {
        assert!(
            bytes <= self.nxt.wrapping_sub(self.una),
            "an ACK of what was not sent"
        );
        self.una = self.una.wrapping_add(bytes);
        let answer = self.answer(bytes == 0);
        self.pass(&Segment {
            flags: answer.flags | flags,
            ..answer
        })
    }

    /// An ACK; one that reports the arrival of one more segment behind a hole has news. A flow without
    /// SACK does not heed the report.
    pub fn answer(&mut self, has_news: bool) -> Segment {
        self.news += u16::from(has_news);
        Segment {
            seq: IRS + 1,
            ack: self.una,
            window: 65535,
            options: if has_news { consts::OPT_SACK as u8 } else { 0 },
            mss_bytes: if has_news { self.news } else { 0 },
            flags: ACK,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        }
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    /// The law's window in bytes.
    pub fn window(&self) -> u32 {
        uc_core::COMPILED.window_bytes(&self.flow)
    }

    pub fn flight(&self) -> u32 {
        self.nxt.wrapping_sub(self.una) / MSS
    }

    pub fn ssthresh(&self) -> u32 {
        self.flow.reno.ssthresh
    }

    pub fn ca(&self) -> u32 {
        self.flow.ca.into()
    }

    pub fn cuts(&self) -> u32 {
        self.flow.cuts
    }

    pub fn losses(&self) -> u32 {
        self.flow.losses
    }
}

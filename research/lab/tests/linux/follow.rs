//! Lets a core follow a recorded flow, and tells step by step what kernel and shadow did.

use std::collections::VecDeque;

use uc_core::slot::Slot;
use uc_core::{Core, Flow, Segment, consts};
use uc_lab::tcp_info::TcpInfo;

use super::case::Case;
use super::record::{Event, Record};

/// Time without data after which an RTO of 200 ms may have passed.
const PAUSE_NS: u64 = 150_000_000;

/// A retransmission of the first segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Repair {
    /// Whether the guest had retransmitted the same segment before.
    pub repeated: bool,
    /// Whether the segment was all that was in flight.
    pub alone: bool,
    /// Whether it ends with a FIN.
    pub fin: bool,
    /// How many ACKs have repeated this ACK number, or reported data behind it by SACK.
    pub repetitions: u32,
}

/// What happened between two looks at the guest's kernel.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub event: usize,
    pub was: TcpInfo,
    pub now: TcpInfo,
    pub shadow_was: Flow,
    pub shadow: Flow,
    /// The last retransmission of the first segment in flight.
    pub repair: Option<Repair>,
    /// Retransmissions that the shadow took for timeouts.
    pub timeouts: u32,
    /// Retransmissions that the shadow took for the first of a fast recovery.
    pub fast: u32,
    /// Whether the shadow returned the windows from before a timeout.
    pub undone: bool,
    /// Whether the shadow sampled a round-trip time that no ACK gives.
    pub false_sample: bool,
    /// An ACK to the guest.
    pub acked: bool,
    pub ece: bool,
    /// An ACK that acknowledges nothing new.
    pub repeats: bool,
    /// Data of the peer.
    pub data: bool,
    /// New data after a pause.
    pub paused: bool,
    /// A segment smaller than the shadow's segment size, a FIN alone included.
    pub small: bool,
}

/// The guest's segment in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u32,
    seq: u32,
    retransmitted: bool,
    /// Whether its ACK may be a round-trip sample (RFC 6298 §3).
    timed: bool,
}

/// A core beside a recorded flow.
struct Follower {
    slot: Slot,
    in_flight: VecDeque<Sent>,
    last_sent_ns: u64,
    /// ACKs of data in flight that acknowledge nothing, since the last one that did.
    repetitions: u32,
    step: Option<Step>,
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn end_of(segment: &Segment) -> u32 {
    let fin = u32::from(segment.flags) & consts::FIN != 0;
    segment
        .seq
        .wrapping_add(segment.payload_bytes)
        .wrapping_add(u32::from(fin))
}

/// Hands each step of the established connection to `judge`. Returns the number of the event after
/// which the core had no flow, if it gave it up.
pub fn follow(
    case: &Case,
    record: &Record,
    core: Core,
    mut judge: impl FnMut(&Step),
) -> Option<usize> {
    let mut follower = Follower {
        slot: Slot::with_core(core, case.policy()),
        in_flight: VecDeque::new(),
        last_sent_ns: 0,
        repetitions: 0,
        step: None,
    };
    for (event, (at_ns, what)) in record.events.iter().enumerate() {
        match what {
            Event::Segment { segment, .. } => follower.pass(segment, *at_ns),
            Event::Kernel(info) => {
                let is_known = follower.slot.flow().is_some();
                if !is_known && info.state == ESTABLISHED {
                    return Some(event);
                }
                if let Some(step) = follower.look(event, info) {
                    judge(&step);
                }
            }
        }
    }
    None
}

const ESTABLISHED: u8 = 1;
/// Further states in which the guest's data may be in flight: `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`.
const CLOSING: [u8; 2] = [4, 5];

impl Follower {
    fn pass(&mut self, segment: &Segment, at_ns: u64) {
        let was = self.slot.flow().copied();
        self.slot.pass(segment, at_ns, &mut |_| None);
        let (Some(was), Some(now)) = (was, self.slot.flow().copied()) else {
            return;
        };
        if u32::from(now.stage) != consts::TRANSLATING || uc_core::is_answer(segment) {
            return;
        }
        let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
        let (repair, paused) = match from_guest {
            true => self.sent(segment, &was, at_ns),
            false => (None, false),
        };
        let reports = u32::from(segment.options) & consts::OPT_SACK != 0;
        let repeats = !from_guest && segment.ack == was.snd_una;
        self.repetitions += u32::from(repeats);
        let sampled = (was.srtt_us, was.rttvar_us) != (now.srtt_us, now.rttvar_us);
        let may_sample = !from_guest && self.acked(now.snd_una);
        self.repetitions += u32::from(!from_guest && !repeats && reports);
        let Some(step) = &mut self.step else { return };
        step.repair = repair.or(step.repair);
        step.paused |= paused;
        step.small |= from_guest
            && end_of(segment) != segment.seq
            && segment.payload_bytes < u32::from(now.mss_bytes);
        step.acked |= !from_guest;
        step.repeats |= repeats;
        step.ece |= !from_guest && u32::from(segment.flags) & consts::ECE != 0;
        step.false_sample |= sampled && !may_sample;
        step.undone |= !from_guest
            && u32::from(was.ca) == consts::CA_LOSS
            && u32::from(now.ca) == consts::CA_OPEN
            && (now.reno.ssthresh > was.reno.ssthresh || after(was.reno.recover, now.snd_una));
        step.data |= !from_guest && segment.payload_bytes > 0;
        if now.losses != was.losses {
            match u32::from(now.ca) {
                consts::CA_LOSS => step.timeouts += 1,
                _ => step.fast += 1,
            }
        }
    }

    /// Notes a segment of the guest. Returns what is known of it if it repeats the first one in flight,
    /// and whether it is new data after a pause.
    fn sent(&mut self, segment: &Segment, was: &Flow, at_ns: u64) -> (Option<Repair>, bool) {
        let end = end_of(segment);
        if end == segment.seq {
            return (None, false);
        }
        let paused = self.last_sent_ns != 0 && at_ns - self.last_sent_ns > PAUSE_NS;
        self.last_sent_ns = at_ns;
        if !after(was.snd_nxt, segment.seq) {
            self.in_flight.push_back(Sent {
                end,
                seq: segment.seq,
                retransmitted: false,
                timed: true,
            });
            return (None, paused);
        }
        let mut repeated = false;
        for sent in &mut self.in_flight {
            sent.timed = false;
            if sent.seq == segment.seq {
                repeated |= std::mem::replace(&mut sent.retransmitted, true);
            }
        }
        let repair = Repair {
            repeated,
            alone: end == was.snd_nxt,
            fin: u32::from(segment.flags) & consts::FIN != 0,
            repetitions: self.repetitions,
        };
        ((segment.seq == was.snd_una).then_some(repair), false)
    }

    /// Notes an ACK number. Returns whether it gives a round-trip sample.
    fn acked(&mut self, ack: u32) -> bool {
        let mut sample = false;
        while let Some(sent) = self.in_flight.front().filter(|sent| !after(sent.end, ack)) {
            sample |= sent.timed;
            self.repetitions = 0;
            self.in_flight.pop_front();
        }
        sample
    }

    /// Takes a look at the kernel. Returns the step since the last look.
    fn look(&mut self, event: usize, info: &TcpInfo) -> Option<Step> {
        let flow = *self.slot.flow()?;
        if info.state != ESTABLISHED && !CLOSING.contains(&info.state)
            || u32::from(flow.stage) != consts::TRANSLATING
        {
            return None;
        }
        let begun = Step {
            event,
            was: *info,
            now: *info,
            shadow_was: flow,
            shadow: flow,
            timeouts: 0,
            repair: None,
            fast: 0,
            undone: false,
            false_sample: false,
            acked: false,
            ece: false,
            repeats: false,
            data: false,
            paused: false,
            small: false,
        };
        let ended = self.step.replace(begun)?;
        Some(Step {
            event,
            now: *info,
            shadow: flow,
            ..ended
        })
    }
}

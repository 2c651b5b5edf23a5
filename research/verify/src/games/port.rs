//! Native cores as guests' ports: what `bpf/port/port.bpf.c` does around the core, for frames of any kind.

use uc_core::coupling::{Group, GroupPolicy, Guest as Tenant, Member};
use uc_core::slot::Slot;
use uc_core::{Core, Policy, Reason, Segment, consts};

use crate::games::behaviour::Frame;
use crate::games::trick::Disguise;
use crate::layout::{self, Fault};

/// What the operator has set against guests that break the rules of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The port has neither `guard` nor `strict`.
    None,
    /// The port has `guard = 1`.
    One,
    /// `guard = 1` and `strict = true`.
    Strict,
}

impl Guard {
    /// Returns the policy with this guard.
    #[must_use]
    pub fn on(self, policy: Policy) -> Policy {
        let (guard_segments, modes) = match self {
            Guard::None => (0, 0),
            Guard::One => (1, 0),
            Guard::Strict => (1, consts::MODE_STRICT),
        };
        Policy {
            guard_segments,
            modes: modes as u8,
            ..policy
        }
    }
}

/// The ports of a game's guests, each with the core. Under a law whose flows share windows each guest
/// has a group of its own.
#[derive(Clone, Debug)]
pub struct Cores {
    ports: Vec<Port>,
    policy: Policy,
    core: Core,
}

#[derive(Clone, Debug)]
struct Port {
    slot: Slot,
    group: Group,
    tenant: Tenant,
    member: Member,
    /// Number of frames by the code of their reason.
    counts: Vec<u64>,
    /// How far the clock of the port's host is ahead of the game's, in units of 128 µs.
    clock: u32,
}

impl Port {
    fn new(policy: Policy, core: Core) -> Port {
        Port {
            slot: Slot::with_core(core, policy),
            group: Group::open(&GroupPolicy::default(), 0),
            tenant: Tenant::default(),
            member: Member::default(),
            counts: vec![0; Reason::all().count()],
            clock: 0,
        }
    }

    /// Returns a time by the clock of the port's host.
    fn here(&self, now_ns: u64) -> u64 {
        now_ns + u64::from(self.clock) * u64::from(consts::REBASE_NS)
    }
}

impl Cores {
    /// Creates `count` ports with a policy and a core.
    #[must_use]
    pub fn new(count: usize, policy: Policy, core: Core) -> Cores {
        Cores {
            ports: vec![Port::new(policy, core); count],
            policy,
            core,
        }
    }

    /// Hands the flow of port `of` over to a new port, through this layout, on a host whose clock is `clock` units of
    /// 128 µs ahead of the game's. Returns whether the new port has the flow.
    pub fn hand_over(&mut self, of: usize, (clock, layout): (u32, u32), now_ns: u64) -> bool {
        let old = &mut self.ports[of];
        let layout = layout::draw(layout, Fault::None);
        let flow = old.slot.flow();
        let crossed = flow.and_then(|flow| layout::cross(flow, &layout, old.here(now_ns)));
        let mut port = Port {
            counts: std::mem::take(&mut old.counts),
            clock,
            ..Port::new(self.policy, self.core)
        };
        if let Some(mut flow) = crossed {
            flow.rebase(i64::from(clock) - i64::from(old.clock));
            port.slot.take_over(flow);
        }
        self.ports[of] = port;
        crossed.is_some()
    }

    /// Passes a frame of guest `of`; returns the segment that leaves the port, `None` if the port drops it.
    pub fn from_guest(&mut self, of: usize, frame: &Frame, now_ns: u64) -> Option<Segment> {
        if let Some(reason) = unparsed(frame.disguise) {
            let is_strict = uc_core::is_strict(&self.policy);
            let reason = if is_strict { reason.strict() } else { reason };
            self.ports[of].counts[reason.code() as usize] += 1;
            return (!reason.drops()).then_some(frame.segment);
        }
        self.pass(of, &frame.segment, now_ns)
    }

    /// Passes a segment to guest `of`; returns it as the guest gets it, `None` if the port drops it.
    pub fn to_guest(&mut self, of: usize, segment: &Segment, now_ns: u64) -> Option<Segment> {
        self.pass(of, segment, now_ns)
    }

    /// Returns the number of frames at port `of` by reason, without reasons that no frame had.
    #[must_use]
    pub fn counts(&self, of: usize) -> Vec<(Reason, u64)> {
        let counts = self.ports[of].counts.iter().copied();
        Reason::all().zip(counts).filter(|(_, n)| *n > 0).collect()
    }

    fn pass(&mut self, of: usize, segment: &Segment, now_ns: u64) -> Option<Segment> {
        let core = self.core;
        let now_ns = self.ports[of].here(now_ns);
        let Port {
            slot,
            group,
            tenant,
            member,
            counts,
            ..
        } = &mut self.ports[of];
        let (reason, edit) = slot.pass(segment, now_ns, &mut |report| {
            let Some(report) = report else {
                if member.priority != 0 {
                    group.leave(tenant, member, now_ns);
                }
                return None;
            };
            Some(core.ask_group((group, tenant, member), report, now_ns))
        });
        counts[reason.counted(segment, &edit).code() as usize] += 1;
        let edited = Segment {
            window: edit.window,
            flags: edit.flags,
            ecn: edit.ecn,
            options: segment.options & !edit.removed,
            ..*segment
        };
        (!reason.drops()).then_some(edited)
    }
}

/// Returns the reason why a port cannot parse a frame in this disguise; `None`: it can.
fn unparsed(disguise: Disguise) -> Option<Reason> {
    let label = match disguise {
        Disguise::None => return None,
        Disguise::Fragment => "fragment",
        Disguise::Extension => "ip_extension",
        Disguise::Malformed => "malformed",
    };
    Reason::all().find(|reason| reason.label() == label)
}

//! The group of a home's flow of law `coupled`: one flow, and another guest that takes its part of
//! the window, loses now and then, and falls silent.

use uc_core::coupling::{Answer, Group, GroupPolicy, Guest, Member, Report, consts};

/// The other guest's weight: most of the window is its.
const OTHER_WEIGHT: u32 = 3;

#[derive(Clone, Debug)]
pub struct Shared {
    group: Group,
    guest: Guest,
    member: Member,
    other: (Guest, Member),
    heard: u32,
    /// The flow's own weight.
    weight: u8,
}

impl Shared {
    /// Law `coupled`'s group, or that of flows with a weight.
    pub fn new(weight: u8, now_ns: u64) -> Shared {
        let size = if weight > 0 {
            consts::SIZE_LAWS
        } else {
            consts::SIZE_FLOWS
        };
        let policy = GroupPolicy {
            size: size as u8,
            ..GroupPolicy::default()
        };
        let other = Guest {
            weight: OTHER_WEIGHT,
            ..Guest::default()
        };
        Shared {
            group: Group::open(&policy, now_ns),
            guest: Guest::default(),
            member: Member::default(),
            other: (other, Member::default()),
            heard: 0,
            weight,
        }
    }

    /// The flow reports, or has ended.
    pub fn share(&mut self, report: Option<&Report>, now_ns: u64) -> Option<Answer> {
        let Shared {
            group,
            guest,
            member,
            weight,
            ..
        } = self;
        let answer = match report {
            None => {
                group.leave(guest, member, now_ns);
                return None;
            }
            Some(report) if member.priority == 0 => {
                group.register(guest, member, *weight, report, now_ns)
            }
            Some(report) => group.update(guest, member, report, now_ns),
        };
        self.heard += 1;
        self.hear_other(now_ns);
        Some(answer)
    }

    /// Lets the group's other flow report the flow's window; at each eighth report it has lost.
    fn hear_other(&mut self, now_ns: u64) {
        let (guest, member) = &mut self.other;
        let state = match self.heard % 16 {
            8 => consts::RECOVERY,
            12..16 => return,
            _ => consts::AVOIDANCE,
        };
        let report = Report {
            cwnd_bytes: member.given_bytes.max(3_000) + 100,
            ssthresh_bytes: member.given_bytes.max(3_000) / 2,
            flight_bytes: member.given_bytes,
            used_bytes: member.given_bytes,
            acked_bytes: 1_000,
            srtt_us: 8_000,
            mss_bytes: 1_000,
            state: state as u8,
            ..Report::default()
        };
        if member.priority == 0 {
            self.group.register(guest, member, 1, &report, now_ns);
        } else {
            self.group.update(guest, member, &report, now_ns);
        }
    }
}

//! Guests whose connections share one window (ctrlTCP; docs/ctrltcp.md): after each event of a
//! connection what its own law has computed goes to its group's controller, and the answer back,
//! before anything is sent by it.

use uc_core::coupling::{Answer, Group, Guest, Member, Report, consts};
use uc_net::Nanos;
use uc_tcp::Connection;
use uc_tcp::overrule::{Computed, Stage};

use crate::membership::{CoupledGroup, Membership};

/// The coupled groups of a scenario, in its order.
#[derive(Clone, Debug, Default)]
pub struct Couplings {
    groups: Vec<(Group, Vec<Guest>)>,
}

/// One connection of a coupled guest.
#[derive(Clone, Debug)]
pub struct Coupled {
    membership: Membership,
    member: Member,
    is_registered: bool,
}

impl Coupled {
    /// One that hasn't registered yet.
    pub fn new(membership: Membership) -> Coupled {
        Coupled {
            membership,
            member: Member::default(),
            is_registered: false,
        }
    }
}

impl Couplings {
    /// At time zero.
    pub fn new(groups: &[CoupledGroup]) -> Couplings {
        let guest = |&weight: &u8| Guest {
            weight: weight.into(),
            ..Guest::default()
        };
        let open = |group: &CoupledGroup| {
            let guests = group.weights.iter().map(guest).collect();
            (Group::open(&group.policy, 0), guests)
        };
        Couplings {
            groups: groups.iter().map(open).collect(),
        }
    }

    /// Something has happened to a connection: it registers, is given its window, or leaves.
    pub fn hear(&mut self, coupled: &mut Coupled, tcp: &mut Connection, now: Nanos) {
        let membership = coupled.membership;
        let (group, guests) = &mut self.groups[membership.group];
        let (guest, member) = (&mut guests[membership.guest], &mut coupled.member);
        let Some(computed) = tcp.computed(now) else {
            if std::mem::take(&mut coupled.is_registered) {
                group.leave(guest, member, now.0);
            }
            return;
        };
        let report = report(&computed);
        let answer = if coupled.is_registered {
            group.update(guest, member, &report, now.0)
        } else {
            group.register(guest, member, membership.priority, &report, now.0)
        };
        coupled.is_registered = true;
        let Answer {
            cwnd_bytes,
            ssthresh_bytes,
            ..
        } = answer;
        tcp.obey(cwnd_bytes, ssthresh_bytes);
    }
}

fn report(computed: &Computed) -> Report {
    let microseconds = |time: Nanos| u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX);
    let state = match computed.stage {
        Stage::SlowStart => consts::SLOW_START,
        Stage::Avoidance => consts::AVOIDANCE,
        Stage::Recovery => consts::RECOVERY,
        Stage::Loss => consts::LOSS,
    };
    Report {
        cwnd_bytes: computed.cwnd_bytes,
        ssthresh_bytes: computed.ssthresh_bytes,
        flight_bytes: computed.flight_bytes,
        used_bytes: computed.used_bytes,
        acked_bytes: computed.acked_bytes,
        // the interface has RFC 6298's as TCPs keep it, times eight
        srtt_us: computed
            .srtt
            .map_or(0, |srtt| microseconds(srtt).saturating_mul(8)),
        lost_age_us: computed.lost_age.map_or(0, microseconds),
        // no segment is larger than what an IP packet holds
        mss_bytes: u16::try_from(computed.smss_bytes).unwrap_or(u16::MAX),
        state: state as u8,
        limited: computed.limited.into(),
    }
}

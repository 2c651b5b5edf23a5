//! Guests whose connections share one window (ctrlTCP; docs/ctrltcp.md). After each event of a
//! connection, the results of its own law go to its group's controller, and the controller's answer
//! comes back before anything is sent. With law `coupled`, the shadows of the guests' ports report
//! instead, and the answer is in the windows that the ports advertise to the guests.

use std::collections::VecDeque;

use uc_core::coupling::{Answer, Group, Guest, Member, Report, Segments, consts};
use uc_net::Nanos;
use uc_tcp::Connection;
use uc_tcp::overrule::{Computed, Stage};

use crate::membership::{CoupledGroup, Membership};

/// Maximum number of waiting connections that are tried at once when there may be room.
const ASKED_AT_ONCE: usize = 4;

/// The coupled groups of a scenario, in its order.
#[derive(Clone, Debug, Default)]
pub struct Couplings {
    groups: Vec<Coupling>,
    /// Number of connections that have ever waited; the source of tickets.
    tickets: u64,
}

#[derive(Clone, Debug)]
struct Coupling {
    group: Group,
    guests: Vec<Guest>,
    /// Connections with less than their shares, because packets of others still fill the window:
    /// index and ticket of each. The ticket tells apart connections that use the same index in
    /// succession.
    waiting: VecDeque<(usize, u64)>,
}

/// A connection of a coupled guest.
#[derive(Clone, Debug)]
pub struct Coupled {
    membership: Membership,
    member: Member,
    segments: Segments,
    /// The connection's window less the one that its controller answered, since the connection sends whole segments;
    /// may be negative.
    beyond_bytes: i64,
    is_registered: bool,
    /// Ticket of the connection's place in the queue; `None`: it does not wait for room.
    ticket: Option<u64>,
}

impl Coupled {
    /// Returns the connection's group and guest.
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// Creates the state of a connection that hasn't registered yet.
    pub fn new(membership: Membership) -> Coupled {
        Coupled {
            membership,
            member: Member::default(),
            segments: Segments::default(),
            beyond_bytes: 0,
            is_registered: false,
            ticket: None,
        }
    }

    /// Returns the report of the connection's own law, without the rounding to whole segments.
    fn report(&self, computed: &Computed) -> Report {
        let cwnd_bytes = i64::from(computed.cwnd_bytes) - self.beyond_bytes;
        Report {
            cwnd_bytes: u32::try_from(cwnd_bytes).unwrap_or(0),
            ..report(computed)
        }
    }

    /// Sets cwnd and ssthresh from the controller's answer. Outside recovery cwnd is a whole number
    /// of segments, since the connection sends nothing smaller.
    fn obey(&mut self, tcp: &mut Connection, answer: &Answer, acked_bytes: u32) {
        let mut cwnd_bytes = answer.cwnd_bytes;
        if u32::from(answer.state) < consts::RECOVERY {
            let mss_bytes = self.member.mss_bytes;
            cwnd_bytes = self.segments.whole(cwnd_bytes, acked_bytes, mss_bytes);
        }
        self.beyond_bytes = i64::from(cwnd_bytes) - i64::from(answer.cwnd_bytes);
        tcp.obey(cwnd_bytes, answer.ssthresh_bytes);
    }
}

impl Couplings {
    /// Creates the groups at time zero.
    pub fn new(groups: &[CoupledGroup]) -> Couplings {
        let guest = |&weight: &u8| Guest {
            weight: weight.into(),
            ..Guest::default()
        };
        let open = |group: &CoupledGroup| Coupling {
            group: Group::open(&group.policy, 0),
            guests: group.weights.iter().map(guest).collect(),
            waiting: VecDeque::new(),
        };
        Couplings {
            groups: groups.iter().map(open).collect(),
            tickets: 0,
        }
    }

    /// Handles an event of a connection: registers the connection with its group, sets its window, or, if its TCP is
    /// not established or has finished, removes it from the group. `place` is the index by which
    /// [`Couplings::next_waiting`] returns the connection.
    pub fn hear(&mut self, place: usize, coupled: &mut Coupled, tcp: &mut Connection, now: Nanos) {
        let membership = coupled.membership;
        let Coupling {
            group,
            guests,
            waiting,
        } = &mut self.groups[membership.group];
        let guest = &mut guests[membership.guest];
        let Some(computed) = tcp.computed(now) else {
            coupled.ticket = None;
            if std::mem::take(&mut coupled.is_registered) {
                group.leave(guest, &mut coupled.member, now.0);
            }
            return;
        };
        let report = coupled.report(&computed);
        let member = &mut coupled.member;
        let answer = if coupled.is_registered {
            group.update(guest, member, &report, now.0)
        } else {
            group.register(guest, member, membership.priority, &report, now.0)
        };
        coupled.is_registered = true;
        coupled.obey(tcp, &answer, report.acked_bytes);
        let share_bytes = group.share_bytes(guest, &coupled.member);
        let lacks = !computed.limited && is_below(&answer, share_bytes);
        if lacks && coupled.ticket.is_none() {
            self.tickets += 1;
            coupled.ticket = Some(self.tickets);
            waiting.push_back((place, self.tickets));
        }
    }

    /// Handles a report of a port's flow, or the flow's end (`None`), as [`uc_core::slot::Share`] describes; returns
    /// `None` only at the end. A port's flow never enters the queue of connections that wait for room: a port can send
    /// a larger window only in an ACK.
    pub fn share(
        &mut self,
        coupled: &mut Coupled,
        report: Option<&Report>,
        now: Nanos,
    ) -> Option<Answer> {
        let membership = coupled.membership;
        let Coupling { group, guests, .. } = &mut self.groups[membership.group];
        let (guest, member) = (&mut guests[membership.guest], &mut coupled.member);
        let was_registered = std::mem::replace(&mut coupled.is_registered, report.is_some());
        match (report, was_registered) {
            (Some(report), true) => Some(group.update(guest, member, report, now.0)),
            (Some(report), false) => {
                let priority = membership.priority;
                Some(group.register(guest, member, priority, report, now.0))
            }
            (None, was_registered) => {
                if was_registered {
                    group.leave(guest, member, now.0);
                }
                None
            }
        }
    }

    /// Returns how many waiting connections of the group to try after an ACK of this connection.
    pub fn waiting(&self, coupled: &Coupled) -> usize {
        let waiting = &self.groups[coupled.membership.group].waiting;
        waiting.len().min(ASKED_AT_ONCE)
    }

    /// Removes the connection of the group that has waited longest, and returns its index and ticket for
    /// [`Couplings::ask`]; `None`: no connection waits.
    pub fn next_waiting(&mut self, membership: Membership) -> Option<(usize, u64)> {
        self.groups[membership.group].waiting.pop_front()
    }

    /// Gives a waiting connection the room that its group has now. If that is less than the connection's share, it
    /// waits on. Returns whether its window grew; false, too, if it no longer waits with this ticket.
    pub fn ask(
        &mut self,
        (place, ticket): (usize, u64),
        coupled: &mut Coupled,
        tcp: &mut Connection,
        now: Nanos,
    ) -> bool {
        if !coupled.is_registered || coupled.ticket != Some(ticket) {
            return false;
        }
        let Coupling {
            group,
            guests,
            waiting,
        } = &mut self.groups[coupled.membership.group];
        let guest = &mut guests[coupled.membership.guest];
        let had_bytes = coupled.member.given_bytes;
        let answer = group.ask(guest, &mut coupled.member, now.0);
        coupled.obey(tcp, &answer, 0);
        if is_below(&answer, group.share_bytes(guest, &coupled.member)) {
            waiting.push_back((place, ticket));
        } else {
            coupled.ticket = None;
        }
        answer.cwnd_bytes > had_bytes
    }
}

/// Returns whether the answer is below the connection's share only because the group lacks room.
fn is_below(answer: &Answer, share_bytes: u64) -> bool {
    u32::from(answer.state) < consts::RECOVERY && u64::from(answer.cwnd_bytes) < share_bytes
}

fn report(computed: &Computed) -> Report {
    let microseconds = |time: Nanos| u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX);
    let state = match computed.stage {
        Stage::SlowStart => consts::SLOW_START,
        Stage::Avoidance => consts::AVOIDANCE,
        Stage::Recovery => consts::RECOVERY,
        Stage::Loss if computed.timed_out => consts::BACKOFF,
        Stage::Loss => consts::LOSS,
    };
    Report {
        cwnd_bytes: computed.cwnd_bytes,
        ssthresh_bytes: computed.ssthresh_bytes,
        flight_bytes: computed.flight_bytes,
        used_bytes: computed.used_bytes,
        acked_bytes: computed.acked_bytes,
        // the interface takes RFC 6298's SRTT × 8, as TCPs keep it
        srtt_us: computed
            .srtt
            .map_or(0, |srtt| microseconds(srtt).saturating_mul(8)),
        lost_age_us: computed.lost_age.map_or(0, microseconds),
        // no segment is larger than an IP packet
        mss_bytes: u16::try_from(computed.smss_bytes).unwrap_or(u16::MAX),
        state: state as u8,
        limited: computed.limited.into(),
        ..Report::default()
    }
}

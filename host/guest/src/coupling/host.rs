//! The host's coupled congestion controller, without a clock or a socket: guests that couple their
//! own connections share one window by the weights that the operator gave them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use uc_core::coupling::{Answer, Group, GroupPolicy, Guest, Member, Report, consts};

use crate::coupling::validate::{self, Heard, Impossible};
use crate::coupling::wire::{GROUPS_MAX, GroupAnswer, GroupName, GroupReport};

/// The host's policy for groups that several guests share.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Policy of every group's controller.
    pub group: GroupPolicy,
    /// Length of the IPv4 prefix of remote addresses that identifies one of the host's groups, 0 to 32. If both this
    /// and `prefix6` are 0, all of the guests' groups share one window. The guests' own groups must have prefixes that
    /// are at least as long.
    pub prefix4: u8,
    /// Length of the IPv6 prefix of remote addresses that identifies one of the host's groups, 0 to 128.
    pub prefix6: u8,
}

impl Default for Policy {
    /// Returns a policy in which all guests' groups share one window, and a guest that joins begins with the window
    /// that a connection would begin with.
    fn default() -> Self {
        Self {
            group: GroupPolicy {
                burst_segments: validate::BURST_SEGMENTS as u16,
                ..GroupPolicy::default()
            },
            prefix4: 0,
            prefix6: 0,
        }
    }
}

/// Number of a guest: 0 for the guest that was added first.
pub type GuestId = usize;

/// The coupled congestion controller of a host.
#[derive(Debug)]
pub struct Host {
    policy: Policy,
    guests: Vec<Channel>,
    groups: BTreeMap<[u8; 16], Coupled>,
}

/// The host's state of one guest's channel.
#[derive(Debug)]
struct Channel {
    weight: u8,
    /// The guest's clock in its last report, in nanoseconds.
    at_ns: u64,
}

/// One of the host's groups: guests that share a window.
#[derive(Debug)]
struct Coupled {
    group: Group,
    guests: BTreeMap<GuestId, GuestOfGroup>,
}

/// A guest in one of the host's groups.
#[derive(Debug, Default)]
struct GuestOfGroup {
    guest: Guest,
    members: BTreeMap<GroupName, Coupling>,
    cuts: u64,
}

/// One of a guest's own groups, which is a member of one of the host's groups.
#[derive(Debug)]
struct Coupling {
    flow: Member,
    said: GroupReport,
    /// Value of `at_ns` in the report that was answered last.
    answered_ns: u64,
    heard_ns: u64,
}

/// The times of a report: when the guest made it (its own clock), how long after its last report, and when the report
/// arrived.
#[derive(Debug, Clone, Copy)]
struct Times {
    at_ns: u64,
    since_us: u64,
    now_ns: u64,
}

/// A guest's share of one of the host's groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Remote prefix of the group's connections; IPv4 addresses are mapped into IPv6.
    pub remote: Ipv6Addr,
    /// Identifies the guest of the share.
    pub guest: GuestId,
    /// Window of the whole group, in bytes.
    pub window_bytes: u32,
    /// Part of the window that was last given to this guest, in bytes.
    pub given_bytes: u64,
    /// Number of times that this guest's losses have reduced the group's window.
    pub cuts: u64,
}

impl Host {
    /// Creates a controller that has no guests yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            guests: Vec::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Adds a guest with this weight relative to other guests; 0 counts as 1. The weight is the operator's; a guest
    /// can't set it.
    pub fn add(&mut self, weight: u8) -> GuestId {
        self.guests.push(Channel {
            weight: weight.max(1),
            at_ns: 0,
        });
        self.guests.len() - 1
    }

    /// Handles a guest's report of all its groups, which the guest made at `at_ns` of its own clock. Returns the
    /// answers for these groups.
    ///
    /// # Errors
    /// [`Impossible`]: the caller must exclude the guest ([`Self::leave`]). Nothing of an impossible report is applied.
    pub fn hear(
        &mut self,
        guest: GuestId,
        at_ns: u64,
        said: &[GroupReport],
        now_ns: u64,
    ) -> Result<Vec<GroupAnswer>, Impossible> {
        self.check(guest, at_ns, said)?;
        let heard = said
            .iter()
            .map(|report| self.compare(guest, report, now_ns))
            .collect::<Result<Vec<_>, _>>()?;
        // The guest's clock counts here, as in the age of its last reduction. Its first report has
        // no earlier one to count from.
        let since_ns = match self.guests[guest].at_ns {
            0 => 0,
            was_ns => at_ns - was_ns,
        };
        self.guests[guest].at_ns = at_ns;
        let weight = self.guests[guest].weight;
        let times = Times {
            at_ns,
            now_ns,
            since_us: since_ns / 1000,
        };
        let mut answers = Vec::with_capacity(said.len());
        for (report, heard) in said.iter().zip(heard) {
            let place = self.place_of(&report.name.remote);
            let coupled = self.groups.entry(place).or_insert_with(|| Coupled {
                group: Group::open(&self.policy.group, now_ns),
                guests: BTreeMap::new(),
            });
            let of_group = coupled.guests.entry(guest).or_default();
            of_group.guest.weight = weight.into();
            answers.push(of_group.hear(&mut coupled.group, report, heard, times));
        }
        let names: Vec<_> = said.iter().map(|report| report.name).collect();
        self.keep(guest, &names, now_ns);
        Ok(answers)
    }

    /// Removes a guest whose channel is closed from its groups; the other guests stay.
    pub fn leave(&mut self, guest: GuestId, now_ns: u64) {
        self.keep(guest, &[], now_ns);
        self.guests[guest].at_ns = 0;
    }

    /// Returns the shares of all guests in their groups.
    pub fn shares(&self) -> Vec<Share> {
        let of_group = |(place, coupled): (&[u8; 16], &Coupled)| {
            let (remote, window_bytes) = (Ipv6Addr::from(*place), coupled.group.window_bytes());
            let share_of = move |(&guest, of_group): (&GuestId, &GuestOfGroup)| Share {
                remote,
                guest,
                window_bytes,
                given_bytes: of_group.given_bytes(),
                cuts: of_group.cuts,
            };
            coupled.guests.iter().map(share_of).collect::<Vec<_>>()
        };
        self.groups.iter().flat_map(of_group).collect()
    }

    fn check(&self, guest: GuestId, at_ns: u64, said: &[GroupReport]) -> Result<(), Impossible> {
        if at_ns <= self.guests[guest].at_ns {
            return Err(Impossible::Clock);
        }
        if said.len() > GROUPS_MAX {
            return Err(Impossible::Size);
        }
        said.iter().try_for_each(validate::check)?;
        let mut names: Vec<_> = said.iter().map(|report| report.name).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Impossible::Twice);
        }
        Ok(())
    }

    /// Compares a report with the last report of the same group; `None` if there is none.
    fn compare(
        &self,
        guest: GuestId,
        said: &GroupReport,
        now_ns: u64,
    ) -> Result<Option<Heard>, Impossible> {
        let coupled = self.groups.get(&self.place_of(&said.name.remote));
        let of_group = coupled.and_then(|coupled| coupled.guests.get(&guest));
        let member = of_group.and_then(|of_group| of_group.members.get(&said.name));
        member
            .filter(|member| member.said.opened_ns == said.opened_ns)
            .map(|member| member.compare(said, now_ns))
            .transpose()
    }

    /// Removes the guest's groups that are not in `names`.
    fn keep(&mut self, guest: GuestId, names: &[GroupName], now_ns: u64) {
        self.groups.retain(|_, coupled| {
            if let Some(of_group) = coupled.guests.get_mut(&guest) {
                of_group.keep(&mut coupled.group, names, now_ns);
                if of_group.members.is_empty() {
                    coupled.guests.remove(&guest);
                }
            }
            !coupled.guests.is_empty()
        });
    }

    fn place_of(&self, remote: &[u8; 16]) -> [u8; 16] {
        let (prefix4, prefix6) = (self.policy.prefix4.min(32), self.policy.prefix6.min(128));
        // The rule is that of core/coupling/interface.h, for ports and in guests.
        let bits = match Ipv6Addr::from(*remote).to_ipv4_mapped() {
            Some(_) if prefix4 > 0 || prefix6 > 0 => 96 + u32::from(prefix4),
            Some(_) => 0,
            None => u32::from(prefix6),
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        (u128::from_be_bytes(*remote) & mask).to_be_bytes()
    }
}

impl GuestOfGroup {
    fn hear(
        &mut self,
        group: &mut Group,
        said: &GroupReport,
        heard: Option<Heard>,
        times: Times,
    ) -> GroupAnswer {
        let now_ns = times.now_ns;
        if heard.is_none() {
            self.end(group, said.name, now_ns);
        }
        let cuts = group.cuts;
        let answer = match (self.members.get_mut(&said.name), heard) {
            (Some(member), Some(heard)) => member.update(group, &mut self.guest, heard, now_ns),
            _ => self.register(group, said, times),
        };
        self.cuts += u64::from(group.cuts.wrapping_sub(cuts));
        if let Some(member) = self.members.get_mut(&said.name) {
            member.answered_ns = times.at_ns;
            member.heard_ns = now_ns;
            member.said = *said;
        }
        let age_us = now_ns.saturating_sub(group.cut_ns) / 1000;
        GroupAnswer {
            name: said.name,
            opened_ns: said.opened_ns,
            window_bytes: answer.cwnd_bytes,
            ssthresh_bytes: answer.ssthresh_bytes,
            cuts: said.cuts,
            cut_age_us: if group.cut_ns == 0 {
                u32::MAX
            } else {
                u32::try_from(age_us).unwrap_or(u32::MAX)
            },
        }
    }

    fn register(&mut self, group: &mut Group, said: &GroupReport, times: Times) -> Answer {
        let (mut flow, now_ns) = (Member::default(), times.now_ns);
        let report = validate::first(said);
        let mut answer = group.register(&mut self.guest, &mut flow, 1, &report, now_ns);
        if let Some(lost) = validate::first_loss(said, flow.given_bytes, times.since_us) {
            answer = lose(group, &mut self.guest, &mut flow, &lost, now_ns);
        }
        let member = Coupling {
            flow,
            said: *said,
            answered_ns: 0,
            heard_ns: now_ns,
        };
        self.members.insert(said.name, member);
        answer
    }

    fn end(&mut self, group: &mut Group, name: GroupName, now_ns: u64) {
        if let Some(mut member) = self.members.remove(&name) {
            group.leave(&mut self.guest, &mut member.flow, now_ns);
        }
    }

    fn keep(&mut self, group: &mut Group, names: &[GroupName], now_ns: u64) {
        let ended: Vec<_> = self.members.keys().copied().collect();
        for name in ended.into_iter().filter(|name| !names.contains(name)) {
            self.end(group, name, now_ns);
        }
    }

    fn given_bytes(&self) -> u64 {
        let given = |member: &Coupling| u64::from(member.flow.given_bytes);
        self.members.values().map(given).sum()
    }
}

impl Coupling {
    fn compare(&self, said: &GroupReport, now_ns: u64) -> Result<Heard, Impossible> {
        let given = (self.flow.given_bytes, self.flow.given_ssthresh_bytes);
        let follows = said.taken_ns == self.answered_ns;
        let elapsed_us = now_ns.saturating_sub(self.heard_ns) / 1000;
        validate::next(&self.said, said, given, follows, elapsed_us)
    }

    fn update(
        &mut self,
        group: &mut Group,
        guest: &mut Guest,
        heard: Heard,
        now_ns: u64,
    ) -> Answer {
        let Heard { mut report, lost } = heard;
        if !validate::may_grow(group, report.mss_bytes) {
            report.cwnd_bytes = report.cwnd_bytes.min(self.flow.given_bytes);
        }
        if let Some(lost) = lost {
            return lose(group, guest, &mut self.flow, &lost, now_ns);
        }
        group.update(guest, &mut self.flow, &report, now_ns)
    }
}

/// Applies a guest's loss to the host's group. The event is over at once: the guest has reduced its own windows
/// already.
fn lose(
    group: &mut Group,
    guest: &mut Guest,
    flow: &mut Member,
    lost: &Report,
    now_ns: u64,
) -> Answer {
    group.update(guest, flow, lost, now_ns);
    // The event is over for the group as a whole: its members reduce their windows by themselves.
    let state = if u32::from(lost.state) < consts::LOSS {
        consts::AVOIDANCE
    } else {
        consts::LOSS
    };
    let after = Report {
        cwnd_bytes: flow.given_bytes,
        ssthresh_bytes: flow.given_ssthresh_bytes,
        lost_age_us: 0,
        state: state as u8,
        ..*lost
    };
    group.update(guest, flow, &after, now_ns)
}

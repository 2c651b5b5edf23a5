//! A platform for the coupled congestion controller: flows and guests by number, in user space.
#![allow(dead_code, reason = "every test program uses its own part")]

use std::collections::BTreeMap;

use uc_core::coupling::{Answer, Group, GroupPolicy, Guest, Member, Report, consts};

/// Bytes of a segment.
pub const MSS: u32 = 1460;
/// A round trip of 10 ms, as in a report (×8).
pub const SRTT_US: u32 = 80_000;
/// The round trip in nanoseconds.
pub const ROUND_NS: u64 = 10_000_000;

#[derive(Clone)]
pub struct Home {
    pub group: Group,
    pub guests: BTreeMap<u32, Guest>,
    pub flows: BTreeMap<u32, Flow>,
    pub now_ns: u64,
}

#[derive(Clone, Copy)]
pub struct Flow {
    pub guest: u32,
    pub member: Member,
    pub answer: Answer,
}

/// Makes the report of a flow in congestion avoidance that uses all of this window, with ten
/// segments acknowledged.
pub fn report(cwnd_bytes: u32) -> Report {
    Report {
        cwnd_bytes,
        ssthresh_bytes: consts::INFINITE_SSTHRESH,
        flight_bytes: cwnd_bytes,
        used_bytes: cwnd_bytes,
        acked_bytes: 10 * MSS,
        srtt_us: SRTT_US,
        mss_bytes: MSS as u16,
        state: consts::AVOIDANCE as u8,
        ..Report::default()
    }
}

impl Home {
    pub fn new(policy: GroupPolicy) -> Home {
        let now_ns = 1_000_000_000;
        Home {
            group: Group::open(&policy, now_ns),
            guests: BTreeMap::new(),
            flows: BTreeMap::new(),
            now_ns,
        }
    }

    /// A group in congestion avoidance: one flow (0, of guest 0) has brought this window.
    pub fn open(policy: GroupPolicy, window_bytes: u32) -> Home {
        let mut home = Home::new(policy);
        home.join(0, 0, 1, window_bytes, window_bytes);
        home
    }

    pub fn set_weight(&mut self, guest: u32, weight: u32) {
        self.guests.entry(guest).or_default().weight = weight;
    }

    pub fn join(
        &mut self,
        guest: u32,
        id: u32,
        priority: u8,
        cwnd_bytes: u32,
        ssthresh_bytes: u32,
    ) -> Answer {
        let report = Report {
            ssthresh_bytes,
            flight_bytes: 0,
            used_bytes: 0,
            acked_bytes: 0,
            state: consts::SLOW_START as u8,
            ..report(cwnd_bytes)
        };
        self.register(guest, id, priority, &report)
    }

    pub fn register(&mut self, guest: u32, id: u32, priority: u8, report: &Report) -> Answer {
        let flow = self.flows.entry(id).or_insert(Flow {
            guest,
            member: Member::default(),
            answer: Answer::default(),
        });
        let of = self.guests.entry(flow.guest).or_default();
        flow.answer = self
            .group
            .register(of, &mut flow.member, priority, report, self.now_ns);
        flow.answer
    }

    /// An update of a flow that is perhaps not there.
    pub fn update(&mut self, id: u32, report: &Report) -> Answer {
        let Some(flow) = self.flows.get_mut(&id) else {
            let (mut guest, mut member) = (Guest::default(), Member::default());
            return self
                .group
                .update(&mut guest, &mut member, report, self.now_ns);
        };
        let guest = self.guests.get_mut(&flow.guest).expect("entered with it");
        flow.answer = self
            .group
            .update(guest, &mut flow.member, report, self.now_ns);
        flow.answer
    }

    /// Reports that the flow uses its window and nothing else has happened.
    pub fn hold(&mut self, id: u32) -> Answer {
        let report = Report {
            ssthresh_bytes: self.answer(id).ssthresh_bytes,
            ..report(self.answer(id).cwnd_bytes)
        };
        self.update(id, &report)
    }

    /// Reports for the flow if it is registered; otherwise registers it.
    pub fn hold_or_join(&mut self, id: u32) {
        if self.flows.contains_key(&id) {
            self.hold(id);
        } else {
            self.join(id % 100, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        }
    }

    /// Reports that the flow's own law has grown its window.
    pub fn grow(&mut self, id: u32, bytes: u32) -> Answer {
        let report = Report {
            ssthresh_bytes: self.answer(id).ssthresh_bytes,
            ..report(self.answer(id).cwnd_bytes + bytes)
        };
        self.update(id, &report)
    }

    /// Reports that the flow has lost a segment and halves its window.
    pub fn lose(&mut self, id: u32) -> Answer {
        let cwnd_bytes = self.answer(id).cwnd_bytes;
        let report = Report {
            ssthresh_bytes: cwnd_bytes / 2,
            state: consts::RECOVERY as u8,
            ..report(cwnd_bytes)
        };
        self.update(id, &report)
    }

    /// Reports a timeout.
    pub fn time_out(&mut self, id: u32) -> Answer {
        self.expire(id, consts::LOSS)
    }

    /// Reports another timeout of the same segment.
    pub fn time_out_again(&mut self, id: u32) -> Answer {
        self.expire(id, consts::BACKOFF)
    }

    fn expire(&mut self, id: u32, state: u32) -> Answer {
        let report = Report {
            ssthresh_bytes: self.answer(id).cwnd_bytes / 2,
            state: state as u8,
            flight_bytes: MSS,
            acked_bytes: 0,
            ..report(MSS)
        };
        self.update(id, &report)
    }

    /// Reports a flow whose application sends only `used_bytes` in a round trip.
    pub fn idle_at(&mut self, id: u32, used_bytes: u32) -> Answer {
        let report = Report {
            ssthresh_bytes: self.answer(id).ssthresh_bytes,
            flight_bytes: used_bytes,
            used_bytes,
            limited: 1,
            ..report(self.answer(id).cwnd_bytes)
        };
        self.update(id, &report)
    }

    pub fn leave(&mut self, id: u32) {
        if let Some(mut flow) = self.flows.remove(&id) {
            let guest = self.guests.get_mut(&flow.guest).expect("entered with it");
            self.group.leave(guest, &mut flow.member, self.now_ns);
        }
    }

    pub fn answer(&self, id: u32) -> Answer {
        self.flows[&id].answer
    }

    /// Returns a flow's part of the window by the present sums.
    pub fn share(&self, id: u32) -> u64 {
        let flow = &self.flows[&id];
        self.group
            .share_bytes(&self.guests[&flow.guest], &flow.member)
    }

    /// Lets a round trip pass in which each flow uses its window and nothing else happens.
    pub fn round(&mut self) {
        self.now_ns += ROUND_NS;
        let ids: Vec<u32> = self.flows.keys().copied().collect();
        for id in ids {
            self.hold(id);
        }
    }

    /// Returns the sum of the windows of a guest's flows.
    pub fn given_to(&self, guest: u32) -> u64 {
        self.flows
            .values()
            .filter(|flow| flow.guest == guest)
            .map(|flow| u64::from(flow.answer.cwnd_bytes))
            .sum()
    }
}

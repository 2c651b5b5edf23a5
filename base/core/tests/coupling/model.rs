//! The coupled congestion controller once more, as its description has it and as slowly as can be:
//! lists that are looped over at every question, and real numbers.

use std::collections::BTreeMap;

use uc_core::coupling::{GroupPolicy, Report, consts};

const INFINITE: f64 = consts::INFINITE_SSTHRESH as f64;

#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub guest: u32,
    priority: f64,
    heard: Option<u64>,
    weight: f64,
    claim: f64,
    flight: f64,
    used: f64,
    hungry: bool,
    state: u32,
    pub given: f64,
    pub given_ssthresh: f64,
    mss: f64,
}

/// What a guest had when it was heard last.
#[derive(Clone, Debug, Default)]
struct Held {
    weight: f64,
    claim: f64,
    priority: f64,
    flight: f64,
    flows: u32,
    hungry: u32,
    stalled: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Guest {
    pub weight: u32,
    heard: Option<u64>,
    held: Held,
}

#[derive(Clone, Debug)]
pub struct Model {
    policy: GroupPolicy,
    pub window: f64,
    pub ssthresh: f64,
    epoch: u64,
    began_ns: u64,
    cut_ns: Option<u64>,
    /// TCPs that haven't answered the last loss event.
    spare: f64,
    /// The window before the last event's first cut.
    before: f64,
    srtt_us: [u32; 2],
    pub guests: BTreeMap<u32, Guest>,
    pub flows: BTreeMap<u32, Flow>,
}

impl Model {
    pub fn new(policy: GroupPolicy, now_ns: u64) -> Model {
        Model {
            policy,
            window: 0.0,
            ssthresh: INFINITE,
            epoch: 10,
            began_ns: now_ns,
            cut_ns: None,
            spare: 0.0,
            before: 0.0,
            srtt_us: [0; 2],
            guests: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    fn is_awake(&self, heard: Option<u64>) -> bool {
        heard.is_some_and(|epoch| epoch + 1 >= self.epoch)
    }

    fn awake_guests(&self) -> impl Iterator<Item = (&u32, &Guest)> {
        self.guests
            .iter()
            .filter(|(_, guest)| self.is_awake(guest.heard))
    }

    fn awake_flows(&self, of: u32) -> impl Iterator<Item = (&u32, &Flow)> {
        self.flows
            .iter()
            .filter(move |(_, flow)| flow.guest == of && self.is_awake(flow.heard))
    }

    pub fn counts(&self, id: u32) -> bool {
        self.flows
            .get(&id)
            .is_some_and(|flow| self.is_awake(flow.heard))
    }

    fn guest_share(&self, id: u32, whole: f64) -> f64 {
        let weights: f64 = self
            .awake_guests()
            .map(|(_, guest)| guest.held.weight)
            .sum();
        let own = &self.guests[&id];
        if self.is_awake(own.heard) {
            (whole * own.held.weight / weights).floor()
        } else {
            0.0
        }
    }

    /// In whole bytes; the remainders are nobody's.
    pub fn share(&self, id: u32, whole: f64) -> f64 {
        let flow = &self.flows[&id];
        if !self.is_awake(flow.heard) {
            return 0.0;
        }
        let weights: f64 = self
            .awake_flows(flow.guest)
            .map(|(_, flow)| flow.weight)
            .sum();
        (self.guest_share(flow.guest, whole) * flow.weight / weights).floor()
    }

    /// Time goes on: an epoch lasts two of the longest round trips, or what policy says.
    fn advance(&mut self, now_ns: u64) {
        let longest_ns = u64::from(self.srtt_us[0].max(self.srtt_us[1]) / 8) * 1000;
        let silence_ns = match self.policy.silence_us {
            0 => 200_000_000,
            us => u64::from(us) * 1000,
        };
        let epoch_ns = silence_ns.max(2 * longest_ns);
        let past_ns = now_ns - self.began_ns;
        if past_ns >= epoch_ns {
            self.epoch += 1 + u64::from(past_ns >= 2 * epoch_ns);
            self.began_ns = now_ns;
            self.srtt_us = [0, self.srtt_us[0]];
        }
    }

    fn tcps(&self) -> f64 {
        let by_guests = u32::from(self.policy.size) == consts::SIZE_GUESTS;
        let size: u32 = self
            .awake_guests()
            .map(|(_, guest)| match by_guests {
                true => u32::from(guest.held.hungry > 0),
                false => guest.held.hungry,
            })
            .sum();
        let each = match self.is_sum() {
            true => 1.0,
            false => f64::from(self.policy.aggressiveness_q16) / 65536.0,
        };
        1.0 + each * f64::from(size.max(1) - 1)
    }

    /// Each flow's own law answers for it.
    fn is_sum(&self) -> bool {
        u32::from(self.policy.size) == consts::SIZE_LAWS
    }

    fn is_news(&self, report: &Report, lost_age_us: u32, now_ns: u64) -> bool {
        let longest_us = self.srtt_us[0].max(self.srtt_us[1]);
        let srtt_us = if report.srtt_us > 0 {
            report.srtt_us
        } else {
            longest_us
        };
        let age_us = if lost_age_us > 0 {
            lost_age_us
        } else {
            srtt_us / 8 + srtt_us / 32
        };
        let sent_ns = now_ns.saturating_sub(u64::from(age_us) * 1000);
        self.cut_ns.is_none_or(|cut_ns| sent_ns > cut_ns)
    }

    fn all_stalled(&self) -> bool {
        let sum = |of: fn(&Held) -> u32| -> u32 {
            self.awake_guests().map(|(_, guest)| of(&guest.held)).sum()
        };
        sum(|held| held.flows) > 0 && sum(|held| held.stalled) >= sum(|held| held.flows)
    }

    fn grow(&mut self, share: f64, bytes: f64) {
        if self.window.floor() < self.ssthresh {
            self.window = (self.window + bytes).min(self.ssthresh);
        } else if self.is_sum() {
            self.window += bytes;
        } else {
            self.window += bytes * self.tcps() * (share / self.window).min(1.0);
        }
    }

    fn lose(&mut self, report: &Report, had: f64, share: f64, now_ns: u64) {
        if self.is_news(report, report.lost_age_us, now_ns) {
            self.spare = self.tcps();
            self.cut_ns = Some(now_ns);
            self.before = self.window.floor();
        }
        let answering = if self.is_sum() {
            1.0
        } else {
            self.spare.min(1.0)
        };
        if answering <= 0.0 {
            return;
        }
        self.spare = (self.spare - answering).max(0.0);
        let mss = f64::from(report.mss_bytes);
        let mut left = f64::from(report.ssthresh_bytes) / had.max(mss);
        if !self.is_sum() && f64::from(report.ssthresh_bytes) <= 2.0 * mss {
            left = 0.5;
        }
        let mut least = 2.0 * mss;
        if self.is_sum() {
            least *= self.tcps();
        } else if u32::from(report.state) == consts::RECOVERY && share > 0.0 {
            let window = self.window.floor();
            least = least.max((window * (2.0 * mss + 2.0) / share).floor().min(window));
        }
        let least = self.window.min(least);
        let of = if self.is_sum() {
            self.before
        } else {
            self.window
        };
        self.window -= of * answering * (1.0 - left.clamp(0.5, 1.0)) / self.tcps();
        self.window = self.window.max(least);
        self.ssthresh = self.window.floor().max(2.0 * mss);
    }

    /// A timer that has fired once more is an event while somebody else sends.
    fn lose_again(&mut self, id: u32, said: &Report, now_ns: u64) -> Report {
        let mut report = *said;
        if u32::from(said.state) != consts::BACKOFF {
            return report;
        }
        report.state = consts::LOSS as u8;
        let others: u32 = self
            .awake_guests()
            .map(|(_, guest)| guest.held.flows - guest.held.stalled)
            .sum();
        let news = self.is_news(said, said.lost_age_us, now_ns);
        let is_sum = self.is_sum();
        let flow = self.flows.get_mut(&id).expect("it is asked for");
        if flow.state != consts::LOSS || is_sum {
            return report;
        }
        if others > 0 {
            flow.state = consts::AVOIDANCE;
            report.ssthresh_bytes = 0;
        } else {
            self.window = f64::from(said.mss_bytes);
            if news {
                (self.cut_ns, self.spare) = (Some(now_ns), 0.0);
            }
        }
        report
    }

    fn compare(&mut self, flow: &Flow, report: &Report, moved: f64, now_ns: u64, share: f64) {
        let mss = f64::from(report.mss_bytes);
        if report.limited != 0 {
            return;
        }
        let ssthresh = f64::from(report.ssthresh_bytes);
        let own_end =
            u32::from(report.state) == consts::AVOIDANCE && ssthresh + mss <= flow.given_ssthresh;
        if self.window.floor() < self.ssthresh && own_end {
            self.ssthresh = self.window.floor();
        }
        if -moved >= mss {
            let least = self.window.min(mss);
            self.window = (self.window + moved).max(least);
        }
        let acked = f64::from(report.acked_bytes);
        let mut most = acked.max(mss);
        let starts = u32::from(report.state) == consts::SLOW_START;
        if self.is_sum() && starts && self.window.floor() >= self.ssthresh {
            most = most.min((acked * mss / flow.given.max(mss)).floor());
        }
        let may_grow = self.is_sum() || self.is_news(report, 0, now_ns);
        if moved > 0.0 && report.acked_bytes > 0 && may_grow {
            self.grow(share, moved.min(most));
        }
    }

    fn released(weight: f64, claim: f64, used: f64, share: f64) -> f64 {
        if share < 1.0 {
            return claim;
        }
        (weight * 2.0 * used / share).clamp(claim / 64.0, claim)
    }

    fn unit(&self, report: &Report) -> f64 {
        if u32::from(self.policy.shares) != consts::BY_RATE {
            return 65536.0;
        }
        if report.srtt_us > 0 {
            return f64::from(report.srtt_us);
        }
        let claims: f64 = self.awake_guests().map(|(_, guest)| guest.held.claim).sum();
        let weights: f64 = self
            .awake_guests()
            .map(|(_, guest)| guest.held.priority)
            .sum();
        if weights > 0.0 {
            (claims / weights).floor()
        } else {
            8192.0
        }
    }

    fn settle(&mut self, id: u32) {
        let flows: Vec<Flow> = self.awake_flows(id).map(|(_, flow)| flow.clone()).collect();
        let share = self.guest_share(id, self.window.floor());
        let was_awake = self.is_awake(self.guests[&id].heard);
        let guest = self.guests.get_mut(&id).expect("a guest of the flow's");
        guest.heard = flows.iter().filter_map(|flow| flow.heard).max();
        if flows.is_empty() {
            return;
        }
        let sum = |of: fn(&Flow) -> f64| -> f64 { flows.iter().map(of).sum() };
        let count = |of: fn(&Flow) -> bool| flows.iter().filter(|flow| of(flow)).count() as u32;
        let unit = (sum(|flow| flow.claim) / sum(|flow| flow.priority)).floor();
        let claim = f64::from(guest.weight.clamp(1, 255)) * unit;
        let hungry = count(|flow| flow.hungry);
        let weight = if hungry == 0 && was_awake {
            Model::released(guest.held.weight, claim, sum(|flow| flow.used), share)
        } else {
            claim
        };
        guest.held = Held {
            weight,
            claim,
            priority: f64::from(guest.weight.clamp(1, 255)),
            flight: sum(|flow| flow.flight),
            flows: flows.len() as u32,
            hungry,
            stalled: count(|flow| flow.state == consts::LOSS),
        };
    }

    fn answer(&mut self, id: u32, own: f64, had: f64) {
        let share = self.share(id, self.window.floor());
        let ssthresh = self.share(id, self.ssthresh);
        let flights: f64 = self
            .awake_guests()
            .map(|(_, guest)| guest.held.flight)
            .sum();
        let burst = match self.policy.burst_segments {
            0 => 2,
            segments => segments,
        };
        let flow = self.flows.get_mut(&id).expect("it is asked for");
        let room = self.window.floor() - (flights - flow.flight);
        flow.given = match flow.state {
            consts::RECOVERY => own,
            consts::LOSS => own.min(share.max(flow.mss)),
            _ if burst == u16::MAX => share.max(flow.mss),
            _ => {
                let clocked = had.max(room).max(f64::from(burst) * flow.mss);
                share.min(clocked).max(flow.mss)
            }
        };
        flow.given_ssthresh = if self.ssthresh < INFINITE {
            ssthresh.max(flow.mss)
        } else {
            INFINITE
        };
    }

    fn hear(&mut self, id: u32, report: &Report, moved: Option<f64>, now_ns: u64) {
        let was = self.flows[&id].clone();
        let known = moved.is_some() && self.counts(id);
        let moved = moved.unwrap_or(0.0);
        self.srtt_us[0] = self.srtt_us[0].max(report.srtt_us);
        let share = self.share(id, self.window.floor());
        let state = u32::from(report.state);
        let fell = state == consts::LOSS && was.state != consts::LOSS;
        let recovers = state == consts::RECOVERY && was.state < consts::RECOVERY;
        if fell || recovers {
            self.lose(report, was.given, share, now_ns);
        } else if known && report.again > 0 && state == was.state && state == consts::RECOVERY {
            self.lose(report, f64::from(report.cwnd_bytes), share, now_ns);
        } else if known && state < consts::RECOVERY && was.state < consts::RECOVERY {
            self.compare(&was, report, moved, now_ns, share);
        } else if known && state == consts::LOSS && self.all_stalled() {
            self.grow(share, moved.clamp(0.0, f64::from(report.acked_bytes)));
        }
        let claim = was.priority * self.unit(report);
        let hungry = report.limited == 0 || state >= consts::RECOVERY;
        let weight = if hungry || !known {
            claim
        } else {
            Model::released(was.weight, claim, f64::from(report.used_bytes), share)
        };
        let flow = Flow {
            heard: Some(self.epoch),
            weight,
            claim,
            flight: f64::from(report.flight_bytes),
            used: f64::from(report.used_bytes),
            hungry,
            state,
            mss: f64::from(report.mss_bytes),
            ..was
        };
        let (guest, had) = (flow.guest, if known { flow.given } else { 0.0 });
        self.flows.insert(id, flow);
        self.settle(guest);
        if fell && self.all_stalled() {
            self.window = f64::from(report.mss_bytes);
        }
        self.answer(id, f64::from(report.cwnd_bytes), had);
    }

    pub fn register(&mut self, guest: u32, id: u32, priority: u8, report: &Report, now_ns: u64) {
        self.advance(now_ns);
        if self.awake_guests().next().is_none() {
            self.window = f64::from(report.cwnd_bytes);
            self.ssthresh = f64::from(report.ssthresh_bytes);
            self.cut_ns = None;
        }
        self.guests.entry(guest).or_default();
        let flow = self.flows.entry(id).or_default();
        if flow.heard.is_none() {
            flow.guest = guest;
        }
        flow.priority = f64::from(priority.max(1));
        flow.state = u32::from(report.state);
        self.hear(id, report, None, now_ns);
    }

    /// `moved`: by how much the flow's own law has changed the window that it was given.
    pub fn update(&mut self, id: u32, report: &Report, moved: f64, now_ns: u64) {
        if !self.flows.contains_key(&id) {
            return;
        }
        self.advance(now_ns);
        let report = &self.lose_again(id, report, now_ns);
        if self.awake_guests().next().is_none() && u32::from(report.state) < consts::RECOVERY {
            if self.ssthresh < INFINITE {
                self.ssthresh = self.ssthresh.max((self.window.floor() / 4.0).floor() * 3.0);
            }
            self.window = self.window.min(10.0 * f64::from(report.mss_bytes));
        }
        self.hear(id, report, Some(moved), now_ns);
    }

    pub fn leave(&mut self, id: u32, now_ns: u64) {
        if let Some(flow) = self.flows.get(&id) {
            let guest = flow.guest;
            self.advance(now_ns);
            self.flows.remove(&id);
            self.settle(guest);
        }
    }
}

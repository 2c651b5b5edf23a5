//! The coupled congestion controller once more, as its description has it and as slowly as can be:
//! lists that are looped over at every question.
//!
//! Its numbers are those of the description, each rounded down to its unit: bytes, weights, 1/2^16
//! of a byte for the window, 1/2^16 for a cut, 1/2^32 for a share of growth. Where a share is
//! divided by, or a window compared with two segments, a rounding of its own would differ by more
//! than a unit.

use std::collections::BTreeMap;

use uc_core::coupling::{GroupPolicy, Report, consts};

const INFINITE: u64 = consts::INFINITE_SSTHRESH as u64;
/// 1 in units of 1/2^16.
const ONE_Q16: u64 = 1 << 16;
/// The largest window in bytes.
const WINDOW_MAX: u64 = 1 << 30;
/// The longest round-trip time, in µs × 8.
const SRTT_MAX: u64 = 1 << 23;

/// Returns whole · part ÷ parts, rounded down.
fn scaled(whole: u64, part: u64, parts: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(parts)) as u64
}

#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub guest: u32,
    priority: u64,
    heard: Option<u64>,
    weight: u64,
    claim: u64,
    flight: u64,
    used: u64,
    hungry: bool,
    state: u32,
    pub given: u64,
    pub given_ssthresh: u64,
    mss: u64,
}

/// What a guest had when it was heard last.
#[derive(Clone, Debug, Default)]
struct Held {
    weight: u64,
    claim: u64,
    priority: u64,
    flight: u64,
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
    /// Bytes × 2^16.
    window_q16: u64,
    pub ssthresh: u64,
    epoch: u64,
    began_ns: u64,
    cut_ns: Option<u64>,
    /// TCPs × 2^16 that haven't answered the last loss event.
    spare_q16: u64,
    /// The window before the last event's first cut.
    before: u64,
    srtt_us: [u32; 2],
    pub guests: BTreeMap<u32, Guest>,
    pub flows: BTreeMap<u32, Flow>,
}

impl Model {
    pub fn new(policy: GroupPolicy, now_ns: u64) -> Model {
        Model {
            policy,
            window_q16: 0,
            ssthresh: INFINITE,
            epoch: 10,
            began_ns: now_ns,
            cut_ns: None,
            spare_q16: 0,
            before: 0,
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

    /// Returns the group's window in bytes.
    pub fn window(&self) -> u64 {
        self.window_q16 >> 16
    }

    fn set_window(&mut self, window_q16: u64) {
        self.window_q16 = window_q16.clamp(ONE_Q16, WINDOW_MAX << 16);
    }

    fn guest_share(&self, id: u32, whole: u64) -> u64 {
        let weights = self.sum_of(|held| held.weight);
        let own = &self.guests[&id];
        match self.is_awake(own.heard) {
            true => scaled(whole, own.held.weight, weights),
            false => 0,
        }
    }

    /// Returns the sum over the guests that count.
    fn sum_of(&self, of: fn(&Held) -> u64) -> u64 {
        self.awake_guests().map(|(_, guest)| of(&guest.held)).sum()
    }

    /// In whole bytes; the remainders are nobody's.
    pub fn share(&self, id: u32, whole: u64) -> u64 {
        let flow = &self.flows[&id];
        if !self.is_awake(flow.heard) {
            return 0;
        }
        let flows = self.awake_flows(flow.guest);
        let weights = flows.map(|(_, flow)| flow.weight).sum();
        scaled(self.guest_share(flow.guest, whole), flow.weight, weights)
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

    fn tcps_q16(&self) -> u64 {
        let size = match u32::from(self.policy.size) == consts::SIZE_GUESTS {
            true => self.sum_of(|held| u64::from(held.hungry > 0)),
            false => self.sum_of(|held| held.hungry.into()),
        };
        let each_q16 = match self.is_sum() {
            true => ONE_Q16,
            false => self.policy.aggressiveness_q16.into(),
        };
        ONE_Q16 + each_q16 * (size.max(1) - 1)
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
        let flows = self.sum_of(|held| held.flows.into());
        flows > 0 && self.sum_of(|held| held.stalled.into()) >= flows
    }

    /// In congestion avoidance a flow's growth (1/2^8 of a byte) times the group's TCPs counts by
    /// the flow's part (1/2^32) of the window.
    fn grow(&mut self, share: u64, bytes: u64) {
        let (window, ssthresh_q16) = (self.window().max(1), self.ssthresh << 16);
        let grown_q16 = bytes << 16;
        if self.window_q16 < ssthresh_q16 {
            self.set_window((self.window_q16 + grown_q16).min(ssthresh_q16));
        } else if self.is_sum() {
            self.set_window(self.window_q16 + grown_q16);
        } else {
            let part_q32 = scaled(share.min(window), 1 << 32, window);
            let grown_q8 = scaled(bytes, self.tcps_q16(), 1 << 8);
            self.set_window(self.window_q16 + scaled(grown_q8, part_q32, 1 << 24));
        }
    }

    /// A smaller window than `least` stays.
    fn reduce(&mut self, by_q16: u64, least: u64) {
        let least_q16 = self.window_q16.min(least << 16);
        self.set_window(self.window_q16.saturating_sub(by_q16).max(least_q16));
    }

    /// Returns which part of the window a loss takes, if the group acts as one TCP and this one
    /// answers: 1 less what the flow's law keeps.
    fn cut_q16(&self, report: &Report, had: u64) -> u64 {
        let (ssthresh, mss) = (
            u64::from(report.ssthresh_bytes),
            u64::from(report.mss_bytes),
        );
        let kept_q16 = scaled(ssthresh, ONE_Q16, had.max(mss));
        if !self.is_sum() && ssthresh <= 2 * mss {
            return ONE_Q16 / 2;
        }
        ONE_Q16 - kept_q16.clamp(ONE_Q16 / 2, ONE_Q16)
    }

    /// Returns the least that a cut leaves: two segments for the group, and after a mark or fast
    /// retransmit for the flow's share, rounded down at both levels; in a sum for each flow.
    fn least(&self, report: &Report, share: u64) -> u64 {
        let (two, window) = (2 * u64::from(report.mss_bytes), self.window());
        if self.is_sum() {
            return scaled(two, self.tcps_q16(), ONE_Q16);
        }
        if u32::from(report.state) != consts::RECOVERY || share == 0 {
            return two;
        }
        two.max(scaled(window, two + 2, share).min(window))
    }

    fn lose(&mut self, report: &Report, had: u64, share: u64, now_ns: u64) {
        if self.is_news(report, report.lost_age_us, now_ns) {
            self.spare_q16 = self.tcps_q16();
            self.cut_ns = Some(now_ns);
            self.before = self.window();
        }
        let answering_q16 = match self.is_sum() {
            true => ONE_Q16,
            false => self.spare_q16.min(ONE_Q16),
        };
        if answering_q16 == 0 {
            return;
        }
        self.spare_q16 = self.spare_q16.saturating_sub(answering_q16);
        let each_q16 = scaled(self.cut_q16(report, had), ONE_Q16, self.tcps_q16());
        let cut_q16 = scaled(each_q16, answering_q16, ONE_Q16);
        let by_q16 = match self.is_sum() {
            true => self.before * cut_q16,
            false => scaled(self.window_q16, cut_q16, ONE_Q16),
        };
        self.reduce(by_q16, self.least(report, share));
        self.ssthresh = self.window().max(2 * u64::from(report.mss_bytes));
    }

    /// A timer that has fired once more is an event while somebody else sends.
    fn lose_again(&mut self, id: u32, said: &Report, now_ns: u64) -> Report {
        let mut report = *said;
        if u32::from(said.state) != consts::BACKOFF {
            return report;
        }
        report.state = consts::LOSS as u8;
        let others = self.sum_of(|held| u64::from(held.flows - held.stalled));
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
            self.set_window(u64::from(said.mss_bytes) << 16);
            if news {
                (self.cut_ns, self.spare_q16) = (Some(now_ns), 0);
            }
        }
        report
    }

    fn compare(&mut self, flow: &Flow, report: &Report, now_ns: u64, share: u64) {
        let (cwnd, mss) = (u64::from(report.cwnd_bytes), u64::from(report.mss_bytes));
        if report.limited != 0 {
            return;
        }
        let ssthresh = u64::from(report.ssthresh_bytes);
        let own_end =
            u32::from(report.state) == consts::AVOIDANCE && ssthresh + mss <= flow.given_ssthresh;
        if self.window() < self.ssthresh && own_end {
            self.ssthresh = self.window();
        }
        if cwnd + mss <= flow.given {
            self.reduce((flow.given - cwnd) << 16, mss);
        }
        let acked = u64::from(report.acked_bytes);
        let mut most = acked.max(mss);
        let starts = u32::from(report.state) == consts::SLOW_START;
        if self.is_sum() && starts && self.window() >= self.ssthresh {
            most = most.min(scaled(acked, mss, flow.given.max(mss)));
        }
        let may_grow = self.is_sum() || self.is_news(report, 0, now_ns);
        if cwnd > flow.given && acked > 0 && may_grow {
            self.grow(share, most.min(cwnd - flow.given));
        }
    }

    /// Returns the weight of which a share is twice what is used, at least a 64th of the claim.
    fn released(weight: u64, claim: u64, used: u64, share: u64) -> u64 {
        if share == 0 {
            return claim;
        }
        scaled(weight, 2 * used, share)
            .max(1)
            .clamp(claim / 64, claim)
    }

    fn unit(&self, report: &Report) -> u64 {
        if u32::from(self.policy.shares) != consts::BY_RATE {
            return ONE_Q16;
        }
        if report.srtt_us > 0 {
            return report.srtt_us.into();
        }
        let weights = self.sum_of(|held| held.priority);
        match self.sum_of(|held| held.claim).checked_div(weights) {
            Some(unit) => unit.clamp(1, SRTT_MAX),
            None => 8192,
        }
    }

    fn settle(&mut self, id: u32) {
        let flows: Vec<Flow> = self.awake_flows(id).map(|(_, flow)| flow.clone()).collect();
        let share = self.guest_share(id, self.window());
        let was_awake = self.is_awake(self.guests[&id].heard);
        let guest = self.guests.get_mut(&id).expect("a guest of the flow's");
        guest.heard = flows.iter().filter_map(|flow| flow.heard).max();
        if flows.is_empty() {
            return;
        }
        let sum = |of: fn(&Flow) -> u64| -> u64 { flows.iter().map(of).sum() };
        let count = |of: fn(&Flow) -> bool| flows.iter().filter(|flow| of(flow)).count() as u32;
        let unit = sum(|flow| flow.claim) / sum(|flow| flow.priority);
        let claim = u64::from(guest.weight.clamp(1, 255)) * unit.clamp(1, SRTT_MAX);
        let hungry = count(|flow| flow.hungry);
        let weight = if hungry == 0 && was_awake {
            Model::released(guest.held.weight, claim, sum(|flow| flow.used), share)
        } else {
            claim
        };
        guest.held = Held {
            weight,
            claim,
            priority: guest.weight.clamp(1, 255).into(),
            flight: sum(|flow| flow.flight),
            flows: flows.len() as u32,
            hungry,
            stalled: count(|flow| flow.state == consts::LOSS),
        };
    }

    fn answer(&mut self, id: u32, own: u64, had: u64) {
        let share = self.share(id, self.window());
        let ssthresh = self.share(id, self.ssthresh);
        let flights = self.sum_of(|held| held.flight);
        let burst = match self.policy.burst_segments {
            0 => 2,
            segments => segments,
        };
        let flow = self.flows.get_mut(&id).expect("it is asked for");
        let room = (self.window_q16 >> 16).saturating_sub(flights.saturating_sub(flow.flight));
        flow.given = match flow.state {
            consts::RECOVERY => own,
            consts::LOSS => own.min(share.max(flow.mss)),
            _ if burst == u16::MAX => share.max(flow.mss),
            _ => {
                let clocked = had.max(room).max(u64::from(burst) * flow.mss);
                share.min(clocked).max(flow.mss)
            }
        };
        flow.given_ssthresh = if self.ssthresh < INFINITE {
            ssthresh.max(flow.mss)
        } else {
            INFINITE
        };
    }

    fn hear(&mut self, id: u32, report: &Report, registered: bool, now_ns: u64) {
        let was = self.flows[&id].clone();
        let known = registered && self.counts(id);
        self.srtt_us[0] = self.srtt_us[0].max(report.srtt_us);
        let share = self.share(id, self.window());
        let (cwnd, acked) = (report.cwnd_bytes.into(), report.acked_bytes.into());
        let state = u32::from(report.state);
        let entered = state >= consts::RECOVERY && state != was.state;
        let recovered = state == consts::RECOVERY && was.state >= consts::RECOVERY;
        if known && report.again > 0 && recovered {
            self.lose(report, cwnd, share, now_ns);
        } else if entered {
            self.lose(report, was.given, share, now_ns);
        } else if known && state < consts::RECOVERY && was.state < consts::RECOVERY {
            self.compare(&was, report, now_ns, share);
        } else if known && state == consts::LOSS && self.all_stalled() {
            self.grow(share, cwnd.saturating_sub(was.given).min(acked));
        }
        let claim = was.priority * self.unit(report);
        let hungry = report.limited == 0 || state >= consts::RECOVERY;
        let weight = if hungry || !known {
            claim
        } else {
            Model::released(was.weight, claim, report.used_bytes.into(), share)
        };
        let flow = Flow {
            heard: Some(self.epoch),
            weight,
            claim,
            flight: report.flight_bytes.into(),
            used: report.used_bytes.into(),
            hungry,
            state,
            mss: report.mss_bytes.into(),
            ..was
        };
        let (guest, had) = (flow.guest, if known { flow.given } else { 0 });
        self.flows.insert(id, flow);
        self.settle(guest);
        if entered && state == consts::LOSS && self.all_stalled() {
            self.set_window(u64::from(report.mss_bytes) << 16);
        }
        self.answer(id, cwnd, had);
    }

    pub fn register(&mut self, guest: u32, id: u32, priority: u8, report: &Report, now_ns: u64) {
        self.advance(now_ns);
        if self.awake_guests().next().is_none() {
            let is_reduced = u32::from(report.state) == consts::RECOVERY;
            let end = is_reduced.then_some(report.ssthresh_bytes);
            let window = end.map_or(report.cwnd_bytes, |end| end.min(report.cwnd_bytes));
            self.set_window(u64::from(window) << 16);
            self.ssthresh = report.ssthresh_bytes.into();
            self.cut_ns = None;
        }
        self.guests.entry(guest).or_default();
        let flow = self.flows.entry(id).or_default();
        if flow.heard.is_none() {
            flow.guest = guest;
        }
        flow.priority = priority.max(1).into();
        flow.state = u32::from(report.state);
        self.hear(id, report, false, now_ns);
    }

    pub fn update(&mut self, id: u32, report: &Report, now_ns: u64) {
        if !self.flows.contains_key(&id) {
            return;
        }
        self.advance(now_ns);
        let report = &self.lose_again(id, report, now_ns);
        if self.awake_guests().next().is_none() && u32::from(report.state) < consts::RECOVERY {
            if self.ssthresh < INFINITE {
                self.ssthresh = self.ssthresh.max(self.window() / 4 * 3);
            }
            let most_q16 = (10 * u64::from(report.mss_bytes)) << 16;
            self.set_window(self.window_q16.min(most_q16));
        }
        self.hear(id, report, true, now_ns);
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

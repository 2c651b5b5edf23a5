//! A connection whose window a controller sets: its reports, and that it obeys.

use uc_net::{Ecn, Nanos};
use uc_tcp::overrule::{Computed, Stage};
use uc_tcp::{Config, Connection, Segment};

const SMSS: u32 = 1448;
/// Delay in one direction.
const DELAY: Nanos = Nanos::from_millis(10);

/// A sender and its receiver in step: everything that one sends reaches the other a delay later.
struct Steps {
    client: Connection,
    server: Connection,
    now: Nanos,
    given_bytes: u32,
    told: Vec<Computed>,
    on_the_way: Vec<Segment>,
}

impl Steps {
    fn new(given_segments: u32) -> Steps {
        let config = Config {
            ecn: true,
            delayed_ack: None,
            ..Config::default()
        };
        let mut client = Connection::client(&config, 1_000);
        client.overrule();
        let mut steps = Steps {
            client,
            server: Connection::server(&config, 7_000_000),
            now: Nanos::from_millis(1),
            given_bytes: given_segments * SMSS,
            told: Vec::new(),
            on_the_way: Vec::new(),
        };
        let (now, mut sent) = (steps.now, Vec::new());
        steps.client.open(now, &mut |segment| sent.push(segment));
        steps.on_the_way = sent;
        steps.round(|_, segment| Some(segment));
        steps
    }

    fn write(&mut self, bytes: u64) {
        let (now, mut sent) = (self.now, Vec::new());
        self.client
            .write(now, bytes, &mut |segment| sent.push(segment));
        assert!(sent.is_empty(), "it sends before it is answered");
        self.answer();
    }

    /// Takes the client's report and answers it with the given window.
    fn answer(&mut self) {
        if let Some(computed) = self.client.computed(self.now) {
            self.told.push(computed);
            self.client.obey(self.given_bytes, u32::MAX >> 1);
        }
        let (now, sent) = (self.now, &mut self.on_the_way);
        self.client.send(now, &mut |segment| sent.push(segment));
    }

    /// Runs a round trip. `weather` may change or lose a segment in flight, by its index.
    fn round(&mut self, weather: impl Fn(usize, Segment) -> Option<Segment>) {
        self.now += DELAY;
        let mut acks = Vec::new();
        for (number, segment) in std::mem::take(&mut self.on_the_way).into_iter().enumerate() {
            if let Some(segment) = weather(number, segment) {
                self.server
                    .receive(self.now, &segment, &mut |ack| acks.push(ack));
            }
        }
        self.now += DELAY;
        for ack in acks {
            let (now, sent) = (self.now, &mut self.on_the_way);
            self.client
                .receive(now, &ack, &mut |segment| sent.push(segment));
            self.answer();
        }
    }

    fn clear_round(&mut self) {
        self.round(|_, segment| Some(segment));
    }

    fn last(&self) -> Computed {
        *self.told.last().expect("it has reported something")
    }
}

fn bulk(given_segments: u32) -> Steps {
    let mut steps = Steps::new(given_segments);
    steps.write(u64::MAX);
    steps
}

#[test]
fn flight_equals_the_given_window_whatever_the_own_law_computes() {
    let mut steps = bulk(3);
    for _ in 0..5 {
        steps.clear_round();
        assert_eq!(steps.client.info().flight_bytes, 3 * SMSS);
    }
    let told = steps.last();
    assert_eq!((told.cwnd_bytes, told.acked_bytes), (4 * SMSS, SMSS));
    assert_eq!((told.stage, told.limited), (Stage::SlowStart, false));
    assert_eq!(told.used_bytes, 3 * SMSS);
    steps.given_bytes = 20 * SMSS;
    steps.clear_round();
    assert_eq!(steps.client.info().flight_bytes, 20 * SMSS);
}

#[test]
fn an_application_limited_connection_reports_what_it_uses() {
    let mut steps = Steps::new(10);
    steps.write(u64::from(2 * SMSS));
    assert!(steps.last().limited);
    steps.clear_round();
    let told = steps.last();
    assert!(told.limited);
    assert_eq!((told.flight_bytes, told.used_bytes), (0, 2 * SMSS));
    steps.write(u64::from(40 * SMSS));
    assert!(!steps.last().limited);
}

#[test]
fn a_loss_is_reported_with_its_age_and_the_own_window_counts_until_recovery_ends() {
    let mut steps = bulk(10);
    steps.clear_round();
    steps.round(|number, segment| (number != 0).then_some(segment));
    let mut in_recovery = steps.told.iter();
    let entered = in_recovery.find(|told| told.stage == Stage::Recovery);
    let entered = *entered.expect("three duplicates");
    assert_eq!(entered.lost_age, Some(DELAY + DELAY));
    assert_eq!(entered.ssthresh_bytes, 5 * SMSS, "its own law's half");
    assert_eq!(steps.client.info().cwnd_bytes, 5 * SMSS);
    steps.clear_round();
    steps.clear_round();
    assert_eq!(steps.last().stage, Stage::SlowStart);
    assert_eq!(steps.client.info().cwnd_bytes, 10 * SMSS, "as it is given");
}

#[test]
fn a_mark_is_reported_as_a_recovery_of_one_window_of_data() {
    let mut steps = bulk(10);
    steps.clear_round();
    steps.round(|number, mut segment| {
        if number == 4 {
            segment.ecn = Ecn::Ce;
        }
        Some(segment)
    });
    let stages: Vec<Stage> = steps.told.iter().map(|told| told.stage).collect();
    assert!(stages.contains(&Stage::Recovery), "{stages:?}");
    assert_eq!(steps.client.totals().ecn_cuts, 1);
    steps.clear_round();
    steps.clear_round();
    assert_ne!(steps.last().stage, Stage::Recovery);
}

#[test]
fn a_timeout_is_reported_and_the_answer_does_not_raise_its_window() {
    let mut steps = bulk(10);
    steps.round(|_, _| None);
    let deadline = steps.client.deadline().expect("a timer runs");
    steps.now = deadline;
    let mut sent = Vec::new();
    steps
        .client
        .expire(deadline, &mut |segment| sent.push(segment));
    assert!(sent.is_empty(), "it sends before it is answered");
    steps.given_bytes = SMSS;
    steps.answer();
    let told = steps.last();
    assert_eq!((told.stage, told.cwnd_bytes), (Stage::Loss, SMSS));
    assert!(told.lost_age.expect("sent once") >= Nanos::from_millis(200));
    assert_eq!(steps.on_the_way.len(), 1, "the first segment again");
}

#[test]
fn a_finished_connection_reports_nothing() {
    let mut steps = Steps::new(10);
    steps.write(u64::from(SMSS));
    let (now, mut sent) = (steps.now, Vec::new());
    steps.client.finish(now, &mut |segment| sent.push(segment));
    steps.answer();
    for _ in 0..3 {
        steps.clear_round();
    }
    assert_eq!(steps.client.computed(steps.now), None);
    assert_eq!(steps.client.totals().acknowledged_bytes, u64::from(SMSS));
    let told = steps.told.len();
    steps.answer();
    assert_eq!(steps.told.len(), told);
}

#[test]
fn a_connection_without_a_controller_reports_nothing() {
    let mut client = Connection::client(&Config::default(), 1);
    assert_eq!(client.computed(Nanos::ZERO), None);
}

//! A case by its moments: what happened at each, and both senders' windows after it.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use uc_core::Core;
use uc_net::Nanos;
use uc_tcp::{Info, Segment, flags};

use crate::element::{Element, Translator, Wire};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::Plan;
use crate::smallest::exceeds;
use crate::world::{Cause, Hosts, Observer, State, World};

/// One moment of a run: all acts of the sender at one time.
#[derive(Clone, Debug, Default)]
struct Moment {
    at: Nanos,
    acks: u32,
    duplicates: u32,
    marked: u32,
    answers: u32,
    timers: u32,
    writes: u32,
    /// Number of segments sent, including retransmissions.
    sent: u32,
    /// Number of segments that were retransmitted.
    retransmitted: u64,
    /// Segments sent that the network lost.
    lost: u32,
    /// Segments sent that the network marked.
    hit: u32,
    after: Info,
}

/// An observer that sums up the acts of each moment.
struct Moments<'a> {
    plan: &'a Plan,
    list: Vec<Moment>,
    /// Number of the packet that is sent next.
    packet: u32,
    /// What the act that has not ended yet has sent: data segments, those lost, those marked.
    sent: [u32; 3],
}

impl Observer for Moments<'_> {
    fn sent(&mut self, _: Nanos, segment: &Segment) -> bool {
        let is_hit = |list: &[u32]| u32::from(list.contains(&self.packet));
        let data = &self.plan.data;
        let counts = [1, is_hit(&data.lost), is_hit(&data.marked)];
        if segment.payload_bytes > 0 {
            self.sent = std::array::from_fn(|index| self.sent[index] + counts[index]);
        }
        self.packet += 1;
        true
    }

    fn acted(&mut self, now: Nanos, cause: &Cause, before: &State, after: &State) -> bool {
        if self.list.last().is_none_or(|moment| moment.at != now) {
            self.list.push(Moment {
                at: now,
                ..Moment::default()
            });
        }
        let sent = std::mem::take(&mut self.sent);
        let Some(moment) = self.list.last_mut() else {
            return true;
        };
        match cause {
            Cause::Open => {}
            Cause::Arrival(segment) if segment.flags & flags::SYN != 0 => moment.answers += 1,
            Cause::Arrival(segment) => {
                let duplicate = after.totals.duplicate_acks > before.totals.duplicate_acks;
                moment.acks += 1;
                moment.duplicates += u32::from(duplicate);
                moment.marked += u32::from(segment.flags & flags::ECE != 0);
            }
            Cause::Timer => moment.timers += 1,
            Cause::Write => moment.writes += 1,
        }
        moment.sent += sent[0];
        moment.lost += sent[1];
        moment.hit += sent[2];
        moment.retransmitted += after.totals.retransmits - before.totals.retransmits;
        moment.after = after.info;
        true
    }
}

impl Moment {
    /// Describes the event in a few words.
    fn words(&self) -> String {
        let count = |count: u32, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let advancing = self.acks - self.duplicates;
        let words = [
            (self.timers > 0).then(|| "timeout".to_owned()),
            (self.writes > 0).then(|| "write".to_owned()),
            (self.answers > 0).then(|| "SYN-ACK".to_owned()),
            count(advancing, "ACK"),
            (self.marked > 0).then(|| format!("{} with ECE", self.marked)),
            count(self.duplicates, "duplicate ACK"),
        ];
        let mut text = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if self.sent > 0 {
            // writing to a String cannot fail
            let _ = write!(text, "; sends {}", self.sent);
        }
        for (count, what) in [
            (self.retransmitted, "again"),
            (self.lost.into(), "lost"),
            (self.hit.into(), "marked"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        text
    }
}

fn follow<E: Element>(plan: &Plan, hosts: &Hosts, element: E) -> Vec<Moment> {
    let mut moments = Moments {
        plan,
        list: Vec::new(),
        packet: 0,
        sent: [0; 3],
    };
    World::new(plan, hosts, element, &mut moments).run();
    moments.list
}

/// One row of the table: a moment, and the windows after it in segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Time since the start, in milliseconds.
    pub at_ms: f64,
    /// Description of what happened in the round.
    pub happened: String,
    /// Window of a native sender of law f.
    pub f: Window,
    /// Window of the guest's own TCP.
    pub guest: Window,
}

/// A sender's window, in segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Congestion window, in segments.
    pub cwnd: f64,
    /// Slow-start threshold, in segments; `None` before the first loss.
    pub ssthresh: Option<f64>,
}

impl Window {
    fn of(info: &Info) -> Self {
        let segments = |bytes: u32| f64::from(bytes) / f64::from(info.smss_bytes.max(1));
        let is_set = info.ssthresh_bytes < u32::MAX >> 1;
        Self {
            cwnd: segments(info.cwnd_bytes),
            ssthresh: is_set.then(|| segments(info.ssthresh_bytes)),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ssthresh {
            Some(ssthresh) => write!(f, "{}; {ssthresh}", self.cwnd),
            None => write!(f, "{}; –", self.cwnd),
        }
    }
}

/// Runs a case of a NewReno guest. Returns a row for each moment from the first data on, until f's
/// window is the larger one.
pub fn rows(plan: &Plan, law: Law, core: Core) -> Vec<Row> {
    let policy = rfc_policy(law, plan.initial_window_segments);
    let translator = Translator::new(core, policy, false);
    let native = follow(plan, &native_hosts(law), Wire);
    let translated = follow(plan, &guest_hosts(law, false), translator);
    let mut rows = Vec::new();
    let pairs = native.iter().zip(&translated);
    for (f, g) in pairs.filter(|(f, _)| f.at > Nanos::ZERO) {
        rows.push(Row {
            at_ms: f.at.0 as f64 / 1e6,
            happened: f.words(),
            f: Window::of(&f.after),
            guest: Window::of(&g.after),
        });
        if exceeds(&f.after, &g.after) {
            break;
        }
    }
    rows
}

/// Formats rows as a table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| time, ms | at both senders | f: window; ssthresh, segments | guest: window; ssthresh, segments |\n|---|---|---|---|\n",
    );
    for row in rows {
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.at_ms, row.happened, row.f, row.guest
        );
    }
    text
}

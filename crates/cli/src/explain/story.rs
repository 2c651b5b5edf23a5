//! The story of a flow: who it is, what governs it, what holds it back, what has happened.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use serde::Serialize;
use uc_agent::AgentState;
use uc_core::{Flow, consts};
use uc_port::{Event, FlowView, Passed};

use super::words;
use crate::seen::clock::{Clock, in_words};
use crate::seen::{FlowRow, Limit};

/// All that is told of a flow.
#[derive(Debug, Serialize)]
pub struct Story {
    /// As `uc flows` lists it.
    pub flow: FlowRow,
    /// The law and its parameters.
    pub law: String,
    /// The plan that is in force for new flows of the port; the flow's own may be an older one.
    pub generation: u32,
    /// Where the flow's rule stands, while its policy is in force and an agent can say it.
    pub rule_at: Option<RuleAt>,
    /// Of the handshake.
    pub agreed: AgreedRow,
    /// What holds the guest back now.
    pub limit: LimitRow,
    /// Since its last segment.
    pub idle_s: f64,
    /// Events that the ring has forgotten.
    pub events_forgotten: u16,
    /// The last events, the oldest first.
    pub events: Vec<EventLine>,
}

/// Where a rule stands.
#[derive(Debug, Serialize)]
pub struct RuleAt {
    /// The policy's file; or a key of etcd, and its revision.
    pub place: String,
    /// Of `[[rule]]`, or `[defaults]`.
    pub line: usize,
}

/// What both ends agreed on.
#[derive(Debug, Serialize)]
pub struct AgreedRow {
    /// Is the flow ECN-capable on the network?
    pub ecn: bool,
    /// Shift of the peer's windows.
    pub wscale: u8,
    /// May both ends use SACK?
    pub sack: bool,
    /// Do segments carry timestamps?
    pub timestamps: bool,
}

/// What holds the guest back.
#[derive(Debug, Serialize)]
pub struct LimitRow {
    /// Most often, of the looks.
    pub by: Limit,
    /// How often each was found, of all looks.
    pub looks: BTreeMap<Limit, u32>,
    /// In words.
    pub text: &'static str,
}

/// An event in words.
#[derive(Debug, Serialize)]
pub struct EventLine {
    /// In the flow's life, from 1 on.
    pub number: u16,
    /// In seconds of Unix time.
    pub unix_s: f64,
    /// What, as a name.
    pub kind: &'static str,
    /// How often in a row; 255: and more.
    pub times: u8,
    /// The law's window before; of `below_receiver` and `returned` the receiver's.
    pub before_bytes: u32,
    /// And behind it; of these the one given.
    pub after_bytes: u32,
    /// What, as a sentence.
    pub text: String,
}

impl EventLine {
    /// Of an event of this flow.
    pub fn new(event: &Event, flow: &FlowView, clock: &Clock) -> EventLine {
        EventLine {
            number: event.number,
            unix_s: clock.unix_s(event.at_ns),
            kind: event.kind.label(),
            times: event.times,
            before_bytes: event.before_bytes,
            after_bytes: event.after_bytes,
            text: words::event(event, &flow.state),
        }
    }
}

/// Hours, minutes, seconds and milliseconds of the day, in UTC.
pub fn time_of_day(unix_s: f64) -> String {
    let milliseconds = (unix_s * 1e3) as u64 % 86_400_000;
    let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
    format!(
        "{:02}:{:02}:{:02}.{milliseconds:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", time_of_day(self.unix_s), self.text)
    }
}

fn agreed(flow: &Flow) -> AgreedRow {
    let has = |bit: u32| flow.bits & bit != 0;
    AgreedRow {
        ecn: has(consts::FLOW_ECN),
        wscale: flow.wscale,
        sack: has(consts::FLOW_SACK),
        timestamps: has(consts::FLOW_TIMESTAMPS),
    }
}

fn most_often(looks: &[Limit]) -> LimitRow {
    let mut counts = BTreeMap::new();
    for limit in looks {
        *counts.entry(*limit).or_insert(0) += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let by = most.map_or(Limit::Guest, |(limit, _)| *limit);
    LimitRow {
        by,
        looks: counts,
        text: words::limit(by),
    }
}

impl Story {
    /// Of a flow at this moment, of what happened to it, and of what the last looks found.
    pub fn new(
        row: FlowRow,
        now: &FlowView,
        events: &[Event],
        looks: &[Limit],
        generation: u32,
        clock: &Clock,
    ) -> Story {
        let first = events.first().map_or(1, |event| event.number);
        Story {
            law: words::law(&now.state),
            generation,
            rule_at: None,
            agreed: agreed(&now.state),
            limit: most_often(looks),
            idle_s: clock.ago(now.state.seen_ns).as_secs_f64(),
            events_forgotten: first.saturating_sub(1),
            events: events
                .iter()
                .map(|event| EventLine::new(event, now, clock))
                .collect(),
            flow: row,
        }
    }

    /// Where its rule stands, if the agent's policy is the one that opened it.
    pub fn place_rule(&mut self, agent: Option<&AgentState>) {
        let policy = agent.map(|agent| &agent.policy);
        let Some(policy) = policy.filter(|policy| policy.plan == Some(self.flow.generation)) else {
            return;
        };
        let lines = &policy.rule_lines;
        self.rule_at = lines.get(usize::from(self.flow.rule)).map(|&line| RuleAt {
            place: match policy.revision {
                Some(revision) => format!("{}@{revision}", policy.place),
                None => policy.place.clone(),
            },
            line,
        });
    }

    fn rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.flow.rule, &self.rule_at) {
            (0, Some(_)) => "[defaults]".to_owned(),
            (0, None) => "that of `uc attach`, or a policy's [defaults]".to_owned(),
            (number, _) => format!("rule {number}"),
        };
        let at = self.rule_at.as_ref();
        let at = at.map_or_else(String::new, |at| format!(" ({}:{})", at.place, at.line));
        let since = if self.flow.generation == self.generation {
            "which is in force"
        } else {
            "which is in force no more, so the next flow may go by another"
        };
        let plan = self.flow.generation;
        writeln!(f, "  rule       {name}{at}, of plan {plan}, {since}")
    }

    /// Of the last event; 0: there was none.
    pub fn last_number(&self) -> u16 {
        self.events.last().map_or(0, |event| event.number)
    }

    fn windows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = &self.flow;
        let segments = |bytes| words::segments(bytes, flow.mss_bytes);
        let law = match flow.window_bytes {
            0x7fff_ffff => "throttles nothing".to_owned(),
            bytes => segments(bytes),
        };
        writeln!(f, "  window     the law's: {law}")?;
        if let Some(share) = flow.share_bytes {
            writeln!(f, "             its share of the group's: {share} bytes")?;
        }
        writeln!(
            f,
            "             given to the guest: {}",
            segments(flow.given_bytes)
        )?;
        writeln!(
            f,
            "             the receiver's: {} bytes",
            flow.receiver_bytes
        )?;
        writeln!(f, "             in flight: {}", segments(flow.flight_bytes))
    }

    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = &self.flow;
        write!(
            f,
            "  in all     {} cuts, {} losses, {} marks taken off data to the guest",
            flow.cuts, flow.losses, flow.marks
        )?;
        if let Some(alpha) = flow.alpha {
            write!(f, ", alpha {alpha:.4}")?;
        }
        writeln!(
            f,
            "\n  round trip {} us, smoothed; last segment {} ago",
            flow.srtt_us,
            in_words(std::time::Duration::from_secs_f64(self.idle_s))
        )
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_no = |has: bool, name: &'static str| if has { ("", name) } else { ("no ", name) };
        writeln!(f, "{}", self.flow.name)?;
        writeln!(f, "  law        {}", self.law)?;
        self.rule(f)?;
        if self.flow.stage == "translating" {
            let [ecn, sack, times] = [
                or_no(self.agreed.ecn, "ECN on the network"),
                or_no(self.agreed.sack, "SACK"),
                or_no(self.agreed.timestamps, "timestamps"),
            ]
            .map(|(no, name)| format!("{no}{name}"));
            writeln!(
                f,
                "  agreed     {ecn}, {sack}, {times}, window scale {}, segments of {} bytes",
                self.agreed.wscale, self.flow.mss_bytes
            )?;
            self.windows(f)?;
        }
        let looks: u32 = self.limit.looks.values().sum();
        let found = self.limit.looks.get(&self.limit.by).copied().unwrap_or(0);
        writeln!(
            f,
            "  held by    {} ({found} of {looks} looks)",
            self.limit.text
        )?;
        self.totals(f)?;
        if self.events.is_empty() {
            return writeln!(f, "  events     none are remembered of this flow");
        }
        if self.events_forgotten > 0 {
            writeln!(
                f,
                "  events     in UTC; {} before these are forgotten",
                self.events_forgotten
            )?;
        } else {
            writeln!(f, "  events     in UTC, all that there were")?;
        }
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "    {event}"))
    }
}

#[derive(Serialize)]
struct PassedRow<'a> {
    name: &'a str,
    unix_s: f64,
    reason: &'static str,
    meaning: &'static str,
}

/// Tells of a flow that is not translated.
///
/// # Errors
/// If it can't be put into JSON.
pub fn tell_passed(passed: &[(Passed, String)], clock: &Clock, json: bool) -> Result<()> {
    let rows: Vec<PassedRow<'_>> = passed
        .iter()
        .map(|(passed, name)| PassedRow {
            name,
            unix_s: clock.unix_s(passed.at_ns),
            reason: passed.reason.label(),
            meaning: passed.reason.meaning(),
        })
        .collect();
    if json {
        println!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "passed": rows }))?
        );
        return Ok(());
    }
    let name = rows.first().map_or("", |row| row.name);
    println!("{name}\n  is not translated: it passes as it is");
    for row in &rows {
        let at = time_of_day(row.unix_s);
        println!("    {at}  {}: {}", row.reason, row.meaning);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_told_to_the_millisecond() {
        assert_eq!(time_of_day(1_700_000_000.25), "22:13:20.250");
        assert_eq!(time_of_day(0.0), "00:00:00.000");
    }

    #[test]
    fn what_was_found_most_often_holds_the_guest_back() {
        let looks = [Limit::Law, Limit::Guest, Limit::Law];
        let row = most_often(&looks);
        assert_eq!((row.by, row.looks[&Limit::Law]), (Limit::Law, 2));
    }
}

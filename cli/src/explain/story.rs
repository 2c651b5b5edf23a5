//! The history of a flow: its ends, its rule, what limits it, and its events.

use std::collections::BTreeMap;

use serde::Serialize;
use uc_client::AgentState;
use uc_core::{Flow, consts};
use uc_port::{Event, FlowView};

use super::dupack::DupackBy;
use super::hold::HoldBy;
use super::split::SplitBy;
use super::words;
use crate::seen::clock::Clock;
use crate::seen::{FlowRow, Limit};

/// The history of a flow, with its state.
#[derive(Debug, Serialize)]
pub struct Story {
    /// The flow's row, as `uc flows` prints it.
    pub flow: FlowRow,
    /// Name of the flow's law, with its parameters.
    pub law: String,
    /// Generation of the plan that is in force for new flows of the port; the flow may have begun
    /// under an older one.
    pub generation: u32,
    /// File and line of the flow's rule. `None`: no agent answers, or the policy that opened the flow is no longer in
    /// force.
    pub rule_at: Option<RuleAt>,
    /// Whether this host splits the connection, so that `split_by` is set.
    pub split: bool,
    /// Settings of the split, if this host splits the connection; `None` if it does not.
    pub split_by: Option<SplitBy>,
    /// Duplicate ACKs that this host sent the guest; `None` if it sent none.
    pub dupack: Option<DupackBy>,
    /// Functions of `uc hold` that apply to the flow; `None` if none does.
    pub hold: Option<HoldBy>,
    /// What both ends agreed on in the handshake.
    pub agreed: AgreedRow,
    /// What limits the guest at this moment.
    pub limit: LimitRow,
    /// Time since the flow's last segment, in seconds.
    pub idle_s: f64,
    /// Number of the flow's events that newer ones have overwritten.
    pub events_forgotten: u16,
    /// The flow's last events, the oldest first.
    pub events: Vec<EventLine>,
}

/// The location of the flow's rule in the policy.
#[derive(Debug, Serialize)]
pub struct RuleAt {
    /// Path of the policy's file; or the key in etcd and its revision, as `KEY@REVISION`.
    pub place: String,
    /// The line of the policy file with the `[[rule]]`, or with `[defaults]`.
    pub line: usize,
}

/// The parameters that both ends agreed on.
#[derive(Debug, Serialize)]
pub struct AgreedRow {
    /// Whether the flow is ECN-capable on the network.
    pub ecn: bool,
    /// Window scale of the peer: number of bits by which its windows are shifted.
    pub wscale: u8,
    /// Whether both ends may use SACK.
    pub sack: bool,
    /// Whether segments carry timestamps.
    pub timestamps: bool,
}

/// What limits how much the guest sends now.
#[derive(Debug, Serialize)]
pub struct LimitRow {
    /// The most frequent limit of the samples.
    pub by: Limit,
    /// Number of samples in which each limit was found.
    pub looks: BTreeMap<Limit, u32>,
    /// What limits the guest, in words.
    pub text: &'static str,
}

/// An event as a row and as a sentence.
#[derive(Debug, Serialize)]
pub struct EventLine {
    /// Number of the event in the flow's life, from 1.
    pub number: u16,
    /// Time of the event, in seconds of Unix time.
    pub unix_s: f64,
    /// Name of the event, as in `uc explain --json`.
    pub kind: &'static str,
    /// Number of times that the event occurred in a row; 255 means 255 or more.
    pub times: u8,
    /// The law's window before the event; for events `below_receiver` and `returned`, the receiver's window.
    pub before_bytes: u32,
    /// The law's window after the event; for events `below_receiver` and `returned`, the advertised window.
    pub after_bytes: u32,
    /// The event in a sentence.
    pub text: String,
}

impl EventLine {
    /// Makes the line of one event of this flow.
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

fn agreed(flow: &Flow) -> AgreedRow {
    let has = |bit: u32| flow.bits & bit != 0;
    AgreedRow {
        ecn: flow.has_ecn(),
        wscale: flow.wscale(),
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
    /// Makes a flow's history from its state now, its events, and `looks`, the limits that samples found. `generation`:
    /// that of the plan in force.
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
            split: false,
            split_by: None,
            dupack: None,
            hold: None,
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

    /// Adds the location of the flow's rule, if the agent's policy in force is the one that opened the flow.
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

    /// Returns the number of the flow's last event; 0 if the flow has none.
    pub fn last_number(&self) -> u16 {
        self.events.last().map_or(0, |event| event.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_frequent_limit_is_reported_as_holding_the_guest_back() {
        let looks = [Limit::Law, Limit::Guest, Limit::Law];
        let row = most_often(&looks);
        assert_eq!((row.by, row.looks[&Limit::Law]), (Limit::Law, 2));
    }
}

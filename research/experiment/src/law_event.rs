//! Events of a law: when and why its window for a flow changed at once.

use serde::{Deserialize, Serialize};

/// Events of one kind between two samples of a flow. Most are single; several in a row share an
/// entry, so that a record has at most as many entries as samples and kinds allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LawEvent {
    /// Time of the first event, in nanoseconds since the run began.
    pub at_ns: u64,
    /// Kind of the events.
    pub kind: LawEventKind,
    /// Number of events in this entry.
    pub times: u32,
    /// The law's window before the first event.
    pub before_bytes: u32,
    /// The law's window after the last event; of a stepwise reduction its final value.
    pub after_bytes: u32,
    /// The law's slow-start threshold after the last event; `None` while the law has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh_bytes: Option<u32>,
}

/// The kind of an event, named as in `uc explain --json`, where `floor` is a `cut`, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LawEventKind {
    /// The law reduced its window on marks or on delay.
    Cut,
    /// Marks or delay asked for a reduction, but the window is at the law's minimum already.
    Floor,
    /// The guest's fast retransmit, on which the law reduced its window.
    FastRetransmit,
    /// The guest's retransmission timer expired.
    Timeout,
    /// Loss recovery is complete.
    Recovered,
    /// The guard dropped data beyond the advertised window.
    Guarded,
}

impl LawEventKind {
    /// Every kind, in the order of legends.
    pub const ALL: [Self; 6] = [
        Self::Cut,
        Self::Floor,
        Self::FastRetransmit,
        Self::Timeout,
        Self::Recovered,
        Self::Guarded,
    ];

    /// Returns the name in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Floor => "floor",
            Self::FastRetransmit => "fast_retransmit",
            Self::Timeout => "timeout",
            Self::Recovered => "recovered",
            Self::Guarded => "guarded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_names_in_json() {
        for kind in LawEventKind::ALL {
            let text = serde_json::to_string(&kind).expect("serialises");
            assert_eq!(text, format!("\"{}\"", kind.label()));
        }
    }
}

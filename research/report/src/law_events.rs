//! Events of a law on the line of its window: a sign for each, a legend, and a table for readers who cannot point at a
//! sign.

use std::collections::BTreeMap;

use uc_experiment::{FlowRecord, LawEvent, LawEventKind, Nanos};

use crate::numbers::{number, with_decimals};
use crate::unit::Unit;

/// Number of columns of a panel: events of a kind in one column share a sign, since signs are about
/// as wide.
const COLUMNS: u64 = 80;

/// Events of one kind that share a sign.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gathered {
    pub kind: LawEventKind,
    /// Where the sign is: the time and the window, in the figure's units, of the event with the
    /// largest window.
    pub at: (f64, f64),
    /// Number of events of this kind.
    times: u64,
    /// Times of the first and of the last event, in the figure's unit.
    first: f64,
    last: f64,
    /// The law's window before the first event and after the last, in segments.
    before: f64,
    after: f64,
}

/// The events that are marked in one panel.
pub(crate) struct Listed {
    /// Title of the panel.
    pub panel: String,
    /// Unit in which times are shown.
    pub unit: &'static str,
    pub events: Vec<Gathered>,
}

/// Returns the signs for a flow's events in the order of drawing ([`rank`]): later ones are drawn on top.
pub(crate) fn gather(flow: &FlowRecord, duration: Nanos, time: Unit) -> Vec<Gathered> {
    let mss = flow.samples.iter().map(|sample| sample.mss_bytes).max();
    let mss = f64::from(mss.unwrap_or(1).max(1));
    let mut signs: BTreeMap<(LawEventKind, u64), Gathered> = BTreeMap::new();
    for event in &flow.events {
        let column = u128::from(event.at_ns) * u128::from(COLUMNS) / u128::from(duration.0.max(1));
        let one = Gathered::of(event, mss, time);
        let key = (event.kind, column as u64);
        let sign = signs.get_mut(&key);
        match sign {
            Some(sign) => sign.join(&one),
            None => drop(signs.insert(key, one)),
        }
    }
    let mut signs: Vec<Gathered> = signs.into_values().collect();
    signs.sort_by_key(|sign| rank(sign.kind));
    signs
}

/// Returns a kind's place in the order of drawing.
fn rank(kind: LawEventKind) -> u8 {
    match kind {
        LawEventKind::Cut => 0,
        LawEventKind::Floor => 1,
        LawEventKind::Recovered => 2,
        LawEventKind::FastRetransmit => 3,
        LawEventKind::Guarded => 4,
        LawEventKind::Timeout => 5,
    }
}

/// Names one event of a kind, and several.
fn names(kind: LawEventKind) -> [&'static str; 2] {
    match kind {
        LawEventKind::Cut => ["cut on marks or delay", "cuts on marks or delay"],
        LawEventKind::Floor => ["cut at the minimum window", "cuts at the minimum window"],
        LawEventKind::FastRetransmit => ["fast retransmit", "fast retransmits"],
        LawEventKind::Timeout => ["timeout", "timeouts"],
        LawEventKind::Recovered => ["loss repaired", "losses repaired"],
        LawEventKind::Guarded => [
            "segment dropped by the guard",
            "segments dropped by the guard",
        ],
    }
}

/// Returns the SVG element of the symbol for a kind of event, centred at (0, 0).
fn shape(kind: LawEventKind) -> &'static str {
    match kind {
        LawEventKind::Cut => "<circle r=\"2.7\"/>",
        LawEventKind::Floor => "<path d=\"M0 -5.5V2.5M-5 2.5H5\"/>",
        LawEventKind::FastRetransmit => "<path d=\"M-5.5 -4.5H5.5L0 5.5Z\"/>",
        LawEventKind::Timeout => "<path d=\"M-4.5 -4.5L4.5 4.5M-4.5 4.5L4.5 -4.5\"/>",
        LawEventKind::Recovered => "<path d=\"M-4.5 4H4.5L0 -4.5Z\"/>",
        LawEventKind::Guarded => "<path d=\"M0 -5.5L5.5 0L0 5.5L-5.5 0Z\"/>",
    }
}

impl Gathered {
    fn of(event: &LawEvent, mss: f64, time: Unit) -> Self {
        let (before, after) = (
            f64::from(event.before_bytes) / mss,
            f64::from(event.after_bytes) / mss,
        );
        let at = Nanos(event.at_ns).as_secs_f64() / time.size;
        Self {
            kind: event.kind,
            at: (at, before),
            times: event.times.into(),
            first: at,
            last: at,
            before,
            after,
        }
    }

    /// Adds a later event of the same kind.
    fn join(&mut self, later: &Self) {
        if later.at.1 > self.at.1 {
            self.at = later.at;
        }
        self.times += later.times;
        self.last = later.last;
        self.after = later.after;
    }

    /// Returns the sign as an SVG element at this place of a drawing. A browser shows its description to a reader who
    /// points at it.
    pub(crate) fn svg(&self, (x, y): (i32, i32)) -> String {
        format!(
            "<g class=\"event {}\" transform=\"translate({x} {y})\"><title>{}</title>\
             <circle class=\"hit\" r=\"9\"/>{}</g>\n",
            self.kind.label(),
            self.words(),
            shape(self.kind)
        )
    }

    /// Describes the events: `3.214: cut on marks or delay, window 12 → 6`.
    fn words(&self) -> String {
        let [one, many] = names(self.kind);
        let what = match self.times {
            1 => one.to_owned(),
            times => format!("{times} {many}"),
        };
        let window = match self.kind {
            LawEventKind::Guarded => String::new(),
            _ => format!(", window {} → {}", number(self.before), number(self.after)),
        };
        format!("{}: {what}{window}", self.when())
    }

    fn when(&self) -> String {
        let (first, last) = (with_decimals(self.first, 3), with_decimals(self.last, 3));
        if first == last {
            first
        } else {
            format!("{first}–{last}")
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            names(self.kind)[0].to_owned(),
            self.when(),
            self.times.to_string(),
            number(self.before),
            number(self.after),
        ]
    }
}

impl Listed {
    /// Returns the table's title, with the number of events.
    pub(crate) fn title(&self) -> String {
        let times = self.events.iter().map(|event| event.times);
        format!("Events of the law: {} ({})", self.panel, times.sum::<u64>())
    }

    /// Returns the cells of the table, in order of time.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        let mut events: Vec<&Gathered> = self.events.iter().collect();
        events.sort_by(|one, other| one.first.total_cmp(&other.first));
        events.into_iter().map(Gathered::row)
    }

    /// Returns the header of the table.
    pub(crate) fn header(&self) -> [&'static str; 5] {
        let time = match self.unit {
            "seconds" => "time, s",
            "milliseconds" => "time, ms",
            _ => "time, µs",
        };
        [
            "event",
            time,
            "events",
            "window before, segments",
            "window after, segments",
        ]
    }
}

/// Describes the signs that occur, as entries of a legend.
pub(crate) fn legend(listed: &[Listed]) -> String {
    let occurs = |kind: &LawEventKind| {
        let mut events = listed.iter().flat_map(|listed| &listed.events);
        events.any(|event| event.kind == *kind)
    };
    let entry = |kind: LawEventKind| {
        format!(
            "<span><svg class=\"sign\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\">\
             <g class=\"event {}\">{}</g></svg>{}</span>",
            kind.label(),
            shape(kind),
            names(kind)[0]
        )
    };
    let kinds = LawEventKind::ALL.into_iter().filter(occurs);
    kinds.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use uc_experiment::FlowSample;

    use super::*;

    fn event(at_ms: u64, kind: LawEventKind, times: u32, segments: [u32; 2]) -> LawEvent {
        LawEvent {
            at_ns: at_ms * 1_000_000,
            kind,
            times,
            before_bytes: segments[0] * 1_000,
            after_bytes: segments[1] * 1_000,
            ssthresh_bytes: None,
        }
    }

    fn gathered(events: Vec<LawEvent>) -> Vec<Gathered> {
        let sample = FlowSample {
            mss_bytes: 1_000,
            ..FlowSample::default()
        };
        let flow = FlowRecord {
            samples: vec![sample],
            events,
            ..FlowRecord::default()
        };
        let seconds = Unit {
            name: "seconds",
            size: 1.0,
        };
        gather(&flow, Nanos(8_000_000_000), seconds)
    }

    #[test]
    fn events_of_a_kind_in_one_column_share_a_sign_at_the_largest_window() {
        // A column is 100 ms wide.
        let signs = gathered(vec![
            event(3_010, LawEventKind::Cut, 1, [12, 6]),
            event(3_020, LawEventKind::Timeout, 1, [7, 1]),
            event(3_090, LawEventKind::Cut, 3, [14, 7]),
            event(3_100, LawEventKind::Cut, 1, [10, 5]),
        ]);
        let words: Vec<String> = signs.iter().map(Gathered::words).collect();
        assert_eq!(
            words,
            [
                "3.010–3.090: 4 cuts on marks or delay, window 12 → 7",
                "3.100: cut on marks or delay, window 10 → 5",
                "3.020: timeout, window 7 → 1",
            ]
        );
        assert_eq!(signs[0].at, (3.09, 14.0));
        assert_eq!(signs[1].row()[1..], ["3.100", "1", "10", "5"]);
    }

    #[test]
    fn a_legend_has_the_signs_that_occur() {
        let listed = [Listed {
            panel: "p".into(),
            unit: "seconds",
            events: gathered(vec![event(1, LawEventKind::Guarded, 2, [1, 1])]),
        }];
        let text = legend(&listed);
        assert!(
            text.contains("event guarded") && !text.contains("event cut"),
            "{text}"
        );
        assert_eq!(listed[0].title(), "Events of the law: p (2)");
        assert_eq!(legend(&[]), "");
    }
}

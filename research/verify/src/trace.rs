//! The events of a case, line by line, up to the difference of f and g∘T.

use std::fmt::Write;

use uc_core::Core;
use uc_net::{Ecn, Nanos};
use uc_tcp::{Segment, flags};

use crate::element::{Element, Translator, Wire};
use crate::law::{Guest, Law, guest_hosts, native_hosts, rfc_policy, undoing};
use crate::layout::Fault;
use crate::plan::Plan;
use crate::world::{Cause, Hosts, Observer, State, World};

/// Number of lines shown before the difference.
const BEFORE: usize = 30;
/// Number of lines shown after the difference.
const AFTER: usize = 6;

/// A line of the printed trace of one run.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    state: State,
}

/// An observer that records a run as text.
#[derive(Default)]
struct Scribe {
    iss: u32,
    lines: Vec<Line>,
    /// Number of lines of segments whose act has not ended yet.
    open: usize,
}

impl Scribe {
    fn line(&mut self, now: Nanos, text: &str) {
        let text = format!("{:>13.6} ms {text}", now.0 as f64 / 1e6);
        let state = State::default();
        self.lines.push(Line { text, state });
    }
}

impl Observer for Scribe {
    fn sent(&mut self, now: Nanos, segment: &Segment) -> bool {
        let text = format!("  → {}", describe(segment, self.iss));
        self.line(now, &text);
        true
    }

    /// Records an act before its segments, although it is reported after them.
    fn acted(&mut self, now: Nanos, cause: &Cause, _: &State, after: &State) -> bool {
        let text = match cause {
            Cause::Open => "opens".to_owned(),
            Cause::Arrival(segment) => format!("← {}", describe_ack(segment, self.iss)),
            Cause::Timer => "timer".to_owned(),
            Cause::Write => format!("has written {} bytes", after.written_bytes),
        };
        self.line(now, &text);
        self.lines[self.open..].rotate_right(1);
        for line in &mut self.lines[self.open..] {
            line.state = *after;
        }
        self.open = self.lines.len();
        true
    }
}

fn describe(segment: &Segment, iss: u32) -> String {
    let from = segment.seq.wrapping_sub(iss);
    let to = from.wrapping_add(u32::from(segment.payload_bytes));
    format!("{} {from}:{to} {:?}", names(segment.flags), segment.ecn)
}

fn describe_ack(segment: &Segment, iss: u32) -> String {
    let ack = segment.ack.wrapping_sub(iss);
    let ce = if segment.ecn == Ecn::Ce { " CE" } else { "" };
    format!(
        "{} {ack} window {}{ce}",
        names(segment.flags),
        segment.window
    )
}

fn names(bits: u8) -> String {
    let all = [
        (flags::SYN, "SYN"),
        (flags::FIN, "FIN"),
        (flags::RST, "RST"),
        (flags::ACK, "ACK"),
        (flags::ECE, "ECE"),
        (flags::CWR, "CWR"),
    ];
    let set: Vec<&str> = all
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|&(_, name)| name)
        .collect();
    set.join(",")
}

fn follow<E: Element>(plan: &Plan, hosts: &Hosts, element: E) -> Vec<Line> {
    let mut scribe = Scribe {
        iss: plan.iss,
        ..Scribe::default()
    };
    World::new(plan, hosts, element, &mut scribe).run();
    scribe.lines
}

/// Formats both runs as one text: the common part once, then the rest of each. Windows are in
/// bytes: f's, then the guest's and the shadow's.
pub fn trace(plan: &Plan, law: Law, guest: Guest, core: Core) -> String {
    let strips_ecn = guest == Guest::EcnStripped;
    let policy = rfc_policy(law, plan.initial_window_segments);
    let translator = Translator::new(core, policy, strips_ecn).moving(&plan.handovers, Fault::None);
    let native = follow(plan, &undoing(native_hosts(law)), Wire);
    let translated = follow(plan, &undoing(guest_hosts(law, strips_ecn)), translator);
    let common = native
        .iter()
        .zip(&translated)
        .take_while(|(f, g)| f.text == g.text)
        .count();

    let mut text = String::new();
    // writing to a String cannot fail
    let first = common.saturating_sub(BEFORE);
    if first > 0 {
        let _ = writeln!(text, "({first} lines of both before)");
    }
    for (f, g) in native.iter().zip(&translated).take(common).skip(first) {
        let _ = writeln!(text, "both {:<64} {}", f.text, windows(f, g));
    }
    for (who, lines) in [("f   ", &native), ("g∘T ", &translated)] {
        for line in lines.iter().skip(common).take(AFTER) {
            let _ = writeln!(text, "{who} {:<64} {}", line.text, windows(line, line));
        }
        if lines.len() == common {
            let _ = writeln!(text, "{who} sends nothing more");
        }
    }
    text
}

fn windows(f: &Line, g: &Line) -> String {
    let mut text = format!("cwnd {}", f.state.info.cwnd_bytes);
    if f.state.info.ssthresh_bytes < u32::MAX >> 1 {
        let _ = write!(text, " ssthresh {}", f.state.info.ssthresh_bytes);
    }
    if let Some(shadow) = g.state.shadow {
        let (guest, shadow) = (g.state.info.cwnd_bytes, shadow.window_bytes);
        let _ = write!(text, " guest {guest} shadow {shadow}");
    }
    text
}

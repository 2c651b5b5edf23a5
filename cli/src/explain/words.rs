//! Events and laws in plain sentences.

use uc_core::remote::News;
use uc_core::{Flow, Law, Policy, consts};
use uc_law::{Kind, Profile, Row, Table, Value};
use uc_port::{Agreed, Closing, Event, EventKind};

use crate::seen::Limit;

/// Formats a window, for example "12 segments (17376 bytes)"; a window that is no whole number of segments gets one
/// decimal digit.
pub fn segments(bytes: u32, mss_bytes: u16) -> String {
    let segments = f64::from(bytes) / f64::from(mss_bytes.max(1));
    let exact = bytes.is_multiple_of(mss_bytes.max(1).into());
    let unit = if bytes == u32::from(mss_bytes.max(1)) {
        "segment"
    } else {
        "segments"
    };
    let digits = usize::from(!exact);
    format!("{segments:.digits$} {unit} ({bytes} bytes)")
}

/// Formats a change of a window, for example "from 20 to 10 segments (28960 to 14480 bytes)".
fn from_to(event: &Event, mss_bytes: u16) -> String {
    let in_segments = |bytes: u32| {
        let digits = usize::from(!bytes.is_multiple_of(mss_bytes.max(1).into()));
        let segments = f64::from(bytes) / f64::from(mss_bytes.max(1));
        format!("{segments:.digits$}")
    };
    format!(
        "from {} to {} segments ({} to {} bytes)",
        in_segments(event.before_bytes),
        in_segments(event.after_bytes),
        event.before_bytes,
        event.after_bytes
    )
}

fn agreed(agreed: &Agreed, event: &Event) -> String {
    let ecn = if agreed.ecn {
        "ECN on the network"
    } else {
        "no ECN"
    };
    let or_no = |has: bool, name: &str| {
        if has {
            name.to_owned()
        } else {
            format!("no {name}")
        }
    };
    format!(
        "both ends agreed: {ecn}, segments of {} bytes, window scale {}, {}, {}; the law begins \
         with {}",
        agreed.mss_bytes,
        agreed.wscale,
        or_no(agreed.sack, "SACK"),
        or_no(agreed.timestamps, "timestamps"),
        segments(event.after_bytes, agreed.mss_bytes)
    )
}

fn cut(signal: u32, event: &Event, flow: &Flow) -> String {
    let why = Law::of(&flow.policy)
        .why_it_cuts()
        .replace("{target}", &flow.policy.delay().target_us.to_string())
        .replace("{us}", &signal.to_string())
        .replace(
            "{q30}",
            &format!("{:.3}", f64::from(signal) / f64::from(1 << 30)),
        );
    let window = from_to(event, flow.mss_bytes);
    format!("{why}, and the law cut its window {window}")
}

fn closed(closing: &Closing) -> &'static str {
    match (closing.reset, closing.guest, closing.peer) {
        (true, ..) => "a reset passed",
        (false, true, true) => "both ends closed the connection",
        (false, true, false) => "the guest closed its side",
        (false, false, _) => "the peer closed its side",
    }
}

fn without_ecn(shown: Option<News>) -> &'static str {
    match shown {
        Some(News::Refused) => {
            "the other end refused a SYN that asks for ECN; unless it agreed to ECN within the last \
             hour, flows to its address do without for an hour"
        }
        Some(News::Lost) => {
            "packets with ECN were lost, and those without arrived: the flow goes on without ECN, and \
             others to the address for an hour"
        }
        Some(News::Marked) => {
            "all packets with ECN were marked, and those without arrived, though no queue delayed \
             them: the flow goes on without ECN, and others to the address for an hour"
        }
        _ => "the flow does without ECN, as others to its address have lost by it",
    }
}

/// Describes an event of a flow in one sentence, without its full stop.
pub fn event(event: &Event, flow: &Flow) -> String {
    let mss = flow.mss_bytes;
    let text = match &event.kind {
        EventKind::Opened { by_guest: true } => "the guest's SYN opened the flow".to_owned(),
        EventKind::Opened { by_guest: false } => "the peer's SYN opened the flow".to_owned(),
        EventKind::SynAgain { syns } => {
            format!("a SYN was sent again, the last the {syns}. in all")
        }
        EventKind::Agreed(what) => agreed(what, event),
        EventKind::Cut { signal } => cut(*signal, event, flow),
        EventKind::FastRetransmit { flight_bytes } => format!(
            "after duplicate ACKs the guest sent a segment again, with {} in flight; the law cut \
             its window {}",
            segments(*flight_bytes, mss),
            from_to(event, mss)
        ),
        EventKind::Timeout { flight_bytes } => format!(
            "the guest's retransmission timer fired, with {} in flight; the law's window went {}",
            segments(*flight_bytes, mss),
            from_to(event, mss)
        ),
        EventKind::Recovered => format!(
            "the loss was repaired; the law goes on with {}",
            segments(event.after_bytes, mss)
        ),
        EventKind::Below {
            receiver_bytes,
            given_bytes,
        } => format!(
            "from here on the guest was given less than the receiver offered: {} of {} bytes",
            segments(*given_bytes, mss),
            receiver_bytes
        ),
        EventKind::Returned { receiver_bytes } => format!(
            "the law's window was no longer less than the receiver's, {receiver_bytes} bytes, \
             which the guest was given"
        ),
        EventKind::Shared { share_bytes } => format!(
            "the flow's group gave it a share of the common window: {}",
            segments(*share_bytes, mss)
        ),
        EventKind::Guarded { beyond_bytes } => {
            format!("the guard dropped data that lay {beyond_bytes} bytes beyond the window given")
        }
        EventKind::Closed(closing) => closed(closing).to_owned(),
        EventKind::WithoutEcn { shown } => without_ecn(*shown).to_owned(),
    };
    match event.times {
        0 | 1 => text,
        255 => format!("{text} (255 times and more)"),
        times => format!("{text} ({times} times)"),
    }
}

/// Describes the flow's law and its parameters, by their keys in policy files.
pub fn law(flow: &Flow) -> String {
    let policy = &flow.policy;
    let law = Law::of(policy);
    let mut text = format!("{}, {}", law.name(), law.what());
    let is_told = |row: &&Row<Policy>| {
        let number = row.get(policy);
        let chosen = row.usual != Some(number) || !row.is_of_any_law();
        row.is_of(law) && chosen && row.kind != Kind::Flag && row.range.contains(&number)
    };
    let values = Policy::rows().iter().filter(is_told);
    for (i, row) in values.enumerate() {
        let value = Value::of_field(row, row.get(policy)).text(row);
        text += &format!("{} {} {value}", if i == 0 { ":" } else { "," }, row.key);
    }
    let profiles = Profile::words();
    let profile = profiles.get(usize::from(policy.profile));
    text += &format!(
        "; profile {}, {} segments to begin with",
        profile.map_or("unknown", |word| word.word),
        policy.initial_window_segments
    );
    if u32::from(policy.modes) & consts::MODE_OBSERVE != 0 {
        text += "; observed only, nothing is written";
    }
    text
}

/// Describes in words what limits the guest.
pub fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Handshake => "the handshake is not over",
        Limit::Closed => "nothing: the connection is over",
        Limit::Repair => "a loss: the guest repairs it, and its own TCP says what is sent",
        Limit::Law => {
            "the law: the guest fills the window that it is given, which is less than \
             the receiver's"
        }
        Limit::Receiver => "the receiver: the guest fills its window, and the law allows more",
        Limit::Guest => {
            "the guest itself: its own congestion control or its application leaves \
             room in the window given"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::{FlowState, consts};

    fn flow(law: u32) -> Flow {
        let state = FlowState {
            mss_bytes: 1448,
            policy: Policy::new(law, consts::PROFILE_LINUX),
            ..FlowState::default()
        };
        state.into()
    }

    fn told(kind: EventKind, before: u32, after: u32, times: u8, law: u32) -> String {
        let happened = Event {
            number: 1,
            at_ns: 1,
            times,
            before_bytes: before * 1448,
            after_bytes: after * 1448,
            kind,
        };
        event(&happened, &flow(law))
    }

    #[test]
    fn windows_are_told_in_segments_and_bytes() {
        assert_eq!(segments(14_480, 1448), "10 segments (14480 bytes)");
        assert_eq!(segments(1448, 1448), "1 segment (1448 bytes)");
        assert_eq!(segments(2172, 1448), "1.5 segments (2172 bytes)");
        assert_eq!(segments(0, 0), "0 segments (0 bytes)");
    }

    #[test]
    fn a_cut_says_which_signal_made_it() {
        let cut = |law, signal| told(EventKind::Cut { signal }, 20, 15, 1, law);
        let ecn = cut(consts::LAW_ECN, 900);
        assert!(ecn.starts_with("the receiver echoed a mark"), "{ecn}");
        assert!(
            ecn.ends_with("from 20 to 15 segments (28960 to 21720 bytes)"),
            "{ecn}"
        );
        assert!(cut(consts::LAW_DCTCP, 1 << 29).contains("fraction, was 0.500"));
        let delay = cut(consts::LAW_DELAY, 1700);
        assert!(
            delay.contains("target of 1000 us (smoothed: 1700 us)"),
            "{delay}"
        );
    }

    #[test]
    fn repeated_event_is_told_once_with_its_count() {
        let guarded = |times| {
            let kind = EventKind::Guarded { beyond_bytes: 9 };
            told(kind, 0, 0, times, consts::LAW_ECN)
        };
        assert!(!guarded(1).contains("times"));
        assert!(guarded(3).ends_with("(3 times)"));
        assert!(guarded(255).ends_with("(255 times and more)"));
    }

    #[test]
    fn a_law_is_told_with_its_own_parameters_only() {
        let dctcp = law(&flow(consts::LAW_DCTCP));
        assert!(dctcp.contains("beta 1, gain 4, alpha 1,"), "{dctcp}");
        assert!(!dctcp.contains("target"));
        let delay = law(&flow(consts::LAW_DELAY));
        assert!(delay.contains(": target 1ms, target_range 0ns"), "{delay}");
        assert!(!delay.contains("alpha"));
    }
}

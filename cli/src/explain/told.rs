//! Formats a flow's history for people.

use std::fmt;
use std::time::Duration;

use super::story::{EventLine, Story};
use super::words;
use crate::seen::clock::{in_words, time_of_day};

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", time_of_day(self.unix_s), self.text)
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_no = |has: bool, name: &'static str| if has { ("", name) } else { ("no ", name) };
        writeln!(f, "{}", self.flow.name)?;
        writeln!(f, "  law        {}", self.law)?;
        self.rule(f)?;
        if let Some(split) = &self.split_by {
            writeln!(f, "  technique  {split}")?;
        }
        if let Some(dupack) = &self.dupack {
            writeln!(f, "  technique  {dupack}")?;
        }
        if let Some(hold) = &self.hold {
            writeln!(f, "  technique  {hold}")?;
        }
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

impl Story {
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
        let round_trip = match flow.srtt_us {
            0 => "not measured yet".to_owned(),
            us => format!("{us} us, smoothed"),
        };
        writeln!(
            f,
            "\n  round trip {round_trip}; last segment {} ago",
            in_words(Duration::from_secs_f64(self.idle_s))
        )
    }
}

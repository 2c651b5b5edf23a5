//! What passed the port of one flow, and what the guest's kernel held after each of its steps.

use std::fmt::Write as _;
use std::ops::Range;

use uc_core::{Segment, consts};
use uc_lab::tcp_info::TcpInfo;

/// `TCP_CA_*` of the kernel.
pub const CWR: u8 = 2;
pub const RECOVERY: u8 = 3;
pub const LOSS: u8 = 4;

/// What became of a packet on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub dropped: bool,
    pub marked: bool,
    pub later: bool,
}

/// A step of a flow. A [`Event::Kernel`] follows the segments of each step: the guest has processed
/// all of them and sent what they let out.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "as many of one as of the other, some hundreds a flow"
)]
pub enum Event {
    Segment { segment: Segment, fate: Fate },
    Kernel(TcpInfo),
}

/// A flow as it was.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When each event was, in nanoseconds of the monotonic clock.
    pub events: Vec<(u64, Event)>,
    /// Whether all data was acknowledged in time.
    pub finished: bool,
    /// Whether a SYN was repeated while the guest's settings were those of another flow: its kernel and
    /// the port may not agree on the options.
    pub is_mixed: bool,
}

impl Record {
    pub fn note(&mut self, at_ns: u64, event: Event) {
        self.events.push((at_ns, event));
    }

    /// Prints the events of a range with sequence numbers from the first on, and after those of the
    /// kernel what `beside` returns for their number.
    pub fn print(&self, range: Range<usize>, beside: &dyn Fn(usize) -> String) -> String {
        let mut text = String::new();
        let start_ns = self.events.first().map_or(0, |(at_ns, _)| *at_ns);
        let isn = |direction| {
            let of = |(_, event): &(u64, Event)| match event {
                Event::Segment { segment, .. } if u32::from(segment.direction) == direction => {
                    Some(segment.seq)
                }
                _ => None,
            };
            self.events.iter().find_map(of).unwrap_or(0)
        };
        let isns = [isn(consts::FROM_GUEST), isn(consts::TO_GUEST)];
        for number in range.start..range.end.min(self.events.len()) {
            let (at_ns, event) = &self.events[number];
            let at_ms = (at_ns - start_ns) as f64 / 1e6;
            let _ = writeln!(
                text,
                "{number:5} {at_ms:9.3} ms {}{}",
                line(event, isns),
                beside(number)
            );
        }
        text
    }
}

fn line(event: &Event, [guest, far]: [u32; 2]) -> String {
    match event {
        Event::Kernel(info) => format!(
            "    kernel ca {} cwnd {} ssthresh {} unacked {} sacked {} lost {} retrans {}/{} rto {} dsack {} mss {}",
            info.ca_state,
            info.snd_cwnd,
            info.snd_ssthresh as i32,
            info.unacked,
            info.sacked,
            info.lost,
            info.retrans,
            info.total_retrans,
            info.total_rto,
            info.dsack_dups,
            info.snd_mss,
        ),
        Event::Segment { segment, fate } => {
            let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
            let (seq, ack) = match from_guest {
                true => (
                    segment.seq.wrapping_sub(guest),
                    segment.ack.wrapping_sub(far),
                ),
                false => (
                    segment.seq.wrapping_sub(far),
                    segment.ack.wrapping_sub(guest),
                ),
            };
            let flags: String = "FSRPAUEC"
                .chars()
                .enumerate()
                .filter(|(bit, _)| segment.flags >> bit & 1 != 0)
                .map(|(_, letter)| letter)
                .collect();
            let arrow = if from_guest { "guest >" } else { "< far  " };
            let words = [
                (fate.dropped, " dropped"),
                (fate.marked, " marked"),
                (fate.later, " later"),
            ];
            let fate: String = words
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, word)| *word)
                .collect();
            format!(
                "{arrow} {flags:4} seq {seq}+{} ack {ack} window {} ecn {}{fate}",
                segment.payload_bytes, segment.window, segment.ecn
            )
        }
    }
}

//! The shadows of the port's flows: their sequence numbers, windows and events continue from one
//! sample to the next, whatever process was killed or replaced meanwhile.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use uc_port::{Event, FlowView, Programs, Store};

use super::network::FLOWS;
use crate::common::agent::Installation;

/// The shadows of all flows at one moment.
pub struct Shadows<'a> {
    here: &'a Installation,
    last: BTreeMap<SocketAddr, Shadow>,
    tells_events: bool,
}

/// A flow's shadow and its history; a reopened flow has another history.
struct Shadow {
    flow: FlowView,
    events: Vec<Event>,
}

impl Shadow {
    /// Panics unless this shadow continues `then`.
    fn goes_on_from(&self, then: &Shadow, when: &str, tells_events: bool) {
        let (now, before) = (&self.flow.state, &then.flow.state);
        let who = format!("{when}: {}", self.flow.guest);
        for (what, now, before) in [
            ("snd_una", now.snd_una, before.snd_una),
            ("snd_nxt", now.snd_nxt, before.snd_nxt),
            ("the furthest edge", now.furthest_edge, before.furthest_edge),
            ("echoed_ack", now.echoed_ack, before.echoed_ack),
            ("cuts", now.cuts, before.cuts),
            ("losses", now.losses, before.losses),
            ("marks", now.marks, before.marks),
        ] {
            let further = now.wrapping_sub(before) as i32;
            assert!(further >= 0, "{who}: {what} went back by {further}");
        }
        for (what, now, before) in [
            ("timed", now.timed_tick, before.timed_tick),
            ("sent", now.sent_tick, before.sent_tick),
        ] {
            let further = now.wrapping_sub(before) as i32;
            assert!(further >= 0, "{who}: {what} went back by {further} ticks");
        }
        assert!(now.seen_ns >= before.seen_ns, "{who}: seen went back");
        // Parameters of the handshake, and the slot of the entry.
        let settled = |shadow: &Shadow| {
            let (flow, state) = (&shadow.flow, &shadow.flow.state);
            let agreed = (
                state.stage,
                state.syns(),
                state.wscale(),
                state.mss_bytes,
                state.policy,
            );
            (agreed, flow.generation, flow.rule, flow.rule_number)
        };
        assert_eq!(settled(self), settled(then), "{who}");
        assert!(
            now.srtt_us > 0 || before.srtt_us == 0,
            "{who}: no round-trip time any more"
        );
        self.window_goes_on_from(then, &who);
        if tells_events {
            self.story_goes_on_from(then, &who);
        }
    }

    fn window_goes_on_from(&self, then: &Shadow, who: &str) {
        let (now, before) = (&self.flow.state, &then.flow.state);
        if now.cuts + now.losses > before.cuts + before.losses {
            return;
        }
        // Without a reduction, cwnd falls only where a flow leaves it unused (RFC 2861), and not
        // below the restart window: here its policy's initial one. ssthresh remembers three
        // quarters.
        let restart: u32 = now.policy.initial_window_segments.into();
        let (cwnd, least) = (now.reno.cwnd, before.reno.cwnd.min(restart));
        assert!(
            cwnd >= least,
            "{who}: cwnd {cwnd} after {}",
            before.reno.cwnd
        );
        let (ssthresh, least) = (now.reno.ssthresh, before.reno.ssthresh);
        assert!(
            ssthresh >= least,
            "{who}: ssthresh {ssthresh} after {least}"
        );
        // It begins at 1, and without a mark only falls (RFC 8257 §3.3): it must never restart.
        let (alpha, most) = (now.dctcp.alpha_q30, before.dctcp.alpha_q30);
        assert!(alpha <= most, "{who}: alpha {alpha} after {most}, of 2^30");
    }

    fn story_goes_on_from(&self, then: &Shadow, who: &str) {
        let [Some(first), Some(last)] = [then.events.first(), then.events.last()] else {
            panic!("{who}: no event is remembered");
        };
        let count = self.events.last().map_or(0, |event| event.number);
        assert!(
            count >= last.number,
            "{who}: {count} events after {}",
            last.number
        );
        // The ring holds 16; here it has a few: the same SYN, at the same nanosecond.
        assert_eq!(self.events.first(), Some(first), "{who}");
    }
}

impl<'a> Shadows<'a> {
    /// Starts without any shadow seen.
    pub fn of(here: &'a Installation) -> Self {
        Self {
            here,
            last: BTreeMap::new(),
            tells_events: true,
        }
    }

    /// From now on does not require that a shadow's events continue the earlier ones.
    pub fn forget_events(&mut self) {
        self.tells_events = false;
    }

    fn programs(&self) -> Programs {
        let pins = self.here.sandbox.path("/sys/fs/bpf/undercurrent");
        Store::at(pins).open().unwrap().unwrap()
    }

    /// Panics unless each shadow continues the former one.
    pub fn go_on(&mut self, when: &str) {
        let programs = self.programs();
        let now = programs.flows().unwrap();
        assert_eq!(now.len(), usize::from(FLOWS), "{when}: flows in the table");
        for flow in now {
            let events = programs.events(&flow).unwrap();
            let shadow = Shadow { flow, events };
            if let Some(before) = self.last.get(&shadow.flow.guest) {
                shadow.goes_on_from(before, when, self.tells_events);
            }
            self.last.insert(shadow.flow.guest, shadow);
        }
    }

    /// Counts the shadows that have changed since their flow opened; initial ones would prove
    /// nothing.
    pub fn learnt(&self) -> usize {
        let began = 1 << 30;
        let states = self.last.values().map(|shadow| &shadow.flow.state);
        states
            .filter(|state| state.dctcp.alpha_q30 < began / 2 && state.srtt_us > 0)
            .count()
    }
}

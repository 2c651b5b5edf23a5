//! A row for a flow, in tables and histories.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use uc_core::{Flow, Law, consts};
use uc_port::FlowView;

use super::shadow::window_bytes;
use super::truth::TruthRow;

/// A flow of the table. Windows count from the last acknowledged byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRow {
    /// The name by which `uc explain` finds it.
    pub name: String,
    /// The port's name.
    pub port: String,
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Address and port of the guest's end.
    pub guest: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// ID of the VLAN in which the port sees it; 0: in none.
    #[serde(default, skip_serializing_if = "is_untagged")]
    pub vlan: u16,
    /// Stage of the handshake.
    pub stage: Cow<'static, str>,
    /// Whether the law's window is computed but never written.
    pub observed: bool,
    /// Number of the policy's rule that opened it, as in `uc check`: from 1; 0 for the defaults, or
    /// a port attached by hand.
    pub rule: u16,
    /// The generation of the host's plan that had this rule.
    pub generation: u32,
    /// The name of the flow's law.
    pub law: Cow<'static, str>,
    /// Which TCP sender the law's shadow imitates.
    pub profile: Cow<'static, str>,
    /// Law `dctcp`: the marked fraction of bytes, as estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Law `coupled`, or shared windows: the flow's share of its group's window, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<u64>,
    /// The law's window; 2³¹−1 if it limits nothing. Of a law from outside the tree whose machine is
    /// its own: the window that was advertised to the guest.
    pub window_bytes: u32,
    /// The window that was advertised to the guest.
    pub given_bytes: u32,
    /// The receiver's window.
    pub receiver_bytes: u32,
    /// Bytes in flight.
    pub flight_bytes: u32,
    /// Payload of a full segment.
    pub mss_bytes: u16,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Reductions on marks or delay.
    pub cuts: u32,
    /// Fast retransmits and timeouts.
    pub losses: u32,
    /// CE marks cleared from data to the guest.
    pub marks: u32,
    /// What limits the guest at this moment.
    pub limit: Limit,
    /// Acknowledged data of the guest, in bit/s, if measured.
    pub sent_bits_per_s: Option<u64>,
    /// Data that the guest acknowledged, in bit/s, if measured.
    pub received_bits_per_s: Option<u64>,
    /// The kernel's values of the guest's socket, if they were asked for and there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<TruthRow>,
    /// Sequence number up to which the guest's data was acknowledged.
    #[serde(skip)]
    pub snd_una: u32,
    /// Sequence number up to which the guest has acknowledged.
    #[serde(skip)]
    pub echoed_ack: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_untagged(vlan: &u16) -> bool {
    *vlan == 0
}

/// What limits a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The handshake is not complete.
    Handshake,
    /// The connection is closed.
    Closed,
    /// Loss recovery by the guest's own TCP.
    Repair,
    /// The law's window is full.
    Law,
    /// The receiver's window is full, and the law allows more.
    Receiver,
    /// No window is full: the limit is the guest's own congestion control, or its application.
    Guest,
}

impl Limit {
    /// Finds what limits the flow's sender at this moment.
    pub fn of(flow: &Flow) -> Limit {
        if uc_core::is_closed(flow) {
            return Limit::Closed;
        }
        if u32::from(flow.stage) != consts::TRANSLATING {
            return Limit::Handshake;
        }
        let repairs = [consts::CA_RECOVERY, consts::CA_LOSS].contains(&flow.ca.into());
        if repairs {
            return Limit::Repair;
        }
        let room_bytes = flow.edge.wrapping_sub(flow.snd_nxt) as i32;
        if room_bytes >= i32::from(flow.mss_bytes) {
            return Limit::Guest;
        }
        if flow.given_window < flow.peer_window {
            Limit::Law
        } else {
            Limit::Receiver
        }
    }

    /// Returns the name in one word.
    pub fn label(self) -> &'static str {
        match self {
            Limit::Handshake => "handshake",
            Limit::Closed => "closed",
            Limit::Repair => "repair",
            Limit::Law => "law",
            Limit::Receiver => "receiver",
            Limit::Guest => "guest",
        }
    }

    /// All limits, in order.
    pub const ALL: [Limit; 6] = [
        Limit::Handshake,
        Limit::Closed,
        Limit::Repair,
        Limit::Law,
        Limit::Receiver,
        Limit::Guest,
    ];
}

/// Returns the name by which users select a flow: its port, with the VLAN's ID as `vnet3.5`, and its ends.
pub fn name(port: &str, vlan: u16, guest: SocketAddr, remote: SocketAddr) -> String {
    format!("{} {guest} {remote}", port_and_vlan(port, vlan))
}

fn port_and_vlan(port: &str, vlan: u16) -> String {
    match vlan {
        0 => port.to_owned(),
        vlan => format!("{port}.{vlan}"),
    }
}

impl FlowRow {
    /// Returns the port's name, and behind a point the ID of a VLAN.
    pub fn port_and_vlan(&self) -> String {
        port_and_vlan(&self.port, self.vlan)
    }

    /// Makes the row of a flow on the port `port`; `share_bytes` is its share of a group's window.
    pub fn new(flow: &FlowView, port: String, share_bytes: Option<u64>) -> FlowRow {
        let state = &flow.state;
        let policy = &state.policy;
        let given_bytes = u32::from(state.given_window) << state.wscale();
        let is_rfc = u32::from(policy.profile) == consts::PROFILE_RFC;
        FlowRow {
            name: name(&port, flow.vlan, flow.guest, flow.remote),
            vlan: flow.vlan,
            port,
            ifindex: flow.ifindex,
            guest: flow.guest,
            remote: flow.remote,
            stage: uc_core::stage_label(state).into(),
            observed: u32::from(policy.modes) & consts::MODE_OBSERVE != 0,
            rule: flow.rule_number,
            generation: flow.generation,
            law: Law::of(&state.policy).name().into(),
            profile: if is_rfc { "rfc" } else { "linux" }.into(),
            alpha: uc_core::COMPILED
                .alpha_q30(state)
                .map(|alpha| f64::from(alpha) / f64::from(1 << 30)),
            share_bytes,
            window_bytes: window_bytes(state).unwrap_or(given_bytes),
            given_bytes,
            receiver_bytes: u32::from(state.peer_window) << state.wscale(),
            flight_bytes: state.snd_nxt.wrapping_sub(state.snd_una),
            mss_bytes: state.mss_bytes,
            srtt_us: state.srtt_us >> 3,
            cuts: state.cuts,
            losses: state.losses,
            marks: state.marks,
            limit: Limit::of(state),
            sent_bits_per_s: None,
            received_bits_per_s: None,
            truth: None,
            snd_una: state.snd_una,
            echoed_ack: state.echoed_ack,
        }
    }
}

#[cfg(test)]
mod tests {
    use uc_core::{FlowState, Policy};

    use super::*;

    /// Builds a flow under way whose guest has used `flight` of `given` bytes.
    fn flow(flight: u32, given: u16, receiver: u16) -> Flow {
        let state = FlowState {
            stage: consts::TRANSLATING as u8,
            snd_una: u32::MAX - 500,
            snd_nxt: (u32::MAX - 500).wrapping_add(flight),
            edge: (u32::MAX - 500).wrapping_add(given.into()),
            given_window: given,
            peer_window: receiver,
            mss_bytes: 1000,
            ..FlowState::default()
        };
        state.into()
    }

    #[test]
    fn law_that_is_not_in_the_tree_is_shown_by_its_number_with_the_given_window() {
        let mut state = flow(10_000, 10_000, 60_000);
        state.policy.law = 15;
        let ends = ["10.0.0.1:1", "10.0.0.2:2"].map(|end| end.parse().unwrap());
        let view = FlowView::of(1, ends[0], ends[1], state);
        let row = FlowRow::new(&view, "tap0".to_owned(), None);
        assert_eq!((&*row.law, row.window_bytes), ("15", row.given_bytes));
        let policy = Policy::new(consts::LAW_DELAY, consts::PROFILE_RFC);
        state.policy = policy;
        let known = window_bytes(&state);
        assert_eq!(known, Some(uc_core::COMPILED.window_bytes(&state)));
    }

    #[test]
    fn filled_window_names_the_end_that_made_it_small() {
        assert_eq!(Limit::of(&flow(10_000, 10_000, 60_000)), Limit::Law);
        assert_eq!(Limit::of(&flow(9_500, 10_000, 60_000)), Limit::Law);
        assert_eq!(Limit::of(&flow(9_000, 10_000, 60_000)), Limit::Guest);
        assert_eq!(Limit::of(&flow(60_000, 60_000, 60_000)), Limit::Receiver);
    }

    #[test]
    fn handshake_recovery_and_close_are_limits_of_their_own() {
        let mut opening = flow(0, 0, 0);
        opening.stage = consts::SYN_SENT as u8;
        assert_eq!(Limit::of(&opening), Limit::Handshake);
        let mut repairing = flow(10_000, 10_000, 60_000);
        repairing.ca = consts::CA_LOSS as u8;
        assert_eq!(Limit::of(&repairing), Limit::Repair);
    }
}

//! A row for a flow, in tables and histories.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use uc_core::{Flow, Law, consts};
use uc_port::FlowView;

use super::shadow::window_bytes;
use super::truth::TruthRow;

/// A flow of the table. A window starts at the last acknowledged byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRow {
    /// The flow's name, by which `uc explain` finds the flow.
    pub name: String,
    /// Name of the flow's port.
    pub port: String,
    /// Index of the interface of the flow's port.
    pub ifindex: u32,
    /// Address and port of the guest's end.
    pub guest: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// VLAN ID of the flow's packets at the port; 0: packets without a VLAN tag.
    #[serde(default, skip_serializing_if = "is_untagged")]
    pub vlan: u16,
    /// Stage of the flow: `syn-sent`, `syn-received` or `translating`.
    pub stage: Cow<'static, str>,
    /// Whether the law's window is computed but never written.
    pub observed: bool,
    /// Number of the policy's rule that opened the flow, as in `uc check`: from 1; 0 for the defaults, or for a port
    /// attached by hand.
    pub rule: u16,
    /// Generation of the host's compiled rules that contained this rule.
    pub generation: u32,
    /// Name of the flow's law.
    pub law: Cow<'static, str>,
    /// Name of the TCP sender that the law's shadow imitates (profile).
    pub profile: Cow<'static, str>,
    /// The estimate α of the marked fraction of bytes, 0 to 1; `None` unless the law is `dctcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The flow's share of its group's window, in bytes; `None` if the flow shares no window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<u64>,
    /// Window of the law in bytes; 2³¹−1 if the law does not limit the flow. For a law from outside the tree with a
    /// machine of its own: the window that was advertised to the guest.
    pub window_bytes: u32,
    /// The window that was advertised to the guest, in bytes.
    pub given_bytes: u32,
    /// Window that the receiver advertised, in bytes.
    pub receiver_bytes: u32,
    /// Number of the guest's bytes in flight.
    pub flight_bytes: u32,
    /// Payload of a full segment of the guest, in bytes.
    pub mss_bytes: u16,
    /// Smoothed round-trip time of the flow, in microseconds.
    pub srtt_us: u32,
    /// Number of window reductions on marks or delay.
    pub cuts: u32,
    /// Number of fast retransmits and timeouts of the guest.
    pub losses: u32,
    /// Number of packets to the guest from which a CE mark was cleared.
    pub marks: u32,
    /// What limits the guest at this moment.
    pub limit: Limit,
    /// Goodput of the guest's data, in bit/s: bytes that the remote end acknowledged. `None`: not measured.
    pub sent_bits_per_s: Option<u64>,
    /// Goodput of data to the guest, in bit/s: bytes that the guest acknowledged. `None`: not measured.
    pub received_bits_per_s: Option<u64>,
    /// Values of the guest's socket in the kernel; `None` if they were not asked for or can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<TruthRow>,
    /// Sequence number up to which the remote end has acknowledged the guest's data.
    #[serde(skip)]
    pub snd_una: u32,
    /// Sequence number up to which the guest has acknowledged the remote end's data.
    #[serde(skip)]
    pub echoed_ack: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_untagged(vlan: &u16) -> bool {
    *vlan == 0
}

/// The limits of how much a guest sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The flow's handshake is not complete.
    Handshake,
    /// The flow's connection is closed.
    Closed,
    /// The guest's own TCP is in loss recovery.
    Repair,
    /// The guest has filled the law's window.
    Law,
    /// The receiver's window is full, and the law allows more.
    Receiver,
    /// No window is full: the limit is the guest's own congestion control, or its application.
    Guest,
}

impl Limit {
    /// Returns what limits the flow's sender at this moment.
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

    /// Returns the name of the limit in one word.
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

    /// All limits, in the order in which they are shown.
    pub const ALL: [Limit; 6] = [
        Limit::Handshake,
        Limit::Closed,
        Limit::Repair,
        Limit::Law,
        Limit::Receiver,
        Limit::Guest,
    ];
}

/// Returns the name by which users select a flow: its port (with a VLAN as `vnet3.5`), the guest's end and the remote
/// end, separated by spaces.
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
    /// Returns the port's name; in a VLAN, with a point and the VLAN's ID after it.
    pub fn port_and_vlan(&self) -> String {
        port_and_vlan(&self.port, self.vlan)
    }

    /// Makes the row of a flow on the port `port`; `share_bytes`: its share of its group's window; `None`: it shares no
    /// window.
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

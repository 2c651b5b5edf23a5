//! A flow, as rows and stories show it.

use std::net::SocketAddr;

use serde::Serialize;
use uc_core::{Flow, consts};
use uc_port::FlowView;

/// A flow of the table. Windows count from the last byte acknowledged.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    /// What `uc explain` finds it by.
    pub name: String,
    /// The port's name.
    pub port: String,
    /// The port's interface.
    pub ifindex: u32,
    /// The guest's end.
    pub guest: String,
    /// The other end.
    pub remote: String,
    /// Where the handshake stands.
    pub stage: &'static str,
    /// Whether the law's state is kept and nothing written.
    pub observed: bool,
    /// Which of the policy's rules opened it, as `uc check` counts them: from 1, and 0 for the
    /// defaults, or what was given by hand;
    pub rule: u16,
    /// The generation of the host's plan that had this rule.
    pub generation: u32,
    /// The name of the flow's law.
    pub law: &'static str,
    /// Which TCP sender the law's shadow imitates.
    pub profile: &'static str,
    /// Law `dctcp`: the marked fraction of bytes, as estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Law `coupled`, or a window that is shared by weights: the flow's part of its group's, where
    /// it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<u64>,
    /// The law's window; 2³¹−1 where it throttles nothing.
    pub window_bytes: u32,
    /// The window that the guest was given.
    pub given_bytes: u32,
    /// The receiver's window.
    pub receiver_bytes: u32,
    /// On its way.
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
    /// What holds the guest back at this moment.
    pub limit: Limit,
    /// Data of the guest that was acknowledged, per second, where it was measured.
    pub sent_bits_per_s: Option<u64>,
    /// Data that the guest acknowledged, per second, where it was measured.
    pub received_bits_per_s: Option<u64>,
    /// The guest's data up to here were acknowledged.
    #[serde(skip)]
    pub snd_una: u32,
    /// The guest has acknowledged up to here.
    #[serde(skip)]
    pub echoed_ack: u32,
    /// The guest's end.
    #[serde(skip)]
    pub guest_at: SocketAddr,
    /// The other end.
    #[serde(skip)]
    pub remote_at: SocketAddr,
}

/// What holds a guest back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The handshake isn't over.
    Handshake,
    /// The connection is.
    Closed,
    /// A loss is being repaired, by the guest's own TCP.
    Repair,
    /// The law's window is full.
    Law,
    /// The receiver's window is full, which the law would let grow.
    Receiver,
    /// No window is: the guest's own congestion control, or its application.
    Guest,
}

impl Limit {
    /// Finds what limits the flow's sender at this moment.
    pub fn of(flow: &Flow) -> Limit {
        if u32::from(flow.stage) != consts::TRANSLATING {
            return Limit::Handshake;
        }
        if uc_core::is_closed(flow) {
            return Limit::Closed;
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

    /// In a word.
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

    /// All of them.
    pub const ALL: [Limit; 6] = [
        Limit::Handshake,
        Limit::Closed,
        Limit::Repair,
        Limit::Law,
        Limit::Receiver,
        Limit::Guest,
    ];
}

/// The name by which a flow is asked for.
pub fn name(port: &str, guest: SocketAddr, remote: SocketAddr) -> String {
    format!("{port} {guest} {remote}")
}

impl FlowRow {
    /// Makes the row of a flow on the port `port`; `share_bytes` is its share of a group's window.
    pub fn new(flow: &FlowView, port: String, share_bytes: Option<u64>) -> FlowRow {
        let state = &flow.state;
        let policy = &state.policy;
        let is_rfc = u32::from(policy.profile) == consts::PROFILE_RFC;
        FlowRow {
            name: name(&port, flow.guest, flow.remote),
            port,
            ifindex: flow.ifindex,
            guest: flow.guest.to_string(),
            remote: flow.remote.to_string(),
            stage: uc_core::stage_label(state),
            observed: policy.observe != 0,
            rule: flow.rule_number,
            generation: flow.generation,
            law: uc_core::Law::of(&state.policy).name(),
            profile: if is_rfc { "rfc" } else { "linux" },
            alpha: uc_core::law::alpha_q30(state)
                .map(|alpha| f64::from(alpha) / f64::from(1 << 30)),
            share_bytes,
            window_bytes: uc_core::window_bytes(state),
            given_bytes: u32::from(state.given_window) << state.wscale.min(14),
            receiver_bytes: u32::from(state.peer_window) << state.wscale.min(14),
            flight_bytes: state.snd_nxt.wrapping_sub(state.snd_una),
            mss_bytes: state.mss_bytes,
            srtt_us: state.srtt_us >> 3,
            cuts: state.cuts,
            losses: state.losses,
            marks: state.marks,
            limit: Limit::of(state),
            sent_bits_per_s: None,
            received_bits_per_s: None,
            snd_una: state.snd_una,
            echoed_ack: state.echoed_ack,
            guest_at: flow.guest,
            remote_at: flow.remote,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow in the middle of its life whose guest has used `flight` of `given` bytes.
    fn flow(flight: u32, given: u16, receiver: u16) -> Flow {
        Flow {
            stage: consts::TRANSLATING as u8,
            snd_una: u32::MAX - 500,
            snd_nxt: (u32::MAX - 500).wrapping_add(flight),
            edge: (u32::MAX - 500).wrapping_add(given.into()),
            given_window: given,
            peer_window: receiver,
            mss_bytes: 1000,
            ..Flow::default()
        }
    }

    #[test]
    fn filled_window_names_the_end_that_made_it_small() {
        assert_eq!(Limit::of(&flow(10_000, 10_000, 60_000)), Limit::Law);
        assert_eq!(Limit::of(&flow(9_500, 10_000, 60_000)), Limit::Law);
        assert_eq!(Limit::of(&flow(9_000, 10_000, 60_000)), Limit::Guest);
        assert_eq!(Limit::of(&flow(60_000, 60_000, 60_000)), Limit::Receiver);
    }

    #[test]
    fn a_handshake_a_repair_and_an_end_are_limits_of_their_own() {
        let mut opening = flow(0, 0, 0);
        opening.stage = consts::SYN_SENT as u8;
        assert_eq!(Limit::of(&opening), Limit::Handshake);
        let mut repairing = flow(10_000, 10_000, 60_000);
        repairing.ca = consts::CA_LOSS as u8;
        assert_eq!(Limit::of(&repairing), Limit::Repair);
    }
}

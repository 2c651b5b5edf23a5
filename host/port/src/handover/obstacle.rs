//! Why a flow stays behind when others are handed over.

use std::net::SocketAddr;

use uc_core::{Flow, Law, consts};

/// A flow that was not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftFlow {
    /// Address and port of the guest's end.
    pub guest: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// ID of the VLAN in which the port sees it; 0: in none.
    pub vlan: u16,
    /// Why the flow was not handed over.
    pub why: Obstacle,
}

impl LeftFlow {
    /// Returns the flow's name at a port, and why it was left.
    pub fn at(&self, port: &str) -> String {
        let vlan = match self.vlan {
            0 => String::new(),
            vlan => format!(".{vlan}"),
        };
        let LeftFlow {
            guest, remote, why, ..
        } = self;
        format!("{port}{vlan} {guest} {remote}: {why}")
    }
}

/// Why a flow can't be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The flow is still in its handshake.
    #[error("its handshake is incomplete; the new port translates it when an end repeats its SYN")]
    Handshake,
    /// The law comes from a folder (`--laws`); on another host its number may stand for another law.
    #[error(
        "its law, number {0}, comes from --laws, and the number may name another law on the new \
         host"
    )]
    Law(u8),
    /// The flow was idle so long that its table entry may be reused.
    #[error("it was idle for so long that the flow table may drop it")]
    Over,
    /// The flow's window is a part of a group's, and the port has no group.
    #[error(
        "it shares its window in a group, and flows of this port share none; attach the port with \
         the same law \
         and coupling as on the old host"
    )]
    NoGroup,
    /// The port only observes, so it would not go on to translate the flow.
    #[error(
        "this port only observes, so it would not go on translating the flow; attach it without \
         --observe"
    )]
    Observed,
    /// A value of the flow does not fit into the field of the other version.
    #[error(
        "a value of its state is too large for the field of this version of uc; use the release \
         that the flow comes from"
    )]
    Narrow,
    /// The core of this version can't go on with the flow's state.
    #[error("its state is invalid in this version of uc; use the release that the flow comes from")]
    Unsound,
    /// The table of the new host has the flow already.
    #[error("this port's table has the flow already, and keeps its own state")]
    Known,
    /// The port has as many flows as it may have.
    #[error("the port's quota is full; raise its tenant's flows_max, or without one the table's")]
    Quota,
    /// The flow table of the new host is full.
    #[error(
        "the flow table is full; raise agent.flows_max or --flows-max, which takes effect after \
         `uc detach --all --wait`"
    )]
    Full,
}

/// Returns why no host can take over a flow in this state; `None` if one can.
pub(crate) fn obstacle(state: &Flow) -> Option<Obstacle> {
    let law = Law::of(&state.policy);
    if !Law::inside().any(|inside| inside == law) {
        return Some(Obstacle::Law(law.number()));
    }
    let is_agreed = u32::from(state.stage) == consts::TRANSLATING;
    (!is_agreed).then_some(Obstacle::Handshake)
}

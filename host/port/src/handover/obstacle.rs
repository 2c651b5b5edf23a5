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
    /// Why it was not.
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
    /// The flow has no state yet that is worth it.
    #[error("its handshake is incomplete; the new port translates a SYN that is sent again")]
    Handshake,
    /// The law is from a folder; another host may have another one of its number.
    #[error("its law {0} is from --laws, and its number may be another's on the new host")]
    Law(u8),
    /// The flow was idle so long that its place may be reused.
    #[error("it was idle beyond the table's limit")]
    Over,
    /// The flow's window is a part of a group's, and the port has no group.
    #[error("it shares its window, and flows of this port do not; give the port a coupling")]
    NoGroup,
    /// The port writes nothing, and the flow would go on to be translated.
    #[error("this port only observes; attach it without --observe")]
    Observed,
    /// A number of the flow is larger than the other version's field.
    #[error("a number of its state has no room in this version of uc")]
    Narrow,
    /// The core of this version can't go on with the flow's state.
    #[error("its state is invalid in this version of uc")]
    Unsound,
    /// The table has the flow.
    #[error("this port has it already")]
    Known,
    /// The port has as many flows as it may have.
    #[error("the port's quota is full; raise its tenant's flows_max, or without one the table's")]
    Quota,
    /// The table has no room.
    #[error(
        "the flow table is full; raise agent.flows_max or --flows-max, which takes effect after \
         `uc detach --all --wait`"
    )]
    Full,
}

/// Returns why no host can take over a flow in this state.
pub(crate) fn obstacle(state: &Flow) -> Option<Obstacle> {
    let law = Law::of(&state.policy);
    if !Law::inside().any(|inside| inside == law) {
        return Some(Obstacle::Law(law.number()));
    }
    let is_agreed = u32::from(state.stage) == consts::TRANSLATING;
    (!is_agreed).then_some(Obstacle::Handshake)
}

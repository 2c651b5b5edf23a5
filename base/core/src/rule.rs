//! Matching of flows by an operator's rules (`core/rule.h`).

mod prefix;

use std::net::SocketAddr;

use crate::{Policy, sys};

pub use prefix::{Prefix, PrefixError};

/// How many rules a port may have.
pub const RULES_MAX: usize = sys::UC_RULES_MAX as usize;

/// The flows that a rule applies to: all conditions must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Prefix that contains the guest's address.
    pub local: Prefix,
    /// Prefix that contains the other end's address.
    pub remote: Prefix,
    /// TCP ports of the guest: the first and the last of a range.
    pub local_ports: (u16, u16),
    /// TCP ports of the other end: the first and the last of a range.
    pub remote_ports: (u16, u16),
    /// DSCPs of the SYN that match: bit n for DSCP n.
    pub dscps: u64,
}

impl Match {
    /// Matches every flow.
    pub const ALL: Match = Match {
        local: Prefix::ANY,
        remote: Prefix::ANY,
        local_ports: (0, u16::MAX),
        remote_ports: (0, u16::MAX),
        dscps: u64::MAX,
    };

    /// Returns the match in the form that the port programs read.
    pub fn compile(&self) -> sys::uc_match {
        let (local, local_mask) = self.local.words();
        let (remote, remote_mask) = self.remote.words();
        sys::uc_match {
            local,
            local_mask,
            remote,
            remote_mask,
            local_ports: [self.local_ports.0, self.local_ports.1],
            remote_ports: [self.remote_ports.0, self.remote_ports.1],
            dscps: self.dscps,
        }
    }

    /// Returns the match from its compiled form.
    pub fn of_compiled(compiled: &sys::uc_match) -> Match {
        Match {
            local: Prefix::of_words(compiled.local, compiled.local_mask),
            remote: Prefix::of_words(compiled.remote, compiled.remote_mask),
            local_ports: (compiled.local_ports[0], compiled.local_ports[1]),
            remote_ports: (compiled.remote_ports[0], compiled.remote_ports[1]),
            dscps: compiled.dscps,
        }
    }

    /// Returns whether the port programs match a flow between these ends whose SYN has this DSCP.
    pub fn matches(&self, local: SocketAddr, remote: SocketAddr, dscp: u8) -> bool {
        let octets = |end: SocketAddr| Prefix::host(end.ip()).words().0;
        let ends = sys::uc_ends {
            local: octets(local),
            remote: octets(remote),
            local_port: local.port(),
            remote_port: remote.port(),
            dscp,
            pad: [0; 3],
        };
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_matches(&self.compile(), &ends) != 0 }
    }

    /// Returns whether this matches every flow that `other` matches.
    pub fn covers(&self, other: &Match) -> bool {
        let spans = |own: (u16, u16), other: (u16, u16)| own.0 <= other.0 && own.1 >= other.1;
        self.local.contains(other.local)
            && self.remote.contains(other.remote)
            && spans(self.local_ports, other.local_ports)
            && spans(self.remote_ports, other.remote_ports)
            && self.dscps & other.dscps == other.dscps
    }
}

/// The operator's policy for the flows that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The flows that the rule applies to.
    pub matches: Match,
    /// The policy of flows that match the rule.
    pub policy: Policy,
    /// Weight of each flow in its port's shared windows; 0: it shares none.
    pub share: u8,
    /// Number of the rule as the operator sees it, from 1; several entries may belong to one rule; 0: none.
    pub number: u16,
}

impl Rule {
    /// Returns a rule with one policy for all flows.
    pub fn all(policy: Policy) -> Rule {
        Rule {
            matches: Match::ALL,
            policy,
            share: 0,
            number: 0,
        }
    }
}

/// A rule in the form that the programs read.
pub type CompiledRule = sys::uc_rule;

impl Rule {
    /// Returns the rule in the form that the port programs read.
    pub fn compile(&self) -> CompiledRule {
        CompiledRule {
            match_: self.matches.compile(),
            policy: self.policy,
            share: self.share,
            pad: 0,
            number: self.number,
        }
    }

    /// Returns the rule from its compiled form.
    pub fn of_compiled(compiled: &CompiledRule) -> Rule {
        Rule {
            matches: Match::of_compiled(&compiled.match_),
            policy: compiled.policy,
            share: compiled.share,
            number: compiled.number,
        }
    }
}

//! The laws f that have a native twin in `uc-tcp`, the guests' laws g, the hosts that run them, and
//! the policies of ports.

use uc_core::{Policy, consts};
use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, SpuriousTimeout};

use crate::world::Hosts;

/// The guest whose TCP is g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// NewReno without ECN, the guest of vCC's theorems.
    NewReno,
    /// NewReno with ECN, from which the concatenation of vCC §2.4 strips ECN.
    EcnStripped,
}

/// The network's law f. A further law is a variant here, its native endpoint and its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// NewReno that obeys RFC 3168: vCC's theorem 1.
    Ecn,
    /// RFC 8257, toward a DCTCP receiver: vCC's theorem 2.
    Dctcp,
}

impl Guest {
    /// All guests, in the order of the record.
    pub const ALL: [Guest; 2] = [Guest::NewReno, Guest::EcnStripped];

    /// Returns the guest's name, as `uc-bench verify --guest` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Guest::NewReno => "newreno",
            Guest::EcnStripped => "ecn-stripped",
        }
    }
}

impl Law {
    /// All laws, in the order of the record.
    pub const ALL: [Law; 2] = [Law::Ecn, Law::Dctcp];

    /// Returns the law's name, as `uc-bench verify --law` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Law::Ecn => "ecn",
            Law::Dctcp => "dctcp",
        }
    }

    /// Returns the congestion control of the native endpoint.
    fn congestion_control(self) -> CongestionControl {
        match self {
            Law::Ecn => CongestionControl::NewReno,
            Law::Dctcp => CongestionControl::Dctcp {
                gain_shift: 4,
                initial_alpha_q10: 1024,
            },
        }
    }
}

/// Returns the hosts that run the law f natively: no host delay, and a sender that follows RFC 5681
/// and RFC 6582 exactly, so an ACK with a changed window is no duplicate (RFC 5681 §2 (e)).
pub fn native_hosts(law: Law) -> Hosts {
    let mut hosts = guest_hosts(law, true);
    hosts.sender.congestion_control = law.congestion_control();
    hosts.sender.any_window_duplicates = false;
    hosts
}

/// Returns g and its receiver. The guest counts duplicate ACKs by number, since T changes windows; `ecn`: whether the
/// guest requests ECN.
pub fn guest_hosts(law: Law, ecn: bool) -> Hosts {
    Hosts {
        sender: Config {
            ecn,
            ..Config::textbook()
        },
        receiver: Config {
            ecn: true,
            congestion_control: law.congestion_control(),
            ..Config::textbook()
        },
        host_delay: Nanos::ZERO,
        both_ways: false,
        until: Nanos::MAX,
    }
}

/// Returns these hosts, with a sender that undoes spurious timeouts (RFC 5682, RFC 4015).
#[must_use]
pub fn undoing(mut hosts: Hosts) -> Hosts {
    hosts.sender.spurious_timeout = SpuriousTimeout::Undo;
    hosts
}

/// Returns the policy of the theorems: a law, by the RFCs to the letter.
pub fn rfc_policy(law: Law, initial_window_segments: u8) -> Policy {
    let law = match law {
        Law::Ecn => consts::LAW_ECN,
        Law::Dctcp => consts::LAW_DCTCP,
    };
    Policy {
        initial_window_segments,
        modes: consts::MODE_TRUST_ECN as u8,
        ..Policy::new(law, consts::PROFILE_RFC)
    }
}

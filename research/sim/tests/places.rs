//! Many connections at the port of one guest.

use std::cell::RefCell;
use std::rc::Rc;

use uc_core::{COMPILED, Policy, Reason, consts, hooks};
use uc_net::{Ecn, Nanos};
use uc_sim::Port;
use uc_sim::tenant_port::{SWEEP_NS, Settings, TenantPort};
use uc_tcp::Options;
use uc_tcp::flags::{ACK, CWR, ECE, SYN};

/// A guest with its connections, in the order in which they open.
struct Guest {
    tenant: Rc<RefCell<TenantPort>>,
    policy: Policy,
    connections: Vec<Port>,
}

impl Guest {
    fn new(settings: Settings) -> Guest {
        Guest {
            tenant: TenantPort::shared(settings),
            policy: Policy::new(consts::LAW_ECN, consts::PROFILE_RFC),
            connections: Vec::new(),
        }
    }

    /// Sends the SYN of a new connection.
    fn syn(&mut self, at: u64) -> (Reason, uc_tcp::Segment) {
        let tenant = Rc::clone(&self.tenant);
        let mut port = Port::at(tenant, COMPILED, self.policy, 0);
        let mut syn = segment(100, 0, SYN, 0);
        let reason = port.from_guest(Nanos(at), &mut syn);
        self.connections.push(port);
        (reason, syn)
    }

    /// Opens a connection, on which the guest sends data that the peer acknowledges.
    fn open(&mut self, at: u64) -> Reason {
        let (reason, _) = self.syn(at);
        if reason == Reason::TRANSLATED {
            self.answer(self.connections.len() - 1, at);
        }
        reason
    }

    fn answer(&mut self, connection: usize, at: u64) -> Reason {
        let port = &mut self.connections[connection];
        let answer = &mut segment(500, 101, SYN | ACK | ECE, 0);
        let reason = port.to_guest(Nanos(at), answer);
        port.from_guest(Nanos(at), &mut segment(101, 501, ACK, 1_000));
        port.to_guest(Nanos(at), &mut segment(501, 1_101, ACK, 0));
        reason
    }

    /// Returns which connections have a flow.
    fn known(&self) -> Vec<usize> {
        let known = |&at: &usize| self.connections[at].flow().is_some();
        (0..self.connections.len()).filter(known).collect()
    }

    /// Returns the numbers of settled and of half-open flows.
    fn flows(&self) -> (u32, u32) {
        let tenant = self.tenant.borrow();
        (tenant.settled(), tenant.half_open())
    }
}

fn segment(seq: u32, ack: u32, flags: u8, payload_bytes: u16) -> uc_tcp::Segment {
    uc_tcp::Segment {
        seq,
        ack,
        window: 65_535,
        payload_bytes,
        flags,
        ecn: Ecn::NotEct,
        options: Options {
            mss_bytes: if flags & SYN > 0 { 1_000 } else { 0 },
            ..Options::default()
        },
    }
}

fn places(places: u32, flows_max: u32) -> Settings {
    Settings {
        places,
        flows_max,
        ..Settings::default()
    }
}

#[test]
fn a_guest_has_as_many_settled_flows_as_its_quota() {
    let mut guest = Guest::new(places(64, 3));
    let reasons: Vec<Reason> = (1..=5).map(|at| guest.open(at)).collect();
    assert_eq!(reasons[..3], [Reason::TRANSLATED; 3]);
    assert_eq!(reasons[3..], [Reason::QUOTA_FULL; 2]);
    assert_eq!((guest.known(), guest.flows()), (vec![0, 1, 2], (3, 0)));
}

#[test]
fn a_guest_without_a_quota_has_half_of_the_table() {
    let mut guest = Guest::new(places(64, 0));
    let opened = (1..=64).filter(|&at| guest.open(at) == Reason::TRANSLATED);
    assert_eq!(opened.count(), 32);
    assert_eq!(guest.flows(), (32, 0));
}

#[test]
fn thousands_of_flows_at_one_port_are_all_translated() {
    let mut guest = Guest::new(Settings::default());
    for at in 1..=5_000 {
        assert_eq!(guest.open(at), Reason::TRANSLATED);
    }
    assert_eq!(guest.flows(), (5_000, 0));
    assert_eq!(guest.known().len(), 5_000);
}

#[test]
fn a_new_flow_gets_the_place_of_a_stale_one() {
    let mut guest = Guest::new(places(2, 2));
    guest.open(1);
    guest.open(2);
    let stale_at = consts::IDLE_TRANSLATED_NS + 2;
    // One of both is not idle.
    guest.connections[1].from_guest(Nanos(stale_at), &mut segment(1_101, 501, ACK, 0));
    assert_eq!(guest.open(stale_at - 1), Reason::QUOTA_FULL);
    assert_eq!(guest.open(stale_at + SWEEP_NS), Reason::TRANSLATED);
    assert_eq!((guest.known(), guest.flows()), (vec![1, 3], (2, 0)));
    let mut data = segment(1_101, 501, ACK, 1_000);
    let late = &mut guest.connections[0];
    assert_eq!(
        late.from_guest(Nanos(stale_at + SWEEP_NS + 1), &mut data),
        Reason::NO_HANDSHAKE
    );
    assert_eq!(data, segment(1_101, 501, ACK, 1_000));
}

#[test]
fn a_full_table_passes_new_flows_unmodified() {
    let mut guest = Guest::new(places(2, 9));
    guest.open(1);
    guest.open(2);
    let (reason, syn) = guest.syn(3);
    assert_eq!(reason, Reason::TABLE_FULL);
    assert_eq!(syn, segment(100, 0, SYN, 0));
    assert_eq!(guest.answer(2, 4), Reason::NO_HANDSHAKE);
    assert_eq!((guest.known(), guest.flows()), (vec![0, 1], (2, 0)));
}

#[test]
fn a_full_table_drops_new_flows_in_strict_mode() {
    let mut guest = Guest::new(places(2, 9));
    guest.policy.modes |= consts::MODE_STRICT as u8;
    guest.open(1);
    guest.open(2);
    let (reason, _) = guest.syn(3);
    assert_eq!(reason, Reason::TABLE_FULL.strict());
    assert!(reason.drops());
    assert_eq!(guest.known(), [0, 1]);
}

#[test]
fn a_half_open_flow_displaces_the_oldest_in_its_ring() {
    // The ring of the guest's SYNs has 4 of 32 places.
    let mut guest = Guest::new(places(32, 0));
    guest.open(1);
    for at in 2..=7 {
        assert_eq!(guest.syn(at).0, Reason::TRANSLATED);
    }
    // The settled flow had the first turn, and keeps its place.
    assert_eq!(guest.known(), [0, 3, 4, 5, 6]);
    assert_eq!(guest.flows(), (1, 4));
    assert_eq!(guest.answer(1, 8), Reason::NO_HANDSHAKE);
    assert_eq!(guest.answer(3, 9), Reason::TRANSLATED);
    assert_eq!(guest.flows(), (2, 3));
}

#[test]
fn a_removed_flow_gives_its_place_back() {
    let mut guest = Guest::new(places(2, 9));
    guest.open(1);
    guest.syn(2);
    assert_eq!(guest.flows(), (1, 1));
    let refusal = &mut segment(500, 101, SYN | ACK, 0);
    assert_eq!(
        guest.connections[1].to_guest(Nanos(3), refusal),
        Reason::PEER_REFUSED_ECN
    );
    assert_eq!(guest.flows(), (1, 0));
    assert_eq!(guest.open(4), Reason::TRANSLATED);
    assert_eq!(guest.known(), [0, 2]);
}

#[test]
fn new_flows_ask_for_no_ecn_while_the_hook_to_the_guest_is_blind() {
    for watches_hooks in [false, true] {
        let mut guest = Guest::new(Settings {
            watches_hooks,
            ..Settings::default()
        });
        guest.open(1);
        let run_ns = u64::from(hooks::consts::RUN_NS);
        for tenth in 1..=11 {
            let mut data = segment(1_101, 501, ACK, 1_000);
            guest.connections[0].from_guest(Nanos(tenth * run_ns / 10 + 1), &mut data);
        }
        let (reason, syn) = guest.syn(2 * run_ns);
        let (expected, flags) = if watches_hooks {
            (Reason::HALF_BLIND, SYN)
        } else {
            (Reason::TRANSLATED, SYN | ECE | CWR)
        };
        assert_eq!((reason, syn.flags), (expected, flags));
        // Any segment of any of its connections shows that the hook sees again.
        let mut ack = segment(501, 2_101, ACK, 0);
        guest.connections[0].to_guest(Nanos(2 * run_ns + 1), &mut ack);
        let (reason, syn) = guest.syn(2 * run_ns + 2);
        assert_eq!((reason, syn.flags), (Reason::TRANSLATED, SYN | ECE | CWR));
    }
}

#[test]
fn a_guest_that_goes_on_after_an_unseen_answer_asks_for_no_ecn_for_a_trial() {
    let mut guest = Guest::new(Settings {
        watches_hooks: true,
        ..Settings::default()
    });
    guest.syn(2);
    let mut missed = segment(101, 501, ACK, 0);
    guest.connections[0].from_guest(Nanos(3), &mut missed);
    assert_eq!(guest.syn(4).0, Reason::HALF_BLIND);
    let later = 3 + hooks::consts::TRIAL_NS;
    guest.connections[0].to_guest(Nanos(later), &mut segment(501, 101, ACK, 0));
    assert_eq!(guest.syn(later + 1).0, Reason::TRANSLATED);
}

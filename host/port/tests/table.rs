//! The flow table: bounded, never evicting a live flow, and cleared of dead ones.

mod kernel;

use std::net::SocketAddr;
use std::path::PathBuf;

use kernel::frame::{Oddity, PLAIN, frame, make_odd};
use kernel::table::{
    accept, connect, filling, flow, guest, pass, pass_frame, remote, segment, syn, syn_of_peer,
};
use kernel::{IFINDEX, now_ns, policy, programs, reason};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sched::CloneFlags;
use uc_core::{FlowState, Policy, Reason, Segment, consts};
use uc_port::{PortCoupling, PortPlan, Programs, Store};

/// Capacity of the table.
const FLOWS_MAX: u32 = 4;

#[test]
fn live_a_full_table_passes_new_flows_unchanged_and_evicts_no_live_one() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &filling()).unwrap();
    let live: Vec<u16> = (1..=FLOWS_MAX as u16).collect();
    for &port in &live {
        connect(&programs, port);
    }
    for port in 100..140 {
        assert_eq!(
            syn(&programs, port),
            (reason("table_full"), false),
            "port {port}"
        );
        assert!(flow(&programs, port).is_none());
        let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
        let (answered, changed) = pass(&programs, port, &answer, 0);
        assert_eq!((answered, changed), (Reason::NO_HANDSHAKE, false));
    }
    for &port in &live {
        let ack = segment(consts::FROM_GUEST, consts::ACK);
        assert_eq!(
            pass(&programs, port, &ack, 0).0,
            Reason::TRANSLATED,
            "port {port}"
        );
        assert_eq!(
            syn(&programs, port).0,
            Reason::TRANSLATED,
            "its own entry must not count as new"
        );
    }
    assert_eq!(programs.flows().unwrap().len(), live.len());
}

/// Where a slot has its key, and in it the guest's port.
const KEY: usize = 8;
const PORT: usize = KEY + 4;

/// Programs pinned in a BPF file system that only this thread sees and that ends with it.
struct Pinned {
    folder: PathBuf,
    programs: Programs,
}

impl Pinned {
    fn new(flows_max: u32) -> Option<Pinned> {
        // Prints the reason if the machine can't load them at all.
        kernel::programs(1)?;
        let folder = kernel::own_bpffs(CloneFlags::empty());
        let programs = Store::at(&folder).open_or_load(flows_max).unwrap().0;
        Some(Pinned { folder, programs })
    }

    fn map(&self, name: &str) -> MapHandle {
        let entries = std::fs::read_dir(&self.folder).unwrap();
        let maps = entries
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("/maps-"))
            .expect("a folder of maps");
        MapHandle::from_pinned_path(maps.join(name)).unwrap()
    }

    /// Returns the place and the slot of the flow with this guest port.
    fn slot(&self, port: u16) -> (u32, Vec<u8>) {
        let flows = self.map("flows");
        let slot = |place: u32| flows.lookup(&place.to_ne_bytes(), MapFlags::ANY);
        (0..flows.max_entries())
            .map(|place| (place, slot(place).unwrap().unwrap()))
            .find(|(_, slot)| {
                slot[KEY..KEY + 4] != [0; 4] && slot[PORT..PORT + 2] == port.to_be_bytes()
            })
            .expect("a flow of this port")
    }

    fn write(&self, place: u32, slot: &[u8]) {
        let flows = self.map("flows");
        flows
            .update(&place.to_ne_bytes(), slot, MapFlags::LOCK)
            .unwrap();
    }

    /// Makes a flow look as if its last segment had passed `idle_ns` ago.
    fn age(&self, port: u16, idle_ns: u64) {
        let (place, mut value) = self.slot(port);
        let seen_ns = now_ns()
            .checked_sub(idle_ns)
            .expect("a machine up for so long");
        // The flow is the last field of a slot.
        let at = value.len() - size_of::<FlowState>() + std::mem::offset_of!(FlowState, seen_ns);
        value[at..at + 8].copy_from_slice(&seen_ns.to_ne_bytes());
        self.write(place, &value);
    }
}

/// Returns a slot without `looked`, the number before its key, which no lock protects: when the flow last
/// asked about its port's hooks.
fn locked(slot: &[u8]) -> [&[u8]; 2] {
    [&slot[..KEY - 2], &slot[KEY..]]
}

/// A pointer shows such a slot if another CPU removed the flow after the lookup and its place was taken
/// again.
#[test]
fn live_a_slot_reused_by_another_flow_is_ignored_and_unchanged() {
    let Some(pinned) = Pinned::new(FLOWS_MAX) else {
        return;
    };
    let programs = &pinned.programs;
    programs.set_plan(IFINDEX, &filling()).unwrap();
    connect(programs, 1);
    connect(programs, 2);
    let (place, _) = pinned.slot(1);
    let (_, others) = pinned.slot(2);
    pinned.write(place, &others);

    let sent = segment(consts::FROM_GUEST, consts::ACK | consts::CWR);
    let came = segment(consts::TO_GUEST, consts::ACK | consts::ECE);
    for of_first in [sent, came] {
        assert_eq!(
            pass(programs, 1, &of_first, 0),
            (Reason::NO_HANDSHAKE, false)
        );
    }
    // The key still has its entry, unlike in the race itself: so it gets no other.
    assert_eq!(syn(programs, 1), (reason("table_full"), false));
    let flows = pinned.map("flows");
    let after = flows.lookup(&place.to_ne_bytes(), MapFlags::ANY);
    assert_eq!(locked(&after.unwrap().unwrap()), locked(&others));
    assert_eq!(
        pass(programs, 2, &sent, 0).0,
        Reason::TRANSLATED,
        "the slot must stay the other flow's"
    );
}

#[test]
fn live_a_closed_flow_is_replaced_after_a_minute_of_silence() {
    let Some(pinned) = Pinned::new(FLOWS_MAX) else {
        return;
    };
    let programs = &pinned.programs;
    programs.set_plan(IFINDEX, &filling()).unwrap();
    for port in 1..=FLOWS_MAX as u16 {
        connect(programs, port);
    }
    pinned.age(1, 61_000_000_000);
    assert_eq!(
        syn(programs, 100).0,
        reason("table_full"),
        "open flows may be silent for hours"
    );

    let reset = segment(consts::TO_GUEST, consts::RST | consts::ACK);
    pass(programs, 2, &reset, 0);
    assert_eq!(
        syn(programs, 100).0,
        reason("table_full"),
        "only just reset"
    );
    pinned.age(2, 59_000_000_000);
    assert_eq!(
        syn(programs, 100).0,
        reason("table_full"),
        "not a minute ago"
    );
    pinned.age(2, 61_000_000_000);
    connect(programs, 100);
    assert!(
        flow(programs, 2).is_none(),
        "the reset flow must be replaced"
    );
    for port in [1, 3, 4, 100] {
        assert!(flow(programs, port).is_some(), "port {port}");
    }
    assert_eq!(
        syn(programs, 101).0,
        reason("table_full"),
        "one place was free, not two"
    );
}

#[test]
fn live_a_guard_drops_data_beyond_the_edge_but_no_unparsable_packet() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    let guarded = Policy {
        guard_segments: 1,
        ..policy()
    };
    programs.set_plan(IFINDEX, &guarded.into()).unwrap();
    for family in ["10.77.0.1 10.77.0.2", "fd77::1 fd77::2"] {
        let (one, other) = family.split_once(' ').unwrap();
        let guest = SocketAddr::new(one.parse().unwrap(), 1);
        let remote = SocketAddr::new(other.parse().unwrap(), 5001);
        let open = segment(consts::FROM_GUEST, consts::SYN);
        let (reason, _) = pass_frame(&programs, &open, &frame(&open, guest, remote, &PLAIN));
        assert_eq!(reason, Reason::TRANSLATED);
        let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
        pass_frame(&programs, &answer, &frame(&answer, guest, remote, &PLAIN));
        let beyond = Segment {
            seq: 1001 + 1_000_000,
            payload_bytes: 1000,
            wire_payload_bytes: 1000,
            ..segment(consts::FROM_GUEST, consts::ACK)
        };
        let made = |oddity| {
            let mut frame = frame(&beyond, guest, remote, &PLAIN);
            make_odd(&mut frame, &oddity);
            pass_frame(&programs, &beyond, &frame).0.label()
        };
        assert_eq!(made(Oddity::None), "beyond_edge");
        assert_eq!(made(Oddity::Fragment(1 << 13)), "fragment");
        assert_eq!(made(Oddity::Vlan(0)), "beyond_edge", "a priority");
        assert_eq!(made(Oddity::Vlan(7)), "no_handshake", "another network");
        assert_eq!(made(Oddity::VlanStack), "vlan_stack");
        if guest.is_ipv6() {
            // Destination options.
            assert_eq!(made(Oddity::NextHeader(60)), "ip_extension");
        }
    }
}

#[test]
fn live_flows_of_forged_syns_are_stale_after_a_minute() {
    let Some(pinned) = Pinned::new(64) else {
        return;
    };
    let programs = &pinned.programs;
    programs.set_plan(IFINDEX, &filling()).unwrap();
    for port in 1..=4 {
        assert_eq!(syn_of_peer(programs, port), Reason::TRANSLATED);
        assert_eq!(accept(programs, port), (Reason::TRANSLATED, true));
    }
    let true_one = segment(consts::TO_GUEST, consts::ACK);
    assert_eq!(pass(programs, 1, &true_one, 0).0, Reason::TRANSLATED);
    let left = |idle_ns| {
        (1..=4).for_each(|port| pinned.age(port, idle_ns));
        programs.collect_idle().unwrap();
        programs.flows().unwrap().len()
    };
    assert_eq!(left(59_000_000_000), 4);
    assert_eq!(left(61_000_000_000), 1);
    assert!(flow(programs, 1).is_some(), "its peer has answered");
    assert_eq!(programs.ports().unwrap()[0].flows, 1);
}

#[test]
fn live_a_new_connection_without_a_rule_deletes_the_old_flow_of_its_ports() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    programs.set_plan(IFINDEX, &PortPlan::default()).unwrap();
    let ack = segment(consts::FROM_GUEST, consts::ACK);
    assert_eq!(
        pass(&programs, 1, &ack, 0).0,
        Reason::TRANSLATED,
        "flows under way go on"
    );
    let syn = Segment {
        seq: 700_000,
        ..segment(consts::FROM_GUEST, consts::SYN)
    };
    let passed = pass(&programs, 1, &syn, 0);
    assert_eq!(passed, (Reason::NO_HANDSHAKE, false));
    assert!(flow(&programs, 1).is_some(), "not before it is answered");
    let answer = Segment {
        ack: 700_001,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK)
    };
    let answered = pass(&programs, 1, &answer, 0);
    assert_eq!(answered, (Reason::NO_POLICY, false));
    assert_eq!(pass(&programs, 1, &ack, 0), (Reason::NO_HANDSHAKE, false));
}

#[test]
fn live_a_super_segment_without_gso_segs_counts_by_its_gso_size() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    let data = Segment {
        seq: 1001,
        payload_bytes: 2200,
        ..segment(consts::FROM_GUEST, consts::ACK)
    };
    assert_eq!(pass(&programs, 1, &data, 1100), (Reason::TRANSLATED, true));
    let flow = flow(&programs, 1).unwrap();
    assert_eq!(
        flow.mss_bytes, 1100,
        "the guest's segments, not its super-segments"
    );
    assert_eq!(flow.snd_nxt, 1001 + 2200);
}

#[test]
fn live_a_new_connection_on_a_live_flows_ports_gets_the_rule_of_its_own_syn() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    let rule_of = |programs: &Programs| {
        let view = programs.flow(IFINDEX, guest(1), remote()).unwrap().unwrap();
        (view.state.policy.law, view.state.share, view.state.snd_una)
    };
    assert_eq!(rule_of(&programs), (consts::LAW_ECN as u8, 0, 1_001));
    let dctcp = Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
    let coupling = PortCoupling {
        priority: 3,
        ..PortCoupling::share(None)
    };
    let plan = PortPlan::of_all(dctcp, Some(coupling));
    programs.set_plan(IFINDEX, &plan).unwrap();
    let syn = Segment {
        seq: 700_000,
        ..segment(consts::FROM_GUEST, consts::SYN)
    };
    assert_eq!(pass(&programs, 1, &syn, 0), (Reason::TRANSLATED, true));
    assert_eq!(rule_of(&programs), (consts::LAW_ECN as u8, 0, 1_001));
    let answer = Segment {
        ack: 700_001,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE)
    };
    assert_eq!(pass(&programs, 1, &answer, 0), (Reason::TRANSLATED, true));
    assert_eq!(rule_of(&programs), (consts::LAW_DCTCP as u8, 3, 700_001));
    assert_eq!(programs.flows().unwrap().len(), 1);
}

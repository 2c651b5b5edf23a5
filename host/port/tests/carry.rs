//! Upgrades to a version whose maps have another layout, and what goes over to its maps.

mod kernel;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use kernel::frame::{PLAIN, frame};
use kernel::host::{Host, ip};
use kernel::table::{guest, pass_on, remote, segment};
use uc_core::{Flow, Policy, Reason, consts};
use uc_port::{
    AttachVia, Carried, Direction, Obstacle, PacketContext, PortCoupling, PortPlan, ProgramObject,
    Programs, Upgrade, interface_index,
};

const FLOWS: u16 = 8;

/// Copies the files of a folder, and those in folders in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

/// Replaces text in a file that has it.
fn edit(path: &Path, changes: &[(&str, &str)]) {
    let mut text = fs::read_to_string(path).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{}: '{old}'", path.display());
        text = text.replacen(old, new, 1);
    }
    fs::write(path, text).unwrap();
}

/// Returns programs whose flows have a field more, one that is wider, and one in another place.
fn other_layout() -> ProgramObject {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    for name in ["bpf", "core"] {
        copy(&root.join(name), &folder.path().join(name));
    }
    let bits = "\t__u32 bits; /* UC_FLOW_* */\n";
    let begin = "\t/* the guest's data, as the host sees it pass */\n";
    edit(
        &folder.path().join("core/flow.h"),
        &[
            (bits, ""),
            (begin, &format!("{bits}\t__u32 added;\n{begin}")),
            ("\t__u32 losses;", "\t__u64 losses;"),
            (
                "sizeof(struct uc_flow) == 192",
                "sizeof(struct uc_flow) == 200",
            ),
        ],
    );
    edit(
        &folder.path().join("bpf/port/layout.h"),
        &[(
            "sizeof(struct uc_slot) == 256",
            "sizeof(struct uc_slot) == 264",
        )],
    );
    let object = folder.path().join("port.bpf.o");
    let layout = format!("-DUC_LAYOUT={:#x}ULL", uc_port::LAYOUT);
    uc_clang::bpf(
        folder.path(),
        Path::new("bpf/port/port.bpf.c"),
        &object,
        &[&layout],
    )
    .unwrap();
    ProgramObject::of_other_layout(fs::read(object).unwrap())
}

/// Opens flows, whose guests then send and get ACKs with marks, and data with marks.
fn talk(programs: &Programs, ifindex: u32) {
    for port in 1..=FLOWS {
        for (direction, flags) in [
            (consts::FROM_GUEST, consts::SYN),
            (consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE),
            (consts::FROM_GUEST, consts::ACK),
        ] {
            pass_on(programs, ifindex, port, &segment(direction, flags));
        }
        go_on(programs, ifindex, port, 0);
    }
}

/// Passes data of the guest beginning at this byte, an ACK with a mark, and marked data to the guest.
fn go_on(programs: &Programs, ifindex: u32, port: u16, byte: u32) -> [Reason; 3] {
    let mut data = segment(consts::FROM_GUEST, consts::ACK);
    data.seq += byte;
    (data.payload_bytes, data.wire_payload_bytes) = (1000, 1000);
    let mut ack = segment(consts::TO_GUEST, consts::ACK | consts::ECE);
    ack.ack += byte + 1000;
    let mut marked = segment(consts::TO_GUEST, consts::ACK);
    marked.seq += byte;
    marked.ack = ack.ack;
    marked.ecn = consts::CE as u8;
    (marked.payload_bytes, marked.wire_payload_bytes) = (1000, 1000);
    [data, ack, marked].map(|segment| pass_on(programs, ifindex, port, &segment))
}

fn flow(programs: &Programs, ifindex: u32, port: u16) -> Flow {
    let found = programs.flow(ifindex, guest(port), remote()).unwrap();
    found.expect("it has the flow").state
}

/// Returns a flow without what depends on the time.
fn timeless(mut flow: Flow) -> Flow {
    flow.seen_ns = 0;
    (flow.timed_tick, flow.sent_tick) = (0, 0);
    (flow.srtt_us, flow.rttvar_us, flow.trial_at) = (0, 0, 0);
    flow
}

fn plan(law: u32) -> PortPlan {
    PortPlan::from(Policy::new(law, consts::PROFILE_LINUX))
}

fn carried(what: Upgrade) -> Carried {
    match what {
        Upgrade::Carried(carried) => carried,
        other => panic!("{other:?}"),
    }
}

#[test]
fn live_flows_and_plans_go_over_to_maps_of_the_same_structs_to_the_byte() {
    let Some(host) = Host::new() else {
        return;
    };
    let [one, two] = host.attach_pair(AttachVia::Auto);
    let coupled = PortPlan {
        coupling: Some(PortCoupling {
            priorities: vec![(7, 9)],
            ..PortCoupling::default()
        }),
        flows_max: 100,
        tenant: 3,
        ..plan(consts::LAW_COUPLED)
    };
    let before = {
        let programs = host.open();
        programs.set_plan(one, &plan(consts::LAW_DELAY)).unwrap();
        programs.set_plan(two, &coupled).unwrap();
        talk(&programs, one);
        talk(&programs, two);
        programs.flows().unwrap()
    };
    assert_eq!(before.len(), 2 * usize::from(FLOWS));
    host.relay();
    let _turn = host.store.lock().unwrap();
    let upgraded = host.store.upgrade(&BTreeMap::new(), 256, false);
    let (programs, what) = upgraded.unwrap();
    let carried = carried(what);
    assert_eq!((carried.flows, carried.left), (before.len(), vec![]));
    assert_eq!(carried.dropped, [""; 0]);
    assert_eq!(programs.plan(two).unwrap(), Some(coupled));
    for old in &before {
        let new = programs.again(old).unwrap().expect("it went over");
        assert_eq!(new.state, old.state);
        assert_eq!(
            (new.rule_number, new.generation, new.guest),
            (old.rule_number, old.generation, old.guest)
        );
    }
    for port in 1..=FLOWS {
        for ifindex in [one, two] {
            assert_eq!(
                go_on(&programs, ifindex, port, 1000),
                [Reason::TRANSLATED; 3]
            );
        }
    }
    let counted = |ifindex| {
        let ports = programs.ports().unwrap();
        let port = ports.into_iter().find(|port| port.ifindex == ifindex);
        port.map(|port| (port.flows, port.half_open))
    };
    assert_eq!(counted(one), Some((FLOWS.into(), 0)));
    assert_eq!(counted(two), Some((FLOWS.into(), 0)));
}

#[test]
fn live_flows_of_another_layout_go_on_as_those_of_this_one() {
    let Some(host) = Host::new() else {
        return;
    };
    let store = host.store.clone().with_object(other_layout());
    ip("link add one type veth peer name two");
    let one = interface_index("one").unwrap();
    for law in [consts::LAW_ECN, consts::LAW_DCTCP] {
        let control = Programs::load(256).unwrap();
        control.set_plan(one, &plan(law)).unwrap();
        talk(&control, one);
        store
            .attach_all(&["one".to_owned()], &plan(law), AttachVia::Auto, 256)
            .unwrap();
        talk(&store.open().unwrap().unwrap(), one);
        host.relay();
        let turn = host.store.lock().unwrap();
        let (programs, what) = host.store.upgrade(&BTreeMap::new(), 256, false).unwrap();
        let carried = carried(what);
        assert_eq!((carried.flows, carried.left), (FLOWS.into(), vec![]));
        assert_eq!(carried.dropped, ["flow.added"]);
        assert_eq!(programs.plan(one).unwrap(), Some(plan(law)));
        for port in 1..=FLOWS {
            let [old, new] = [&control, &programs].map(|programs| {
                assert_eq!(go_on(programs, one, port, 1000), [Reason::TRANSLATED; 3]);
                timeless(flow(programs, one, port))
            });
            assert_eq!(new, old, "law {law}, port {port}");
            assert!(new.cuts > 0 && new.marks == 2, "{new:?}");
        }
        host.store.detach_indices(&programs, &[one].into()).unwrap();
        drop(turn);
        assert!(!host.folder.exists(), "nothing is left");
    }
}

#[test]
fn live_flows_without_room_in_the_new_table_are_named() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    let one = interface_index("one").unwrap();
    host.attach(&["one"], AttachVia::Auto);
    talk(&host.open(), one);
    host.relay();
    let _turn = host.store.lock().unwrap();
    let (programs, what) = host.store.upgrade(&BTreeMap::new(), 4, false).unwrap();
    let carried = carried(what);
    assert_eq!(carried.flows + carried.left.len(), usize::from(FLOWS));
    assert!(carried.flows > 0 && !carried.left.is_empty(), "{carried:?}");
    let full = [Obstacle::Full, Obstacle::Quota];
    assert!(carried.left.iter().all(|left| full.contains(&left.why)));
    assert_eq!(programs.flows().unwrap().len(), carried.flows);
}

/// Flows that go over at once, unless `UC_FLOWS` is given.
const MANY: u32 = 2_000;

/// Packets of others pass while flows are copied, so the time is theirs that are copied last.
#[test]
fn live_many_flows_go_over() {
    let Some(host) = Host::new() else {
        return;
    };
    let many = std::env::var("UC_FLOWS").map_or(MANY, |text| text.parse().expect("a number"));
    ip("link add one type veth peer name two");
    let one = interface_index("one").unwrap();
    let plan = PortPlan {
        flows_max: 2 * many,
        ..plan(consts::LAW_ECN)
    };
    let names = ["one".to_owned()];
    host.store
        .attach_all(&names, &plan, AttachVia::Auto, 2 * many)
        .unwrap();
    let programs = host.open();
    let context = PacketContext {
        ifindex: one,
        ..kernel::context()
    };
    for at in 0..many {
        let peer = SocketAddr::new([10, 78, (at >> 8) as u8, at as u8].into(), 5001);
        let guest = guest(1 + (at >> 16) as u16);
        for (direction, way, flags) in [
            (Direction::FromGuest, consts::FROM_GUEST, consts::SYN),
            (
                Direction::ToGuest,
                consts::TO_GUEST,
                consts::SYN | consts::ACK | consts::ECE,
            ),
            (Direction::FromGuest, consts::FROM_GUEST, consts::ACK),
        ] {
            let bytes = frame(&segment(way, flags), guest, peer, &PLAIN);
            programs.test_run(direction, &bytes, context).unwrap();
        }
    }
    drop(programs);
    host.relay();
    let _turn = host.store.lock().unwrap();
    let began = Instant::now();
    let (programs, what) = host
        .store
        .upgrade(&BTreeMap::new(), 2 * many, false)
        .unwrap();
    let took = began.elapsed();
    let carried = carried(what);
    println!("{many} flows in {took:?}, unseen for {:?}", carried.unseen);
    assert_eq!((carried.flows, carried.left), (many as usize, vec![]));
    assert_eq!(programs.flows().unwrap().len(), many as usize);
}

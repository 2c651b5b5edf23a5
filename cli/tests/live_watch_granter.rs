//! A granter between real kernels: two receivers behind one link, each with a `uc watch` of its own
//! that sees only its own flows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;

use uc_lab::netns::Namespace;
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::build;
use crate::common::uc::success;
use crate::common::watcher::{GranterProcess, Key, PEERS, Watcher};
use crate::common::{STACKS, experiment, guest, live};

const PORT: u16 = 5001;
/// The granter's address, in the namespace of all hosts.
const GRANTER: &str = "127.0.0.1:6654";
/// The link that both receivers share; its queue holds two bursts of first windows.
const RATE: &str = "20Mbit";
const NETWORK: &str = "topology = \"dumbbell\"\nrate = \"20Mbit\"\naccess_rate = \"200Mbit\"\n\
     delay = \"500us\"\nqueue = { kind = \"droptail\", limit = \"120kB\" }";
/// Flows of each guest to its receiver, all at once: together they take the link 0.24 s.
const FLOWS: usize = 20;
/// Ten segments.
const FLOW_BYTES: usize = 14_480;

fn lab() -> (Plan, Lab) {
    let guests = ["a", "b"].map(|name| guest(name, "legacy", ""));
    let guests = format!("receiver_law = \"pass\"\n{}", guests.concat());
    let (plan, lab) = build(&experiment(1, NETWORK, &guests, STACKS));
    let mut up = lab.wiring.hosts.command("ip");
    up.args(["link", "set", "lo", "up"]);
    success(up);
    (plan, lab)
}

/// Watches a guest's port and that of its receiver, as a host that knows nothing of the others.
fn watch(plan: &Plan, lab: &Lab, number: usize, key: &Key, granter: &[&str]) -> Watcher {
    let server = plan.servers[number].port.as_ref().expect("a port");
    let ports = [&plan.guests[number].port, server];
    let own = ["--data", "client", "--pace", RATE];
    let arguments = [&PEERS, &own[..], granter].concat();
    Watcher::start_with(
        key,
        &lab.wiring.hosts,
        &ports.map(String::as_str),
        &arguments,
    )
}

fn listen(plan: &Plan, lab: &Lab, number: usize) -> TcpListener {
    let address = SocketAddr::new(plan.servers[number].address, PORT);
    let listen = || TcpListener::bind(address).unwrap();
    lab.wiring.servers[number].enter(listen).unwrap()
}

/// Sends one flow when all others do, too.
fn send(guest: &Namespace, to: SocketAddr, together: &Barrier) {
    let connect = || {
        together.wait();
        TcpStream::connect(to).unwrap()
    };
    let mut stream = guest.enter(connect).unwrap();
    stream.write_all(&[7; FLOW_BYTES]).unwrap();
}

/// What became of a burst of flows to both receivers.
#[derive(Debug, PartialEq, Eq)]
struct Burst {
    /// Packets that the shared link dropped.
    drops: u64,
    /// First windows for which the granter was asked.
    asked: u64,
    /// First windows that it granted, and how many of them had to wait.
    granted: (u64, u64),
}

/// Starts all flows at once, with a granter at this rate if there is one, and waits until they have
/// ended.
fn burst(rate: Option<&str>) -> Burst {
    let (plan, lab) = lab();
    let key = Key::make();
    let granter = rate.map(|rate| GranterProcess::start(&key, &lab.wiring.hosts, GRANTER, rate));
    let option: &[&str] = rate.map_or(&[], |_| &["--granter", GRANTER]);
    let watchers = [0, 1].map(|number| watch(&plan, &lab, number, &key, option));
    let listeners = [0, 1].map(|number| listen(&plan, &lab, number));
    let together = Barrier::new(2 * FLOWS);
    thread::scope(|scope| {
        for (guest, listener) in lab.wiring.guests.iter().zip(&listeners) {
            let (to, together) = (listener.local_addr().unwrap(), &together);
            for _ in 0..FLOWS {
                scope.spawn(move || send(guest, to, together));
            }
        }
        for listener in &listeners {
            for _ in 0..FLOWS {
                let (mut accepted, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    assert_eq!(accepted.read_to_end(&mut bytes).unwrap(), FLOW_BYTES);
                });
            }
        }
    });
    let asked = watchers.map(|watcher| watcher.finish().count("asked"));
    let report = lab.finish().unwrap();
    let burst = Burst {
        drops: report.links[&report.bottlenecks[0]].dropped_packets,
        asked: asked.iter().sum(),
        granted: granter.map_or((0, 0), GranterProcess::finish),
    };
    println!("{rate:?}: {burst:?}");
    burst
}

/// The control grants more than the link carries, so it answers as a granter does, and paces nothing.
#[test]
fn live_receivers_behind_one_link_lose_less_where_a_granter_paces_both() {
    if !live() {
        return;
    }
    in_peace(|| {
        let [alone, control, paced] = [None, Some("100Gbit"), Some(RATE)].map(burst);
        let flows = 2 * FLOWS as u64;
        assert_eq!((alone.asked, alone.granted), (0, (0, 0)), "{alone:?}");
        assert_eq!(
            (control.asked, control.granted),
            (flows, (flows, 0)),
            "{control:?}"
        );
        assert_eq!((paced.asked, paced.granted.0), (flows, flows), "{paced:?}");
        // All but those of one burst, which are 3 windows, wait.
        assert!(paced.granted.1 >= flows - 4, "{paced:?}");
        assert!(alone.drops >= 40, "{alone:?}");
        assert!(control.drops * 2 >= alone.drops, "{control:?} {alone:?}");
        assert!(paced.drops * 4 <= alone.drops, "{paced:?} {alone:?}");
    });
}

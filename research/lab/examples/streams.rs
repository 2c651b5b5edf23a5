//! Measures streams between namespaces: through ports with Undercurrent's programs, with an empty program and
//! without programs; through `uc hold` and `uc split`; and through HAProxy, which one could use instead.
//! Prints goodput, processor time for each bit, and connections a second. The ways take turns of a tenth
//! of a second.
//!
//! `taskset -c 1 cargo run --release -p uc-lab --example streams -- PATH_OF_UC`; needs root. On one
//! processor the packets of a flow stay in order (see `tests/streams.rs`), and goodput shows the cost
//! of a byte. Without the path of `uc`, or without HAProxy, it measures the others.

#[path = "streams/beside.rs"]
mod beside;
#[path = "../tests/support/bridge.rs"]
mod bridge;

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use beside::{Beside, Hold, Proxy, Split};
use bridge::{Bridge, Stream, listen};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use uc_core::{Policy, consts};
use uc_port::cost::{Report, null_program};
use uc_port::{AttachVia, Direction, Order, PortLinks, Programs, attach_program};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Number of turns of each way, twice the number of ways. The next constant is the length of a turn.
const ROUNDS: usize = 2 * NAMES.len();
const TURN: Duration = Duration::from_millis(100);
/// Capacity of the flow table, in flows: room for all connections of the last measurement, none of which is stale
/// before it ends.
const FLOWS_MAX: u32 = 1 << 18;

/// The setups that are compared, in the order of their guests' numbers. "no law": the programs parse
/// packets and look their flows up, and edit none.
const NAMES: [&str; 10] = [
    "plain",
    "empty program",
    "no law",
    "law ecn, observed",
    "law ecn",
    "law dctcp",
    "law ecn, paced",
    "law ecn, buffered",
    "split",
    "proxy",
];
const EMPTY: u8 = 1;
const PACED: usize = 6;
const BUFFERED: usize = 7;
const SPLIT: usize = 8;
const PROXY: usize = 9;

fn main() -> Done {
    let bridge = Bridge::build(NAMES.len() as u8, false)?;
    let programs = Programs::load(FLOWS_MAX)?;
    let mut links = vec![attach_empty(&bridge, EMPTY)?];
    let laws = [
        (2, consts::LAW_PASS, 0u8),
        (3, consts::LAW_ECN, consts::MODE_OBSERVE as u8),
        (4, consts::LAW_ECN, 0),
        (5, consts::LAW_DCTCP, 0),
    ];
    for (guest, law, modes) in laws {
        let policy = Policy {
            ecn_syns: 2,
            modes,
            ..Policy::new(law, consts::PROFILE_LINUX)
        };
        links.push(bridge.attach(&programs, guest, policy)?);
    }
    let listener = listen(&bridge.receiver, Ipv4Addr::UNSPECIFIED)?;
    let direct = SocketAddr::from((Bridge::RECEIVER, listener.local_addr()?.port()));
    let mut beside = Vec::new();
    let uc = std::env::args().nth(1);
    let uc = uc.as_deref();
    for (way, started) in [
        (
            PACED,
            Hold::start(&bridge, PACED as u8, uc, "--pace", direct),
        ),
        (
            BUFFERED,
            Hold::start(&bridge, BUFFERED as u8, uc, "--buffer", direct),
        ),
        (SPLIT, Split::start(&bridge, SPLIT as u8, uc, direct.port())),
        (PROXY, Proxy::start(&bridge, direct)),
    ] {
        match started {
            Ok(process) => beside.push((way, process)),
            Err(error) => println!("not measured, {}: {error}", NAMES[way]),
        }
    }
    let bench = Bench {
        bridge,
        listener,
        direct,
        beside,
    };
    let measured = bench.measure();
    bench.bridge.host.enter(|| drop(links))?;
    measured
}

/// Attaches an empty program to both directions of a guest's port.
fn attach_empty(bridge: &Bridge, guest: u8) -> Done<PortLinks> {
    let program = null_program()?;
    bridge.on_port(guest, |ifindex| {
        let attach = |direction| {
            let program = program.as_fd();
            attach_program(program, ifindex, direction, AttachVia::Auto, Order::Port)
        };
        Ok(PortLinks {
            from_guest: attach(Direction::FromGuest)?,
            to_guest: attach(Direction::ToGuest)?,
        })
    })
}

struct Bench {
    bridge: Bridge,
    listener: TcpListener,
    direct: SocketAddr,
    beside: Vec<(usize, Beside)>,
}

impl Bench {
    fn measure(&self) -> Done {
        for (title, count) in [("one stream", 1), ("eight streams", 8)] {
            self.streams(title, count)?;
        }
        self.connections()
    }

    /// Returns the ways that are measured, "plain" first.
    fn ways(&self) -> Vec<usize> {
        let started = self.beside.iter().map(|(way, _)| *way);
        (0..PACED).chain(started).collect()
    }

    /// Returns the ways in the order of a round. In all rounds each way has each place and follows each other way
    /// equally often (a Williams square), as a way's cost depends on the way before it.
    fn order(&self, round: usize) -> Vec<usize> {
        let ways = self.ways();
        let count = ways.len();
        // 0, 1, count - 1, 2, count - 2 and so on: neighbours differ by each distance once.
        let zigzag = (0..count).map(|place| match place % 2 {
            1 => place.div_ceil(2),
            _ => count - place / 2,
        });
        let mut order: Vec<usize> = zigzag.map(|way| ways[(way + round) % count]).collect();
        // With an odd number of ways, only both directions together are balanced.
        if round / count % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// Returns the address that the guest of a way connects to.
    fn target(&self, way: usize) -> SocketAddr {
        let found = self.beside.iter().find(|(own, _)| *own == way);
        found.map_or(self.direct, |(_, process)| process.address)
    }

    /// Measures `count` streams at once on each way.
    fn streams(&self, title: &'static str, count: usize) -> Done {
        let mut streams: [Vec<Stream>; NAMES.len()] = Default::default();
        for way in self.ways() {
            let to = self.target(way);
            let connect = |_| Stream::connect(&self.bridge.guests[way], to, &self.listener);
            streams[way] = (0..count).map(connect).collect::<Done<_>>()?;
        }
        let mut goodputs: [Vec<f64>; NAMES.len()] = Default::default();
        let mut costs = goodputs.clone();
        // The first round opens the windows.
        for round in 0..=ROUNDS {
            for way in self.order(round) {
                let (began, before) = (Instant::now(), self.spent()?);
                let gigabits = 8e-9 * send(&mut streams[way])? as f64;
                if round > 0 {
                    goodputs[way].push(gigabits / began.elapsed().as_secs_f64());
                    costs[way].push((self.spent()? - before).as_secs_f64() / gigabits);
                }
            }
        }
        let mut report = Report::new(title);
        for &way in &self.ways()[1..] {
            let name = NAMES[way];
            let (goodput, cost) = (format!("goodput, {name}"), format!("processor, {name}"));
            report.add((&goodput, &goodputs[way]), "Gb/s", ("plain", &goodputs[0]));
            report.add((&cost, &costs[way]), "s/Gb", ("plain", &costs[0]));
        }
        report.finish()?;
        for (guest, name) in self.bridge.guests.iter().zip(NAMES) {
            let again = Bridge::counter(guest, "RetransSegs")?;
            if again > 0 {
                println!("{name}: {again} segments retransmitted so far");
            }
        }
        Ok(())
    }

    /// Measures connections that carry one byte each way, one after the other.
    fn connections(&self) -> Done {
        let ended = Arc::new(AtomicBool::new(false));
        let (accepting, ending) = (self.listener.try_clone()?, Arc::clone(&ended));
        let server = std::thread::spawn(move || answer(&accepting, &ending));
        let mut rates: [Vec<f64>; NAMES.len()] = Default::default();
        for round in 0..ROUNDS {
            for way in self.order(round) {
                let to = self.target(way);
                rates[way].push(self.bridge.guests[way].enter(|| connect(to))??);
            }
        }
        ended.store(true, Relaxed);
        // One more ends the server.
        let to = self.direct;
        drop(self.bridge.guests[0].enter(|| TcpStream::connect(to))??);
        server.join().map_err(|_| "a thread panicked")?;
        let mut report = Report::new("connections, one after the other");
        for &way in &self.ways()[1..] {
            report.add((NAMES[way], &rates[way]), "1/s", ("plain", &rates[0]));
        }
        Ok(report.finish()?)
    }

    /// Returns the processor time of this process, which sends and receives, and of the processes beside it.
    fn spent(&self) -> Done<Duration> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let time = |value: TimeVal| Duration::from_micros(value.num_microseconds() as u64);
        let mut spent = time(usage.user_time()) + time(usage.system_time());
        for (_, process) in &self.beside {
            spent += process.spent()?;
        }
        Ok(spent)
    }
}

/// Lets streams send for a turn, all at once. Returns the number of bytes sent.
fn send(streams: &mut [Stream]) -> Done<u64> {
    std::thread::scope(|scope| {
        let send = |stream| scope.spawn(move || Stream::send(stream, TURN));
        let senders: Vec<_> = streams.iter_mut().map(send).collect();
        let mut bytes = 0;
        for sender in senders {
            bytes += sender.join().map_err(|_| "a thread panicked")??;
        }
        Ok(bytes)
    })
}

/// Accepts connections and echoes one byte on each. Ends after the first connection that comes when `ended` is set.
fn answer(listener: &TcpListener, ended: &AtomicBool) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_ok() {
            let _ = stream.write_all(&byte);
        }
        if ended.load(Relaxed) {
            return;
        }
    }
}

/// Opens connections for a turn, one after the other. Returns the number per second.
fn connect(to: SocketAddr) -> std::io::Result<f64> {
    let began = Instant::now();
    let mut count = 0.0;
    while began.elapsed() < TURN {
        let mut stream = TcpStream::connect(to)?;
        let mut byte = [1];
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        // With a RST, so that no port of the guest stays in use.
        let linger = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&stream.as_fd(), sockopt::Linger, &linger)?;
        count += 1.0;
    }
    Ok(count / began.elapsed().as_secs_f64())
}

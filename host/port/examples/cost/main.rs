//! Measures the cost of a packet in the port programs, in nanoseconds of a processor, each in turn
//! with an empty program and with a packet of an unknown flow of the same IP version, which is parsed and
//! looked up. Flows advance: each packet has the next numbers.
//!
//! `cargo run --release -p uc-port --example cost [rings]`; needs root. It takes about 800 MB for a
//! table of 1.5 million flows.

mod beside;
mod frames;
mod walk;

use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};

use frames::Kind;
use uc_core::law::Trait;
use uc_core::{Law, Policy, Reason, consts};
use uc_port::cost::{Report, null_program};
use uc_port::{Direction, PortCoupling, PortPlan, Programs, RINGS_MAX};
use walk::{Flows, IFINDEX, Walk, Walker};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Number of entries of the flow table.
const FLOWS_MAX: u32 = 3 << 19;
/// Number of runs of a packet whose mean is one measurement; next line: number of measurements.
const REPEAT: u32 = 4_000;
const ROUNDS: usize = 41;
/// Number of connections opened at a time: more half-open flows would displace each other.
const OPENED: u32 = 1024;
/// Distance between the peers' addresses of two sets of flows, so that no two sets share a peer.
const PEERS: u32 = 1 << 21;

/// Indices of the programs that the walking program calls: an empty program, and the two programs of a port.
const NULL: u32 = 0;
const FROM_GUEST: u32 = 1;
const TO_GUEST: u32 = 2;

fn main() -> Done {
    let rings = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => RINGS_MAX,
    };
    let bench = Bench::load(rings)?;
    bench.packets()?;
    bench.known(Bench::many_flows)?;
    // Not by the processors that this process may use: one is enough for the figures above.
    if std::fs::read_to_string("/sys/devices/system/cpu/online")?.trim() != "0" {
        bench.known(Bench::two_processors)?;
    }
    Ok(())
}

/// The times of one kind of packet.
struct Row {
    name: String,
    /// Indices of the packet of an unknown flow to which the row is compared: IP version (0: IPv4), then 0 for data, 1
    /// for an ACK.
    base: [usize; 2],
    times: Vec<f64>,
}

struct Bench {
    programs: Programs,
    walker: Walker,
    null: OwnedFd,
}

impl Bench {
    fn load(rings: u32) -> Done<Self> {
        let bench = Self {
            programs: Programs::load_with(FLOWS_MAX, rings)?,
            walker: Walker::load()?,
            null: null_program()?,
        };
        bench.walker.aim(NULL, bench.null.as_fd())?;
        let program = |direction| bench.programs.program(direction);
        bench
            .walker
            .aim(FROM_GUEST, program(Direction::FromGuest))?;
        bench.walker.aim(TO_GUEST, program(Direction::ToGuest))?;
        Ok(bench)
    }

    /// Measures a part, and checks that all its packets are of known flows.
    fn known(&self, part: impl FnOnce(&Self) -> Done) -> Done {
        let unknown = || Done::Ok(self.programs.counters()?.get(Reason::NO_HANDSHAKE));
        let before = unknown()?;
        part(self)?;
        match unknown()? - before {
            0 => Ok(()),
            packets => Err(format!(
                "{packets} packets belonged to flows that found the flow table full"
            )
            .into()),
        }
    }

    /// Opens 2^`shift` connections under a law. `number` identifies the set of connections, and determines its peers'
    /// addresses.
    fn connect(&self, number: u32, shift: u32, law: u32, data: Kind, ipv6: bool) -> Done<Flows> {
        let policy = Policy {
            ecn_syns: 2,
            ..Policy::new(law, consts::PROFILE_LINUX)
        };
        let plan = PortPlan {
            coupling: Law::of(&policy)
                .has(Trait::GROUPED)
                .then(PortCoupling::default),
            flows_max: FLOWS_MAX, // otherwise a port gets half of the table
            ..policy.into()
        };
        self.programs.set_plan(IFINDEX, &plan)?;
        let mut flows = unconnected(number, shift, data, ipv6);
        while flows.runs < 1 << shift {
            let some = OPENED.min(1 << shift);
            self.time(&flows, Kind::Syn, some)?;
            self.time(&flows, Kind::SynAck, some)?;
            flows.runs += u64::from(some);
        }
        flows.runs = 0;
        Ok(flows)
    }

    /// Returns the mean time of the next packets of a kind in ns, including the walking program.
    fn time(&self, flows: &Flows, kind: Kind, repeat: u32) -> Done<f64> {
        let target = match kind.direction() {
            Direction::FromGuest => FROM_GUEST,
            Direction::ToGuest => TO_GUEST,
        };
        self.run(flows.walk(kind, target)?, kind, flows.ipv6, repeat)
    }

    fn run(&self, walk: Walk, kind: Kind, ipv6: bool, repeat: u32) -> Done<f64> {
        self.walker.set(&[walk])?;
        Ok(self.walker.case(kind, ipv6, repeat)?.time_ns()?)
    }

    /// Returns the time of an empty program, and the time that the walking program adds, in ns.
    fn idle(&self, flows: &Flows) -> Done<(f64, f64)> {
        let mut case = self.walker.case(Kind::Ack, flows.ipv6, REPEAT)?;
        let advanced = self.run(flows.walk(Kind::Ack, NULL)?, Kind::Ack, flows.ipv6, REPEAT)?;
        case.program = self.null.as_fd();
        let empty = case.time_ns()?;
        Ok((empty, advanced - empty))
    }

    /// Measures the cost of each kind of packet.
    fn packets(&self) -> Done {
        let unknown = [false, true].map(|ipv6| unconnected(0, 0, Kind::Data, ipv6));
        let mut opening = unconnected(7, 20, Kind::Data, false);
        let set = |number, law, data, ipv6| self.connect(number, 0, law, data, ipv6);
        let mut sets = [
            ("", set(1, consts::LAW_ECN, Kind::Data, false)?),
            (", law dctcp", set(2, consts::LAW_DCTCP, Kind::Data, false)?),
            (", IPv6", set(3, consts::LAW_ECN, Kind::Data, true)?),
            (
                ", super-segment",
                set(4, consts::LAW_ECN, Kind::Super, false)?,
            ),
            (", coupled", set(5, consts::LAW_COUPLED, Kind::Data, false)?),
        ];
        self.programs.set_plan(IFINDEX, &ecn().into())?;
        let mut empties = Vec::new();
        // By IP version (IPv4, IPv6), then data and ACKs.
        let mut looked_up: [[Vec<f64>; 2]; 2] = Default::default();
        let mut rows: Vec<Row> = Vec::new();
        for round in 0..ROUNDS {
            let idle = [self.idle(&unknown[0])?, self.idle(&unknown[1])?];
            let advancing = idle.map(|(_, advancing)| advancing);
            empties.push(idle[0].0);
            for ((flows, both), advancing) in unknown.iter().zip(&mut looked_up).zip(advancing) {
                for (kind, times) in [Kind::Data, Kind::Ack].into_iter().zip(both) {
                    times.push(self.time(flows, kind, REPEAT)? - advancing);
                }
            }
            let mut row = 0;
            let mut note = |name: String, ipv6: bool, kind: Kind, time: f64| {
                if round == 0 {
                    let is_ack = kind.direction() == Direction::ToGuest;
                    rows.push(Row {
                        name,
                        base: [ipv6, is_ack].map(usize::from),
                        times: Vec::new(),
                    });
                }
                rows[row].times.push(time - advancing[usize::from(ipv6)]);
                row += 1;
            };
            for (name, flows) in &mut sets {
                for ack in [Kind::Ack, Kind::MarkedAck] {
                    let sent = self.time(flows, flows.data, REPEAT)?;
                    if ack == Kind::Ack {
                        note(format!("data{name}"), flows.ipv6, flows.data, sent);
                    }
                    let title = if ack == Kind::Ack {
                        "ACK"
                    } else {
                        "ACK with ECE"
                    };
                    note(
                        format!("{title}{name}"),
                        flows.ipv6,
                        ack,
                        self.time(flows, ack, REPEAT)?,
                    );
                    flows.runs += u64::from(REPEAT);
                }
            }
            for kind in [Kind::Syn, Kind::SynAck] {
                let title = if kind == Kind::Syn { "SYN" } else { "SYN-ACK" };
                let time = self.time(&opening, kind, OPENED)?;
                note(title.into(), opening.ipv6, kind, time);
            }
            opening.runs += u64::from(OPENED);
        }
        let mut report = Report::new("packet in the port programs");
        let empty = ("empty program", &empties[..]);
        for (version, times) in ["", ", IPv6"].iter().zip(&looked_up) {
            for (what, times) in ["data", "ACK"].iter().zip(times) {
                report.add(
                    (&format!("{what} of an unknown flow{version}"), times),
                    "ns",
                    empty,
                );
            }
        }
        for row in &rows {
            let [version, kind] = row.base;
            let looked_up = &looked_up[version][kind];
            report.add((&row.name, &row.times), "ns", empty);
            report.add(
                (&row.name, &row.times),
                "ns",
                ("parsed, looked up", looked_up),
            );
        }
        Ok(report.finish()?)
    }

    /// Compares the cost of packets of many flows with that of packets of one flow.
    fn many_flows(&self) -> Done {
        let mut sets = Vec::new();
        for (number, shift) in [(8, 0), (9, 10), (10, 17), (11, 20)] {
            sets.push(self.connect(number, shift, consts::LAW_ECN, Kind::Data, false)?);
        }
        let mut times = vec![(Vec::new(), Vec::new()); sets.len()];
        for _ in 0..ROUNDS {
            let (_, advancing) = self.idle(&sets[0])?;
            for (flows, (sent, answered)) in sets.iter_mut().zip(&mut times) {
                sent.push(self.time(flows, Kind::Data, REPEAT)? - advancing);
                answered.push(self.time(flows, Kind::Ack, REPEAT)? - advancing);
                flows.runs += u64::from(REPEAT);
            }
        }
        let mut report = Report::new("packet of one of many flows");
        for (flows, (sent, answered)) in sets.iter().zip(&times).skip(1) {
            let count = 1 << flows.shift;
            let (data, ack) = (
                format!("data, {count} flows"),
                format!("ACK, {count} flows"),
            );
            report.add((&data, sent), "ns", ("data, one flow", &times[0].0));
            report.add((&ack, answered), "ns", ("ACK, one flow", &times[0].1));
        }
        Ok(report.finish()?)
    }
}

fn ecn() -> Policy {
    Policy {
        ecn_syns: 2,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    }
}

fn unconnected(number: u32, shift: u32, data: Kind, ipv6: bool) -> Flows {
    Flows {
        shift,
        address: 0x0b00_0000 + number * PEERS,
        ipv6,
        data,
        runs: 0,
    }
}

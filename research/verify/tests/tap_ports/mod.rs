//! Ports for games in the kernel: each guest has a tap with the port programs on it, bridged with a
//! tap of the network. The programs read the kernel's clock, so a game takes its time: a tick of
//! game is a tick of the clock.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uc_core::{Segment, consts};
use uc_port::{AttachVia, PortCoupling, PortPlan, Programs};
use uc_verify::games::behaviour::Frame;
use uc_verify::games::{Disguise, Goodput, Guard, Network, Plan, Ports, TICK_NS, play_on};
use uc_verify::layout::{self, Fault};

use crate::kernel::frame::{ETHERNET, Oddity, PLAIN, Shape, frame, make_odd};
use crate::kernel::host::{Host, ip};
use crate::kernel::now_ns;
use crate::kernel::reading::read;
use crate::kernel::tap::{Offload, Tap};

/// The largest payload, which fits into the MTU of the taps with all headers.
const PAYLOAD_MAX: u32 = 60_000;
const MTU: u32 = 65_000;
/// Guests of the largest network.
const GUESTS_MAX: usize = 3;
/// A tick is late if it begins so long after its time: half of the least round trip. A game is void if
/// more than one in so many are.
const LATE_NS: u64 = 1_000_000;
const LATE_ONE_IN: u64 = 50;
/// How often a void game is repeated.
const REPLAYS: u32 = 20;
/// A plan that sends more than this machine can carry makes more than one tick in so many late, in each game.
const SWAMPED_ONE_IN: u64 = 4;
const SWAMPED_MAX: u32 = 3;
/// The last part of a wait, in which the thread doesn't sleep.
const SPIN_NS: u64 = 100_000;

/// The destination options header (RFC 8200 §4.6).
const DESTINATION_OPTIONS: u8 = 60;

struct Wire {
    guest: Tap,
    network: Tap,
}

impl Wire {
    fn new(number: usize) -> Wire {
        let [guest, network, bridge] = ["g", "n", "b"].map(|letter| format!("{letter}{number}"));
        let wire = Wire {
            guest: Tap::open(&guest),
            network: Tap::open(&network),
        };
        ip(&format!(
            "link add {bridge} type bridge forward_delay 0 mcast_snooping 0"
        ));
        for name in [&guest, &network] {
            ip(&format!("link set {name} mtu {MTU} master {bridge} up"));
        }
        ip(&format!("link set {bridge} up"));
        wire
    }
}

/// Puts the calling thread before others on its processor. A real-time policy would do worse: a game never sleeps,
/// and the kernel gives the processor to others for 50 ms in each second of such a thread.
fn be_prompt() {
    // SAFETY: a plain system call that affects the calling thread.
    let refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } != 0;
    assert!(!refused, "{}", std::io::Error::last_os_error());
}

/// The taps of all guests, in a namespace that ends with the thread.
pub struct Taps {
    wires: Vec<Wire>,
    programs: Programs,
    _host: Host,
    /// Games need a processor each, so one test plays at a time.
    _turn: MutexGuard<'static, ()>,
    /// Games so far: each has TCP ports of its own.
    games: u16,
    began_ns: u64,
    late: u64,
    /// Games that were void.
    pub void: u32,
    /// Flows that were handed over in the last game.
    pub moves: usize,
    /// Hosts that flows have come to in all games.
    hosts: u32,
}

impl Taps {
    /// Creates the taps and attaches the programs; `None` if this machine can't.
    pub fn new() -> Option<Taps> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let host = Host::new()?;
        be_prompt();
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let wires: Vec<Wire> = (0..GUESTS_MAX).map(Wire::new).collect();
        let names: Vec<String> = (0..GUESTS_MAX).map(|number| format!("g{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        host.attach(&names, AttachVia::Auto);
        Some(Taps {
            wires,
            programs: host.open(),
            _host: host,
            _turn: turn,
            games: 0,
            began_ns: 0,
            late: 0,
            void: 0,
            moves: 0,
            hosts: 0,
        })
    }

    /// Plays one game; again if this machine stalled meanwhile.
    ///
    /// # Panics
    /// If this machine could not keep up.
    pub fn play(&mut self, plan: &Plan, network: &Network, guard: Guard, seed: u64) -> Goodput {
        self.try_play(plan, network, guard, seed)
            .unwrap_or_else(|| {
                panic!(
                    "this machine could not keep up: in the last game {} of {} ticks were late",
                    self.late, network.ticks
                )
            })
    }

    /// Plays one game; again if this machine stalled meanwhile. Returns `None` if it did in each of
    /// [`REPLAYS`] games, or was swamped in [`SWAMPED_MAX`].
    pub fn try_play(
        &mut self,
        plan: &Plan,
        network: &Network,
        guard: Guard,
        seed: u64,
    ) -> Option<Goodput> {
        let mut swamped = 0;
        for _ in 0..REPLAYS {
            self.set_up(network, guard);
            let goodput = play_on(self, plan, network, seed);
            if self.late * LATE_ONE_IN <= network.ticks {
                return Some(goodput);
            }
            self.void += 1;
            swamped += u32::from(self.late * SWAMPED_ONE_IN > network.ticks);
            if swamped == SWAMPED_MAX {
                break;
            }
        }
        None
    }

    fn set_up(&mut self, network: &Network, guard: Guard) {
        let policy = guard.on(network.policy);
        let is_coupled = u32::from(policy.law) == consts::LAW_COUPLED;
        for wire in &self.wires {
            // no group of a game before
            self.hosts += 1;
            let coupling = is_coupled.then(|| PortCoupling {
                group: self.hosts,
                ..PortCoupling::default()
            });
            let plan = PortPlan::of_all(policy, coupling);
            let index = wire.guest.index();
            self.programs.set_plan(index, &plan).unwrap();
            self.programs.forget_flows(index).unwrap();
            self.programs.reset_hooks(index, |_| true).unwrap();
            while wire.guest.read_now().is_some() || wire.network.read_now().is_some() {}
        }
        self.games += 1;
        self.late = 0;
        self.moves = 0;
        self.began_ns = now_ns();
    }

    /// Returns the ends of a guest's connection.
    fn ends(&self, of: usize) -> (SocketAddr, SocketAddr) {
        let address = |last: usize, port: u16| {
            let text = format!("[fd00::{:x}:{last:x}]:{port}", of + 1);
            text.parse().expect("an address")
        };
        (address(1, 10_000 + self.games), address(2, 5_001))
    }

    /// Sends a frame from one side and returns the segment that arrives at the other, or `None` if
    /// the port has dropped it. A tap's frames cross the bridge before the call that writes them
    /// returns.
    fn cross(&self, of: usize, segment: &Segment, disguise: Disguise) -> Option<Segment> {
        let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
        let (guest, remote) = self.ends(of);
        let shape = Shape {
            payload_max: PAYLOAD_MAX,
            marks_kept: true,
            ..PLAIN
        };
        let mut bytes = frame(segment, guest, remote, &shape);
        let wire = u32::from(segment.wire_payload_bytes);
        // the kernel refuses what no device could cut
        let is_cut = wire >= 8 && wire < segment.payload_bytes.min(PAYLOAD_MAX);
        let offload = Offload {
            gso_size: if is_cut { wire } else { 0 },
            partial: is_cut,
        };
        match disguise {
            Disguise::None => {}
            Disguise::Fragment => _ = make_odd(&mut bytes, &Oddity::Fragment(0)),
            Disguise::Extension => {
                _ = make_odd(&mut bytes, &Oddity::NextHeader(DESTINATION_OPTIONS))
            }
            // a header of four words
            Disguise::Malformed => bytes[ETHERNET + 40 + 12] = 4 << 4,
        }
        let Wire { guest, network } = &self.wires[of];
        let (here, there) = if from_guest {
            (guest, network)
        } else {
            (network, guest)
        };
        here.write(&bytes, offload);
        let (arrived, offload) = there.read_now()?;
        if disguise != Disguise::None {
            return Some(*segment);
        }
        let reading = read(&arrived, offload.gso_size, from_guest).expect("a whole frame");
        assert_eq!(reading.segment.seq, segment.seq, "an older frame");
        Some(reading.segment)
    }
}

impl Ports for Taps {
    fn wait(&mut self, tick: u64) {
        let due_ns = self.began_ns + tick * TICK_NS;
        loop {
            let now_ns = now_ns();
            if now_ns >= due_ns {
                self.late += u64::from(now_ns - due_ns > LATE_NS);
                return;
            }
            if due_ns - now_ns > 2 * SPIN_NS {
                std::thread::sleep(Duration::from_nanos(due_ns - now_ns - SPIN_NS));
            }
        }
    }

    fn pass_from_guest(&mut self, of: usize, frame: &Frame) -> Option<Segment> {
        self.cross(of, &frame.segment, frame.disguise)
    }

    fn pass_to_guest(&mut self, of: usize, segment: &Segment) -> Option<Segment> {
        self.cross(of, segment, Disguise::None)
    }

    /// Enters the flow at its own port again, as if from a host with the other clock.
    fn hand_over(&mut self, of: usize, clock: u32, layout: u32) {
        let (programs, index) = (&self.programs, self.wires[of].guest.index());
        let began_ns = now_ns();
        let (mut flows, _) = programs.flows_to_send(index).unwrap();
        flows.rebase(clock.into());
        let flows = layout::carry(&flows, &layout::draw(layout, Fault::None)).unwrap();
        programs.forget_flows(index).unwrap();
        programs.reset_hooks(index, |_| true).unwrap();
        // the other host has no group yet
        let mut plan = programs.plan(index).unwrap().unwrap();
        self.hosts += 1;
        if let Some(coupling) = &mut plan.coupling {
            coupling.group = self.hosts;
        }
        programs.set_plan(index, &plan).unwrap();
        let left = programs.receive_flows(index, &flows).unwrap();
        self.moves += flows.len() - left.len();
        // all wait for it, 5 ms
        self.began_ns += now_ns() - began_ns;
    }
}

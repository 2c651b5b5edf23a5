//! A model in virtual time: guests that couple their own flows, a host that couples the guests, a channel that delays
//! and loses messages, and a bottleneck. A flow always has its whole window in flight.
//!
//! A flow's window is acknowledged evenly over a round trip. When the sum of all windows exceeds what the link and its
//! queue hold, a flow loses a segment, with a probability in proportion to its window; and one more flow is drawn for
//! each further segment in excess.

use std::collections::VecDeque;

use uc_core::coupling::across::{Link, Told};
use uc_core::coupling::{Group, GroupPolicy, Guest, Member, Report, consts};
use uc_guest::coupling::frames::Frames;
use uc_guest::coupling::guest::GuestEnd;
use uc_guest::coupling::host::{GuestId, Host, Policy};
use uc_guest::coupling::report::report_of;
use uc_guest::coupling::wire::{Frame, GroupName, Parts};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const MSS: u64 = 1448;
/// Bytes in flight that fill the link without a queue, at 10 Mbit/s and 100 ms. The queue holds as many bytes again.
const PATH_BYTES: u64 = 125_000;
const BASE_NS: u64 = 100 * MS;

/// One connection, whose law is Reno.
struct Flow {
    member: Member,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes that arrived and are not acknowledged yet, because they are less than a segment.
    acked: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew by a segment.
    grown: u64,
    lost_ns: Option<u64>,
    recovers_ns: Option<u64>,
}

/// A channel in one direction.
#[derive(Default)]
struct Pipe(VecDeque<(u64, Vec<u8>)>);

/// A guest of the model.
pub struct Vm {
    id: GuestId,
    group: Group,
    guest: Guest,
    link: Link,
    told: Option<Told>,
    flows: Vec<Flow>,
    end: GuestEnd,
    to_host: Pipe,
    to_guest: Pipe,
    at_host: Frames,
    /// Whether the guest sends reports.
    pub alive: bool,
    /// Number of the guest's bytes that were acknowledged.
    pub delivered: u64,
}

/// The whole model.
pub struct World {
    pub vms: Vec<Vm>,
    pub now_ns: u64,
    pub host_alive: bool,
    /// Delay of the channels in one direction.
    pub delay_ns: u64,
    /// Number of lost messages per thousand.
    pub losses: u64,
    host: Host,
    random: u64,
    dropped_above: u64,
}

impl World {
    /// Creates guests with these numbers of flows and these weights.
    pub fn new(vms: &[(usize, u8)], seed: u64) -> Self {
        let mut host = Host::new(Policy::default());
        let vms = vms
            .iter()
            .map(|&(flows, weight)| Vm::new(host.add(weight), flows));
        Self {
            vms: vms.collect(),
            now_ns: SECOND,
            host_alive: true,
            delay_ns: MS,
            losses: 0,
            host,
            random: seed << 20 | 1,
            dropped_above: 0,
        }
    }

    /// Runs until `end_ns`.
    pub fn run_until(&mut self, end_ns: u64) {
        while self.now_ns < end_ns {
            self.now_ns += MS;
            let round_ns = self.round_ns();
            for vm in &mut self.vms {
                vm.acknowledge(self.now_ns, round_ns);
            }
            self.overflow(round_ns);
            self.messages();
        }
    }

    /// Returns the bytes acknowledged for each guest from now on until `end_ns`.
    pub fn delivered_until(&mut self, end_ns: u64) -> Vec<u64> {
        let before: Vec<_> = self.vms.iter().map(|vm| vm.delivered).collect();
        self.run_until(end_ns);
        let gained = self.vms.iter().zip(before);
        gained.map(|(vm, before)| vm.delivered - before).collect()
    }

    fn in_flight(&self) -> u64 {
        let of_vm = |vm: &Vm| vm.flows.iter().map(|flow| flow.cwnd).sum::<u64>();
        self.vms.iter().map(of_vm).sum()
    }

    fn round_ns(&self) -> u64 {
        BASE_NS * self.in_flight().max(PATH_BYTES) / PATH_BYTES
    }

    /// Draws a random number less than `below`, by xorshift64*.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn overflow(&mut self, round_ns: u64) {
        let in_flight = self.in_flight();
        let room = (2 * PATH_BYTES).max(self.dropped_above);
        if in_flight <= 2 * PATH_BYTES {
            self.dropped_above = 0;
        }
        if in_flight < room + MSS {
            return;
        }
        self.dropped_above = in_flight;
        let mut place = self.random(in_flight);
        let at_ns = self.now_ns + round_ns;
        for flow in self.vms.iter_mut().flat_map(|vm| &mut vm.flows) {
            if place < flow.cwnd {
                flow.lost_ns.get_or_insert(at_ns);
                return;
            }
            place -= flow.cwnd;
        }
    }

    fn messages(&mut self) {
        let now_ns = self.now_ns;
        for number in 0..self.vms.len() {
            let arrives_ns = now_ns + self.delay_ns;
            if let Some(report) = self.vms[number].report(now_ns)
                && self.random(1000) >= self.losses
            {
                self.vms[number].to_host.0.push_back((arrives_ns, report));
            }
            while let Some(bytes) = self.vms[number].to_host.take(now_ns) {
                let answer = self.answer(number, &bytes);
                if self.host_alive && self.random(1000) >= self.losses {
                    self.vms[number].to_guest.0.push_back((arrives_ns, answer));
                }
            }
            self.vms[number].listen(now_ns);
        }
    }

    fn answer(&mut self, number: usize, bytes: &[u8]) -> Vec<u8> {
        let vm = &mut self.vms[number];
        vm.at_host.push(bytes);
        let frame = vm.at_host.take().unwrap().unwrap();
        let Parts::Report(groups) = frame.parts else {
            panic!("{frame:?}");
        };
        let answers = self.host.hear(vm.id, frame.at_ns, &groups, self.now_ns);
        let parts = Parts::Answer(answers.unwrap());
        let at_ns = frame.at_ns;
        Frame { at_ns, parts }.encode()
    }
}

impl Pipe {
    fn take(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let arrived = self.0.front().is_some_and(|&(at_ns, _)| at_ns <= now_ns);
        arrived.then(|| self.0.pop_front().unwrap().1)
    }
}

impl Vm {
    fn new(id: GuestId, flows: usize) -> Self {
        let flow = |_| Flow {
            member: Member::default(),
            cwnd: 10 * MSS,
            ssthresh: consts::INFINITE_SSTHRESH.into(),
            acked: 0,
            grown: 0,
            lost_ns: None,
            recovers_ns: None,
        };
        let mut vm = Self {
            id,
            group: Group::open(&GroupPolicy::default(), SECOND),
            guest: Guest::default(),
            link: Link {
                opened_ns: SECOND,
                ..Link::default()
            },
            told: None,
            flows: (0..flows).map(flow).collect(),
            end: GuestEnd::default(),
            to_host: Pipe::default(),
            to_guest: Pipe::default(),
            at_host: Frames::default(),
            alive: true,
            delivered: 0,
        };
        for flow in &mut vm.flows {
            let report = flow.report(0, BASE_NS);
            let (guest, member) = (&mut vm.guest, &mut flow.member);
            let answer = vm.group.register(guest, member, 1, &report, SECOND);
            flow.cwnd = answer.cwnd_bytes.into();
        }
        vm
    }

    /// Returns the time of the report whose answer the guest's group follows.
    pub fn follows_ns(&self) -> u64 {
        self.link.taken_ns
    }

    /// Returns the window of the guest's group, in bytes.
    pub fn window(&self) -> u32 {
        self.group.window_bytes()
    }

    fn acknowledge(&mut self, now_ns: u64, round_ns: u64) {
        for number in 0..self.flows.len() {
            let flow = &mut self.flows[number];
            flow.acked += flow.cwnd * MS / round_ns;
            if flow.acked < MSS {
                continue;
            }
            let acked = std::mem::take(&mut flow.acked);
            self.delivered += acked;
            flow.compute(acked, now_ns, round_ns);
            self.update(number, acked, now_ns, round_ns);
        }
    }

    /// Updates a flow as the guest's kernel does.
    fn update(&mut self, number: usize, acked: u64, now_ns: u64, round_ns: u64) {
        let flow = &mut self.flows[number];
        let report = flow.report(acked, round_ns);
        if let Some(told) = &self.told {
            self.link.follow(&mut self.group, told, now_ns);
        }
        let was = self.group;
        let (guest, member) = (&mut self.guest, &mut flow.member);
        let answer = self.group.update(guest, member, &report, now_ns);
        self.link.note(&self.group, &was, &report, now_ns);
        flow.ssthresh = answer.ssthresh_bytes.into();
        if flow.recovers_ns.is_none() {
            flow.cwnd = answer.cwnd_bytes.into();
        }
    }

    fn report(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if !self.alive || now_ns < self.end.due_ns() {
            return None;
        }
        let name = GroupName::default();
        let groups = report_of(name, &self.group, &self.link, now_ns);
        Some(self.end.report(groups.into_iter().collect(), now_ns))
    }

    fn listen(&mut self, now_ns: u64) {
        while let Some(bytes) = self.to_guest.take(now_ns) {
            for (_, told) in self.end.hear(&bytes, now_ns).unwrap() {
                self.told = Some(told);
            }
        }
    }
}

impl Flow {
    /// Computes a flow's window by RFC 5681, with a loss recovery that lasts one round trip.
    fn compute(&mut self, acked: u64, now_ns: u64, round_ns: u64) {
        if self.recovers_ns.is_some_and(|until_ns| now_ns >= until_ns) {
            self.recovers_ns = None;
            self.cwnd = self.cwnd.min(self.ssthresh.max(MSS));
        }
        if self.recovers_ns.is_some() {
            self.lost_ns = None;
        } else if self.lost_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.lost_ns = None;
            self.recovers_ns = Some(now_ns + round_ns);
            self.ssthresh = (self.cwnd / 2).max(2 * MSS);
        } else if self.cwnd < self.ssthresh {
            self.cwnd += acked;
        } else {
            self.grown += acked;
            let whole = self.grown / self.cwnd;
            self.grown %= self.cwnd;
            self.cwnd += whole * MSS;
        }
    }

    fn report(&self, acked: u64, round_ns: u64) -> Report {
        let state = if self.recovers_ns.is_some() {
            consts::RECOVERY
        } else if self.cwnd < self.ssthresh {
            consts::SLOW_START
        } else {
            consts::AVOIDANCE
        };
        Report {
            cwnd_bytes: self.cwnd as u32,
            ssthresh_bytes: self.ssthresh as u32,
            flight_bytes: self.cwnd as u32,
            used_bytes: self.cwnd as u32,
            acked_bytes: acked as u32,
            srtt_us: (round_ns / 1000 * 8) as u32,
            mss_bytes: MSS as u16,
            state: state as u8,
            ..Report::default()
        }
    }
}

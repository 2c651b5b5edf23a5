//! Applications' operations on connections, and access to the state of connections and network.

use std::rc::Rc;
use std::sync::Arc;

use uc_core::Policy;
use uc_experiment::{Histogram, LawEvent};
use uc_net::{HostId, LinkId, LinkReport, Nanos};
use uc_tcp::{Config, Connection};

use super::timer_owner::TimerOwner;
use super::{Hosts, Side, Slot};
use crate::consolidation::Virtual;
use crate::coupling::Coupled;
use crate::end::{End, Stage};
use crate::error::SimError;
use crate::hold::Held;
use crate::hypervisor::VmEnd;
use crate::hypervisor::machine::Deed;
use crate::instruments::Instruments;
use crate::packet::{Address, CONNECTIONS_MAX};
use crate::port::Port;
use crate::route::Route;
use crate::scenario::FlowPlan;
use crate::start::{StartCounts, StartEnd};
use crate::tenant_port::TenantPort;

impl Hosts {
    /// Opens a connection between the guest of `plan`, which is number `flow` of the record, and
    /// `receiver`; `opener` sends the SYN. The first notice of each side is
    /// [`Notice::Established`].
    ///
    /// # Errors
    /// Too many connections are open, or [`SimError::Network`] where no path leads to the receiver.
    pub fn open(
        &mut self,
        opener: Side,
        flow: usize,
        plan: &FlowPlan,
        receiver: HostId,
    ) -> Result<Slot, SimError> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.new_slot(plan)?,
        };
        for side in [Side::Guest, Side::Receiver] {
            let opens = side == opener;
            let end = match side {
                Side::Guest => self.guest_end(slot, flow, plan, receiver, opens),
                Side::Receiver => self.receiver_end(slot, flow, plan, receiver, opens),
            }?;
            let place = slot.end(side);
            if place == self.ends.len() {
                self.ends.push(end);
            } else {
                let earlier = std::mem::replace(&mut self.ends[place], end);
                self.held += earlier.held_counts();
            }
        }
        self.act(slot.end(opener), Deed::Open);
        Ok(slot)
    }

    fn new_slot(&self, plan: &FlowPlan) -> Result<Slot, SimError> {
        let slot = self.ends.len() as u32 / 2;
        if slot >= CONNECTIONS_MAX {
            return Err(SimError::Refused(format!(
                "{}: more than {CONNECTIONS_MAX} connections are open at {}; lower the arrival \
                 rate or the sizes",
                plan.name, self.now
            )));
        }
        Ok(Slot(slot))
    }

    fn guest_end(
        &mut self,
        slot: Slot,
        flow: usize,
        plan: &FlowPlan,
        receiver: HostId,
        opens: bool,
    ) -> Result<End, SimError> {
        let mut connection = self.connection(&plan.guest_config, opens);
        let is_coupled = plan.membership.is_some() && !plan.is_coupled_by_port();
        if is_coupled {
            connection.overrule();
        }
        let hosts = (plan.guest, receiver);
        let place = slot.end(Side::Guest);
        let by_port = plan.membership.filter(|at| at.by_port);
        let share = by_port.map_or(0, |at| at.priority);
        let mut port = self.port(plan.guest, plan.policy, share);
        if let (Some(port), Some(policy)) = (&mut port, plan.dupacks) {
            port.send_dupacks(policy);
        }
        let mut end = self.fresh_end(place, flow, hosts, connection, port)?;
        end.hold = plan.hold.map(|settings| Box::new(Held::new(settings)));
        let coupled = plan.membership.map(|at| Box::new(Coupled::new(at)));
        if is_coupled {
            end.coupled = coupled;
        } else {
            end.shares = coupled;
        }
        let instruments = Instruments::new(plan.policy.as_ref());
        self.notes_marks |= instruments.exact.is_some();
        end.instruments = Some(Box::new(instruments));
        end.start = plan.start_policy.map(|policy| {
            let timer = self.start_timer(place);
            Box::new(StartEnd::sending(policy, timer))
        });
        let Virtual { machine, pvtcp, .. } = plan.virtual_part;
        end.vm_end = self.vm_end(place, machine, pvtcp);
        Ok(end)
    }

    /// Creates a connection with these settings that opens or listens.
    fn connection(&mut self, config: &Arc<Config>, opens: bool) -> Connection {
        let iss = self.initial_sequence.bits32();
        if opens {
            Connection::client(config, iss)
        } else {
            Connection::server(config, iss)
        }
    }

    fn receiver_end(
        &mut self,
        slot: Slot,
        flow: usize,
        plan: &FlowPlan,
        receiver: HostId,
        opens: bool,
    ) -> Result<End, SimError> {
        let connection = self.connection(&plan.receiver_config, opens);
        let (place, hosts) = (slot.end(Side::Receiver), (receiver, plan.guest));
        let port = self.port(receiver, plan.receiver_policy, 0);
        let mut end = self.fresh_end(place, flow, hosts, connection, port)?;
        end.start = plan.start_policy.map(|policy| {
            let timer = self.start_timer(place);
            Box::new(StartEnd::receiving(policy, timer))
        });
        let machine = self.receiver_machines.get(&receiver).copied();
        end.vm_end = self.vm_end(place, machine, plan.virtual_part.receiver_pvtcp);
        Ok(end)
    }

    /// Returns an end's state on its virtual machine, if its host is one.
    fn vm_end(
        &mut self,
        place: usize,
        machine: Option<usize>,
        pvtcp: Option<uc_core::steal::Policy>,
    ) -> Option<Box<VmEnd>> {
        let machine = machine?;
        self.machines.all.get_mut(machine)?.members.insert(place);
        Some(Box::new(VmEnd::new(machine, pvtcp)))
    }

    /// Returns a connection's part of its host's port; `None` without a policy.
    fn port(&mut self, host: HostId, policy: Option<Policy>, share: u8) -> Option<Port> {
        let policy = policy?;
        let settings = self.port_settings;
        let tenant = self.ports.entry(host);
        let tenant = tenant.or_insert_with(|| TenantPort::shared(settings));
        Some(Port::at(Rc::clone(tenant), self.core, policy, share))
    }

    /// Creates an end on the first of two hosts, whose peer is on the second.
    fn fresh_end(
        &mut self,
        place: usize,
        flow: usize,
        (from, to): (HostId, HostId),
        connection: Connection,
        port: Option<Port>,
    ) -> Result<End, SimError> {
        let (timer, address) = match self.ends.get(place) {
            Some(earlier) => (earlier.timer, earlier.route.address.next_life()),
            None => {
                self.owners.push(TimerOwner::End(place));
                (self.timers.add(), Address::new(place))
            }
        };
        let path = self.network.path(from, to, || address.path_key())?;
        let route = Route {
            from,
            path,
            address,
            flow: flow as u32,
            ip_header_bytes: self.ip_header_bytes,
        };
        Ok(End::new(connection, port, route, timer))
    }

    /// Queues `bytes` more to send on this side; `u64::MAX` stands for endless data.
    pub fn write(&mut self, slot: Slot, side: Side, bytes: u64) {
        self.act(slot.end(side), Deed::Write(bytes));
    }

    /// Ends the data of one side of a connection (FIN).
    pub fn finish(&mut self, slot: Slot, side: Side) {
        self.act(slot.end(side), Deed::Finish);
    }

    /// Discards this side's unsent data, and ends its data (FIN).
    pub fn stop(&mut self, slot: Slot, side: Side) {
        self.act(slot.end(side), Deed::Stop);
    }

    /// Requests [`Notice::Reached`] once `bytes` in all have been delivered to this side.
    pub fn want(&mut self, slot: Slot, side: Side, bytes: u64) {
        self.wait_for(slot, side, Stage::Reading, bytes);
    }

    /// Requests [`Notice::Closed`] once both sides are closed. Call it for each side.
    pub fn want_close(&mut self, slot: Slot, side: Side) {
        self.wait_for(slot, side, Stage::Closing, 0);
    }

    fn wait_for(&mut self, slot: Slot, side: Side, stage: Stage, bytes: u64) {
        let place = slot.end(side);
        let end = &mut self.ends[place];
        end.wait_for(stage, bytes);
        if let Some(notice) = end.settle().and_then(|over| self.notice(place, over)) {
            self.notices.push_back(notice);
        }
    }

    /// Frees a closed connection's slot. Its timer may still fire once without effect.
    pub fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Requests [`Notice::Wake`] of this flow at `at`, in place of any time requested before.
    pub fn wake(&mut self, flow: usize, at: Nanos) {
        self.timers.set(self.wakes[flow], Some(at));
    }

    /// Returns one end of a connection.
    pub fn end(&self, slot: Slot, side: Side) -> &End {
        &self.ends[slot.end(side)]
    }

    /// Takes the events of the law at the guest's port, those since the last call.
    pub fn take_events(&mut self, slot: Slot) -> impl Iterator<Item = LawEvent> + '_ {
        let port = self.ends[slot.end(Side::Guest)].port.as_deref_mut();
        port.into_iter().flat_map(Port::take_events)
    }

    /// Returns the flow number that a connection belongs to.
    pub fn flow(&self, slot: Slot) -> usize {
        self.end(slot, Side::Guest).route.flow as usize
    }

    /// Returns a link's totals and queue now; `None` for a link of another topology.
    pub fn link(&mut self, link: LinkId) -> Option<LinkReport> {
        self.network.link(link)
    }

    /// Returns the drops and marks of a flow so far.
    pub fn flow_counts(&self, flow: usize) -> uc_net::FlowCounts {
        let counts = self.network.flows().get(&(flow as u32));
        counts.copied().unwrap_or_default()
    }

    /// Starts or stops the measurement of packet round-trip times, for all flows.
    pub fn time_packets(&mut self, is_on: bool) {
        if is_on {
            self.rtts.start(self.wakes.len());
        } else {
            self.rtts.stop();
        }
    }

    /// Returns the round-trip times of a flow's packets, in nanoseconds; `None` if they were never
    /// measured.
    pub fn packet_rtts(&self, flow: usize) -> Option<&Histogram> {
        self.rtts.of(flow)
    }

    /// Returns the counters of flows that start by `watch`.
    pub fn start_counts(&self) -> StartCounts {
        self.starts.counts()
    }

    /// Returns the hypervisors' counters, by name; empty without hypervisors.
    pub fn hypervisor_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.machines.counts().into_iter().flatten()
    }

    /// Returns the counters of the ports' holds, by name; empty where no port holds packets.
    pub fn held_counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let mut sum = self.held;
        for end in &self.ends {
            sum += end.held_counts();
        }
        let is_used = sum != uc_hold_core::Counts::default();
        is_used.then(|| sum.named()).into_iter().flatten()
    }

    /// Returns the largest jump of a virtual machine's clock, in ticks, at least 1; 0 without a VM.
    pub fn clock_jump_ticks(&self, machine: usize) -> u64 {
        let machine = self.machines.all.get(machine);
        machine.map_or(0, |machine| machine.clock.jump_ticks_max.max(1).into())
    }

    /// Returns the number of events: packets that reached hosts, and timers that fired.
    pub fn events(&self) -> u64 {
        self.events
    }
}

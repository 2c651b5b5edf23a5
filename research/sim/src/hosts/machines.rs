//! Ends of connections on virtual machines: they receive and act while their VM runs; events in
//! between wait.
//!
//! On waking, a guest does what an operating system does (PVTCP, §V.A): the clock is brought up to
//! date and all due timers run; then the packets that waited in the driver domain are processed;
//! then applications continue.

use uc_net::{Ecn, Nanos};

use super::{Hosts, Notice};
use crate::end::End;
use crate::hypervisor::Switch;
use crate::hypervisor::machine::Deed;
use crate::packet::Packet;
use crate::timers::TimerId;

impl Hosts {
    /// Returns when an end's timer fires, on a VM at the next tick of its clock; `None`: the end needs no timer.
    #[inline]
    pub(super) fn due(&self, place: usize) -> Option<Nanos> {
        let end = &self.ends[place];
        let deadline = end.deadline()?;
        match &end.vm_end {
            None => Some(deadline),
            Some(vm_end) => Some(self.machines.all[vm_end.machine].due(deadline)),
        }
    }

    /// Delivers a packet for an end on a VM: to the VM if it runs, otherwise to the driver domain. Returns a notice for
    /// an application, if one is due.
    pub(super) fn deliver_to_machine(&mut self, mut packet: Packet) -> Option<Notice> {
        let (now, place) = (self.now, packet.to.place());
        let end = &mut self.ends[place];
        let number = end.vm_end.as_ref()?.machine;
        if !end.arrive(now, &mut packet.segment, &mut self.couplings) {
            return None;
        }
        if self.notes_marks && packet.segment.ecn == Ecn::Ce {
            self.note_mark(&packet);
        }
        let machine = &mut self.machines.all[number];
        if machine.is_running() {
            return self.take(&packet);
        }
        if machine.hold(packet) {
            let core = machine.core;
            let may_run = machine.is_here();
            if may_run {
                let switch = self.machines.cores[core].packet(number, now);
                self.switch(core, switch);
            }
        }
        self.notices.pop_front()
    }

    /// Processes a packet that has reached its VM at the guest. Returns a notice for an application, if one is due.
    fn take(&mut self, packet: &Packet) -> Option<Notice> {
        let (now, place) = (self.now, packet.to.place());
        let end = self.ends.get_mut(place)?;
        if end.route.address != packet.to {
            return None;
        }
        let End {
            vm_end, connection, ..
        } = end;
        let vm_end = vm_end.as_mut()?;
        let machine = &mut self.machines.all[vm_end.machine];
        let sample = vm_end.judge(connection, machine, now, &packet.segment);
        end.take(
            now,
            &packet.segment,
            sample,
            &mut self.network,
            &mut self.rtts,
        );
        self.after(place)
    }

    /// Sets an end's timer after an event. Returns a notice for the end's application, if one is due.
    fn after(&mut self, place: usize) -> Option<Notice> {
        self.start_sends(place);
        let due = self.due(place);
        let end = &mut self.ends[place];
        self.timers.keep(end.timer, due);
        let over = end.settle()?;
        self.notice(place, over)
    }

    /// Handles the timer of an end on a VM. If the VM isn't running, the timer is handled when the VM wakes. Returns a
    /// notice for an application, if one is due.
    pub(super) fn ring_on_machine(&mut self, place: usize, number: usize) -> Option<Notice> {
        let machine = &self.machines.all[number];
        if !machine.is_running() {
            self.timers.set(self.ends[place].timer, None);
            return None;
        }
        let tick = machine.tick_at(self.now);
        self.expire(place, number, tick);
        self.start_sends(place);
        let due = self.due(place);
        let end = &mut self.ends[place];
        self.timers.set(end.timer, due);
        let over = end.settle()?;
        self.notice(place, over)
    }

    /// Runs the timers of an end that are due on `tick`, the current tick.
    fn expire(&mut self, place: usize, number: usize, tick: u64) {
        let (now, end) = (self.now, &mut self.ends[place]);
        let machine = &mut self.machines.all[number];
        let Some(vm_end) = &mut end.vm_end else {
            return;
        };
        vm_end.defer(&mut end.connection, machine, tick);
        let due = machine.time_of(tick);
        if end.connection.deadline().is_none_or(|at| at > due) {
            return;
        }
        let mut waiting = machine.backlog.iter();
        let is_answer = |packet: &Packet| {
            packet.to == end.route.address && end.connection.acknowledges_new(&packet.segment)
        };
        let is_answered = waiting.any(is_answer);
        let before = end.connection.totals().timeouts;
        end.act(now, &mut self.network, self.rtts.is_on(), |tcp, mut out| {
            tcp.expire_due(due, now, &mut out)
        });
        let timeouts = end.connection.totals().timeouts - before;
        if let Some(vm_end) = end.vm_end.as_mut().filter(|_| is_answered) {
            vm_end.note_spurious(timeouts);
        }
    }

    /// Handles the end of a time slice of a core, or of a packet's boost. Returns a notice for an application, if one
    /// is due.
    pub(super) fn turn(&mut self, core: usize) -> Option<Notice> {
        let switch = self.machines.cores[core].change(self.now);
        self.switch(core, switch);
        self.notices.pop_front()
    }

    /// Starts a VM's migration to another core, or ends it. Returns a notice for an application, if one is due.
    pub(super) fn migrate(
        &mut self,
        number: usize,
        timer: TimerId,
        begins: bool,
    ) -> Option<Notice> {
        self.timers.set(timer, None);
        self.set(number, None, Some(begins));
        self.notices.pop_front()
    }

    fn switch(&mut self, core: usize, switch: Switch) {
        let next = self.machines.cores[core].next_change();
        self.timers.set(self.machines.core_timers[core], next);
        if let Some(number) = switch.sleeps {
            self.set(number, Some(false), None);
        }
        if let Some(number) = switch.wakes {
            self.set(number, Some(true), None);
        }
    }

    fn set(&mut self, number: usize, has_core: Option<bool>, migrates: Option<bool>) {
        let now = self.now;
        if self.machines.all[number].set(has_core, migrates, now) == Some(true) {
            self.resume(number);
        }
    }

    /// Resumes a VM after a stall: due timers first, then waiting packets, then applications.
    fn resume(&mut self, number: usize) {
        let machine = &mut self.machines.all[number];
        let tick = machine.wake(self.now);
        let at = machine.time_of(tick);
        let members: Vec<usize> = machine.members.iter().copied().collect();
        let ends = &self.ends;
        let lives_here = |place: &usize| {
            let vm_end = ends[*place].vm_end.as_ref();
            vm_end.is_some_and(|vm_end| vm_end.machine == number)
        };
        let members: Vec<usize> = members.into_iter().filter(lives_here).collect();
        let deadline = |&place: &usize| Some((ends[place].connection.deadline()?, place));
        let mut due: Vec<(Nanos, usize)> = members.iter().filter_map(deadline).collect();
        due.retain(|&(deadline, _)| deadline <= at);
        due.sort_unstable();
        for (_, place) in due {
            self.expire(place, number, tick);
            let notice = self.after(place);
            self.notices.extend(notice);
        }
        while let Some(packet) = self.machines.all[number].backlog.pop_front() {
            let notice = self.take(&packet);
            self.notices.extend(notice);
        }
        while let Some((address, deed)) = self.machines.all[number].deeds.pop_front() {
            if self.ends[address.place()].route.address == address {
                self.act_now(address.place(), deed);
            }
        }
        for place in members {
            let due = self.due(place);
            self.timers.set(self.ends[place].timer, due);
        }
    }

    /// Runs an operation of an end: now, or when its VM runs again.
    pub(super) fn act(&mut self, place: usize, deed: Deed) {
        let end = &self.ends[place];
        if let Some(vm_end) = &end.vm_end {
            let machine = &mut self.machines.all[vm_end.machine];
            if !machine.is_running() {
                machine.deeds.push_back((end.route.address, deed));
                return;
            }
        }
        self.act_now(place, deed);
    }

    fn act_now(&mut self, place: usize, deed: Deed) {
        let now = self.now;
        let end = &mut self.ends[place];
        end.act(now, &mut self.network, self.rtts.is_on(), |tcp, mut out| {
            let out = &mut out;
            match deed {
                Deed::Open => tcp.open(now, out),
                Deed::Write(bytes) => tcp.write(now, bytes, out),
                Deed::Finish => tcp.finish(now, out),
                Deed::Stop => tcp.stop(now, out),
            }
        });
        self.couple(place);
        self.start_sends(place);
        let due = self.due(place);
        self.timers.keep(self.ends[place].timer, due);
    }
}

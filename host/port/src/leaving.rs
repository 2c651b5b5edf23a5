//! Ports that drain. An operator detaches a port, but peers of its flows have agreed to ECN in the guest's name and go
//! on sending ECT. So its programs stay until the last of these flows has ended: new flows pass, no window is written,
//! and the peers' marks are echoed (`core/leave.h`).

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use uc_core::consts;
use uc_files::{FileError, wait_for_lock};

use crate::attach::clsact_filters;
use crate::error::PortError;
use crate::flows::{FlowView, Key, key_of};
use crate::hooks::now_ns;
use crate::links::Whereabouts;
use crate::programs::Programs;
use crate::store::Store;

/// Interval at which a process checks whether the last flow of a port has ended.
pub const DRAIN_POLL: Duration = Duration::from_millis(250);

/// Time in ns for which a flow still counts as open after both FINs or a RST: the last ACKs may still have to carry an
/// echo.
const LAST_ACKS_NS: u64 = 1_000_000_000;

/// Longest time for which a watcher waits for the lock, which [`Store::is_drain_watched`] takes briefly.
const ASKED_MOST: Duration = Duration::from_secs(1);

/// Ports that drain, with the flows whose peers may send ECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    left: BTreeMap<u32, Vec<Key>>,
}

impl Drain {
    /// Returns whether no port is draining.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the interface indices of the ports that drain.
    pub fn ports(&self) -> BTreeSet<u32> {
        self.left.keys().copied().collect()
    }

    /// Returns the number of a port's flows whose peers may send ECT; `None`: the port does not drain.
    pub fn flows(&self, ifindex: u32) -> Option<usize> {
        self.left.get(&ifindex).map(Vec::len)
    }

    /// Returns whether a port has drained or vanished, or another has begun to drain. Reads one flow of
    /// each port, and forgets those that have ended.
    fn has_changed(&mut self, store: &Store, programs: &Programs) -> Result<bool, PortError> {
        let leaving = programs.leaving()?;
        if !leaving.iter().eq(self.left.keys()) {
            return Ok(true);
        }
        for (&ifindex, keys) in &mut self.left {
            while let Some(key) = keys.last() {
                let flow = programs.flow_of(key)?;
                if flow.is_some_and(|flow| is_promised(&flow, now_ns())) {
                    break;
                }
                keys.pop();
            }
            if keys.is_empty() || store.is_gone(ifindex)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns whether the flow's peer sends ECT, or may soon, because the host has agreed to ECN.
fn is_promised(flow: &FlowView, now_ns: u64) -> bool {
    let state = &flow.state;
    let observed = u32::from(state.policy.modes) & consts::MODE_OBSERVE != 0;
    let over = uc_core::is_closed(state) && state.seen_ns + LAST_ACKS_NS < now_ns;
    state.has_ecn() && !observed && !over && !uc_core::is_stale(state, now_ns)
}

impl Programs {
    /// Returns the flows whose peers may send ECT, by port.
    fn promised(&self) -> Result<BTreeMap<u32, Vec<Key>>, PortError> {
        let mut promised = BTreeMap::<u32, Vec<Key>>::new();
        let now_ns = now_ns();
        self.each_flow(|flow| {
            if is_promised(&flow, now_ns) {
                promised
                    .entry(flow.ifindex)
                    .or_default()
                    .push(key_of(&flow));
            }
        })?;
        Ok(promised)
    }

    /// Returns how many flows of each port have peers that may send ECT; ports
    /// without such a flow are left out.
    pub fn echoing(&self) -> Result<BTreeMap<u32, usize>, PortError> {
        let promised = self.promised()?.into_iter();
        Ok(promised
            .map(|(ifindex, keys)| (ifindex, keys.len()))
            .collect())
    }

    /// Returns the ports that drain, with their flows.
    fn drain(&self) -> Result<Drain, PortError> {
        let leaving = self.leaving()?;
        if leaving.is_empty() {
            return Ok(Drain::default());
        }
        // flows that were in their handshake when the port began to drain
        self.collect_idle()?;
        let mut promised = self.promised()?;
        let left = leaving.into_iter();
        let left = left.map(|ifindex| (ifindex, promised.remove(&ifindex).unwrap_or_default()));
        Ok(Drain {
            left: left.collect(),
        })
    }
}

impl Store {
    /// Begins to detach ports: new flows pass, and for flows under way the programs only echo the peers' marks. Ports
    /// without a flow that needs this are detached at once. Returns the ports that drain. The caller must hold
    /// [`Store::lock`].
    pub fn leave(&self, programs: &Programs, ports: &BTreeSet<u32>) -> Result<Drain, PortError> {
        programs.leave(ports)?;
        self.finish(programs)
    }

    /// Begins to detach ports like [`Store::leave`], by name: all of them, or none if one is not attached.
    ///
    /// # Errors
    /// [`PortError::NotAttached`]; the kernel's refusal.
    pub fn leave_all(&self, programs: &Programs, names: &[String]) -> Result<Drain, PortError> {
        self.leave(programs, &self.indices(names)?)
    }

    /// Detaches the ports that have drained. Returns those that still drain. The caller must hold [`Store::lock`].
    pub fn finish(&self, programs: &Programs) -> Result<Drain, PortError> {
        let mut drain = programs.drain()?;
        let mut done = BTreeSet::new();
        for (&ifindex, keys) in &drain.left {
            if keys.is_empty() || self.is_gone(ifindex)? {
                done.insert(ifindex);
            }
        }
        drain.left.retain(|ifindex, _| !done.contains(ifindex));
        if !done.is_empty() {
            self.detach_indices(programs, &done)?;
        }
        Ok(drain)
    }

    /// Returns whether a port of `drain` has drained or vanished, or another port has begun to drain.
    pub fn has_drained(&self, drain: &mut Drain) -> Result<bool, PortError> {
        // opened again: an upgrade may have replaced the maps
        match self.open()? {
            Some(programs) => drain.has_changed(self, &programs),
            None => Ok(true),
        }
    }

    /// Detaches each port that drains as soon as it has drained. Returns when no port drains any more, or at once if
    /// another process watches already.
    pub fn watch_drain(&self) -> Result<(), PortError> {
        let watched = match wait_for_lock(&self.drain_lock()?, ASKED_MOST) {
            Err(FileError::Busy { .. }) => return Ok(()),
            lock => lock?,
        };
        loop {
            let turn = self.lock()?;
            let drain = match self.open()? {
                Some(programs) => self.finish(&programs)?,
                None => Drain::default(),
            };
            if drain.is_empty() {
                // before another process can let a port drain
                drop(watched);
                return Ok(());
            }
            drop(turn);
            self.wait_until_drained(drain)?;
        }
    }

    /// Waits until a port of `drain` has drained, or a port drains that is not in `drain`.
    fn wait_until_drained(&self, mut drain: Drain) -> Result<(), PortError> {
        while !self.has_drained(&mut drain)? {
            thread::sleep(DRAIN_POLL);
        }
        Ok(())
    }

    /// Waits until none of these ports drains any more. Returns false if one still drains and no process waits in
    /// [`Store::watch_drain`] to detach it.
    pub fn wait_until_left(&self, ports: &BTreeSet<u32>) -> Result<bool, PortError> {
        loop {
            let is_watched = self.is_drain_watched()?;
            match self.open()? {
                Some(programs) if !programs.leaving()?.is_disjoint(ports) => {}
                _ => return Ok(true),
            }
            if !is_watched {
                return Ok(false);
            }
            thread::sleep(DRAIN_POLL);
        }
    }

    /// Returns whether a process waits in [`Store::watch_drain`].
    pub fn is_drain_watched(&self) -> Result<bool, PortError> {
        match wait_for_lock(&self.drain_lock()?, Duration::ZERO) {
            Err(FileError::Busy { .. }) => Ok(true),
            lock => Ok(lock.map(|_| false)?),
        }
    }

    fn drain_lock(&self) -> Result<String, PortError> {
        Ok(format!("drain-{:x}.lock", self.device()?))
    }

    /// Returns whether no interface of this index has programs of ours any more.
    fn is_gone(&self, ifindex: u32) -> Result<bool, PortError> {
        Ok(self.whereabouts(ifindex)? == Whereabouts::Gone && clsact_filters(ifindex)? == 0)
    }
}

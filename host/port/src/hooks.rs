//! What the two hooks of a port have seen: the state by which the programs find a half-blind port
//! (`core/hooks.h`).

use libbpf_rs::{MapCore, MapFlags};
use nix::time::{ClockId, clock_gettime};
use uc_core::hooks::Hooks;
use zerocopy::IntoBytes;

use crate::bytes::read;
use crate::direction::Direction;
use crate::error::PortError;
use crate::programs::Programs;

impl Programs {
    pub(crate) fn hooks(&self, number: u32) -> Result<Hooks, PortError> {
        let value = self.maps.hooks.lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let value =
            value.map_err(|error| PortError::from_libbpf("read what hooks have seen", &error))?;
        Ok(value.and_then(|value| read(&value)).unwrap_or_default())
    }

    pub(crate) fn write_hooks(&self, number: u32, hooks: &Hooks) -> Result<(), PortError> {
        self.maps
            .hooks
            .update(&number.to_ne_bytes(), hooks.as_bytes(), MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("write what hooks have seen", &error))
    }

    /// Resets the record of what a port's hooks have seen. A hook for which `trusted` returns true counts as having
    /// seen a segment now. If the hook towards the guest is not trusted, no flow asks for ECN until that hook has seen
    /// a segment.
    pub fn reset_hooks(
        &self,
        ifindex: u32,
        trusted: impl Fn(Direction) -> bool,
    ) -> Result<(), PortError> {
        let mut hooks = Hooks::default();
        for direction in Direction::BOTH.into_iter().filter(|of| trusted(*of)) {
            hooks.seen_ns[direction.index()] = now_ns();
        }
        match self.port_states()?.get(&ifindex) {
            Some(state) => self.write_hooks(state.number, &hooks),
            None => Ok(()),
        }
    }
}

/// Returns the time of `CLOCK_MONOTONIC`, which the programs read, in ns.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| {
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    })
}

//! Programs of others that run before ours at a port's hooks. One that ends the chain (its verdict is
//! `TC_ACT_OK`, or `TCX_PASS`) hides the hook's packets from ours. And those that run behind one of ours
//! which takes packets off the hook.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::attach::is_own_filter;
use crate::direction::Direction;
use crate::error::PortError;
use crate::hooks::now_ns;
use crate::links::{PinnedLink, program_id, program_info, programs_on};
use crate::order::runs_before_port;
use crate::ports::PortView;
use crate::qdisc::{Filter, filters};
use crate::store::Store;

/// A program, or a filter of another kind, at the same hook as ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Name of the program, or kind of the filter; empty if the kernel does not tell this process.
    pub name: String,
    /// Number of the program in the kernel; `None` for a filter that is no BPF program.
    pub id: Option<u32>,
    /// Priority of the clsact filter; `None` for a program attached through TCX.
    pub priority: Option<u32>,
    /// When the program was loaded, in nanoseconds since the host's start; 0: unknown.
    pub loaded_ns: u64,
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) if self.name.is_empty() => write!(f, "program {id}")?,
            Some(id) => write!(f, "program '{}' (id {id})", self.name)?,
            None => write!(f, "filter '{}'", self.name)?,
        }
        match self.priority {
            Some(priority) => write!(f, " of clsact, priority {priority}"),
            None => write!(f, " of TCX"),
        }
    }
}

impl Store {
    /// Returns the programs of others that run before ours at this hook, in their order. The port
    /// must be in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal to list them.
    pub fn ahead(&self, ifindex: u32, direction: Direction) -> Result<Vec<Ahead>, PortError> {
        let failed =
            |error| PortError::from_kernel(format!("list the programs on port {ifindex}"), error);
        let ours = PinnedLink::open(&self.link_path(ifindex, direction))?.map(|link| link.id());
        let by_tcx = programs_on(ifindex, direction).map_err(failed)?;
        let at = by_tcx.iter().position(|placed| Some(placed.link) == ours);
        let tcx = by_tcx[..at.unwrap_or(by_tcx.len())].iter();
        let mut ahead: Vec<Ahead> = tcx.map(|placed| look_at(placed.program)).collect();
        if at.is_none() {
            let all = filters(ifindex, direction).map_err(failed)?;
            let before = all.into_iter().take_while(|filter| !is_own_filter(filter));
            ahead.extend(before.map(look_at_filter));
        }
        ahead.retain(|program| !runs_before_port(&program.name));
        Ok(ahead)
    }
}

impl PortView {
    /// Returns the direction in which the port's program sees no packets, or may see none; `None` if both programs see
    /// packets, as far as is known.
    pub fn half_blind(&self) -> Option<Direction> {
        if !self.hooks.ask(now_ns()) {
            return Some(Direction::ToGuest);
        }
        let from_guest = Direction::FromGuest;
        let is_blind = self.hooks.is_blind(from_guest.index() as u32);
        is_blind.then_some(from_guest)
    }

    /// Returns when the hook saw its last TCP segment, in nanoseconds of CLOCK_MONOTONIC; 0: never.
    pub fn seen_ns(&self, direction: Direction) -> u64 {
        self.hooks.seen_ns[direction.index()]
    }

    /// Like [`PortView::half_blind`], but also returns a direction in which a program of `ahead` runs, if the port's
    /// program has seen no segment since that one was loaded. `ahead` returns the programs that run before the port's
    /// in a direction. A direction in which the port has seen no segment and nothing runs ahead is not returned.
    pub fn half_blind_behind(&self, ahead: impl Fn(Direction) -> Vec<Ahead>) -> Option<Direction> {
        let hides = |direction: &Direction| {
            let seen_ns = self.seen_ns(*direction);
            ahead(*direction)
                .iter()
                .any(|program| program.loaded_ns >= seen_ns)
        };
        // a port in doubt at which nothing runs before ours any more waits for its first segment
        let in_doubt =
            |direction: &Direction| self.seen_ns(*direction) == 0 && ahead(*direction).is_empty();
        self.half_blind()
            .filter(|direction| !in_doubt(direction))
            .or_else(|| Direction::BOTH.into_iter().rev().find(hides))
    }
}

/// Returns the first program or filter that runs behind a TCX program at this hook of an interface of the calling
/// thread's network namespace: another TCX program, or any filter of clsact. `None` if nothing runs behind it, or
/// `program` is not at the hook.
///
/// # Errors
/// The kernel's refusal to list them.
pub fn behind(
    ifindex: u32,
    direction: Direction,
    program: BorrowedFd<'_>,
) -> Result<Option<Ahead>, PortError> {
    let failed =
        |error| PortError::from_kernel(format!("list the programs on port {ifindex}"), error);
    let own = program_id(program)?;
    let placed = programs_on(ifindex, direction).map_err(failed)?;
    let Some(at) = placed.iter().position(|placed| placed.program == own) else {
        return Ok(None);
    };
    if let Some(next) = placed.get(at + 1) {
        return Ok(Some(look_at(next.program)));
    }
    let filters = filters(ifindex, direction).map_err(failed)?;
    Ok(filters.into_iter().next().map(look_at_filter))
}

/// Reads a program's name and the time when it was loaded. A process without CAP_SYS_ADMIN learns neither.
fn look_at(id: u32) -> Ahead {
    let (name, loaded_ns) = program_info(id).unwrap_or_default();
    Ahead {
        name,
        id: Some(id),
        loaded_ns,
        ..Ahead::default()
    }
}

fn look_at_filter(filter: Filter) -> Ahead {
    let known = match filter.program {
        Some(id) => look_at(id),
        None => Ahead {
            name: filter.kind,
            ..Ahead::default()
        },
    };
    Ahead {
        priority: Some(filter.priority),
        ..known
    }
}

//! Positions of programs at a port's hook: which of ours run before others, and which after.

use std::io;

use crate::direction::Direction;
use crate::links::{Placed, program_info, programs_on};

/// Position of a program among those at a port's hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Before all other programs, whichever is attached first: for a program by which frames bypass the others. TCX
    /// only.
    Gate,
    /// Before the port's own programs, whichever is attached first: for a program that processes packets before they
    /// do.
    BeforePort,
    /// The port's own programs: before all that others have attached. A program that ends the
    /// hook's chain then hides nothing from ours, which always let the next one run.
    Port,
    /// The port's own programs: after all that others have attached.
    PortLast,
    /// After all other programs: for a program that takes packets off the hook when the others have seen them. TCX
    /// only.
    Hold,
}

impl Order {
    /// Returns the flags with which TCX attaches a program at this position, and the kernel's id of the program to
    /// which the flags refer; 0: they refer to all programs.
    pub(crate) fn in_tcx(self, ifindex: u32, direction: Direction) -> io::Result<(u32, u32)> {
        let leading: fn(&str) -> bool = match self {
            Order::Gate => return Ok((libbpf_sys::BPF_F_BEFORE, 0)),
            Order::Hold => return Ok((0, 0)),
            Order::BeforePort => is_gate,
            Order::Port => runs_before_port,
            Order::PortLast => {
                let hold = named(programs_on(ifindex, direction)?, is_hold).next();
                return Ok(hold.map_or((0, 0), |id| relative(libbpf_sys::BPF_F_BEFORE, id)));
            }
        };
        let placed = programs_on(ifindex, direction)?.into_iter();
        let first = placed.map(|placed| placed.program);
        let last = first
            .take_while(|program| is_named(*program, leading))
            .last();
        Ok(last.map_or((libbpf_sys::BPF_F_BEFORE, 0), |id| {
            relative(libbpf_sys::BPF_F_AFTER, id)
        }))
    }
}

fn relative(side: u32, id: u32) -> (u32, u32) {
    (side | libbpf_sys::BPF_F_ID, id)
}

fn named(placed: Vec<Placed>, is_meant: fn(&str) -> bool) -> impl Iterator<Item = u32> {
    let programs = placed.into_iter().map(|placed| placed.program);
    programs.filter(move |program| is_named(*program, is_meant))
}

fn is_named(program: u32, is_meant: fn(&str) -> bool) -> bool {
    program_info(program).is_some_and(|(name, _)| is_meant(&name))
}

/// Returns whether a program of this name is one of ours that run before a port's own on purpose:
/// those of `uc watch`, and the gate of `uc hold`.
pub(crate) fn runs_before_port(name: &str) -> bool {
    name.starts_with("uc_watch_") || is_gate(name)
}

fn is_gate(name: &str) -> bool {
    name == "uc_hold_gate"
}

/// Returns whether a program of this name is one of `uc hold` that run after all others. The kernel
/// keeps 15 characters of a name.
fn is_hold(name: &str) -> bool {
    name.starts_with("uc_hold_to") || name.starts_with("uc_hold_from")
}

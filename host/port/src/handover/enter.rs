//! The program that enters a flow into the table (`bpf/port/enter.bpf.c`). User space itself can't: it
//! can neither take a place nor write an entry while packets do. It is loaded when it is needed, and
//! leaves the programs of the ports as they are.

use std::os::fd::{AsFd, OwnedFd};

use uc_core::{Annex, Reason};
use zerocopy::IntoBytes;

use crate::error::PortError;
use crate::layout::uc_slot;
use crate::loaded::Loaded;
use crate::programs::Programs;
use crate::test_run::{LOOPBACK, PacketContext, run_packet};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/enter.bpf.o"));

/// Bytes of the frame before the slot, as long as an Ethernet header.
const HEAD: [u8; 14] = [0; 14];

/// The loaded program, which uses the maps of the ports' programs.
pub(crate) struct Enter(OwnedFd);

impl Enter {
    /// Loads the program that enters flows into the table.
    pub(crate) fn load(programs: &Programs) -> Result<Enter, PortError> {
        let object = Loaded::load("load the program that enters flows", OBJECT, |map| {
            programs.maps.lend(map)
        })?;
        object.program("uc_enter_flow").map(Enter)
    }

    /// Enters a flow. `flows_max`: maximum number of the port's flows, half-open ones apart; 0: as many as the table
    /// has free entries. Returns [`Reason::TRANSLATED`], or the reason why there is no room.
    pub(crate) fn run(
        &self,
        slot: &uc_slot,
        annex: &Annex,
        flows_max: u32,
    ) -> Result<Reason, PortError> {
        let frame = [&HEAD, slot.as_bytes(), annex.as_bytes()].concat();
        let context = PacketContext {
            ifindex: LOOPBACK,
            gso_segs: 0,
            gso_size: 0,
            repeat: 1,
        };
        let run = run_packet(self.0.as_fd(), &frame, context, flows_max)?;
        Ok(Reason::from_code(run.verdict as u32))
    }
}

//! An upgrade to a version whose maps have another layout: plans and flows go over to its maps.
//!
//! All flows are copied while the former version goes on to translate, then those that have changed
//! since; then the ports get the new programs. What passes between a flow's last copy and that moment
//! is unseen, and repaired as unseen segments are (`core/missed.h`).
//!
//! A field is found by its name in the programs' BTF, whatever its place and size. So a field whose
//! meaning changes needs another name, and a new one must mean "not known" where it is 0.

mod former;

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use uc_core::{Flow, Law};
use zerocopy::IntoBytes;

use crate::bytes::read;
use crate::carried::Carried;
use crate::error::PortError;
use crate::flows::{ANNEX_AT, FlowView, ends};
use crate::handover::Enter;
use crate::handover::obstacle::{LeftFlow, Obstacle};
use crate::hooks::now_ns;
use crate::layout::{UC_SLOT_ANNEXED, UC_SLOT_LISTED, uc_slot};
use crate::programs::Programs;
use crate::store::Store;
use crate::versions::Version;

use former::{Former, FormerFlow};

/// Flows on their way from a former version's maps to those of programs that no port has yet.
pub(crate) struct Carry<'a> {
    former: Former,
    to: &'a Programs,
    enter: Enter,
    /// Number and maximum number of flows of each port, by interface index.
    ports: BTreeMap<u32, (u32, u32)>,
    /// Number of flows that were copied from the former version.
    flows: usize,
    /// Flows that were not copied, with the reason, by the bytes of their key.
    left: HashMap<Vec<u8>, LeftFlow>,
    /// Time at which the last copy of flows began.
    copy_began: Instant,
}

impl<'a> Carry<'a> {
    /// Copies the plans of a version's ports, and prepares the copying of its flows. The inner error says in words why
    /// this can't be done.
    pub(crate) fn begin(
        store: &Store,
        version: &Version,
        to: &'a Programs,
    ) -> Result<Result<Carry<'a>, String>, PortError> {
        let Some(former) = Former::open(store, version, to) else {
            return Ok(Err(
                "the maps of the uc version that runs at the ports can't be read".into(),
            ));
        };
        match former.copy_plans(to) {
            Ok(true) => {}
            Ok(false) => {
                return Ok(Err(
                    "the plans of the uc version that runs at the ports do not fit this version"
                        .into(),
                ));
            }
            Err(error) => return Ok(Err(error.to_string())),
        }
        to.enter_ports(to.planned()?)?;
        let mut ports = BTreeMap::new();
        for (ifindex, state) in to.port_states()? {
            let page = to.first_page(ifindex)?.unwrap_or_default();
            ports.insert(ifindex, (state.number, page.flows_max));
        }
        Ok(Ok(Carry {
            former,
            to,
            enter: Enter::load(to)?,
            ports,
            flows: 0,
            left: HashMap::new(),
            copy_began: Instant::now(),
        }))
    }

    /// Copies the flows that have changed since the last call, before a port has the new programs.
    pub(crate) fn copy(&mut self) -> Result<(), PortError> {
        self.copy_began = Instant::now();
        self.copy_with(Self::renew)
    }

    /// Copies the flows that have begun since the last call. Called when all ports have the new programs, which
    /// process the copied flows by now.
    pub(crate) fn finish(mut self) -> Result<Carried, PortError> {
        let unseen = self.copy_began.elapsed();
        self.copy_with(|_, _, _| Ok(()))?;
        let mut left: Vec<LeftFlow> = self.left.into_values().collect();
        left.sort_by_key(|flow| (flow.guest, flow.remote, flow.vlan));
        Ok(Carried {
            flows: self.flows,
            left,
            dropped: self.former.dropped(),
            unseen,
        })
    }

    /// Goes through the flows that have changed since the last call: enters each that has no copy yet, and calls
    /// `renew` for each that has a copy.
    fn copy_with(
        &mut self,
        renew: impl Fn(&Programs, &FlowView, &FormerFlow) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        let now_ns = now_ns();
        let Carry {
            former,
            to,
            enter,
            ports,
            flows,
            left,
            ..
        } = self;
        former.each_changed(|flow| {
            let slot = &flow.slot;
            let Some(&(number, flows_max)) = ports.get(&slot.key.ifindex) else {
                return Ok(());
            };
            let mut state = Flow::from(slot.flow);
            state.annex = flow.annex;
            let key = slot.key.as_bytes();
            let obstacle = match () {
                () if !flow.fits => Some(Obstacle::Narrow),
                () if !is_sound(&state) => Some(Obstacle::Unsound),
                () => None,
            };
            let copy = to.flow_of(key)?;
            let why = match (copy, obstacle) {
                (Some(copy), None) => return renew(to, &copy, &flow),
                // its older copy goes on
                (Some(_), Some(_)) => return Ok(()),
                (None, _) if uc_core::is_stale(&state, now_ns) => return Ok(()),
                (None, Some(why)) => Some(why),
                (None, None) => {
                    let slot = uc_slot {
                        number: number as u16,
                        bits: slot.bits & !(UC_SLOT_LISTED as u8),
                        ..*slot
                    };
                    to.enter_slot(enter, &slot, &flow.annex, flows_max)?
                }
            };
            match why {
                None => {
                    *flows += 1;
                    left.remove(key);
                }
                Some(why) => {
                    let (guest, remote) = ends(&slot.key);
                    let vlan = slot.key.vlan as u16;
                    let flow = LeftFlow {
                        guest,
                        remote,
                        vlan,
                        why,
                    };
                    left.insert(key.to_vec(), flow);
                }
            }
            Ok(())
        })
    }

    /// Writes a flow over its older copy.
    fn renew(to: &Programs, copy: &FlowView, flow: &FormerFlow) -> Result<(), PortError> {
        let place = copy.place;
        let value = to.read_place(place)?.unwrap_or_default();
        let mut slot: uc_slot = read(&value).unwrap_or_default();
        let is_annexed = |slot: &uc_slot| u32::from(slot.bits) & UC_SLOT_ANNEXED != 0;
        if is_annexed(&slot) != is_annexed(&flow.slot) {
            return Ok(());
        }
        let annex_at = slot.flow.annex_at;
        slot.flow = flow.slot.flow;
        if is_annexed(&slot) {
            slot.flow.annex_at = annex_at;
            let mut value = to.read_place(annex_at)?.unwrap_or_default();
            let annex = flow.annex.as_bytes();
            if let Some(room) = value.get_mut(ANNEX_AT..ANNEX_AT + annex.len()) {
                room.copy_from_slice(annex);
            }
            to.write_place(annex_at, &value)?;
        }
        to.write_place(place, slot.as_bytes())
    }
}

/// Returns whether this build's core may translate the flow; true for laws from outside the tree, which it can't
/// check.
fn is_sound(state: &Flow) -> bool {
    let law = Law::of(&state.policy);
    !Law::inside().any(|inside| inside == law) || state.is_sound()
}

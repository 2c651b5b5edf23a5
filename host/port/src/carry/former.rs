//! The maps of a version that has another layout, read as if it had this build's.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{Btf, MapCore, MapFlags, MapHandle};
use uc_core::Annex;

use crate::batch::{first, keys};
use crate::bytes::read;
use crate::error::PortError;
use crate::flows::READ;
use crate::layout::{UC_SLOT_ANNEXED, uc_cursor, uc_slot};
use crate::links::program_id;
use crate::plans::is_in_force;
use crate::programs::Programs;
use crate::store::Store;
use crate::structs::conversion::Conversion;
use crate::structs::shape::Shape;
use crate::versions::Version;

const COPY: &str = "copy the settings of the version before";

/// A flow of the version of uc that is being replaced.
pub(super) struct FormerFlow {
    pub(super) slot: uc_slot,
    pub(super) annex: Annex,
    /// Whether all values of the flow fit into this build's fields.
    pub(super) fits: bool,
}

/// Structs of a former version, and this build's of the same names.
struct Structs {
    former: Btf<'static>,
    own: Btf<'static>,
}

impl Structs {
    /// Returns the conversion of a struct's values; `None` if the former version or this build has no struct of this
    /// name.
    fn conversion(&self, name: &str) -> Option<Conversion> {
        let [from, to] = [&self.former, &self.own].map(|btf| Shape::of(btf, name));
        Some(Conversion::new(&from?, &to?))
    }
}

/// A version whose maps have another layout.
pub(super) struct Former {
    structs: Structs,
    plan: MapHandle,
    couplings: MapHandle,
    priorities: MapHandle,
    cursors: MapHandle,
    flows: MapHandle,
    cursor: Conversion,
    slot: Conversion,
    annex: Conversion,
    /// Offset of an annex in an entry of the flow table, in bytes.
    annex_at: usize,
    /// Offset of the time of a flow's last segment in its entry of the flow table, in bytes.
    seen_at: usize,
    /// Time of each flow's last segment when the flow was read last, in ns; the index is the flow's place in the
    /// table.
    seen_ns: Vec<u64>,
}

impl Former {
    /// Opens a version's maps. `None`: a map is missing, the version's programs have no BTF, or its structs are too
    /// different.
    pub(super) fn open(store: &Store, version: &Version, own: &Programs) -> Option<Former> {
        let collect = store.program_of(version, "collect").ok()?;
        let structs = Structs {
            former: btf(collect.as_fd())?,
            own: btf(own.code.collect())?,
        };
        let slot = Shape::of(&structs.former, "uc_slot")?;
        let map = |name| store.map_of(version, name).ok();
        let [a, b] = [map("plan_a")?, map("plan_b")?];
        Some(Former {
            plan: if is_in_force(&map("plan")?, &a).ok()? {
                a
            } else {
                b
            },
            couplings: map("couplings")?,
            priorities: map("priorities")?,
            cursors: map("cursors")?,
            flows: map("flows")?,
            cursor: structs.conversion("uc_cursor")?,
            slot: structs.conversion("uc_slot")?,
            annex: structs.conversion("uc_annex")?,
            annex_at: slot.offset("flow")?,
            seen_at: slot.offset("flow.seen_ns")?,
            seen_ns: Vec::new(),
            structs,
        })
    }

    /// Copies the plans of ports to programs that no port has yet. Returns false if they do not fit.
    ///
    /// # Errors
    /// The kernel's refusal; [`PortError::TooManyPorts`].
    pub(super) fn copy_plans(&self, to: &Programs) -> Result<bool, PortError> {
        let to = &to.maps;
        let page = (Some("uc_page_key"), Some("uc_page"));
        Ok(self.copy(&self.plan, page, &to.plan_a)?
            && self.copy(
                &self.couplings,
                (None, Some("uc_port_coupling")),
                &to.couplings,
            )?
            && self.copy(
                &self.priorities,
                (Some("uc_priority_key"), None),
                &to.priorities,
            )?)
    }

    /// Copies a map, whose keys and values are structs or, without a name, plain numbers. Returns false if
    /// one of them does not fit.
    fn copy(
        &self,
        from: &MapHandle,
        (key, value): (Option<&str>, Option<&str>),
        to: &MapHandle,
    ) -> Result<bool, PortError> {
        let failed = |error| PortError::from_libbpf(COPY, &error);
        let keys = keys(from, COPY)?;
        if keys.is_empty() {
            return Ok(true);
        }
        let conversion = |name: Option<&str>| match name {
            Some(name) => self.structs.conversion(name).map(Some),
            None => Some(None),
        };
        let (Some(key), Some(value)) = (conversion(key), conversion(value)) else {
            return Ok(false);
        };
        let convert = |conversion: &Option<Conversion>, bytes: &[u8]| match conversion {
            Some(conversion) => match conversion.convert(bytes) {
                (value, None) => Some(value),
                (_, Some(_)) => None,
            },
            None => Some(bytes.to_vec()),
        };
        for old in keys {
            let Some(found) = from.lookup(&old, MapFlags::ANY).map_err(failed)? else {
                continue;
            };
            let (Some(key), Some(value)) = (convert(&key, &old), convert(&value, &found)) else {
                return Ok(false);
            };
            to.update(&key, &value, MapFlags::ANY).map_err(failed)?;
        }
        Ok(true)
    }

    /// Returns the names of a flow's fields that this build lacks.
    pub(super) fn dropped(&self) -> Vec<String> {
        [self.slot.dropped(), self.annex.dropped()].concat()
    }

    /// Calls `see` with each flow that has had a segment since the last call. Flows added or removed
    /// meanwhile may be missed.
    ///
    /// # Errors
    /// The kernel's refusal, and those of `see`.
    pub(super) fn each_changed(
        &mut self,
        mut see: impl FnMut(FormerFlow) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        let taken = self.fresh()?;
        let mut seen = std::mem::take(&mut self.seen_ns);
        seen.resize(taken as usize, 0);
        let mut result = Ok(());
        first(&self.flows, taken, MapFlags::LOCK, READ, |place, value| {
            let seen_ns: u64 = read(&value[self.seen_at..]).unwrap_or_default();
            let before_ns = &mut seen[place as usize];
            if *before_ns == seen_ns || result.is_err() {
                return;
            }
            *before_ns = seen_ns;
            let (slot, too_large) = self.slot.convert(value);
            let slot: uc_slot = read(&slot).unwrap_or_default();
            if slot.key.ifindex != 0 {
                let flow = self.flow(slot, too_large.is_none());
                result = flow.and_then(&mut see);
            }
        })?;
        self.seen_ns = seen;
        result
    }

    /// Completes a flow of the former version with its second entry (annex), if it has one.
    fn flow(&self, slot: uc_slot, fits: bool) -> Result<FormerFlow, PortError> {
        let mut flow = FormerFlow {
            slot,
            annex: Annex::default(),
            fits,
        };
        if u32::from(slot.bits) & UC_SLOT_ANNEXED == 0 {
            return Ok(flow);
        }
        let place = slot.flow.annex_at.to_ne_bytes();
        let value = self.flows.lookup(&place, MapFlags::LOCK);
        let value = value.map_err(|error| PortError::from_libbpf(READ, &error))?;
        let value = value.unwrap_or_default();
        let (annex, too_large) = self
            .annex
            .convert(value.get(self.annex_at..).unwrap_or_default());
        flow.annex = read(&annex).unwrap_or_default();
        flow.fits &= too_large.is_none();
        Ok(flow)
    }

    /// Returns the number of places, from the first, that flows have ever taken; all later places of the table are
    /// unused.
    fn fresh(&self) -> Result<u32, PortError> {
        let failed = |error| PortError::from_libbpf(READ, &error);
        let value = self.cursors.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let (value, _) = self
            .cursor
            .convert(&value.map_err(failed)?.unwrap_or_default());
        Ok(read::<uc_cursor>(&value).unwrap_or_default().fresh)
    }
}

/// Returns the BTF of a program's object; `None` if it has none.
fn btf(program: BorrowedFd<'_>) -> Option<Btf<'static>> {
    Btf::from_prog_id(program_id(program).ok()?).ok()
}

//! The flows of one port whose packets its programs hand over: a map in the kernel.

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};
use zerocopy::IntoBytes;

use crate::error::HoldError;
use crate::flow::Flow;
use crate::layout::{uc_hold_flow, uc_key};
use crate::newest_segment::NewestSegment;

/// The map of a port's flows whose packets are held.
#[derive(Debug)]
pub struct Table(MapHandle);

impl Table {
    /// Creates an empty table with room for this many flows.
    pub fn create(flows_max: usize) -> Result<Self, HoldError> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_NO_PREALLOC,
            ..Default::default()
        };
        let (kind, name) = (MapType::Hash, Some("hold_flows"));
        let sizes = (size_of::<uc_key>(), size_of::<uc_hold_flow>());
        let flows_max = u32::try_from(flows_max).unwrap_or(u32::MAX).max(1);
        MapHandle::create(
            kind,
            name,
            sizes.0 as u32,
            sizes.1 as u32,
            flows_max,
            &options,
        )
        .map(Self)
        .map_err(|error| HoldError::libbpf("create a table of flows", &error))
    }

    /// Returns the map of flows.
    pub fn map(&self) -> &MapHandle {
        &self.0
    }

    /// Makes the programs hand over packets of a flow, if they do not yet. Returns false if the kernel
    /// has no room for it.
    pub fn add(&self, flow: &Flow) -> bool {
        let nothing = uc_hold_flow::default();
        let added = self
            .0
            .update(flow.key(), nothing.as_bytes(), MapFlags::NO_EXIST);
        match added {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::AlreadyExists,
        }
    }

    /// Returns the fields of the newest segment that the guest has sent in a flow. `None`: it has sent nothing yet, or
    /// the flow is unknown.
    pub fn newest(&self, flow: &Flow) -> Option<NewestSegment> {
        let value = self.0.lookup(flow.key(), MapFlags::ANY).ok()??;
        NewestSegment::read(&value)
    }

    /// Removes a flow, so that its packets pass without being held.
    pub fn remove(&self, flow: &Flow) {
        let _gone_already = self.0.delete(flow.key());
    }
}

//! The types of the C contract, made by bindgen.

use crate::sys;

/// A parsed TCP segment: host byte order, window unscaled, payload in bytes.
pub type Segment = sys::uc_segment;
/// New values of the three fields that the light path may change, and the offers that strict mode
/// removes.
pub type Edit = sys::uc_edit;
/// What the operator wants of a port.
pub type Policy = sys::uc_policy;
/// All that the host knows of one flow; at most 256 bytes, the last for law `delay` and law
/// `coupled` alone.
pub type Flow = sys::uc_flow;

//! Keys and values of maps as the bytes that system calls take.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use zerocopy::FromBytes;

/// Reads a key or value from the beginning of `bytes`; `None` if `bytes` is shorter than the type.
pub(crate) fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    let (value, _) = T::read_from_prefix(bytes).ok()?;
    Some(value)
}

/// Returns the value of a map at a key that is a number, or at an index of an array; `None` if the map has no such
/// entry.
pub(crate) fn value_at<T: FromBytes>(map: &MapHandle, key: u32) -> libbpf_rs::Result<Option<T>> {
    let value = map.lookup(&key.to_ne_bytes(), MapFlags::ANY)?;
    Ok(value.and_then(|value| read(&value)))
}

/// Reads a key that is a number, such as an interface's index; `None` if it does not have 4 bytes.
pub(crate) fn number(key: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}

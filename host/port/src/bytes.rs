//! Keys and values of maps as the bytes that system calls take.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use zerocopy::FromBytes;

/// Reads a key or value from the beginning of `bytes`; `None` if they are too few.
pub(crate) fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    let (value, _) = T::read_from_prefix(bytes).ok()?;
    Some(value)
}

/// Looks up the value of a key that is a number, or of a place in an array; `None` if there is none.
pub(crate) fn value_at<T: FromBytes>(map: &MapHandle, key: u32) -> libbpf_rs::Result<Option<T>> {
    let value = map.lookup(&key.to_ne_bytes(), MapFlags::ANY)?;
    Ok(value.and_then(|value| read(&value)))
}

/// A key that is an interface's index, or any other number.
pub(crate) fn number(key: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}

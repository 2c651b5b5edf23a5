//! Keys and values of maps as the bytes that system calls take.

use zerocopy::FromBytes;

/// Reads a key or value from the beginning of `bytes`; `None` if they are too few.
pub(crate) fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    let (value, _) = T::read_from_prefix(bytes).ok()?;
    Some(value)
}

/// A key that is an interface's index, or any other number.
pub(crate) fn number(key: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}

//! Comparison of sequence numbers, which wrap (RFC 9293 §3.4).

/// Returns whether sequence number `a` comes before `b` (modulo 2^32).
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns whether sequence number `a` comes after `b` (modulo 2^32).
pub(crate) fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Returns the later of two sequence numbers (modulo 2^32).
pub(crate) fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

/// Returns how many bytes `a` is beyond `b`; 0 if it is not.
pub(crate) fn beyond(a: u32, b: u32) -> u32 {
    if after(a, b) { a.wrapping_sub(b) } else { 0 }
}

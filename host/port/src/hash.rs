//! The hash of a flow's key, and what it depends on, as in `bpf/port/index.h`.

use std::io;

use crate::error::PortError;
use crate::layout::{UC_BUCKETS_PART, uc_secret};

pub(crate) const SET_UP: &str = "set up the flow table";

/// Returns the number of pairs of buckets for a table of this capacity.
pub(crate) fn pairs(flows_max: u32) -> u32 {
    flows_max.max(1).div_ceil(UC_BUCKETS_PART)
}

/// Draws the secret of a table of this capacity.
///
/// # Errors
/// If the kernel has no random numbers.
pub(crate) fn draw(flows_max: u32) -> Result<uc_secret, PortError> {
    let mut secret = uc_secret {
        pairs: pairs(flows_max),
        ..uc_secret::default()
    };
    let words = &raw mut secret.words;
    // SAFETY: the words outlive the call, and are made of plain integers.
    let drawn = unsafe { libc::getrandom(words.cast(), size_of_val(&secret.words), 0) };
    if drawn != size_of_val(&secret.words) as isize {
        return Err(PortError::from_kernel(SET_UP, io::Error::last_os_error()));
    }
    Ok(secret)
}

/// Returns the hash of a key's bytes (`uc_hash_by`).
pub(crate) fn hash_by(secret: &uc_secret, key: &[u8]) -> u64 {
    let words = key.chunks_exact(4);
    let words = words.map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
    // padded to an even number of words
    let mut words = words
        .chain([0])
        .zip(secret.words)
        .map(|(word, secret)| u64::from(word.wrapping_add(secret)));
    let mut sum = 0_u64;
    while let (Some(even), Some(odd)) = (words.next(), words.next()) {
        sum = sum.wrapping_add(even.wrapping_mul(odd));
    }
    sum = (sum ^ sum >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    sum = (sum ^ sum >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    sum ^ sum >> 33
}

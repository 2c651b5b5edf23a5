//! From a key to the place of its flow, as in `bpf/port/index.h`.

use std::io;

use libbpf_rs::{MapCore, MapFlags};

use crate::bytes::read;
use crate::error::PortError;
use crate::layout::{UC_BUCKETS_PART, uc_bucket, uc_secret};
use crate::programs::{Programs, SET_UP};

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
fn hash_by(secret: &uc_secret, key: &[u8]) -> u64 {
    let mut words = key.chunks_exact(4).zip(secret.words).map(|(word, secret)| {
        let word = u32::from_ne_bytes(word.try_into().expect("four bytes"));
        u64::from(word.wrapping_add(secret))
    });
    let mut sum = 0_u64;
    while let (Some(even), Some(odd)) = (words.next(), words.next()) {
        sum = sum.wrapping_add(even.wrapping_mul(odd));
    }
    sum = (sum ^ sum >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    sum = (sum ^ sum >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    sum ^ sum >> 33
}

impl Programs {
    /// Returns the places that may have the flow with this key: two at most, but for keys whose hashes
    /// have one tag.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn places_of(&self, key: &[u8]) -> Result<Vec<u32>, PortError> {
        let value = |map: &libbpf_rs::MapHandle, index: u32| {
            map.lookup(&index.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| PortError::from_libbpf("read the flow table", &error))
        };
        let Some(secret) =
            value(&self.maps.secrets, 0)?.and_then(|value| read::<uc_secret>(&value))
        else {
            return Ok(Vec::new());
        };
        let hash = hash_by(&secret, key);
        let tag = (hash ^ hash >> 32) as u32 | 1;
        let mut places = Vec::new();
        for (half, first) in [(hash & 0xffff_ffff, 0), (hash >> 32, secret.pairs)] {
            let index = first + (half * u64::from(secret.pairs) >> 32) as u32;
            let bucket = value(&self.maps.buckets, index)?;
            let entries = bucket.and_then(|value| read::<uc_bucket>(&value));
            let entries = entries.into_iter().flat_map(|bucket| bucket.entries);
            let own = entries.filter(|entry| (entry >> 32) as u32 == tag);
            places.extend(own.map(|entry| (entry as u32).wrapping_sub(1)));
        }
        Ok(places)
    }
}

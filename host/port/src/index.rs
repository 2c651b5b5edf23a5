//! From a key to the place of its flow, as in `bpf/port/index.h`.

use libbpf_rs::{MapCore, MapFlags};

use crate::bytes::read;
use crate::error::PortError;
use crate::hash::hash_by;
use crate::layout::{uc_bucket, uc_secret};
use crate::programs::Programs;

impl Programs {
    /// Returns the places that may have the flow with this key: one at most, unless its two buckets have
    /// other keys with its tag.
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
            let index = first + ((half * u64::from(secret.pairs)) >> 32) as u32;
            let bucket = value(&self.maps.buckets, index)?;
            let entries = bucket.and_then(|value| read::<uc_bucket>(&value));
            let entries = entries.into_iter().flat_map(|bucket| bucket.entries);
            let own = entries.filter(|entry| (entry >> 32) as u32 == tag);
            places.extend(own.map(|entry| (entry as u32).wrapping_sub(1)));
        }
        Ok(places)
    }
}

//! Finds the table index (*place*) of a flow by its key, as `bpf/port/index.h` does.

use crate::bytes::value_at;
use crate::error::PortError;
use crate::flows::READ;
use crate::hash::hash_by;
use crate::layout::{uc_bucket, uc_secret};
use crate::programs::Programs;

impl Programs {
    /// Returns the table indices at which the flow with this key may be: at most one, unless other keys in its two
    /// buckets have the same tag.
    pub(crate) fn places_of(&self, key: &[u8]) -> Result<Vec<u32>, PortError> {
        let failed = |error| PortError::from_libbpf(READ, &error);
        let secret = value_at::<uc_secret>(&self.maps.secrets, 0).map_err(failed)?;
        let Some(secret) = secret else {
            return Ok(Vec::new());
        };
        let hash = hash_by(&secret, key);
        let tag = (hash ^ hash >> 32) as u32 | 1;
        let mut places = Vec::new();
        for (half, first) in [(hash & 0xffff_ffff, 0), (hash >> 32, secret.pairs)] {
            let index = first + ((half * u64::from(secret.pairs)) >> 32) as u32;
            let bucket = value_at::<uc_bucket>(&self.maps.buckets, index).map_err(failed)?;
            let entries = bucket.into_iter().flat_map(|bucket| bucket.entries);
            let own = entries.filter(|entry| (entry >> 32) as u32 == tag);
            places.extend(own.map(|entry| (entry as u32).wrapping_sub(1)));
        }
        Ok(places)
    }
}

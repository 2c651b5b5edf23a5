//! The host that grants the first windows on a link that several hosts share (`core/watch/grant.h`).

use uc_core::watch::{Bucket, StartPolicy};
use uc_net::{HostId, Nanos};

/// The receiving host that grants the pacing slots of a shared link, with the link's token bucket.
#[derive(Clone, Debug)]
pub struct GranterHost {
    /// The host that grants pacing slots.
    pub host: HostId,
    bucket: Bucket,
    policy: StartPolicy,
}

impl GranterHost {
    /// Creates the granter at the policy's rate.
    pub fn new(host: HostId, policy: StartPolicy) -> GranterHost {
        GranterHost {
            host,
            bucket: Bucket::default(),
            policy,
        }
    }

    /// Returns for how many nanoseconds a flow waits that asks for `bytes` of the link.
    pub fn grant_ns(&mut self, now: Nanos, bytes: u32) -> u64 {
        self.bucket.grant_ns(&self.policy, bytes, now.0)
    }
}

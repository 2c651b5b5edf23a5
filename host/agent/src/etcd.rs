//! The fleet's policy in etcd, and the events that a follower of its key reports. With the cargo feature `etcd`
//! (default) `client` follows the key; without the feature `client` is replaced by `absent`, which only reports an
//! error.

#[cfg_attr(not(feature = "etcd"), path = "etcd/absent.rs")]
mod client;

use uc_policy::Etcd;

pub use client::{Connection, follow, read};

/// An event that the follower of the policy's key in etcd reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "etcd"),
    allow(dead_code, reason = "only a follower hears anything but losses")
)]
pub enum Heard {
    /// The policy: the value of the key.
    Policy {
        /// The value of the policy's key: a TOML document.
        text: String,
        /// Revision of etcd in which the value was written.
        revision: i64,
    },
    /// The key has no value in etcd.
    Missing {
        /// Revision of etcd at which the key had no value.
        revision: i64,
    },
    /// The value is not UTF-8 text, or too long.
    NoText {
        /// Revision of etcd in which the value was written.
        revision: i64,
    },
    /// The etcd cluster answers.
    Connected {
        /// Newest known revision of the whole store, not of the key.
        revision: i64,
    },
    /// The etcd cluster does not answer.
    Lost {
        /// Why the cluster does not answer, in one line.
        error: String,
    },
}

/// Returns a warning if an endpoint is used without TLS, `None` if all use it: whoever can answer in a server's place,
/// for instance on its port while it is down, sets the policy of this host.
pub fn complaint(etcd: &Etcd) -> Option<String> {
    let plain = |endpoint: &&String| endpoint.starts_with("http://");
    let endpoint = etcd.endpoints.iter().find(plain)?;
    Some(format!(
        "etcd at {endpoint} is used without TLS: whoever can answer in its place sets the policy of \
         this host; use https:// and agent.etcd.ca"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_without_tls_are_complained_of() {
        let etcd = |endpoint: &str| Etcd {
            endpoints: vec!["https://10.0.0.1:2379".to_owned(), endpoint.to_owned()],
            key: "/a".to_owned(),
            ca: None,
            identity: None,
        };
        assert_eq!(complaint(&etcd("https://10.0.0.2:2379")), None);
        let complaint = complaint(&etcd("http://127.0.0.1:2379")).unwrap();
        assert!(complaint.contains("http://127.0.0.1:2379"), "{complaint}");
        assert!(complaint.contains("https://"), "{complaint}");
    }
}

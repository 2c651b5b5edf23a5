//! The fleet's policy in etcd: what a follower of its key hears. With the cargo feature `etcd`, which
//! is on by default, `client` follows; a build without it says that it can't.

#[cfg_attr(not(feature = "etcd"), path = "etcd/absent.rs")]
mod client;

use uc_policy::Etcd;

pub use client::{Connection, follow, read};

/// An event for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "etcd"),
    allow(dead_code, reason = "only a follower hears anything but losses")
)]
pub enum Heard {
    /// The policy, the value of the key.
    Policy {
        /// A TOML document.
        text: String,
        /// The revision in which it was written.
        revision: i64,
    },
    /// The key has no value.
    Missing {
        /// The revision at which that was found.
        revision: i64,
    },
    /// The value is not text, or too long.
    NoText {
        /// The revision in which it was written.
        revision: i64,
    },
    /// The etcd cluster answers.
    Connected {
        /// Newest known revision of the whole store, not of the key.
        revision: i64,
    },
    /// The etcd cluster does not answer.
    Lost {
        /// The reason.
        error: String,
    },
}

/// Returns a complaint about endpoints without TLS: whoever can answer in a server's place, for
/// instance on its port while it is down, sets the policy of this host.
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

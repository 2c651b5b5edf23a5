//! Events that the agent's engine handles.

use std::collections::BTreeMap;

use uc_client::state::Verdict;

use crate::etcd::Heard;
use crate::request::{Reply, Request};

/// An event that the agent's engine handles.
#[derive(Debug)]
pub enum Event {
    /// A new list of all interfaces is available ([`take_links`](crate::publish::Shared::take_links)).
    Links,
    /// Notifications about interfaces were lost; a list of all follows.
    Overrun,
    /// A file in the folder of the policy file has changed.
    Files,
    /// Names of guests on this host have changed.
    Names,
    /// `None`: metrics are served from now on. Otherwise the reason why they are not served; serving is tried again.
    Metrics(Option<String>),
    /// An event from etcd.
    Etcd(Heard),
    /// Verdicts of the fleet's canaries on its policies, keyed by host.
    Verdicts(BTreeMap<String, Vec<Verdict>>),
    /// A request of an operator; the reply names the ports that changed.
    Request(Request, Reply),
    /// A request to read the policy again, even if it is unchanged.
    Reload,
    /// A request to end; ports stay attached.
    Stop,
}

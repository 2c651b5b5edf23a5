//! Events that the agent's engine handles.

use std::collections::BTreeMap;

use uc_client::state::Verdict;

use crate::etcd::Heard;
use crate::request::{Reply, Request};

/// An event for the engine.
#[derive(Debug)]
pub enum Event {
    /// A new list of all interfaces is available ([`take_links`](crate::publish::Shared::take_links)).
    Links,
    /// Notifications about interfaces were lost; a list of all follows.
    Overrun,
    /// The configuration's folder has changed.
    Files,
    /// Names of guests have changed.
    Names,
    /// Metrics are served from now on; or the reason why they are not, which is retried.
    Metrics(Option<String>),
    /// An event from etcd.
    Etcd(Heard),
    /// What the fleet's canaries have said of its policies, by host.
    Verdicts(BTreeMap<String, Vec<Verdict>>),
    /// A request of an operator; the reply names the ports that changed.
    Request(Request, Reply),
    /// A request to read the policy again, even if it is unchanged.
    Reload,
    /// A request to end; ports stay attached.
    Stop,
}

//! `[agent]`: the agent's own settings, read when the agent starts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use uc_core::rule::Prefix;
use uc_law::{DEFAULT_FLOWS_MAX, RINGS_MAX};

use crate::absolute::{PATH_MAX_BYTES, SOCKET_MAX_BYTES, absolute};
use crate::fault::Faults;
use crate::list::List;
use crate::log::{LogFormat, check_log_filter};
use crate::number::in_range;
use crate::required::needs;

/// Default path of the agent's control socket.
pub const DEFAULT_SOCKET: &str = "/run/undercurrent/agent.sock";
/// Default address of the Prometheus metrics.
pub const DEFAULT_METRICS: &str = "127.0.0.1:9464";
/// Default folder for state that must outlive the agent.
pub const DEFAULT_STATE: &str = "/var/lib/undercurrent";
/// Default part of the attached ports that a new policy may detach without confirmation. Removing a
/// tenant or a guest concerns some of a host's ports; a mistyped pattern, or the policy of another
/// fleet, concerns all or nearly all.
pub const DEFAULT_AT_MOST_DETACHED: f64 = 0.5;
/// Default key of a fleet's policy.
pub const DEFAULT_ETCD_KEY: &str = "/undercurrent/policy";

/// `[agent]`: the agent's own settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// Path of the control socket. Default `/run/undercurrent/agent.sock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"), length(max = 107))]
    pub socket: Option<PathBuf>,
    /// Address and port of the Prometheus metrics; `none` serves none. Default `127.0.0.1:9464`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^(none|.*:[0-9]{1,5})$"))]
    pub metrics: Option<String>,
    /// Filter of the log: a level (`error`, `warn`, `info`, `debug`, `trace`), or directives such
    /// as `info,uc_agent=debug`. Default `info`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Format of the log: `text` or `json`. Default `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// Folder for state that must outlive the agent. Default `/var/lib/undercurrent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"))]
    pub state: Option<PathBuf>,
    /// Number of entries of the host's flow table, 1 to 16777216: a flow takes one, or two under law `delay` or
    /// `coupled` or with `share`. Fixed when the first port is attached. Default 65536.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub flows_max: Option<i64>,
    /// Number of flows whose events are stored for `uc explain`, 0 to 16777216, at most
    /// `flows_max`; fixed together with it. Default 65536.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub events: Option<i64>,
    /// Part of the attached ports that a new policy may detach without the operator's confirmation, 0 to 1. One port
    /// may always be detached. Default 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub at_most_detached: Option<f64>,
    /// Location of the fleet's policy; if absent, the policy is in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdTable>,
    /// Settings of the host for the start `watch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchHostTable>,
}

/// `[agent.etcd]`: the location of a fleet's policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = |schema: &mut Schema| needs(schema, &["endpoints"]))]
pub struct EtcdTable {
    /// Endpoints of etcd: `http://` or `https://`, host and port.
    #[schemars(length(min = 1), inner(pattern("^https?://.+")))]
    pub endpoints: Vec<String>,
    /// Key whose value is the policy. Default `/undercurrent/policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Certificate of the authority that signed the servers' certificates; PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"))]
    pub ca: Option<PathBuf>,
    /// Path of the certificate of this host, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"))]
    pub certificate: Option<PathBuf>,
    /// Private key of this host's certificate; PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"))]
    pub private_key: Option<PathBuf>,
}

/// `[agent.watch]`: settings of the host for the start `watch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = |schema: &mut Schema| needs(schema, &["key_file", "peers"]))]
pub struct WatchHostTable {
    /// File with the key that all hosts of the fleet share; `uc watch --make-key` makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern("^/"))]
    pub key_file: Option<PathBuf>,
    /// Addresses of guests whose hosts run `watch` too; probes go nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<List<Prefix>>,
}

/// The agent's settings, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Path of the Unix socket on which the agent answers requests.
    pub socket: PathBuf,
    /// Address of the metrics; `None` serves none.
    pub metrics: Option<SocketAddr>,
    /// Log filter: a level, or a filter such as `info,uc_agent=debug`.
    pub log: String,
    /// Format of the log's lines.
    pub log_format: LogFormat,
    /// Folder for state that must outlive the agent.
    pub state: PathBuf,
    /// Number of entries of the host's flow table.
    pub flows_max: u32,
    /// Number of flows whose events are stored; 0: none.
    pub events: u32,
    /// Part of the attached ports that a new policy may detach without confirmation.
    pub at_most_detached: f64,
    /// Location of the fleet's policy; `None`: the policy is in the file.
    pub etcd: Option<Etcd>,
    /// Settings for the start `watch`; `None` if the file has none.
    pub watch: Option<WatchHost>,
}

/// The location of a fleet's policy in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Addresses of the etcd servers.
    pub endpoints: Vec<String>,
    /// Key in etcd that has the fleet's policy.
    pub key: String,
    /// Path of the certificate of the authority that signed the servers' certificates, PEM; `None`: servers are not
    /// authenticated.
    pub ca: Option<PathBuf>,
    /// Paths of the certificate of this host and of its private key; `None`: the host does not authenticate itself.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The host's settings for the start `watch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchHost {
    /// Path of the file with the key that signs probes, the same on all hosts of the fleet.
    pub key_file: PathBuf,
    /// Prefixes of the guests to which probes may be sent.
    pub peers: Vec<Prefix>,
}

impl Default for Agent {
    fn default() -> Agent {
        Agent {
            socket: DEFAULT_SOCKET.into(),
            metrics: DEFAULT_METRICS.parse().ok(),
            log: "info".into(),
            log_format: LogFormat::Text,
            state: DEFAULT_STATE.into(),
            flows_max: DEFAULT_FLOWS_MAX,
            events: RINGS_MAX,
            at_most_detached: DEFAULT_AT_MOST_DETACHED,
            etcd: None,
            watch: None,
        }
    }
}

impl AgentTable {
    pub(crate) fn resolve(&self, faults: &mut Faults<'_>) -> Agent {
        let usual = Agent::default();
        let mut path = |key: &str, path: &Option<PathBuf>, most| {
            let path = path.as_ref();
            path.map(|path| absolute(key, path, most, faults))
        };
        let socket = path("agent.socket", &self.socket, SOCKET_MAX_BYTES);
        let state = path("agent.state", &self.state, PATH_MAX_BYTES);
        let socket = socket.unwrap_or(usual.socket);
        let state = state.unwrap_or(usual.state);
        if socket.file_name().is_some() && state.starts_with(&socket) {
            let state = state.display();
            let message = format!("`{state}` is the control socket's path; name another folder");
            faults.add("agent.state", message);
        }
        let flows_max = in_range("agent.flows_max", self.flows_max, 1..=1 << 24, faults);
        let flows_max = flows_max.map_or(usual.flows_max, |flows| flows as u32);
        let events = in_range("agent.events", self.events, 0..=1 << 24, faults);
        if events.is_some_and(|events| events > i64::from(flows_max)) {
            let message = format!(
                "is more than the {flows_max} flows that there is room for; give at most so many, \
                 or a larger agent.flows_max"
            );
            faults.add("agent.events", message);
        }
        if let Some(log) = &self.log
            && let Err(message) = check_log_filter(log)
        {
            faults.add("agent.log", message);
        }
        let part = self.at_most_detached.unwrap_or(usual.at_most_detached);
        if !(0.0..=1.0).contains(&part) {
            let message = format!("is {part}; give 0 to 1");
            faults.add("agent.at_most_detached", message);
        }
        Agent {
            socket,
            at_most_detached: part,
            metrics: match &self.metrics {
                Some(text) => metrics(text, faults),
                None => usual.metrics,
            },
            log: self.log.clone().unwrap_or(usual.log),
            log_format: self.log_format.unwrap_or_default(),
            state,
            flows_max,
            events: events.map_or(usual.events.min(flows_max), |events| events as u32),
            etcd: self.etcd.as_ref().map(|etcd| etcd.resolve(faults)),
            watch: self.watch.as_ref().and_then(|watch| watch.resolve(faults)),
        }
    }
}

fn metrics(text: &str, faults: &mut Faults<'_>) -> Option<SocketAddr> {
    if text == "none" {
        return None;
    }
    let address = text.parse().ok();
    if address.is_none() {
        let message = format!(
            "`{text}` is not an address with a port; write for example \"{DEFAULT_METRICS}\", \
                 or \"none\""
        );
        faults.add("agent.metrics", message);
    }
    address
}

impl EtcdTable {
    fn resolve(&self, faults: &mut Faults<'_>) -> Etcd {
        const KEY: &str = "agent.etcd";
        if self.endpoints.is_empty() {
            let message = "no endpoints; add for example endpoints = [\"http://127.0.0.1:2379\"]";
            faults.add("agent.etcd.endpoints", message);
        }
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            if !is_endpoint(endpoint) {
                let message = format!(
                    "`{endpoint}` is not an endpoint; write for example \"http://127.0.0.1:2379\""
                );
                faults.add(&format!("{KEY}.endpoints.{i}"), message);
            } else if let Some(message) = self.never_connects(endpoint) {
                faults.add(&format!("{KEY}.endpoints.{i}"), message);
            }
        }
        if self.key.as_ref().is_some_and(String::is_empty) {
            let message = format!("is empty; write for example \"{DEFAULT_ETCD_KEY}\"");
            faults.add("agent.etcd.key", message);
        }
        for (name, path) in [
            ("ca", &self.ca),
            ("certificate", &self.certificate),
            ("private_key", &self.private_key),
        ] {
            if let Some(path) = path {
                absolute(&format!("{KEY}.{name}"), path, PATH_MAX_BYTES, faults);
            }
        }
        let identity = self.certificate.clone().zip(self.private_key.clone());
        if identity.is_none() && (self.certificate.is_some() || self.private_key.is_some()) {
            let message = "certificate and private_key belong together; give both or neither";
            faults.add(KEY, message);
        }
        Etcd {
            endpoints: self.endpoints.clone(),
            key: self.key.clone().unwrap_or_else(|| DEFAULT_ETCD_KEY.into()),
            ca: self.ca.clone(),
            identity,
        }
    }
}

impl EtcdTable {
    /// Returns why an agent could never connect to this endpoint; `None` if it could.
    fn never_connects(&self, endpoint: &str) -> Option<String> {
        let is_https = endpoint.starts_with("https://");
        let has_files = [&self.ca, &self.certificate, &self.private_key]
            .iter()
            .any(|file| file.is_some());
        if is_https && self.ca.is_none() {
            return Some(format!(
                "`{endpoint}` needs ca: only servers that it signed are believed; give its file, \
                 or write http://"
            ));
        }
        let idle = !is_https && has_files;
        idle.then(|| {
            format!(
                "`{endpoint}` does not use ca, certificate and private_key; write https://, or \
                 remove them"
            )
        })
    }
}

/// Returns whether the text is a scheme, a host and a port. Credentials are not allowed in the
/// address.
fn is_endpoint(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let Some((host, port)) = rest.and_then(|rest| rest.rsplit_once(':')) else {
        return false;
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let named = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_host = match bare {
        Some(bare) => bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_ipv6()),
        None => !host.is_empty() && host.chars().all(named),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl WatchHostTable {
    fn resolve(&self, faults: &mut Faults<'_>) -> Option<WatchHost> {
        let missing = |key: &str, mend: &str, faults: &mut Faults<'_>| {
            faults.add(&format!("agent.watch.{key}"), format!("missing; {mend}"));
        };
        if self.key_file.is_none() {
            let mend = "make one: uc watch --make-key FILE, and copy it to every host";
            missing("key_file", mend, faults);
        }
        if self.peers.is_none() {
            let mend = "give the addresses of guests whose hosts watch too, as [\"10.0.0.0/8\"]";
            missing("peers", mend, faults);
        }
        let key = "agent.watch.key_file";
        let key_file = absolute(key, self.key_file.as_ref()?, PATH_MAX_BYTES, faults);
        let peers = self.peers.as_ref()?.read("agent.watch.peers", faults);
        Some(WatchHost { key_file, peers })
    }
}

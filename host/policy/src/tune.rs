//! `tune` of a tenant: congestion control, initial window and minimum RTO of its containers' connections.

use std::fmt;

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};
use uc_words::units::Nanos;

use crate::control;
use crate::fault::Faults;
use crate::list::{Element, List, Scalar};
use crate::number::in_range;
use crate::pattern::glob;

/// Largest initial window in segments: more is probably a mistake.
const INITIAL_WINDOW_MAX: i64 = 1000;
/// Range of the minimum RTO. A kernel with long ticks has a larger minimum.
const RTO_MIN: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_millis(200));
/// Maximum length of a control group's path.
const PATH_BYTES_MAX: usize = 200;

/// `tune = { … }`: the TCP of a tenant's containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TuneTable {
    /// Control groups of the containers: their folders below the mount point of the unified hierarchy, in
    /// which `*` stands for any characters but `/`. Groups within them are tuned, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<List<Cgroups>>,
    /// Congestion control, as in the sysctl net.ipv4.tcp_available_congestion_control. If absent, the
    /// container's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[A-Za-z0-9_-]{1,15}$"))]
    pub congestion_control: Option<String>,
    /// Congestion window at the start, in segments, 1 to 1000. If absent, the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub initial_window: Option<i64>,
    /// Minimum RTO, 1ms to 200ms, but at least two of the kernel's ticks. If absent, the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
}

/// Settings for the TCP of a tenant's containers; what is `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tune {
    /// Patterns of the control groups that are tuned.
    pub cgroups: Vec<Cgroups>,
    /// Name of the congestion control of the groups' new connections; `None`: unchanged.
    pub congestion_control: Option<String>,
    /// Congestion window at the start, in segments; `None`: unchanged.
    pub initial_window: Option<u32>,
    /// Minimum RTO of the groups' new connections; `None`: unchanged.
    pub rto_min: Option<Nanos>,
}

impl TuneTable {
    /// Resolves the table `key` of the policy file, and reports its errors.
    pub(crate) fn resolve(&self, key: &str, faults: &mut Faults<'_>) -> Tune {
        let at = |name: &str| format!("{key}.{name}");
        let cgroups = self.cgroups.as_ref();
        let cgroups = cgroups.map(|list| list.read(&at("cgroups"), faults));
        if cgroups.is_none() && !faults.is_given(&at("cgroups")) {
            let message = "missing key `cgroups`; add for example cgroups = \"acme.slice\"";
            faults.add(key, message);
        }
        if let Some(name) = &self.congestion_control {
            control::check(&at("congestion_control"), name, faults);
        }
        let window = 1..=INITIAL_WINDOW_MAX;
        let window = in_range(&at("initial_window"), self.initial_window, window, faults);
        let (first, last) = RTO_MIN;
        if let Some(rto) = self.rto_min.filter(|rto| !(first..=last).contains(rto)) {
            let message = format!("is {rto}; give {first} to {last}");
            faults.add(&at("rto_min"), message);
        }
        let settings = ["congestion_control", "initial_window", "rto_min"];
        if !settings.iter().any(|name| faults.is_given(&at(name))) {
            let message =
                "sets nothing; add congestion_control, initial_window or rto_min, or leave it out";
            faults.add(key, message);
        }
        Tune {
            cgroups: cgroups.unwrap_or_default(),
            congestion_control: self.congestion_control.clone(),
            initial_window: window.map(|segments| segments as u32),
            rto_min: self.rto_min,
        }
    }
}

/// The path of a control group below the mount point of its hierarchy, such as
/// `machine.slice/machine-web*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups(String);

impl Cgroups {
    /// Returns the names of the folders from the mount point to the group, each perhaps with stars.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns whether a folder's name matches a part; a part without a star matches its own text only.
    pub fn matches(part: &str, name: &str) -> bool {
        glob(part.as_bytes(), name.as_bytes())
    }
}

impl fmt::Display for Cgroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Element for Cgroups {
    const WHAT: &'static str =
        "a control group below the mount point of its hierarchy, such as \"acme.slice\"";

    fn read(scalar: &Scalar) -> Result<Self, String> {
        let Scalar::Text(text) = scalar else {
            return Err(format!("{scalar} is not a path; write it in quotes"));
        };
        let is_part = |part: &str| !["", ".", ".."].contains(&part);
        if !text.split('/').all(is_part) {
            return Err(format!(
                "`{text}` is not the path of a control group below the mount point of its hierarchy: give names \
                 with one / between them, such as \"machine.slice/machine-web*\""
            ));
        }
        if text.chars().any(char::is_control) || text.len() > PATH_BYTES_MAX {
            return Err(format!(
                "`{}` is not the path of a control group, which has at most {PATH_BYTES_MAX} \
                 bytes and no control characters; correct it",
                text.escape_default()
            ));
        }
        Ok(Self(text.clone()))
    }

    fn write(&self) -> Scalar {
        Scalar::Text(self.0.clone())
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[^/\x00-\x1f]+(/[^/\x00-\x1f]+)*$",
            "description": "a control group's path; a * stands for any characters but /",
            "examples": ["acme.slice", "machine.slice/machine-web*"],
        })
    }
}

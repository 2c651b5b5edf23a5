//! Samples of metrics.

use super::reading::Reading;

/// One sample of a metric: its labels and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Names and values of the sample's labels.
    pub labels: Vec<(&'static str, String)>,
    /// Value of the sample, in the metric's unit.
    pub value: u64,
}

/// Returns one sample without labels.
pub(super) fn one(value: u64) -> Vec<Row> {
    vec![Row {
        labels: Vec::new(),
        value,
    }]
}

/// Returns a sample with a single label, whose value is `of`.
pub(super) fn labelled(label: &'static str, of: &str, value: u64) -> Row {
    Row {
        labels: vec![(label, of.to_owned())],
        value,
    }
}

/// Returns the labels that name the port with this interface index: its name and tenant.
pub(super) fn whose(reading: &Reading, ifindex: u32) -> Vec<(&'static str, String)> {
    let known = reading
        .state
        .ports
        .iter()
        .find(|port| port.ifindex == ifindex);
    let name = known.map_or_else(|| ifindex.to_string(), |port| port.name.clone());
    let tenant = known.and_then(|port| port.tenant.clone());
    vec![("port", name), ("tenant", tenant.unwrap_or_default())]
}

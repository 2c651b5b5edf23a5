//! Samples of metrics.

use super::reading::Reading;

/// A sample of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// Value of the sample.
    pub value: u64,
}

/// Returns the sample of a metric without labels.
pub(super) fn one(value: u64) -> Vec<Row> {
    vec![Row {
        labels: Vec::new(),
        value,
    }]
}

/// Returns a sample with one label.
pub(super) fn labelled(label: &'static str, of: &str, value: u64) -> Row {
    Row {
        labels: vec![(label, of.to_owned())],
        value,
    }
}

/// Returns the labels of a port.
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

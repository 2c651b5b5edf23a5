//! Metrics for Prometheus. No data is stored for them: a scrape reads the agent's state and the
//! programs' counters, never the flows, of which there may be a million. Labels are ports, tenants
//! and reasons, so a tenant's traffic can't create series.

mod apart;
mod commands;
mod listen;
mod ports;
mod reading;
mod rows;
mod serve;
mod table;
mod tunes;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub(crate) use apart::{serve, serve_apart};
pub(crate) use listen::listen;
pub use reading::{Kernel, Reading};
pub use rows::Row;
pub use table::{Kind, METRICS, Metric};

impl Reading {
    /// Formats the metrics, as OpenMetrics 1.0 if `open`, otherwise in Prometheus's older format; `None`: they can't be
    /// formatted.
    pub(crate) fn text(&self, open: bool) -> Option<String> {
        let text = match open {
            true => self.open_metrics(),
            false => self.plain(),
        };
        text.ok()
    }

    /// Formats the metrics as OpenMetrics 1.0.
    ///
    /// # Errors
    /// Never: formatting into a string does not fail.
    pub fn open_metrics(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }

    /// Formats the metrics in Prometheus's older format 0.0.4, in which a counter's name includes
    /// its suffix and there is no end mark.
    ///
    /// # Errors
    /// Never: formatting into a string does not fail.
    pub fn plain(&self) -> Result<String, fmt::Error> {
        let mut plain = String::new();
        for line in self.open_metrics()?.lines().filter(|line| *line != "# EOF") {
            plain += &whole_name(line);
            plain.push('\n');
        }
        Ok(plain)
    }
}

/// Appends `_total` to the metric's name in a line about a counter, as the older format wants it.
fn whole_name(line: &str) -> String {
    let mut words = line.splitn(4, ' ');
    let (Some("#"), Some(what), Some(name), Some(rest)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return line.to_owned();
    };
    let is_counter = |metric: &&Metric| metric.name == name && metric.kind == Kind::Counter;
    if METRICS.iter().any(|metric| is_counter(&metric)) {
        format!("# {what} {name}_total {rest}")
    } else {
        line.to_owned()
    }
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in METRICS {
            let rows = (metric.rows)(self);
            if rows.is_empty() {
                continue;
            }
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for row in rows {
                if row.labels.is_empty() {
                    write(metric.kind, row.value, family)?;
                    break; // without labels there is one only
                }
                write(metric.kind, row.value, family.encode_family(&row.labels)?)?;
            }
        }
        Ok(())
    }
}

fn write(kind: Kind, value: u64, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_older_format_a_counters_name_includes_its_suffix() {
        let reading = Reading::default();
        let (open, plain) = (reading.open_metrics().unwrap(), reading.plain().unwrap());
        assert!(open.contains("# TYPE uc_reconciles counter\n"), "{open}");
        assert!(open.ends_with("# EOF\n"), "{open}");
        let counter = "# TYPE uc_reconciles_total counter\nuc_reconciles_total 0\n";
        assert!(plain.contains(counter), "{plain}");
        assert!(
            plain.contains("# TYPE uc_in_force gauge\nuc_in_force 0\n"),
            "{plain}"
        );
        assert!(!plain.contains("EOF"), "{plain}");
    }

    #[test]
    fn a_hostile_port_name_adds_no_line() {
        let mut reading = Reading::default();
        reading.state.ports.push(uc_client::state::PortState {
            name: "a\"} 1\nuc_in_force 1\n#\\".to_owned(),
            ..Default::default()
        });
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let plain = lines(reading.plain().unwrap());
        let said: Vec<_> = plain
            .iter()
            .filter(|line| line.starts_with("uc_in_force"))
            .collect();
        assert_eq!(said, ["uc_in_force 0"], "{plain:?}");
    }
}

//! What Prometheus is told. Nothing is kept for it: a scrape reads the agent's state and the
//! programs' counters, never the flows, of which there may be a million. Labels are ports, tenants
//! and reasons, so a tenant's traffic can't make series.

mod serve;
mod table;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use uc_client::AgentState;
use uc_port::{Counters, PortError, PortView, Programs, Store};

pub use serve::router;
pub use table::{Kind, METRICS, Metric, Row};

/// All that a scrape reads.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// What the agent knows.
    pub state: AgentState,
    /// What the programs know, where they are loaded and can be read.
    pub kernel: Option<Kernel>,
    /// Whether reading it failed.
    pub failed: bool,
}

/// What the programs know.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Packets of all ports, those that have gone too.
    pub counters: Counters,
    /// The ports that have a plan.
    pub ports: Vec<PortView>,
    /// Flows that the table has room for.
    pub flows_max: u32,
    /// Memory that the maps take.
    pub memory_bytes: u64,
}

impl Kernel {
    fn read(programs: &Programs) -> Result<Kernel, PortError> {
        Ok(Kernel {
            counters: programs.counters()?,
            ports: programs.ports()?,
            flows_max: programs.flows_max(),
            memory_bytes: programs.memory_bytes()?,
        })
    }
}

impl Reading {
    /// Now.
    pub fn of(state: AgentState, store: &Store) -> Reading {
        let opened = store.open();
        let read = opened.and_then(|programs| programs.as_ref().map(Kernel::read).transpose());
        if let Err(error) = &read {
            tracing::warn!(%error, "the counters can't be read");
        }
        Reading {
            state,
            failed: read.is_err(),
            kernel: read.ok().flatten(),
        }
    }

    /// In the form that OpenMetrics 1.0 has.
    ///
    /// # Errors
    /// None that a string could make.
    pub fn open_metrics(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }

    /// In the older form of Prometheus, 0.0.4: there a counter is called by its whole name, and
    /// there is no end mark.
    ///
    /// # Errors
    /// None that a string could make.
    pub fn plain(&self) -> Result<String, fmt::Error> {
        let mut plain = String::new();
        for line in self.open_metrics()?.lines().filter(|line| *line != "# EOF") {
            plain += &whole_name(line);
            plain.push('\n');
        }
        Ok(plain)
    }
}

/// A line about a counter with the suffix that its samples have.
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
    fn in_the_older_form_a_counter_is_called_by_its_whole_name() {
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
    fn a_port_with_a_hostile_name_makes_no_line_of_its_own() {
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

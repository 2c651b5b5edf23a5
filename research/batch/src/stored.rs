//! The form of a run in the file of runs: all samples of a flow, or of the queue, as columns. A column's name occurs
//! once, and columns without a value are left out, so a sample takes about 70 bytes.

use serde::{Deserialize, Serialize};
use uc_experiment::{FlowRecord, FlowSample, QueueSample, RunRecord};

/// A run as the file of runs stores it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    /// The record of the run, without its samples.
    record: RunRecord,
    /// Samples of each flow of the run.
    samples: Vec<FlowColumns>,
    queue: QueueColumns,
}

impl Stored {
    /// Arranges the samples of a record in columns.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let samples = record.flows.iter().map(|flow| &flow.samples[..]);
        Self {
            record: without_samples(record),
            samples: samples.map(FlowColumns::of).collect(),
            queue: QueueColumns::of(&record.queue),
        }
    }

    /// Returns the record.
    ///
    /// # Errors
    /// Columns of unequal lengths, or another number of them than of flows.
    pub(crate) fn into_record(self) -> Result<RunRecord, String> {
        let mut record = self.record;
        let (flows, samples) = (record.flows.len(), self.samples.len());
        if flows != samples {
            return Err(format!(
                "the run's record is damaged: it has {flows} flows, but {samples} tables of samples"
            ));
        }
        for (flow, columns) in record.flows.iter_mut().zip(&self.samples) {
            flow.samples = columns.rows()?;
        }
        record.queue = self.queue.rows()?;
        Ok(record)
    }
}

fn without_samples(record: &RunRecord) -> RunRecord {
    let flow = |flow: &FlowRecord| FlowRecord {
        group: flow.group.clone(),
        index: flow.index,
        samples: Vec::new(),
        negotiated_ecn: flow.negotiated_ecn,
        drops: flow.drops,
        marks: flow.marks,
        completions: flow.completions.clone(),
        timeouts: flow.timeouts,
        stalls: flow.stalls,
        ack_gaps: flow.ack_gaps.clone(),
        packet_rtt: flow.packet_rtt.clone(),
        events: flow.events.clone(),
    };
    RunRecord {
        case: record.case.clone(),
        run: record.run,
        point: record.point,
        seed: record.seed,
        started_unix_ms: record.started_unix_ms,
        flows: record.flows.iter().map(flow).collect(),
        queue: Vec::new(),
        bottlenecks: record.bottlenecks.clone(),
        links: record.links.clone(),
        counters: record.counters.clone(),
    }
}

/// Defines the columns of a kind of sample: those that every sample has, and those that may lack.
macro_rules! columns {
    ($columns:ident of $row:ident { $($name:ident: $type:ty),* $(,)? } if any { $($rare:ident: $inner:ty),* $(,)? }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $columns {
            $($name: Vec<$type>,)*
            $(
                #[serde(default, skip_serializing_if = "Vec::is_empty")]
                $rare: Vec<Option<$inner>>,
            )*
        }

        impl $columns {
            fn of(rows: &[$row]) -> Self {
                Self {
                    $($name: rows.iter().map(|row| row.$name).collect(),)*
                    $($rare: column(rows.iter().map(|row| row.$rare)),)*
                }
            }

            fn rows(&self) -> Result<Vec<$row>, String> {
                let count = self.at_ns.len();
                $(same(stringify!($name), self.$name.len(), count)?;)*
                $(
                    if !self.$rare.is_empty() {
                        same(stringify!($rare), self.$rare.len(), count)?;
                    }
                )*
                let row = |i: usize| $row {
                    $($name: self.$name[i],)*
                    $($rare: self.$rare.get(i).copied().flatten(),)*
                };
                Ok((0..count).map(row).collect())
            }
        }
    };
}

columns! {
    FlowColumns of FlowSample {
        at_ns: u64,
        delivered_bytes: u64,
        cwnd_segments: u32,
        snd_wnd_bytes: u32,
        srtt_us: u32,
        unacked_segments: u32,
        bytes_sent: u64,
        bytes_retransmitted: u64,
        total_retransmits: u32,
        mss_bytes: u32,
    } if any {
        shadow_window_bytes: u32,
        shadow_alpha_q30: u32,
        exact_alpha_q30: u32,
        guest_alpha_q30: u32,
        rto_us: u32,
    }
}

columns! {
    QueueColumns of QueueSample {
        at_ns: u64,
        backlog_bytes: u64,
        backlog_packets: u32,
    } if any {
        average_bytes: u64,
    }
}

/// Returns the values of a column; an empty column if all values are missing.
fn column<T>(values: impl Iterator<Item = Option<T>> + Clone) -> Vec<Option<T>> {
    let any = values.clone().any(|value| value.is_some());
    if any { values.collect() } else { Vec::new() }
}

fn same(name: &str, values: usize, samples: usize) -> Result<(), String> {
    if values == samples {
        return Ok(());
    }
    Err(format!(
        "the run's record is damaged: a table of {samples} samples has {values} values of `{name}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RunRecord {
        let sample = |at_ns| FlowSample {
            at_ns,
            delivered_bytes: 10 * at_ns,
            shadow_window_bytes: (at_ns > 0).then_some(3000),
            ..FlowSample::default()
        };
        let flow = |count| FlowRecord {
            samples: (0..count).map(sample).collect(),
            timeouts: Some(2),
            ..FlowRecord::default()
        };
        RunRecord {
            flows: vec![flow(3), flow(0)],
            queue: vec![QueueSample::default()],
            ..RunRecord::default()
        }
    }

    fn read(text: &str) -> Result<RunRecord, String> {
        let stored: Result<Stored, _> = serde_json::from_str(text);
        stored.map_err(|error| error.to_string())?.into_record()
    }

    #[test]
    fn record_comes_back_and_values_that_no_sample_has_are_left_out() {
        let text = serde_json::to_string(&Stored::of(&record())).unwrap();
        assert_eq!(read(&text).unwrap(), record());
        assert!(
            text.contains(r#""shadow_window_bytes":[null,3000,3000]"#),
            "{text}"
        );
        assert!(!text.contains("average_bytes"), "{text}");
    }

    #[test]
    fn columns_of_unequal_lengths_and_of_other_flows_are_refused() {
        let text = serde_json::to_string(&Stored::of(&record())).unwrap();
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from), "{from} in {text}");
            read(&text.replacen(from, to, 1)).unwrap_err()
        };
        assert_eq!(
            refused(r#""delivered_bytes":[0,"#, r#""delivered_bytes":["#),
            "the run's record is damaged: a table of 3 samples has 2 values of `delivered_bytes`"
        );
        assert_eq!(
            refused("[null,3000,", "[null,"),
            "the run's record is damaged: a table of 3 samples has 2 values of `shadow_window_bytes`"
        );
        assert_eq!(
            refused(
                r#""samples":[{"at_ns":[0"#,
                r#""samples":[{"at_ns":[],"delivered_bytes":[],"cwnd_segments":[],"snd_wnd_bytes":[],"srtt_us":[],"unacked_segments":[],"bytes_sent":[],"bytes_retransmitted":[],"total_retransmits":[],"mss_bytes":[]},{"at_ns":[0"#
            ),
            "the run's record is damaged: it has 2 flows, but 3 tables of samples"
        );
        assert!(refused("cwnd_segments\":[", "cwnd\":[").contains("unknown field"));
    }
}

//! The records of all runs as JSON, for programs that compute further measures.

use std::borrow::Cow;
use std::io::{self, Write};

use uc_experiment::RunRecord;

use crate::Error;

/// Approximate maximum number of samples of flows and queues in the file, over all runs (a sample takes 300 bytes). Of
/// more samples the file keeps every second, or third, and so on, of each flow and each queue, and always the first and
/// the last. Events of laws are thinned in the same way.
pub const SAMPLES_MAX: usize = 300_000;

/// Writes the list of records. Only samples and events of laws are ever omitted.
///
/// # Errors
/// [`Error::Json`] if it can't be serialised or written.
pub fn write(records: &[RunRecord], mut out: impl Write) -> Result<(), Error> {
    let every = every(records);
    let mut put = |text: &str| out.write_all(text.as_bytes()).map_err(json);
    put("[")?;
    for (number, record) in records.iter().enumerate() {
        put(if number == 0 { "\n" } else { ",\n" })?;
        put(&serde_json::to_string(&*thinned(record, every))?)?;
    }
    put("\n]\n")
}

fn json(error: io::Error) -> Error {
    Error::Json(serde_json::Error::io(error))
}

/// Returns n, where every n-th sample is kept: 1 keeps all.
fn every(records: &[RunRecord]) -> usize {
    let flows = |record: &RunRecord| {
        record
            .flows
            .iter()
            .map(|flow| flow.samples.len())
            .sum::<usize>()
    };
    let samples = records
        .iter()
        .map(|record| flows(record) + record.queue.len());
    samples.sum::<usize>().div_ceil(SAMPLES_MAX).max(1)
}

fn thinned(record: &RunRecord, every: usize) -> Cow<'_, RunRecord> {
    if every == 1 {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    thin(&mut record.queue, every);
    for flow in &mut record.flows {
        thin(&mut flow.samples, every);
        thin(&mut flow.events, every);
    }
    Cow::Owned(record)
}

fn thin<T>(samples: &mut Vec<T>, every: usize) {
    let last = samples.len().saturating_sub(1);
    let mut place = 0..;
    samples.retain(|_| place.next().is_some_and(|n| n % every == 0 || n == last));
}

#[cfg(test)]
mod tests {
    use uc_experiment::{FlowRecord, FlowSample, QueueSample};

    use super::*;

    fn record(samples: u64) -> RunRecord {
        let flow = FlowRecord {
            samples: (0..samples)
                .map(|at_ns| FlowSample {
                    at_ns,
                    ..FlowSample::default()
                })
                .collect(),
            ..FlowRecord::default()
        };
        let queue = (0..samples).map(|at_ns| QueueSample {
            at_ns,
            ..QueueSample::default()
        });
        RunRecord {
            flows: vec![flow],
            queue: queue.collect(),
            ..RunRecord::default()
        }
    }

    fn read_back(records: &[RunRecord]) -> Vec<RunRecord> {
        let mut text = Vec::new();
        write(records, &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn few_records_are_written_unchanged() {
        let records = [record(5), record(0)];
        assert_eq!(read_back(&records), records);
        assert_eq!(read_back(&[]), []);
    }

    #[test]
    fn many_samples_are_thinned_from_the_first_to_the_last() {
        let many = SAMPLES_MAX as u64 + 2;
        let back = read_back(&[record(many)]).remove(0);
        for times in [
            back.queue.iter().map(|s| s.at_ns).collect::<Vec<u64>>(),
            back.flows[0].samples.iter().map(|s| s.at_ns).collect(),
        ] {
            assert!(times.len() <= SAMPLES_MAX / 2 + 2, "{}", times.len());
            assert_eq!((times[0], times[times.len() - 1]), (0, many - 1));
        }
    }
}

//! An experiment in slow motion: a file of fast links on real kernels, which two cores carry only at a lower rate. All
//! times are longer and all rates lower by one factor, so that counts of packets stay as in the file.

use toml::Value;
use uc_law::{StartSettings, Watch};

use crate::application::Application;
use crate::error::Error;
use crate::record::RunRecord;
use crate::schema::Experiment;
use crate::units::{BitsPerSec, Nanos};
use crate::wording::tidy;

/// Keys whose values are names, even where they look like a time.
const NAMES: [&str; 7] = [
    "name", "title", "stack", "receiver", "host", "group", "guest",
];

/// Minimum RTO of a stack that sets none.
const RTO_MIN: Nanos = Nanos::from_millis(200);

impl Experiment {
    /// Returns the experiment as real kernels run it: times longer and rates lower by the factor `slower`, also the
    /// default minimum RTO and the lifetimes of start law `watch`, and without sweeps and expectations. Other times that
    /// the file does not give stay the kernel's: the timeout of a SYN, and how long an ACK waits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a time becomes too long.
    pub fn slowed(&self) -> Result<Experiment, Error> {
        if self.slower == 1 {
            return Ok(self.clone());
        }
        let by = u64::from(self.slower);
        let mut usual = Experiment {
            sweeps: Vec::new(),
            expects: Vec::new(),
            ..self.clone()
        };
        for stack in usual.stacks.values_mut() {
            stack.rto_min.get_or_insert(RTO_MIN);
        }
        for group in usual.cases.iter_mut().flat_map(|case| &mut case.guests) {
            if group.start_law.is_some() {
                group.watch = std::mem::take(&mut group.watch).or(usual_lifetimes());
            }
            if let Application::Web { rate, .. } = &mut group.application {
                *rate = rate.map(|rate| rate / f64::from(self.slower));
            }
        }
        let failed = |message: &str| self.invalid(("slower".into(), tidy(message)));
        let mut document = Value::try_from(&usual).map_err(|error| failed(&error.to_string()))?;
        slow(&mut document, by);
        let slowed: Result<Experiment, toml::de::Error> = document.try_into();
        let mut slowed = slowed.map_err(|error| failed(error.message()))?;
        slowed.origin = self.origin.clone();
        Ok(slowed)
    }
}

/// Returns how long measurements of paths usually count for the start `watch`.
fn usual_lifetimes() -> Watch {
    let usual = StartSettings::default().policy;
    let time = |us: u32| uc_law::Value::Time(Nanos::from_micros(us.into()));
    let lifetimes = Watch::default().choose("fresh", time(usual.fresh_us));
    lifetimes.choose("idle", time(usual.idle_us))
}

/// Multiplies all times and divides all rates by `by`.
fn slow(value: &mut Value, by: u64) {
    match value {
        Value::String(text) => {
            if let Ok(time) = text.parse::<Nanos>() {
                *text = Nanos(time.0.saturating_mul(by)).to_string();
            } else if let Ok(rate) = text.parse::<BitsPerSec>() {
                *text = BitsPerSec(rate.0 / by).to_string();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| slow(value, by)),
        Value::Table(table) => {
            let is_name = |key: &str, value: &Value| value.is_str() && NAMES.contains(&key);
            let timed = table.iter_mut().filter(|(key, value)| !is_name(key, value));
            timed.for_each(|(_, value)| slow(value, by));
        }
        _ => {}
    }
}

impl RunRecord {
    /// Converts the record of a slowed run into the file's times. Gaps between ACKs are removed, since their bins are
    /// of real time. Counters stay as they are: lateness is that of the machine.
    pub fn quicken(&mut self, slower: u32) {
        if slower == 1 {
            return;
        }
        let by = u64::from(slower);
        for flow in &mut self.flows {
            for sample in &mut flow.samples {
                sample.at_ns /= by;
                sample.srtt_us /= slower;
                sample.rto_us = sample.rto_us.map(|rto_us| rto_us / slower);
            }
            for transfer in &mut flow.completions {
                transfer.started_ns /= by;
                transfer.finished_ns = transfer.finished_ns.map(|at_ns| at_ns / by);
            }
            flow.ack_gaps = None;
        }
        for sample in &mut self.queue {
            sample.at_ns /= by;
        }
    }
}

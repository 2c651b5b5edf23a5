//! A hash of the keys that decide an experiment's runs. A kept record stores it, which shows whether these keys of the
//! file have changed since.

use toml::{Table, Value};
use uc_words::fnv::fnv1a;

use crate::arm::Arm;
use crate::schema::Experiment;

/// Keys of a file that change no run: they describe or judge the experiment, or decide how often and when runs are
/// repeated.
const WITHOUT_EFFECT: [&str; 8] = [
    "arms",
    "expect",
    "late_max",
    "repeat",
    "repeat_max",
    "repeat_sim",
    "source",
    "title",
];

impl Experiment {
    /// Returns a hash of the keys that decide the runs on `arm`, as they are written, with the overrides.
    /// Comments, titles, expectations and numbers of repetitions do not count, nor do defaults: a
    /// key that the schema gets later changes no hash.
    pub fn setup_hash(&self, arm: Arm) -> String {
        let mut file: Table = self.origin.text().parse().unwrap_or_default();
        for key in WITHOUT_EFFECT {
            file.remove(key);
        }
        if arm != Arm::Live {
            file.remove("slower");
            let sweeps = file.get_mut("sweep").and_then(Value::as_array_mut);
            for sweep in sweeps.into_iter().flatten() {
                let set = sweep.get_mut("set").and_then(Value::as_table_mut);
                set.and_then(|set| set.remove("slower"));
            }
        }
        let cases = file.get_mut("case").and_then(Value::as_array_mut);
        for case in cases.into_iter().flatten().filter_map(Value::as_table_mut) {
            case.remove("title");
        }
        let mut text = file.to_string();
        for change in self.overrides() {
            text.push_str(change);
            text.push('\n');
        }
        format!("{:016x}", fnv1a(text.as_bytes()))
    }
}

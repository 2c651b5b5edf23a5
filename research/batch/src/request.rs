//! What a command asks for: an experiment, changes of it, and the part of it to run.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use uc_core::{COMPILED, Core};
use uc_experiment::{Arm, Error, Experiment, named_files};

use crate::laws::Laws;
use crate::outputs::CORE;
use crate::points::keep_points;
use crate::shard::Shard;

/// Everything that decides the result of a command: equal requests make the same runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Path of the experiment's file, as it was given.
    pub file: String,
    /// Content of the file, and of the files that it names.
    pub text: String,
    /// Backend on which the runs are made.
    pub arm: Arm,
    /// Seed of the first repetition; each further repetition has the next number as its seed.
    pub seed: u64,
    /// Number of repetitions of every case; `None`: the file's `repeat`.
    pub repeat: Option<u32>,
    /// Overrides of the file's keys, as `--set` takes them.
    pub set: Vec<String>,
    /// Cases to run; all if empty.
    pub case: Vec<String>,
    /// Points to run, as `--point` takes them; all if empty.
    pub point: Vec<String>,
    /// Laws from outside the repository that the file may name; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laws: Option<Laws>,
}

impl Request {
    /// Reads the experiment's file and asks for all of it, in the simulator.
    ///
    /// # Errors
    /// As [`named_files::read`].
    pub fn of(file: &Path) -> Result<Self, Error> {
        Ok(Self {
            file: file.display().to_string(),
            text: named_files::read(file)?,
            arm: Arm::Sim,
            seed: 1,
            repeat: None,
            set: Vec::new(),
            case: Vec::new(),
            point: Vec::new(),
            laws: None,
        })
    }

    /// Returns the experiment that is to be run.
    ///
    /// # Errors
    /// The first error in the file or in an override, with file, line and column, or the option.
    pub fn experiment(&self) -> Result<Experiment> {
        let mut experiment = self.changed()?;
        if let Some(repeat) = self.repeat {
            experiment.repeat_max = None;
            experiment.apply_set(&format!("repeat={repeat}"))?;
            experiment.repeat_sim = None;
            experiment.repeat_max = Some(repeat);
        }
        experiment.validate()?;
        experiment.keep_cases(&self.case)?;
        keep_points(&mut experiment, &self.point)?;
        Ok(experiment)
    }

    /// Returns a hash of the keys that decide the runs: [`Experiment::setup_hash`].
    ///
    /// # Errors
    /// As [`Request::experiment`].
    pub fn setup_hash(&self) -> Result<String> {
        Ok(self.changed()?.setup_hash(self.arm))
    }

    fn changed(&self) -> Result<Experiment> {
        // The file may name the laws once they are known.
        self.running()?;
        let mut experiment = Experiment::from_str(&self.file, &self.text)?;
        for change in &self.set {
            experiment.apply_set(change)?;
        }
        Ok(experiment)
    }

    /// Returns Git's hash of the folder `core/`, and the hash of the laws from outside the repository if there are any.
    pub fn core(&self) -> String {
        match &self.laws {
            None => CORE.to_owned(),
            Some(laws) => format!("{CORE} with laws {}", laws.hash),
        }
    }

    /// Returns the core that decides at ports of the simulator: the repository's own, or the one with the laws from
    /// outside.
    ///
    /// # Errors
    /// As [`Laws::core`].
    pub fn running(&self) -> Result<Core> {
        self.laws.as_ref().map_or(Ok(COMPILED), Laws::core)
    }

    /// Returns the command that makes the whole result, without options that do not change it.
    pub fn command(&self) -> String {
        let mut words = vec!["uc-bench".to_owned(), "run".to_owned(), quoted(&self.file)];
        let mut put = |option: &str, value: &str| {
            words.push(option.to_owned());
            words.push(quoted(value));
        };
        put("--on", self.arm.name());
        put("--seed", &self.seed.to_string());
        if let Some(repeat) = self.repeat {
            put("--repeat", &repeat.to_string());
        }
        for (option, values) in [
            ("--set", &self.set),
            ("--case", &self.case),
            ("--point", &self.point),
        ] {
            for value in values {
                put(option, value);
            }
        }
        if let Some(laws) = &self.laws {
            put("--laws", &laws.folder);
        }
        words.join(" ")
    }

    /// Returns the command that makes, or goes on with, a part of the runs; without `shard`, all runs.
    pub fn command_of(&self, shard: Option<Shard>, folder: &Path) -> String {
        let part = shard.map_or_else(String::new, |shard| format!(" --shard {shard}"));
        let folder = quoted(&folder.display().to_string());
        format!("{}{part} --resume --out {folder}", self.command())
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_has_every_option_that_changes_the_result_and_quotes_it() {
        let request = Request {
            file: "my files/t.toml".into(),
            text: String::new(),
            arm: Arm::Live,
            seed: 7,
            repeat: Some(3),
            set: vec!["network.rate=5Mbit".into(), "title='x'".into()],
            case: vec!["only".into()],
            point: vec!["rate=10 Mb/s".into()],
            laws: Some(Laws {
                folder: "my laws".into(),
                hash: "1f".into(),
            }),
        };
        assert_eq!(
            request.command(),
            r"uc-bench run 'my files/t.toml' --on live --seed 7 --repeat 3 --set network.rate=5Mbit --set 'title='\''x'\''' --case only --point 'rate=10 Mb/s' --laws 'my laws'"
        );
        assert!(request.core().ends_with(" with laws 1f"));
        let shard = Shard { index: 2, count: 7 };
        let part = request.command_of(Some(shard), Path::new("out/2"));
        assert!(
            part.ends_with(" --shard 2/7 --resume --out out/2"),
            "{part}"
        );
    }
}

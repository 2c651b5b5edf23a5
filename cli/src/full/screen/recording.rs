//! Recordings of samples: a file of JSON lines, the first of which has the version of the file's format.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use uc_client::AgentState;

use crate::seen::Seen;

/// Version of the format that this program writes and reads. New fields do not change it.
const FORMAT: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    uc_top: u32,
    version: String,
}

/// The state of ports and flows at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the first sample.
    pub at_ms: u64,
    /// Ports, flows and packets.
    pub seen: Seen,
    /// The agent's answer, if it gave one.
    pub agent: Option<AgentState>,
}

/// A recording under way.
pub struct Recorder {
    file: File,
    path: PathBuf,
}

impl Recorder {
    /// Creates the file.
    ///
    /// # Errors
    /// If it exists already, or can't be written.
    pub fn create(path: &Path) -> Result<Recorder> {
        let file = File::create_new(path).with_context(|| {
            format!(
                "could not create the recording {}; --record overwrites no file",
                path.display()
            )
        })?;
        let path = path.to_owned();
        let mut recorder = Recorder { file, path };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        recorder.line(&Head {
            uc_top: FORMAT,
            version,
        })?;
        Ok(recorder)
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// If the file can't be written; the samples before stay.
    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        self.line(sample)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let place = || format!("could not write to {}", self.path.display());
        self.file.write_all(&line).with_context(place)
    }
}

/// Reads a recording.
///
/// # Errors
/// Names the file and the line that is not one of a recording.
pub fn read(path: &Path) -> Result<Vec<Sample>> {
    let bytes =
        std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    let mut samples: Vec<Sample> = Vec::new();
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let place = || format!("{}:{}", path.display(), at + 1);
        if at == 0 {
            check_head(line).map_err(|why| anyhow!("{}: {why}", place()))?;
            continue;
        }
        if line.last() != Some(&b'\n') {
            bail!(
                "{}: the file ends within this line; remove the line to replay those before it",
                place()
            );
        }
        let sample: Sample = serde_json::from_slice(line)
            .map_err(|error| anyhow!("{}: no sample of `uc top`: {error}", place()))?;
        let before = samples.last().map_or(0, |sample| sample.at_ms);
        if sample.at_ms < before {
            bail!(
                "{}: at_ms is {}, less than the {before} of the line before; put the lines into \
                 their order",
                place(),
                sample.at_ms
            );
        }
        samples.push(sample);
    }
    if samples.is_empty() {
        bail!(
            "{}: a recording without a sample; record again with `uc top --record`",
            path.display()
        );
    }
    Ok(samples)
}

/// Checks a first line, or says why it is none.
fn check_head(line: &[u8]) -> Result<(), String> {
    let head: Head = serde_json::from_slice(line)
        .map_err(|_| "no recording; `uc top --record FILE` makes one".to_owned())?;
    if head.uc_top != FORMAT {
        return Err(format!(
            "a recording in format {}, by uc {version}; this program reads format {FORMAT}: show it with \
             uc {version}",
            head.uc_top,
            version = head.version
        ));
    }
    Ok(())
}

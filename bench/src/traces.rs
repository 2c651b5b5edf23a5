//! Files that a command writes for each run in addition to its result: packet captures, and flows as qlog.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uc_batch::Task;
use uc_experiment::{FlowRecord, RunRecord};
use uc_report::qlog::{self, Origin};

/// Folders for packet captures and for qlog files.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Folder for packet captures; `None`: none are written.
    pub pcap: Option<PathBuf>,
    /// Folder for the flows' qlog files; `None`: none are written.
    pub qlog: Option<PathBuf>,
    /// Whether the experiment has several points; files' names then contain the point's number.
    pub is_swept: bool,
}

impl Traces {
    /// Returns the path of the file for a run's packets; `None` if no packets are written.
    pub fn capture(&self, task: &Task<'_>) -> Option<PathBuf> {
        let folder = self.pcap.as_ref()?;
        Some(folder.join(format!("{}.pcapng", self.stem(task))))
    }

    /// Writes each flow of a run into a qlog file of its own.
    ///
    /// # Errors
    /// The error with the file's path. An incomplete file does not keep that name.
    pub fn write_flows(&self, task: &Task<'_>, record: &RunRecord) -> Result<()> {
        let Some(folder) = &self.qlog else {
            return Ok(());
        };
        for flow in &record.flows {
            let group = flow.group.replace('/', "-");
            let name = format!("{}-{group}-{}.sqlog", self.stem(task), flow.index);
            let path = folder.join(name);
            write_flow(&path, task, record, flow)
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the beginning of a run's file names: `CASE-RUN`, or `CASE-POINT-RUN` in a sweep.
    fn stem(&self, task: &Task<'_>) -> String {
        let (case, run) = (task.case.name.replace('/', "-"), task.run);
        if self.is_swept {
            format!("{case}-{}-{run}", task.point)
        } else {
            format!("{case}-{run}")
        }
    }
}

/// Writes a flow's qlog file, under a temporary name until it is complete.
fn write_flow(path: &Path, task: &Task<'_>, record: &RunRecord, flow: &FlowRecord) -> Result<()> {
    let title = task.name();
    let origin = Origin {
        title: &title,
        is_translated: !task.case.is_observed(&flow.group),
        began_unix_ms: record.started_unix_ms,
    };
    let part = path.with_extension("part");
    let written = || -> Result<()> {
        qlog::write(flow, origin, BufWriter::new(File::create(&part)?))?;
        Ok(fs::rename(&part, path)?)
    };
    written().inspect_err(|_| {
        let _not_made = fs::remove_file(&part);
    })
}

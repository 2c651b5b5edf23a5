//! `uc handover`: hands the state of a port's flows over to the host to which the port's guest moves.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use uc_port::{Handover as Flows, LeftFlow, Store};
use uc_watch::ProbeKeys;

use crate::ports;

/// Hand the flows of a port over to the host that its guest moves to.
///
/// Pause the guest, write its flows with --out on its old host, and read them with --in on the new one, where its port
/// must be attached; then resume the guest there. The new host translates its flows with the state and the policy that
/// they had. Without a hand-over they pass unmodified on the new host, and marks on what their peers send are not
/// answered.
///
/// --out changes nothing: the guest can go on where it was. --in refuses a file that is incomplete, not
/// signed with the key, or of another format. Synchronize the hosts' clocks, and read the file within 60 s: an
/// older file is taken as if it had just been written, and the flows' timers are off by its age.
/// Flows that are not handed over are listed, each with the reason. Those that the port has already stay as
/// they are: after an interrupted --in run it again.
///
/// Exit status: 0 if all were handed over or there already, 1 if some were not, 2 after an error.
#[derive(Args)]
#[command(group(ArgGroup::new("way").required(true).args(["out", "into"])))]
pub struct Handover {
    /// Interface on the host's side of the guest, such as tap0 or veth1
    port: String,
    /// Write the port's flows to this file, replacing it; -: to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Read flows from this file, and go on translating them at the port; -: from standard input
    #[arg(long = "in", value_name = "FILE")]
    into: Option<PathBuf>,
    /// File with the key that signs the flows, the same on both hosts; `uc watch --make-key FILE`
    /// makes one
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
}

/// Value of --out and --in that means standard output and standard input.
const STANDARD: &str = "-";

impl Handover {
    /// Writes or reads flows, as the options say; returns false if a flow was not handed over.
    pub fn execute(self) -> Result<bool> {
        let keys = ProbeKeys::read(&self.key_file)?;
        let store = Store::default();
        match (&self.out, &self.into) {
            (Some(file), _) => self.send(&store, &keys, file),
            (None, Some(file)) => self.receive(&store, &keys, file),
            (None, None) => bail!("give --out FILE on the old host, or --in FILE on the new one"),
        }
    }

    fn send(&self, store: &Store, keys: &ProbeKeys, file: &Path) -> Result<bool> {
        check_target(file)?;
        let (flows, left) = store.flows_to_send(&self.port)?;
        let bytes = flows.write(|bytes| keys.own.sign(bytes))?;
        write(file, &bytes)?;
        let told = format!("{} written", ports::flows(flows.len()));
        self.tell(is_standard(file), &told, &left);
        Ok(left.is_empty())
    }

    fn receive(&self, store: &Store, keys: &ProbeKeys, file: &Path) -> Result<bool> {
        let bytes = read(file)?;
        let flows = Flows::read(&bytes, |bytes, tag| keys.have_signed(bytes, tag))
            .with_context(|| Name(file).to_string())?;
        let taken = store.receive_flows(&self.port, &flows)?;
        if !flows.dropped().is_empty() {
            let names = flows.dropped().join(", ");
            errln!(
                "uc: this version of uc keeps less of a flow than the other host's: not its {names}"
            );
        }
        let mut told = format!("{} taken over", ports::flows(taken.flows));
        if taken.known > 0 {
            told += &format!(", {} there already", taken.known);
        }
        self.tell(false, &told, &taken.left);
        Ok(taken.left.is_empty())
    }

    /// Prints the result, and the flows that were not handed over. If standard output has the file (`is_taken`), prints
    /// to standard error.
    fn tell(&self, is_taken: bool, told: &str, left: &[LeftFlow]) {
        let port = &self.port;
        let first = match left.len() {
            0 => format!("{port}: {told}"),
            _ => format!("{port}: {told}, {} not:", left.len()),
        };
        let lines = left.iter().map(|flow| format!("  {}", flow.at(port)));
        for line in std::iter::once(first).chain(lines) {
            match is_taken {
                true => errln!("{line}"),
                false => outln!("{line}"),
            }
        }
    }
}

/// Formats the path of a file that is read, for messages; `-` as `standard input`.
struct Name<'a>(&'a Path);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match is_standard(self.0) {
            true => f.write_str("standard input"),
            false => write!(f, "{}", self.0.display()),
        }
    }
}

fn is_standard(file: &Path) -> bool {
    file == Path::new(STANDARD)
}

/// Refuses a path for --out that exists and is no regular file, and a terminal as standard output.
fn check_target(file: &Path) -> Result<()> {
    if is_standard(file) {
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal; redirect it, or give --out a file");
        }
        return Ok(());
    }
    match fs::symlink_metadata(file) {
        Ok(found) if !found.is_file() => bail!(
            "{}: not a regular file; give --out another path, or - for standard output",
            file.display()
        ),
        _ => Ok(()),
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if !is_standard(file) {
        return Ok(uc_files::write(file, bytes)?);
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context("could not write to standard output")
}

/// Reads a file of flows: at most one byte more than such a file may have, which shows that it is too long. If the file
/// does not begin like one, returns only its first bytes.
fn read(file: &Path) -> Result<Vec<u8>> {
    let failed = || format!("could not read {}", Name(file));
    let mut source: Box<dyn Read> = match is_standard(file) {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).with_context(failed)?),
    };
    let mut bytes = Vec::new();
    let name = Flows::NAME.len() as u64;
    let mut begin = source.by_ref().take(name);
    begin.read_to_end(&mut bytes).with_context(failed)?;
    if bytes == Flows::NAME {
        let mut rest = source.take(Flows::BYTES_MAX as u64 + 1 - name);
        rest.read_to_end(&mut bytes).with_context(failed)?;
    }
    Ok(bytes)
}

//! `uc-bench packetdrill`: plays packetdrill's scripts on a simulated host or on the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use uc_drill::{Tally, Verdict, parse_with, run, sim};
use uc_lab::drill::Kernel;

/// Play packetdrill's scripts: system calls and packets that say what a host's TCP must do.
///
/// Prints each script that fails, with the line and the reason. A script that uses something that the tested
/// TCP does not support is skipped, and counted under that reason. Exit status 0 if no script fails,
/// otherwise 1.
#[derive(Args)]
#[command(name = "packetdrill")]
pub struct Packetdrill {
    /// Scripts, and folders of which every `.pkt` file is played
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// TCP that the scripts test: the simulator's or this kernel's
    #[arg(long, value_enum, default_value = "sim")]
    on: On,
    /// Put the port programs with this law between the tested TCP and the script's packets; needs --on live
    #[arg(long, value_name = "LAW")]
    port: Option<String>,
    /// Run the scripts' own shell commands, such as tc, as this process's user, in the network
    /// namespace of the tested TCP and the script's folder: they can change the whole machine.
    /// Needs --on live
    #[arg(long)]
    shell: bool,
    /// Replace every occurrence of a word in the scripts, such as -D TFO_COOKIE=3021b9d889017eeb. May be given
    /// several times
    #[arg(short = 'D', long, value_name = "WORD=TEXT", value_parser = definition)]
    define: Vec<(String, String)>,
    /// Print also the scripts that passed and those that were skipped
    #[arg(long)]
    all: bool,
}

/// The values of `--on`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// The simulator's TCP with sockets, on a virtual clock
    Sim,
    /// The kernel's TCP in a network namespace, on the real clock; needs root
    Live,
}

impl Packetdrill {
    /// Plays the scripts; returns false if one fails.
    ///
    /// # Errors
    /// A file can't be read, or the host can't play any script.
    pub fn execute(self) -> Result<bool> {
        let law = match &self.port {
            Some(_) if self.on == On::Sim => bail!(
                "--port attaches a law to a port of the kernel, which --on sim lacks; add --on \
                 live, or remove --port"
            ),
            Some(name) => Some(uc_port::law_named(name)?),
            None => None,
        };
        if self.shell && self.on == On::Sim {
            bail!(
                "--shell runs a script's shell commands on this machine, which --on sim can't; \
                 add --on live, or remove --shell"
            );
        }
        let mut scripts = Vec::new();
        for file in &self.files {
            find(file, &mut scripts)?;
        }
        if scripts.is_empty() {
            bail!("no file ends in .pkt: name scripts, or folders that contain some");
        }
        let mut tally = Tally::default();
        for path in &scripts {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).with_context(|| name.clone())?;
            let mut script = match parse_with(&text, &self.define) {
                Ok(script) => script,
                Err(error) => {
                    if let Some(feature) = error.lacks.filter(|_| self.all) {
                        outln!("{name}: skipped: {feature} is not supported");
                    }
                    tally.count_unread(&name, &error);
                    continue;
                }
            };
            let folder = path.parent().unwrap_or(Path::new(""));
            let folder = if folder == Path::new("") {
                Path::new(".")
            } else {
                folder
            };
            script.include(|file| fs::read_to_string(folder.join(file)).ok());
            let verdict = match self.on {
                On::Sim => run(&script, &mut sim::Host::new()),
                On::Live if self.shell => {
                    let folder = fs::canonicalize(folder).with_context(|| name.clone())?;
                    run(&script, &mut Kernel::new(law)?.with_shell(&folder))
                }
                On::Live => run(&script, &mut Kernel::new(law)?),
            };
            match &verdict {
                Verdict::Passed if self.all => outln!("{name}: passed"),
                Verdict::Skipped { reason } if self.all => outln!("{name}: skipped: {reason}"),
                _ => {}
            }
            tally.count(&name, &verdict);
        }
        out!("{tally}");
        Ok(tally.failures().is_empty())
    }
}

/// Parses the argument `WORD=TEXT` of `--define`.
fn definition(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(word, _)| !word.is_empty());
    let pair = pair.ok_or_else(|| format!("expected WORD=TEXT, found {text}"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Adds a script to `scripts`; of a folder, every script in it, sorted by name.
fn find(path: &Path, scripts: &mut Vec<PathBuf>) -> Result<()> {
    let shown = || path.display().to_string();
    if !path.is_dir() {
        scripts.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(shown)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(shown)?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "pkt") {
            find(&path, scripts)?;
        }
    }
    Ok(())
}

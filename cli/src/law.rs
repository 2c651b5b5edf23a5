//! `uc law`: laws from outside the tree.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Build congestion control laws from outside the tree.
#[derive(Args)]
pub struct Law {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(Build),
}

/// Compile the laws of a folder for ports (`uc attach --laws DIR`) and for the simulator (`uc-bench run
/// --laws DIR`).
///
/// DIR has more/table.h, the laws' rows, and perhaps more/law.h, their functions
/// (docs/write-a-law.md). Two files are made: port.bpf.o, the programs of ports with these laws, and
/// core.so, the same core as a native library for the simulator. Where this process may, the kernel then loads the
/// programs once, on no port, to show that its verifier accepts them.
///
/// The command needs clang. Exit status 1: clang or the kernel refuses the laws.
#[derive(Args)]
pub struct Build {
    /// Folder with the laws' C headers, more/table.h and more/law.h
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
    /// Folder for what is made, instead of DIR
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

impl Law {
    /// Returns the law to build.
    #[must_use]
    pub fn build(self) -> Build {
        let Command::Build(build) = self.command;
        build
    }
}

//! `uc law`: builds laws from outside the tree.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use uc_core::LawRow;
use uc_port::outside::{Compiled, LawError, compile};
use uc_port::{PortError, Programs};

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
struct Build {
    /// Folder with the laws' C headers, more/table.h and more/law.h
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder into which port.bpf.o and core.so are written [default: DIR]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Law {
    /// Compiles the laws of a folder. Returns false if clang or this kernel refuses them.
    pub fn execute(self) -> Result<bool> {
        let Command::Build(arguments) = self.command;
        let out = arguments.out.as_ref().unwrap_or(&arguments.folder);
        match compile(&arguments.folder, out) {
            Ok(compiled) => judge(compiled),
            // The compiler's words are an answer, on as many lines as they have.
            Err(error @ LawError::Refused { .. }) => {
                errln!("{}", error.to_string().trim_end());
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// If this process may load programs, has the kernel's verifier check the compiled ones. Writes the files and returns
/// true unless the verifier rejects them.
fn judge(compiled: Compiled) -> Result<bool> {
    let kernel = match Programs::load_object(&compiled.object, 1, 1) {
        Ok(_) => "this kernel accepts its programs",
        Err(PortError::NotPermitted { .. }) => "not loaded: that needs root",
        Err(PortError::Refused {
            program,
            said,
            place,
            ..
        }) => {
            let place = if place.is_empty() {
                ""
            } else {
                &format!(" at `{place}`")
            };
            errln!(
                "this kernel's verifier rejects program '{program}'{place} ({said}); nothing is written"
            );
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let built = compiled.keep()?;
    built.object.laws().iter().for_each(say_law);
    let bytes = built.object.bytes().len();
    outln!("{}: {bytes} bytes; {kernel}", built.object_path.display());
    let (path, bytes) = (built.library_path.display(), built.library_bytes);
    outln!("{path}: {bytes} bytes");
    Ok(true)
}

fn say_law(law: &LawRow) {
    let traits = match law.trait_names() {
        none if none.is_empty() => "no traits".to_owned(),
        names => names.join(" | "),
    };
    outln!("law {}, number {}: {}", law.name, law.number, law.what);
    outln!("  machine {}, cut {}, {traits}", law.machine, law.cut);
}

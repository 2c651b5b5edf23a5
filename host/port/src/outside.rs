//! Builds laws from outside the tree (`uc law build`): the tenant-port programs with the laws of a
//! folder, and a native library of the core with the same laws. Both are compiled from the sources
//! that this program was built from, which it carries.

mod error;
mod names;
mod sources;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};

use tempfile::TempDir;
use uc_clang::ClangError;

use crate::{LAYOUT, ProgramObject};

pub use error::LawError;
pub use uc_core::LIBRARY;

/// The files that a build of laws made.
#[derive(Debug)]
pub struct Built {
    /// The object with the port programs and the laws' rows.
    pub object: ProgramObject,
    /// Path of the object file with the port programs.
    pub object_path: PathBuf,
    /// Path of the native library with the core.
    pub library_path: PathBuf,
    /// Size of the native library, in bytes.
    pub library_bytes: u64,
}

/// Laws that were compiled, in a folder that disappears with this value unless they are kept.
#[derive(Debug)]
pub struct Compiled {
    work: Work,
    out: PathBuf,
    /// The object with the port programs and the laws' rows.
    pub object: ProgramObject,
}

/// Compiles the laws of `folder`, which has `more/table.h` and perhaps `more/law.h`. The results are
/// for `out`; they do not depend on where either folder is.
///
/// # Errors
/// [`LawError`]; the compiler's messages name files as the caller named `folder`, and files of the
/// core as the repository does.
pub fn compile(folder: &Path, out: &Path) -> Result<Compiled, LawError> {
    let table = folder.join("more/table.h");
    if !table.is_file() {
        return Err(LawError::Other(format!(
            "there is no file {}; create it with a row for each law of the folder \
             (docs/write-a-law.md)",
            table.display()
        )));
    }
    let work = Work::begin(folder, out)?;
    work.run_clang(folder)?;
    Ok(Compiled {
        object: ProgramObject::read(&work.object())?,
        work,
        out: out.to_owned(),
    })
}

impl Compiled {
    /// Moves the results to where they were wanted, as [`ProgramObject::FILE_NAME`] and [`LIBRARY`],
    /// in place of earlier ones.
    ///
    /// # Errors
    /// [`LawError::Write`]: the programs there are still the earlier ones.
    pub fn keep(self) -> Result<Built, LawError> {
        let library = self.work.library();
        let built = Built {
            library_bytes: fs::metadata(&library).map_or(0, |file| file.len()),
            object_path: self.out.join(ProgramObject::FILE_NAME),
            library_path: self.out.join(LIBRARY),
            object: self.object,
        };
        move_to(&library, &built.library_path)?;
        move_to(&self.work.object(), &built.object_path)?;
        Ok(built)
    }
}

fn move_to(from: &Path, to: &Path) -> Result<(), LawError> {
    fs::rename(from, to).map_err(|error| LawError::write(to, error))
}

/// Name of the symbolic link to the laws' folder in the folder of [`Work`].
const LAWS: &str = "laws";

/// A folder of its own beside the results, with the sources and a link to the laws; dropping it removes
/// it. Clang runs in it, so that no name outside it reaches clang or the results.
#[derive(Debug)]
struct Work(TempDir);

impl Work {
    fn begin(folder: &Path, out: &Path) -> Result<Work, LawError> {
        let path = absolute(out).map_err(|error| LawError::write(out, error))?;
        if path.to_str().is_none() {
            return Err(LawError::Other(format!(
                "the name of the output folder {} is not UTF-8, which libbpf needs; name another \
                 folder by --out",
                path.display()
            )));
        }
        fs::create_dir_all(out).map_err(|error| LawError::write(out, error))?;
        let work = tempfile::Builder::new().prefix(".uc-law-").tempdir_in(out);
        let work = Work(work.map_err(|error| LawError::write(out, error))?);
        sources::unpack(work.folder())?;
        let link = work.folder().join(LAWS);
        let linked = absolute(folder).and_then(|laws| symlink(laws, &link));
        linked.map_err(|error| LawError::write(&link, error))?;
        Ok(work)
    }

    /// Makes the object and the library of the laws, which the caller named `folder`.
    fn run_clang(&self, folder: &Path) -> Result<(), LawError> {
        let refused = |error| told(error, folder);
        let laws = format!("-I{LAWS}");
        let names = Path::new("names.c");
        let path = self.folder().join(names);
        fs::write(&path, names::SOURCE).map_err(|error| LawError::write(&path, error))?;
        let expanded = uc_clang::preprocess(self.folder(), names, &[&laws]).map_err(refused)?;
        names::check(&expanded)?;

        let layout = format!("-DUC_LAYOUT={LAYOUT:#x}ULL");
        let (program, object) = ("bpf/port/port.bpf.c", ProgramObject::FILE_NAME);
        let options = ["-DUC_MORE_LAWS", &laws, &layout];
        uc_clang::bpf(
            self.folder(),
            Path::new(program),
            Path::new(object),
            &options,
        )
        .map_err(refused)?;
        let shims: Vec<PathBuf> = sources::shims().map(PathBuf::from).collect();
        let layout = format!("-DUC_LAYOUT={:#x}ULL", uc_core::LAYOUT);
        let options = ["-DUC_MORE_LAWS", &laws, &layout, "-Icore"];
        uc_clang::library(self.folder(), &shims, Path::new(LIBRARY), &options).map_err(refused)
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn object(&self) -> PathBuf {
        self.folder().join(ProgramObject::FILE_NAME)
    }

    fn library(&self) -> PathBuf {
        self.folder().join(LIBRARY)
    }
}

/// How clang begins a line that names the file that includes another.
const INCLUDED: &str = "In file included from ";

/// Converts the compiler's error: its messages name the laws' files as the caller named their folder, and the core's
/// files as the repository does.
fn told(error: ClangError, folder: &Path) -> LawError {
    let ClangError::Refused { messages, .. } = error else {
        return LawError::Clang(error);
    };
    let own = format!("{LAWS}/");
    let named = |line: &str| {
        let (before, name) = match line.strip_prefix(INCLUDED) {
            Some(name) => (INCLUDED, name),
            None => ("", line),
        };
        match name.strip_prefix(&own) {
            Some(name) => Some(format!("{before}{}", folder.join(name).display())),
            // how one file of the core includes another
            None if before == INCLUDED => None,
            None => Some(line.to_owned()),
        }
    };
    let mut lines: Vec<_> = messages.lines().filter_map(named).collect();
    lines.extend(remedies(&messages));
    LawError::Refused {
        messages: lines.join("\n"),
    }
}

/// Returns the remedies if a row of the laws' table names a function, machine or cut that nothing defines.
fn remedies(messages: &str) -> impl Iterator<Item = String> {
    const REMEDIES: [(&str, &str); 4] = [
        ("declaration of function 'uc_", FUNCTIONS),
        ("undeclared function 'uc_", FUNCTIONS),
        (
            "identifier 'UC_MACHINE_",
            "declare the row's machine by UC_MACHINES_MORE in more/table.h, or name one of the tree's",
        ),
        (
            "identifier 'UC_CUT_",
            "declare the row's cut by UC_CUTS_MORE in more/table.h, or name one of the tree's",
        ),
    ];
    const FUNCTIONS: &str = "define the function in more/law.h: a machine has uc_NAME_open(), _sent(), \
                             _ack() and _window_bytes(); a cut has uc_NAME_open(), _observe(), \
                             _remains(), _least() and _signal()";
    let seen = |(told, _): &(&str, &str)| messages.contains(told);
    let remedies = REMEDIES.into_iter().filter(seen);
    remedies.map(|(_, remedy)| format!("remedy: {remedy} (docs/write-a-law.md)"))
}

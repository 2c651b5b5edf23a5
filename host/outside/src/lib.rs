//! Builds laws from outside the tree (`uc law build`): the tenant-port programs with the laws of a
//! folder, and a native library of the core with the same laws. Both are compiled from the sources
//! that this program was built from, which it carries.

mod error;
mod names;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uc_port::{LAYOUT, ProgramObject};

pub use error::LawError;

/// Name of the native library of the core in the folder that is built into.
pub const LIBRARY: &str = "core.so";

/// Files that a build made.
#[derive(Debug)]
pub struct Built {
    /// The object with the port programs and the laws' rows.
    pub object: ProgramObject,
    /// Path of the object.
    pub object_path: PathBuf,
    /// Path of the native library.
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
/// for `out`.
///
/// # Errors
/// [`LawError`]; the compiler's messages name files as the caller named `folder`, and files of the
/// core as the repository does.
pub fn compile(folder: &Path, out: &Path) -> Result<Compiled, LawError> {
    let table = folder.join("more/table.h");
    if !table.is_file() {
        return Err(LawError::NoTable { path: table });
    }
    let work = Work::begin(out)?;
    let include = format!("-I{}", folder.display());
    names::check(&work.compiled(uc_clang::preprocess(&work.names()?, &[&include]))?)?;

    let object = work.object();
    let layout = format!("-DUC_LAYOUT={LAYOUT:#x}ULL");
    let program = work.folder().join("bpf/port/port.bpf.c");
    let options = ["-DUC_MORE_LAWS", &include, &layout];
    work.compiled(uc_clang::bpf(&program, &object, &options))?;
    let core = format!("-I{}", work.folder().join("core").display());
    let options = ["-DUC_MORE_LAWS", &include, &core];
    work.compiled(uc_clang::library(&work.shims(), &work.library(), &options))?;
    Ok(Compiled {
        object: ProgramObject::read(&object)?,
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

/// A folder of its own beside the results, with the sources; dropping it removes it.
#[derive(Debug)]
struct Work(TempDir);

impl Work {
    fn begin(out: &Path) -> Result<Work, LawError> {
        fs::create_dir_all(out).map_err(|error| LawError::write(out, error))?;
        let folder = tempfile::Builder::new().prefix(".uc-law-").tempdir_in(out);
        let work = Work(folder.map_err(|error| LawError::write(out, error))?);
        sources::unpack(work.folder())?;
        Ok(work)
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

    /// Writes a source that the preprocessor makes the laws' names of.
    fn names(&self) -> Result<PathBuf, LawError> {
        let path = self.folder().join("names.c");
        fs::write(&path, names::SOURCE).map_err(|error| LawError::write(&path, error))?;
        Ok(path)
    }

    /// Returns the sources of the native library.
    fn shims(&self) -> Vec<PathBuf> {
        sources::shims()
            .map(|name| self.folder().join(name))
            .collect()
    }

    /// Takes this folder out of the compiler's messages.
    fn compiled<T>(&self, done: Result<T, uc_clang::ClangError>) -> Result<T, LawError> {
        done.map_err(|error| match error {
            uc_clang::ClangError::Refused { messages, .. } => {
                let own = format!("{}/", self.folder().display());
                let included = format!("In file included from {own}");
                let lines = messages.lines();
                let lines = lines.filter(|line| !line.starts_with(&included));
                LawError::Refused {
                    messages: lines.collect::<Vec<_>>().join("\n").replace(&own, ""),
                }
            }
            other => LawError::Clang(other),
        })
    }
}

//! A guest's boot image: an archive in memory with its first process, the two programs that set up its interface, other
//! programs of the host, their libraries, and its kernel's modules. There is no disk: a guest's files end with it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::need;
use crate::vm::cpio::Archive;
use crate::vm::error::{VmError, resource};
use crate::vm::kernel::Kernel;

/// Path of the first process in a guest.
pub const INIT: &str = "/bin/uc-bench";
/// Folder of a guest's modules.
pub const MODULES: &str = "/modules";
/// Maximum number of libraries of a program; typical is a dozen.
const LIBRARIES_MAX: usize = 256;

/// The programs of the host that a guest has, besides `ip` and `ethtool`.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Program whose command `machine` calls [`crate::agent::main`]: the first process.
    pub init: PathBuf,
    /// Other programs, each under its own name in `/bin`.
    pub others: Vec<PathBuf>,
}

impl Programs {
    /// Returns a set of `init` alone.
    pub fn only(init: impl Into<PathBuf>) -> Self {
        Self {
            init: init.into(),
            others: Vec::new(),
        }
    }

    /// Adds another program.
    #[must_use]
    pub fn with(mut self, program: impl Into<PathBuf>) -> Self {
        self.others.push(program.into());
        self
    }
}

/// A kernel and the archive for it.
#[derive(Debug)]
pub struct Image {
    /// Kernel to boot.
    pub kernel: Kernel,
    /// First file system, in memory.
    pub(crate) archive: File,
}

impl Image {
    /// Builds the image of `kernel` with these programs of the host.
    ///
    /// # Errors
    /// The file that can't be read.
    pub fn build(kernel: Kernel, host: &Programs) -> Result<Self, VmError> {
        let memory = memfd_create(c"uc-guest", MFdFlags::MFD_CLOEXEC);
        let memory = memory.map_err(|errno| resource("make an image in memory")(errno.into()))?;
        let mut archive = Archive::new(BufWriter::new(File::from(memory)));
        for folder in ["bin", "dev", "proc", "sys", "tmp", "run", "lib", "modules"] {
            archive.folder(folder).map_err(full)?;
        }
        let mut programs = vec![(INIT.to_owned(), host.init.clone())];
        for name in ["ip", "ethtool"] {
            let path = need::program(name).map_err(crate::LabError::from)?;
            programs.push((format!("/bin/{name}"), path));
        }
        programs.extend(
            host.others
                .iter()
                .map(|path| (place_of(path), path.clone())),
        );
        let mut libraries = BTreeSet::new();
        for (inside, path) in &programs {
            libraries.extend(libraries_of(path)?);
            archive.file(&inside[1..], &stripped(path)?).map_err(full)?;
        }
        add_libraries(&mut archive, &libraries)?;
        add_modules(&mut archive, &kernel)?;
        let buffer = archive.finish().map_err(full)?;
        let mut archive = buffer
            .into_inner()
            .map_err(|error| full(error.into_error()))?;
        archive.seek(SeekFrom::Start(0)).map_err(full)?;
        Ok(Self { kernel, archive })
    }
}

/// Returns the path in a guest of a program of the host.
pub fn place_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default();
    format!("/bin/{}", name.to_string_lossy())
}

fn full(source: io::Error) -> VmError {
    resource("write an image into memory")(source)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> VmError {
    let path = path.to_owned();
    move |source| {
        VmError::Refused(format!(
            "{path} cannot be put into a guest's image: {source}; check that it exists and can be \
             read",
            path = path.display()
        ))
    }
}

/// Returns the program without debug information and symbols, which are most of it, if the host has `strip`.
/// `strip` replaces its output file, so it gets a file of its own: a pipe would receive nothing,
/// and a device's name would be replaced.
fn stripped(path: &Path) -> Result<Vec<u8>, VmError> {
    let folder = tempfile::tempdir().map_err(resource("make a folder for a program"))?;
    let smaller = folder.path().join("stripped");
    let status = Command::new("strip")
        .args(["--strip-all", "-o"])
        .args([smaller.as_path(), path])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let without = status.is_ok_and(|status| status.success());
    let source = if without { &smaller } else { path };
    fs::read(source).map_err(unreadable(source))
}

/// Returns every library that the loader would map, and the loader itself, by absolute paths; empty for a static
/// program.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, VmError> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(unreadable(Path::new("ldd")))?;
    Ok(absolute_paths(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines like `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` and
/// `/lib64/ld-linux-x86-64.so.2 (0x…)`. The output for a static program has neither.
fn absolute_paths(ldd: &str) -> Vec<PathBuf> {
    let words = ldd.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/'))
    });
    words.take(LIBRARIES_MAX).map(PathBuf::from).collect()
}

fn add_libraries(
    archive: &mut Archive<BufWriter<File>>,
    libraries: &BTreeSet<PathBuf>,
) -> Result<(), VmError> {
    let mut folders = BTreeSet::from([PathBuf::from("/lib")]);
    for library in libraries {
        let ancestors: Vec<_> = library.ancestors().skip(1).collect();
        for folder in ancestors.into_iter().rev().skip(1) {
            if folders.insert(folder.to_owned()) {
                let path = folder.display().to_string();
                archive.folder(&path[1..]).map_err(full)?;
            }
        }
        let content = fs::read(library).map_err(unreadable(library))?;
        let path = library.display().to_string();
        archive.file(&path[1..], &content).map_err(full)?;
    }
    Ok(())
}

fn add_modules(archive: &mut Archive<BufWriter<File>>, kernel: &Kernel) -> Result<(), VmError> {
    let folder = kernel.modules();
    let entries = fs::read_dir(&folder).map_err(unreadable(&folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(unreadable(&folder))?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = fs::read(&path).map_err(unreadable(&path))?;
        let inside = format!("{}/{name}", &MODULES[1..]);
        archive.file(&inside, &content).map_err(full)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripping_shrinks_the_copy_and_leaves_the_program_unchanged() {
        let own = std::env::current_exe().unwrap();
        let before = fs::read(&own).unwrap();
        let inside = stripped(&own).unwrap();
        assert!(inside.starts_with(b"\x7fELF"));
        if need::program("strip").is_ok() {
            assert!(inside.len() < before.len(), "{} bytes", inside.len());
        }
        assert_eq!(fs::read(&own).unwrap(), before);
    }

    #[test]
    fn ldd_output_is_parsed_for_dynamic_and_static_programs() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /lib/a/libm.so.6 (0x00007f)\n\
                    \tgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = absolute_paths(text);
        let expected = ["/lib/a/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert!(absolute_paths("\tstatically linked\n").is_empty());
    }
}

//! Preconditions of the live backend on this host, checked before anything is built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// A precondition that does not hold. The message is one line: what is missing, then the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Need {
    /// The process lacks a capability.
    #[error("{name} is missing: run as root, or grant it to the program with setcap")]
    Capability {
        /// Name of the capability as capabilities(7) writes it.
        name: &'static str,
    },
    /// No tap can be opened.
    #[error("/dev/net/tun cannot be opened ({0}): load the module `tun`, or pass the device in")]
    Tun(#[source] io::Error),
    /// A program is missing.
    #[error("`{program}` is not on PATH, /usr/sbin or /sbin: install the package {package}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// The kernel has no network namespaces.
    #[error("no network namespace can be made ({0}): the kernel needs CONFIG_NET_NS")]
    Namespaces(#[source] io::Error),
    /// /proc cannot be read.
    #[error("/proc/self/status cannot be read ({0}): mount /proc")]
    Proc(#[source] io::Error),
}

/// Raises the process's limit of open files to its maximum: each connection of a run takes three.
pub fn raise_limit_of_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where that fails, a run that needs more files says so.
        let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Checks every precondition of the live backend without changing anything.
///
/// # Errors
/// The first [`Need`] that does not hold, in the order in which to remedy them.
pub fn check() -> Result<(), Need> {
    let status = fs::read_to_string("/proc/self/status").map_err(Need::Proc)?;
    let effective = effective_capabilities(&status);
    for (bit, name) in [
        (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
        (CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
    ] {
        if effective >> bit & 1 == 0 {
            return Err(Need::Capability { name });
        }
    }
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map_err(Need::Tun)?;
    program("ip")?;
    program("ethtool")?;
    // On a separate thread: unshare moves the calling thread, and the namespace dies with it.
    match std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(errno)) => Err(Need::Namespaces(errno.into())),
        Err(_) => Err(Need::Namespaces(io::Error::other(
            "the thread that tried to make a namespace panicked",
        ))),
    }
}

/// Returns the path of `ip` or `ethtool`. Searches /usr/sbin and /sbin even when PATH lacks them,
/// as it does for ordinary users on Debian.
///
/// # Errors
/// [`Need::Program`] when it is missing.
pub fn program(name: &'static str) -> Result<PathBuf, Need> {
    find(name).ok_or(Need::Program {
        program: name,
        package: package_of(name),
    })
}

/// Returns the path of any program, sought as [`program`] does; `None` if it is missing.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn package_of(program: &'static str) -> &'static str {
    match program {
        "ethtool" | "nginx" => program,
        _ => "iproute2",
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the bits of the effective capabilities in the text of /proc/self/status; 0 if the line is missing.
fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_parsed_from_its_line() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000001000\n";
        assert_eq!(effective_capabilities(status), 1 << CAP_NET_ADMIN);
        assert_eq!(effective_capabilities("no such line"), 0);
    }

    #[test]
    fn limit_of_files_becomes_the_maximum() {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most - 1, most).unwrap();
        raise_limit_of_files();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (most, most));
    }

    #[test]
    fn every_need_is_one_line_that_names_its_remedy() {
        let needs = [
            Need::Capability {
                name: "CAP_NET_ADMIN",
            },
            Need::Tun(io::Error::from_raw_os_error(libc::ENOENT)),
            Need::Program {
                program: "ethtool",
                package: package_of("ethtool"),
            },
            Need::Namespaces(io::Error::from_raw_os_error(libc::EINVAL)),
            Need::Proc(io::Error::from_raw_os_error(libc::ENOENT)),
        ];
        for need in needs {
            let text = need.to_string();
            assert!(!text.contains('\n') && text.contains(": "), "{text}");
        }
    }
}

//! Removal of a confined process's privileges: user, capabilities, system calls, resources.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::confine::calls::filter;

/// Id of the user and of the group `nobody`.
const NOBODY: u32 = 65_534;
/// Version 3 of `struct __user_cap_header_struct`, which has two words for each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;
/// The first file descriptor after standard input, output and error.
const FIRST_OTHER: libc::c_uint = 3;
/// Maximum number of file descriptors that a confined process may have.
const DESCRIPTORS_MAX: rlim_t = 2048;
/// Maximum size of the heap and other private memory.
const MEMORY_MAX_BYTES: rlim_t = 256 << 20;
/// CPU time in seconds after which the process is killed unless it calls [`gets_on`].
const STUCK_S: libc::time_t = 2;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up the rights of this process, which must have no second thread yet: its user, as far as it
/// may change that, all capabilities, all descriptors but the standard ones, and all system calls but
/// those that use descriptors it gets later. None can be regained. The process is killed when the one
/// that started it ends. It does not end by the signals of a terminal or a service manager, which that
/// one handles, nor by SIGPIPE, when whoever is to get an answer has gone. Its memory, its descriptors
/// and its CPU time ([`gets_on`]) are limited.
///
/// A root without CAP_SETUID and CAP_SETGID stays user 0, as under systemd, and so does one without
/// CAP_KILL: the process that started it could not end it otherwise. Without capabilities and those
/// system calls it can reach nothing by that.
///
/// # Errors
/// The kernel's. The process must end then.
pub fn enter() -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        let why = "a process gives its rights up before it starts threads";
        return Err(io::Error::other(why));
    }
    let filter = filter()?;
    close_others()?;
    limit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX)?;
    limit(Resource::RLIMIT_DATA, MEMORY_MAX_BYTES)?;
    let ends = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGPIPE,
    ];
    SigSet::from_iter(ends).thread_block()?;
    if may_change_user()? {
        setgroups(&[])?;
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    // After the change of the user, which resets both.
    prctl::set_dumpable(false)?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    prctl::set_no_new_privs()?;
    drop_capabilities()?;
    gets_on()?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// Grants the process two seconds of CPU time from now, after which the kernel kills it: a parser that loops for ever
/// is replaced. A process that waits uses no CPU time.
pub fn gets_on() -> io::Result<()> {
    let none = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let once = libc::itimerval {
        it_interval: none,
        it_value: libc::timeval {
            tv_sec: STUCK_S,
            tv_usec: 0,
        },
    };
    // SAFETY: reads the structure; the old value is not asked for.
    checked(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const once, std::ptr::null_mut()) })
}

/// Closes all descriptors but standard input, output and error: the process that started this one may have left some
/// open. To be called before this program opens a descriptor.
pub fn close_others() -> io::Result<()> {
    let flags: libc::c_uint = 0;
    // SAFETY: numbers only; nothing of this program has opened a descriptor that it will use.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, flags) };
    checked(done as libc::c_int)
}

/// Sets the soft and the hard limit of a resource to `most`, or to the present hard limit if that is lower.
fn limit(resource: Resource, most: rlim_t) -> io::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let most = most.min(hard);
    Ok(setrlimit(resource, most, most)?)
}

fn checked(returned: libc::c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether the process may change its user and its groups, and the one that started it may
/// still kill it then.
fn may_change_user() -> io::Result<bool> {
    let mut held = [Capabilities::default(); 2];
    capabilities(libc::SYS_capget, &mut held)?;
    let wanted = (1 << KILL) | (1 << SETGID) | (1 << SETUID);
    Ok(held[0].effective & wanted == wanted)
}

/// Empties the effective, permitted and inheritable set, and with them the ambient one.
fn drop_capabilities() -> io::Result<()> {
    capabilities(libc::SYS_capset, &mut [Capabilities::default(); 2])
}

fn capabilities(call: i64, sets: &mut [Capabilities; 2]) -> io::Result<()> {
    let mut header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    // SAFETY: both structures have the layout of this version and outlive the call.
    checked(unsafe { libc::syscall(call, &raw mut header, sets.as_mut_ptr()) } as libc::c_int)
}

//! The system calls that a confined process keeps.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// System calls of a confined process: it uses the descriptors that it has or is sent, its memory and
/// its clock. None of them opens a file or a connection, starts a program or concerns another process.
/// [`filter`] adds calls of which only some are allowed. There is no `sendmsg`, whose address no filter
/// can read.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_setitimer,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[i64] = &[libc::SYS_poll, libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[i64] = &[];

/// Flags of mappings that do not count for the limit of memory.
const UNCOUNTED: i32 = libc::MAP_SHARED | libc::MAP_GROWSDOWN;

/// Returns the filter, under which any other call fails with EPERM.
///
/// # Errors
/// The processor is unknown.
pub(crate) fn filter() -> io::Result<BpfProgram> {
    let whole = CALLS
        .iter()
        .chain(OLDER_CALLS)
        .map(|&call| (call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = whole.collect();
    for (call, arguments) in [
        (libc::SYS_ioctl, &[is(1, libc::FIONBIO as i32)?][..]),
        (libc::SYS_fcntl, &[is(1, libc::F_GETFL)?]),
        (libc::SYS_fcntl, &[is(1, libc::F_SETFL)?]),
        (libc::SYS_fcntl, &[is(1, libc::F_DUPFD_CLOEXEC)?]),
        // To no address: a socket of datagrams could send to any. With the flag it would connect a
        // socket that listened, once that is shut down.
        (
            libc::SYS_sendto,
            &[lacks(3, libc::MSG_FASTOPEN)?, is_null(4)?],
        ),
        (libc::SYS_socketpair, &[is(0, libc::AF_UNIX)?]),
        // No code but the program's, and no memory beyond the process's limit.
        (
            libc::SYS_mmap,
            &[lacks(2, libc::PROT_EXEC)?, lacks(3, UNCOUNTED)?],
        ),
        (libc::SYS_mprotect, &[lacks(2, libc::PROT_EXEC)?]),
    ] {
        let rule = SeccompRule::new(arguments.to_vec()).map_err(io::Error::other)?;
        rules.entry(call).or_default().push(rule);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture);
    filter
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

/// Returns the condition that an argument of a call, counted from 0, is this integer of 32 bits.
fn is(number: u8, value: i32) -> io::Result<SeccompCondition> {
    condition(
        number,
        SeccompCmpOp::MaskedEq(u32::MAX.into()),
        value as u64,
    )
}

/// Returns the condition that an argument of a call, counted from 0, has none of these bits.
fn lacks(number: u8, bits: i32) -> io::Result<SeccompCondition> {
    condition(number, SeccompCmpOp::MaskedEq(bits as u64), 0)
}

/// Returns the condition that an argument is a null pointer.
fn is_null(number: u8) -> io::Result<SeccompCondition> {
    condition(number, SeccompCmpOp::Eq, 0)
}

fn condition(number: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    let length = SeccompCmpArgLen::Qword;
    SeccompCondition::new(number, length, operator, value).map_err(io::Error::other)
}

//! What a confined process can still do, and what it can't, tried in forked processes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, bind, send, sendmsg, sendto, socket,
    socketpair,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use uc_service::confine::{enter, gets_on, parent};

/// Runs `inside` in a forked process, which has one thread, with this as its standard input. The
/// process ends with status 0 if it was true there.
fn forked(input: impl Into<OwnedFd>, inside: fn() -> bool) -> WaitStatus {
    let input: OwnedFd = input.into();
    // SAFETY: the child only makes system calls and allocates, which glibc supports after a fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // SAFETY: numbers only; _exit ends the process without destructors of the test's harness.
            unsafe {
                libc::dup2(input.as_raw_fd(), 0);
                libc::_exit(i32::from(!inside()))
            }
        }
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
    }
}

fn is_true(input: impl Into<OwnedFd>, inside: fn() -> bool) -> bool {
    matches!(forked(input, inside), WaitStatus::Exited(_, 0))
}

fn null() -> File {
    File::open("/dev/null").unwrap()
}

fn is_refused<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns the result of a system call that returns a negative number for an error.
fn outcome(returned: isize) -> io::Result<isize> {
    match returned {
        0.. => Ok(returned),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn a_process_with_a_second_thread_gives_up_nothing() {
    let (told, hears) = std::sync::mpsc::channel::<()>();
    let second = std::thread::spawn(move || hears.recv());
    assert!(enter().unwrap_err().to_string().contains("threads"));
    drop(told);
    assert!(second.join().unwrap().is_err());
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(text.contains("\nSeccomp:\t0\n"));
}

#[test]
fn a_confined_process_has_no_capability_and_no_user_of_its_own() {
    let status = || {
        let was_root = nix::unistd::geteuid().is_root();
        // The status of this process, not of the one that opened the file.
        let file = File::open("/proc/self/status").unwrap();
        // SAFETY: numbers only.
        unsafe { libc::dup2(file.as_raw_fd(), 0) };
        enter().unwrap();
        let text = io::read_to_string(io::stdin()).unwrap();
        let is = |line: &str| text.lines().any(|found| found == line);
        let none = "0000000000000000";
        let empty = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
        empty.iter().all(|set| is(&format!("{set}:\t{none}")))
            && (!was_root || is("Uid:\t65534\t65534\t65534\t65534"))
            && (!was_root || is("Gid:\t65534\t65534\t65534\t65534") && is("Groups:\t "))
            && is("NoNewPrivs:\t1")
            && is("Seccomp:\t2")
            && nix::unistd::setresuid(0.into(), 0.into(), 0.into()).is_err()
    };
    assert!(is_true(null(), status));
}

#[test]
fn a_confined_process_opens_starts_and_signals_nothing_but_uses_what_it_gets() {
    assert!(is_true(null(), || {
        enter().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        let works = one.write_all(b"x").is_ok()
            && other.set_nonblocking(true).is_ok()
            && (&other).read(&mut [0; 4]).is_ok_and(|length| length == 1);
        works
            && is_refused(File::open("/dev/null"))
            && is_refused(TcpStream::connect("127.0.0.1:9"))
            && is_refused(TcpListener::bind("127.0.0.1:0"))
            && is_refused(Command::new("/bin/true").spawn())
            && is_refused(std::thread::Builder::new().spawn(|| ()))
            && nix::sys::signal::kill(Pid::this(), None).is_err()
    }));
}

#[test]
fn a_confined_process_keeps_no_descriptor_but_the_standard_ones() {
    assert!(is_true(null(), || {
        // Without close-on-exec, as a careless starter leaves one.
        // SAFETY: numbers only.
        let left = unsafe { libc::dup(0) };
        enter().unwrap();
        // SAFETY: as above.
        let is_open = |fd| unsafe { libc::fcntl(fd, libc::F_GETFL) } >= 0;
        is_open(0) && is_open(1) && is_open(2) && left > 2 && (3..4096).all(|fd| !is_open(fd))
    }));
}

#[test]
fn a_confined_process_makes_no_connection_of_a_socket_that_listened() {
    let given = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(is_true(given, || {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let to = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be(),
            },
            sin_zero: [0; 8],
        };
        let length = size_of_val(&to) as libc::socklen_t;
        enter().unwrap();
        // SAFETY: numbers, and an address that outlives the call.
        let sent = outcome(unsafe {
            libc::shutdown(0, libc::SHUT_RDWR);
            let flags = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL;
            libc::sendto(
                0,
                [0_u8].as_ptr().cast(),
                1,
                flags,
                (&raw const to).cast(),
                length,
            )
        });
        is_refused(sent)
    }));
}

/// Returns an abstract address of the tests' process.
fn address(of: Pid) -> UnixAddr {
    UnixAddr::new_abstract(format!("uc-service-{of}").as_bytes()).unwrap()
}

#[test]
fn a_confined_process_sends_to_no_address_that_it_was_not_connected_to() {
    let (kind, flags) = (SockType::Datagram, SockFlag::SOCK_CLOEXEC);
    let elsewhere = socket(AddressFamily::Unix, kind, flags, None).unwrap();
    bind(elsewhere.as_raw_fd(), &address(Pid::this())).unwrap();
    let (given, _end) = socketpair(AddressFamily::Unix, kind, None, flags).unwrap();
    assert!(is_true(given, || {
        let to = address(Pid::parent());
        let none = MsgFlags::empty();
        let parts = [io::IoSlice::new(b"x")];
        let sent = || sendto(0, b"x", &to, none);
        let sent_message = || sendmsg(0, &parts, &[], none, Some(&to));
        let was_possible = sent().is_ok() && sent_message().is_ok();
        enter().unwrap();
        was_possible
            && sent() == Err(Errno::EPERM)
            && sent_message() == Err(Errno::EPERM)
            && send(0, b"x", none) == Ok(1)
    }));
}

#[test]
fn a_confined_process_outlives_the_end_of_whoever_gets_its_answer() {
    let (given, end) = UnixStream::pair().unwrap();
    drop(end);
    assert!(is_true(given, || {
        // SAFETY: installs the default action, which `uc` has.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        enter().unwrap();
        nix::unistd::write(io::stdin(), b"x") == Err(Errno::EPIPE)
    }));
}

#[test]
fn a_confined_process_gets_no_code_and_no_more_than_its_memory() {
    assert!(is_true(null(), || {
        enter().unwrap();
        let mapped = |protection, kind| {
            let flags = kind | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping, which is never used.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
            outcome(at as isize).map(|_| at)
        };
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let page = mapped(writable, libc::MAP_PRIVATE).unwrap();
        // SAFETY: the page is this test's.
        let made = outcome(
            unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC) } as isize,
        );
        let mut memory = Vec::<u8>::new();
        // These do not count as its memory.
        let uncounted = [libc::MAP_SHARED, libc::MAP_PRIVATE | libc::MAP_GROWSDOWN];
        uncounted
            .iter()
            .all(|kind| is_refused(mapped(writable, *kind)))
            && is_refused(mapped(libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE))
            && is_refused(made)
            && memory.try_reserve_exact(64 << 20).is_ok()
            && memory.try_reserve_exact(512 << 20).is_err()
    }));
}

#[test]
fn a_confined_process_that_loops_for_ever_is_killed_unless_it_gets_on() {
    let ended = forked(null(), || {
        enter().unwrap();
        loop {
            std::hint::spin_loop();
        }
    });
    assert!(
        matches!(ended, WaitStatus::Signaled(_, Signal::SIGPROF, _)),
        "{ended:?}"
    );
    assert!(is_true(null(), || {
        enter().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_secs() < 3 {
            gets_on().unwrap();
        }
        true
    }));
}

#[test]
fn a_process_whose_starter_has_ended_meanwhile_finds_no_parent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    assert!(is_true(theirs.try_clone().unwrap(), || parent().is_ok()));
    // Another test's process may have a copy of it.
    ours.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(is_true(theirs, || parent().is_err()));
}

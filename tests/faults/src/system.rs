//! Functions of libc that are system calls.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::AtomicUsize;

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::calls::{bytes, calls, fill, libcs, path, put, told, world};
use crate::world::Answer;

calls! {
    open64(name: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |world| Some(world.open(&path(name), flags, mode));
    close(fd: c_int) -> c_int, |world| world.owns(fd).then(|| world.close(fd));
    read(fd: c_int, to: *mut c_void, room: size_t) -> ssize_t,
        |world| world.owns(fd).then(|| world.read(fd, room).map(|found| fill(to, room, &found)));
    write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t,
        |world| world.owns(fd).then(|| world.write(fd, bytes(from, length), None));
    pwrite64(fd: c_int, from: *const c_void, length: size_t, at: i64) -> ssize_t,
        |world| world.owns(fd).then(|| world.write(fd, bytes(from, length), Some(at as usize)));
    ftruncate64(fd: c_int, length: i64) -> c_int,
        |world| world.owns(fd).then(|| world.truncate(fd, length as usize));
    fsync(fd: c_int) -> c_int, |world| world.owns(fd).then(|| world.sync(fd));
    rename(from: *const c_char, to: *const c_char) -> c_int,
        |world| Some(world.rename(&path(from), &path(to)));
    unlink(name: *const c_char) -> c_int, |world| Some(world.unlink(&path(name)));
    mkdir(name: *const c_char, mode: c_uint) -> c_int,
        |world| Some(world.mkdir(&path(name), mode));
    rmdir(name: *const c_char) -> c_int, |world| Some(world.rmdir(&path(name)));
    flock(fd: c_int, operation: c_int) -> c_int,
        |world| world.owns(fd).then(|| world.flock(fd, operation));
    readlink(name: *const c_char, to: *mut c_char, room: size_t) -> ssize_t,
        |world| Some(world.readlink(&path(name)).map(|text| fill(to.cast(), room, text.as_bytes())));
    geteuid() -> c_uint, |world| Some(Ok(0));
    stat64(name: *const c_char, to: *mut libc::stat64) -> c_int,
        |world| Some(world.stat(&path(name)).map(|found| put(to, found.stat())));
    lstat64(name: *const c_char, to: *mut libc::stat64) -> c_int,
        |world| Some(world.stat(&path(name)).map(|found| put(to, found.stat())));
    fstat64(fd: c_int, to: *mut libc::stat64) -> c_int,
        |world| world.owns(fd).then(|| world.fstat(fd).map(|found| put(to, found.stat())));
    statx(folder: c_int, name: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx)
        -> c_int, |world| {
            let found = match path(name) {
                name if !name.is_empty() => world.stat(&name),
                _ if world.owns(folder) => world.fstat(folder),
                _ => return None,
            };
            Some(found.map(|found| put(to, found.statx())))
        };
    statfs64(name: *const c_char, to: *mut libc::statfs64) -> c_int,
        |world| Some(world.statfs(&path(name)).map(|kind| {
            // SAFETY: all zeroes are a valid value of plain integers.
            let mut found: libc::statfs64 = unsafe { std::mem::zeroed() };
            found.f_type = kind;
            put(to, found)
        }));
    statfs(name: *const c_char, to: *mut libc::statfs) -> c_int,
        |world| Some(world.statfs(&path(name)).map(|kind| {
            // SAFETY: all zeroes are a valid value of plain integers.
            let mut found: libc::statfs = unsafe { std::mem::zeroed() };
            found.f_type = kind;
            put(to, found)
        }));
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int,
        |world| world.owns(fd).then(|| world.fcntl(fd, command));
    fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int,
        |world| world.owns(fd).then(|| world.fcntl(fd, command));
    ioctl(fd: c_int, request: std::ffi::c_ulong, argument: *mut c_void) -> c_int,
        |world| world.owns(fd).then(|| {
            // SAFETY: the only request is SIOCGIFHWADDR, which has an ifreq.
            let asked = unsafe { &mut *argument.cast::<libc::ifreq>() };
            // SAFETY: the caller has terminated the name.
            let name = unsafe { CStr::from_ptr(asked.ifr_name.as_ptr()) };
            let kind = world.link_type(&name.to_string_lossy())?;
            asked.ifr_ifru.ifru_hwaddr.sa_family = kind;
            Ok(0)
        });
    socket(family: c_int, kind: c_int, protocol: c_int) -> c_int, |world| Some(world.socket());
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int,
        |world| world.owns(fd).then_some(Ok(0));
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t)
        -> c_int, |world| world.owns(fd).then_some(Ok(0));
    getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int,
        |world| world.owns(fd).then(|| {
            // SAFETY: all zeroes are a valid value of plain integers.
            let mut own: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            own.nl_family = libc::AF_NETLINK as u16;
            put(address.cast(), own);
            Ok(put(length, size_of_val(&own) as socklen_t))
        });
    send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t,
        |world| world.owns(fd).then(|| world.ask_netlink(fd, bytes(from, length)));
    recv(fd: c_int, to: *mut c_void, room: size_t, flags: c_int) -> ssize_t,
        |world| world.owns(fd).then(|| {
            world.netlink_answers(fd, flags & libc::MSG_PEEK != 0).map(|all| fill(to, room, &all))
        });
    recvfrom(fd: c_int, to: *mut c_void, room: size_t, flags: c_int, from: *mut sockaddr,
        length: *mut socklen_t) -> ssize_t,
        |world| world.owns(fd).then(|| {
            world.netlink_answers(fd, flags & libc::MSG_PEEK != 0).map(|all| fill(to, room, &all))
        });
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t,
        |world| world.owns(fd).then(|| {
            let all = world.netlink_answers(fd, flags & libc::MSG_PEEK != 0)?;
            // SAFETY: the caller gives one buffer.
            let to: iovec = unsafe { *(*message).msg_iov };
            fill(to.iov_base, to.iov_len, &all);
            Ok(all.len() as i64)
        });
    if_nametoindex(name: *const c_char) -> c_uint,
        |world| Some(Ok(world.index_of(&path(name)).unwrap_or(0)));
    clock_gettime(clock: c_int, to: *mut timespec) -> c_int,
        |world| Some(Ok(put(to, time_of(world.time_ns(clock)))));
    clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int,
        |world| {
            // SAFETY: the caller gives a time.
            let time = unsafe { *time };
            world.sleep(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            Some(Ok(0))
        };
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int,
        |world| {
            // SAFETY: the caller gives a time.
            let time = unsafe { *time };
            world.sleep(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            Some(Ok(0))
        };
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long)
        -> c_long, |world| match number {
            libc::SYS_bpf => Some(world.bpf(a as u32, b as *mut u8, c as usize)),
            libc::SYS_memfd_create => Some(world.placeholder()),
            libc::SYS_dup3 => Some(world.dup_to(a as i32, b as i32)),
            _ => None,
        };
}

fn time_of(ns: u64) -> timespec {
    timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

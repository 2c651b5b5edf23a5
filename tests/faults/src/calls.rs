//! Replaces functions of libc in a test program. A thread that runs in a [`World`] gets the world's answers, every
//! other thread those of the real host.
//!
//! The linker finds these definitions before libc's, for the agent, libbpf and Rust's own library alike. So the
//! simulation replaces only the system's interface, and the code above it runs unchanged.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{Answer, World};

thread_local! {
    static HERE: Cell<*mut World> = const { Cell::new(null_mut()) };
}

/// Runs `play` on the calling thread inside this world, and returns its result.
pub fn inside<T>(world: &mut World, play: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            HERE.set(null_mut());
        }
    }
    HERE.set(world);
    let _leave = Leave;
    play()
}

/// Calls `act` with the world in which the calling thread runs. `None` if the thread runs in no world, or if the call
/// comes from the world itself.
pub(crate) fn world<T>(act: impl FnOnce(&mut World) -> T) -> Option<T> {
    let here = HERE.try_with(|here| here.replace(null_mut())).ok()?;
    if here.is_null() {
        return None;
    }
    // SAFETY: `inside` holds the world for this thread alone, and no other reference exists while the
    // pointer is taken out.
    let answer = act(unsafe { &mut *here });
    HERE.set(here);
    Some(answer)
}

/// Converts the world's answer into the result of a function of libc: the value, or −1 with errno set.
pub(crate) fn told(answer: Answer) -> i64 {
    answer.unwrap_or_else(|errno| {
        // SAFETY: the address is this thread's own errno.
        unsafe { *libc::__errno_location() = errno };
        -1
    })
}

/// Returns the address of libc's own definition of a function, and stores it in `at`.
pub(crate) fn libcs(at: &AtomicUsize, name: &CStr) -> usize {
    match at.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: a plain look-up of a NUL-terminated name.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
            assert!(found != 0, "libc has {name:?}");
            at.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// Defines functions of libc that return the world's answer. Variadic functions are defined with as many arguments as
/// any caller passes; 64-bit ABIs of Linux pass both kinds alike.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $ret:ty, |$world:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $kind),*) -> $ret {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            #[allow(unused_variables, reason = "each world answers from what it needs")]
            match world(|$world| -> Option<Answer> { $body }).flatten() {
                Some(answer) => told(answer) as $ret,
                None => {
                    let name = concat!(stringify!($name), "\0");
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("a name");
                    let next = libcs(&NEXT, name);
                    let next: unsafe extern "C" fn($($kind),*) -> $ret =
                        // SAFETY: libc's function of this name takes these arguments.
                        unsafe { std::mem::transmute(next) };
                    // SAFETY: the caller promises what libc asks for.
                    unsafe { next($($arg),*) }
                }
            }
        }
    )*};
}

/// Defines functions of libc that return a pointer; after an error it is null and errno is set.
macro_rules! pointer_calls {
    ($($name:ident($arg:ident: $kind:ty) -> $ret:ty, |$world:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($arg: $kind) -> *mut $ret {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            match world(|$world| -> Option<Answer<*mut $ret>> { $body }).flatten() {
                Some(Ok(found)) => found,
                Some(Err(errno)) => {
                    told(Err(errno));
                    null_mut()
                }
                None => {
                    let name = concat!(stringify!($name), "\0");
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("a name");
                    let next = libcs(&NEXT, name);
                    let next: unsafe extern "C" fn($kind) -> *mut $ret =
                        // SAFETY: libc's function of this name takes this argument.
                        unsafe { std::mem::transmute(next) };
                    // SAFETY: the caller promises what libc asks for.
                    unsafe { next($arg) }
                }
            }
        }
    )*};
}

pub(crate) use {calls, pointer_calls};

/// Returns the path at a pointer of the caller, which ends at its zero byte.
pub(crate) fn path(text: *const c_char) -> String {
    // SAFETY: a path of a system call is NUL-terminated.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Returns the bytes of a caller's buffer.
pub(crate) fn bytes<'a>(at: *const c_void, length: usize) -> &'a [u8] {
    // SAFETY: the caller of the system call has so many bytes there.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

/// Copies as many bytes as fit into a caller's buffer of `room` bytes; returns their number.
pub(crate) fn fill(at: *mut c_void, room: usize, from: &[u8]) -> i64 {
    let length = room.min(from.len());
    // SAFETY: the caller of the system call has room for so many bytes there.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at.cast(), length) };
    length as i64
}

/// Writes a value to a pointer of the caller.
pub(crate) fn put<T>(at: *mut T, value: T) -> i64 {
    // SAFETY: the caller of the system call has room for the value there.
    unsafe { at.write_unaligned(value) };
    0
}

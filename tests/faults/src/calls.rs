//! How a test program gets other functions of libc: a thread that plays in a [`World`] gets the
//! world's answers, and every other thread those of the host that the test runs on.
//!
//! The linker finds these definitions before libc's, for the agent, for libbpf and for Rust's own
//! library alike. So nothing below the system's interface is simulated twice, and nothing above it is
//! changed for the test.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{Answer, World};

thread_local! {
    static HERE: Cell<*mut World> = const { Cell::new(null_mut()) };
}

/// Puts the calling thread into this world while `play` runs.
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

/// Calls `act` with the world that the thread plays in; `None` if it plays in none, or if the world
/// itself calls.
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

/// Turns the world's answer into that of a function of libc.
pub(crate) fn told(answer: Answer) -> i64 {
    answer.unwrap_or_else(|errno| {
        // SAFETY: the address is this thread's own errno.
        unsafe { *libc::__errno_location() = errno };
        -1
    })
}

/// Returns the next definition of a function: libc's.
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

/// Defines functions of libc, each with the world's answer. Variadic ones are defined with as many
/// arguments as any caller gives, which 64-bit ABIs of Linux pass alike.
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

/// Defines functions that return a pointer, which is null with an errno.
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

/// Returns the text of a path, which the caller has terminated.
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

/// Copies bytes into a caller's buffer; returns their number.
pub(crate) fn fill(at: *mut c_void, room: usize, from: &[u8]) -> i64 {
    let length = room.min(from.len());
    // SAFETY: the caller of the system call has room for so many bytes there.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at.cast(), length) };
    length as i64
}

/// Writes a value where the caller wants it.
pub(crate) fn put<T>(at: *mut T, value: T) -> i64 {
    // SAFETY: the caller of the system call has room for the value there.
    unsafe { at.write_unaligned(value) };
    0
}

//! Functions of libc that list folders and interfaces, and return pointers to their results.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;

use crate::calls::{fill, libcs, path, pointer_calls, told, world};
use crate::world::{Answer, World};

/// An open folder, which is read entry by entry.
struct Reading {
    names: Vec<String>,
    entry: libc::dirent64,
}

pointer_calls! {
    opendir(name: *const c_char) -> c_void, |world| Some(world.list(&path(name)).map(|mut names| {
        names.reverse();
        // SAFETY: all zeroes are a valid value of plain integers.
        let entry = unsafe { std::mem::zeroed() };
        Box::into_raw(Box::new(Reading { names, entry })).cast()
    }));
    readdir64(folder: *mut c_void) -> libc::dirent64, |world| {
        // SAFETY: the folder was opened above, and nobody else uses it now.
        let reading = unsafe { &mut *folder.cast::<Reading>() };
        Some(world.may_list().map(|()| {
            let Some(name) = reading.names.pop() else {
                // SAFETY: the end is told from an error by errno.
                unsafe { *libc::__errno_location() = 0 };
                return null_mut();
            };
            for (to, from) in reading.entry.d_name.iter_mut().zip(name.bytes().chain([0])) {
                *to = from as c_char;
            }
            &raw mut reading.entry
        }))
    };
}

/// Closes a folder that [`opendir`] opened.
#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(folder: *mut c_void) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if world(|_| ()).is_some() {
        // SAFETY: `opendir` made it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(folder.cast::<Reading>()) });
        return 0;
    }
    let next = libcs(&NEXT, c"closedir");
    // SAFETY: libc's function of this name takes this argument.
    let next: unsafe extern "C" fn(*mut c_void) -> c_int = unsafe { std::mem::transmute(next) };
    // SAFETY: the caller promises what libc asks for.
    unsafe { next(folder) }
}

/// Writes the name of an interface into the caller's buffer.
#[unsafe(no_mangle)]
unsafe extern "C" fn if_indextoname(index: c_uint, to: *mut c_char) -> *mut c_char {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if let Some(found) = world(|world| world.name_of(index)) {
        return match found {
            Ok(name) => {
                let name = format!("{name}\0");
                fill(to.cast(), name.len(), name.as_bytes());
                to
            }
            Err(errno) => {
                told(Err(errno));
                null_mut()
            }
        };
    }
    let next = libcs(&NEXT, c"if_indextoname");
    // SAFETY: libc's function of this name takes these arguments.
    let next: unsafe extern "C" fn(c_uint, *mut c_char) -> *mut c_char =
        unsafe { std::mem::transmute(next) };
    // SAFETY: the caller promises what libc asks for.
    unsafe { next(index, to) }
}

/// A list of interfaces in libc's layout, and the texts of their names, to which it points.
struct Listed {
    list: Vec<libc::if_nameindex>,
    _names: Vec<CString>,
}

thread_local! {
    static LISTS: RefCell<Vec<Listed>> = const { RefCell::new(Vec::new()) };
}

/// Lists the interfaces.
#[unsafe(no_mangle)]
unsafe extern "C" fn if_nameindex() -> *mut libc::if_nameindex {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(found) = world(World::interfaces_now) else {
        let next = libcs(&NEXT, c"if_nameindex");
        // SAFETY: libc's function of this name takes nothing.
        let next: unsafe extern "C" fn() -> *mut libc::if_nameindex =
            unsafe { std::mem::transmute(next) };
        // SAFETY: it asks for nothing.
        return unsafe { next() };
    };
    let found = match found {
        Ok(found) => found,
        Err(errno) => {
            told(Err(errno));
            return null_mut();
        }
    };
    let names: Vec<CString> = found
        .iter()
        .map(|(_, name)| CString::new(name.as_str()).expect("a name has no zero"))
        .collect();
    let entry = |((index, _), name): (&(u32, String), &CString)| libc::if_nameindex {
        if_index: *index,
        if_name: name.as_ptr().cast_mut(),
    };
    let mut list: Vec<_> = found.iter().zip(&names).map(entry).collect();
    list.push(libc::if_nameindex {
        if_index: 0,
        if_name: null_mut(),
    });
    let at = list.as_mut_ptr();
    let listed = Listed {
        list,
        _names: names,
    };
    LISTS.with_borrow_mut(|lists| lists.push(listed));
    at
}

/// Frees a list that [`if_nameindex`] returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn if_freenameindex(list: *mut libc::if_nameindex) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let is_ours = LISTS.with_borrow_mut(|lists| {
        let at = lists
            .iter()
            .position(|own| std::ptr::eq(own.list.as_ptr(), list));
        at.map(|at| lists.swap_remove(at)).is_some()
    });
    if is_ours {
        return;
    }
    let next = libcs(&NEXT, c"if_freenameindex");
    // SAFETY: libc's function of this name takes this argument.
    let next: unsafe extern "C" fn(*mut libc::if_nameindex) = unsafe { std::mem::transmute(next) };
    // SAFETY: the caller promises what libc asks for.
    unsafe { next(list) }
}

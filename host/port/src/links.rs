//! Pinned TCX links: their interfaces, and the replacement of their programs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::direction::Direction;
use crate::error::PortError;

/// Maximum number of programs at one hook of an interface (BPF_MPROG_MAX).
const PROGRAMS_MAX: usize = 64;

/// A BPF link that was opened from its pin.
pub(crate) struct PinnedLink {
    fd: OwnedFd,
    id: u32,
    program: u32,
    /// Index of the link's interface; 0 if the interface is gone.
    ifindex: u32,
}

/// The place where the interface of a BPF link is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In this network namespace, under the index in the pin's name.
    Here,
    /// In another network namespace, under the index in the pin's name.
    Elsewhere,
    /// The interface is gone, or has another index.
    Gone,
}

impl PinnedLink {
    /// Opens a pinned link; `None` if the pin does not exist.
    ///
    /// # Errors
    /// The kernel's refusal, which does not mean that there is no link.
    pub(crate) fn open(path: &Path) -> Result<Option<PinnedLink>, PortError> {
        let failed = |errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            PortError::from_kernel(format!("open {}", path.display()), error)
        };
        let Ok(text) = CString::new(path.as_os_str().as_bytes()) else {
            return Ok(None);
        };
        // SAFETY: a plain system call with a NUL-terminated path.
        let fd = unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) };
        match -fd {
            libc::ENOENT => return Ok(None),
            errno if errno > 0 => return Err(failed(errno)),
            _ => {}
        }
        // SAFETY: the kernel has just returned this descriptor; it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = libbpf_sys::bpf_link_info::default();
        let mut bytes = size_of_val(&info) as u32;
        // SAFETY: the kernel writes at most `bytes` bytes to `info`, which has that size.
        let code =
            unsafe { libbpf_sys::bpf_link_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut bytes) };
        // SAFETY: all of the union's members are plain integers.
        let ifindex = unsafe { info.__bindgen_anon_1.tcx.ifindex };
        match code {
            0 => Ok(Some(PinnedLink {
                fd,
                id: info.id,
                program: info.prog_id,
                ifindex,
            })),
            _ => Err(failed(-code)),
        }
    }

    pub(crate) fn whereabouts(
        &self,
        ifindex: u32,
        direction: Direction,
    ) -> Result<Whereabouts, PortError> {
        if self.ifindex != ifindex {
            return Ok(Whereabouts::Gone);
        }
        match programs_on(ifindex, direction) {
            Ok(placed) if placed.iter().any(|placed| placed.link == self.id) => {
                Ok(Whereabouts::Here)
            }
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => {
                let action = format!("list the programs on port {ifindex}");
                Err(PortError::from_kernel(action, error))
            }
            _ => Ok(Whereabouts::Elsewhere),
        }
    }

    /// Returns the link's number in the kernel.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Detaches the program now; removing the pin alone would do so some time later.
    pub(crate) fn detach(&self) {
        // SAFETY: a plain system call on a descriptor that outlives it.
        let _gone_already = unsafe { libbpf_sys::bpf_link_detach(self.fd.as_raw_fd()) };
    }

    /// Replaces the link's program without a gap: each packet passes the old or the new program. Does nothing if the
    /// interface is gone, and the program with it.
    pub(crate) fn swap(&self, program: BorrowedFd<'_>) -> Result<(), PortError> {
        if program_id(program)? == self.program {
            return Ok(());
        }
        // SAFETY: a plain system call on descriptors that outlive it; options may be absent.
        let code = unsafe {
            libbpf_sys::bpf_link_update(self.fd.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
        };
        match -code {
            0 | libc::ENOLINK => Ok(()),
            errno => Err(PortError::from_kernel(
                format!(
                    "replace the program that is attached to port {}",
                    self.ifindex
                ),
                io::Error::from_raw_os_error(errno),
            )),
        }
    }
}

/// Returns a program's number in the kernel.
pub(crate) fn program_id(program: BorrowedFd<'_>) -> Result<u32, PortError> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `bytes` bytes to `info`, which has that size.
    let code =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut bytes) };
    match code {
        0 => Ok(info.id),
        _ => Err(PortError::from_kernel(
            "read the description of a port's program",
            io::Error::from_raw_os_error(-code),
        )),
    }
}

/// A program at one hook of an interface, attached through TCX.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Kernel's id of the program that is attached.
    pub(crate) program: u32,
    /// Number of the program's link in the kernel; 0 if it was attached without a link.
    pub(crate) link: u32,
}

/// Returns the programs on an interface of the calling thread's network namespace, in the order in which they run;
/// empty where the kernel has no TCX.
pub(crate) fn programs_on(ifindex: u32, direction: Direction) -> io::Result<Vec<Placed>> {
    let mut links = vec![0u32; PROGRAMS_MAX];
    let mut programs = vec![0u32; PROGRAMS_MAX];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: both lists have room for the stated number of ids, and outlive the call.
    let code =
        unsafe { libbpf_sys::bpf_prog_query_opts(ifindex as i32, direction.tcx(), &mut options) };
    match -code {
        libc::EINVAL => return Ok(Vec::new()),
        errno if errno > 0 => return Err(io::Error::from_raw_os_error(errno)),
        _ => {}
    }
    // SAFETY: the member is a plain integer, which the kernel has written.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    let both = programs.into_iter().zip(links).take(count);
    Ok(both
        .map(|(program, link)| Placed { program, link })
        .collect())
}

/// Returns a program's name, and when it was loaded, in nanoseconds since the host's start; `None` if
/// the kernel does not tell this process, or the program is gone.
pub(crate) fn program_info(id: u32) -> Option<(String, u64)> {
    // SAFETY: a plain system call.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `bytes` bytes to `info`, which has that size.
    let code =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut bytes) };
    let name = info.name.iter().map(|&byte| byte as u8);
    let name: Vec<u8> = name.take_while(|&byte| byte != 0).collect();
    let name = String::from_utf8_lossy(&name).into_owned();
    (code == 0).then_some((name, info.load_time))
}

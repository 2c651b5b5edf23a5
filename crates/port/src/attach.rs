//! One program on one port: by TCX (Linux 6.6 on), or by a clsact filter before that.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};

use crate::error::PortError;
use crate::programs::Programs;

/// Which way the segments go that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Guest → network: ingress of the host's side of the port.
    FromGuest,
    /// Network → guest: egress of the host's side of the port.
    ToGuest,
}

impl Direction {
    /// Both, in the order in which they are attached.
    pub const BOTH: [Direction; 2] = [Direction::FromGuest, Direction::ToGuest];

    /// File name of the pins.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Direction::FromGuest => "from_guest",
            Direction::ToGuest => "to_guest",
        }
    }
}

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachVia {
    /// TCX if the kernel has it, else clsact.
    #[default]
    Auto,
    /// TCX or fail.
    Tcx,
    /// A filter on a clsact qdisc.
    Clsact,
}

/// Handle and priority of our clsact filter: fixed, so that it can be replaced in place and found
/// again by a later process.
const CLSACT_HANDLE: u32 = 1;
const CLSACT_PRIORITY: u32 = 0x7563;

/// One program on one port. Dropping it detaches, unless it was pinned.
#[derive(Debug)]
pub enum Link {
    /// The kernel's own link; it goes with its last descriptor or pin.
    Tcx(OwnedFd),
    /// A filter, to be removed by name.
    Clsact(ClsactFilter),
}

/// Both directions of one port.
#[derive(Debug)]
pub struct PortLinks {
    /// Guest → network.
    pub from_guest: Link,
    /// Network → guest.
    pub to_guest: Link,
}

impl Programs {
    /// Attaches both programs to the interface with this index in the calling thread's network
    /// namespace. A failure leaves nothing attached.
    pub fn attach(&self, ifindex: u32, via: AttachVia) -> Result<PortLinks, PortError> {
        Ok(PortLinks {
            from_guest: self.attach_one(ifindex, Direction::FromGuest, via)?,
            to_guest: self.attach_one(ifindex, Direction::ToGuest, via)?,
        })
    }

    fn attach_one(
        &self,
        ifindex: u32,
        direction: Direction,
        via: AttachVia,
    ) -> Result<Link, PortError> {
        if via == AttachVia::Clsact {
            return self.attach_clsact(ifindex, direction);
        }
        match self.attach_tcx(ifindex, direction) {
            Ok(link) => Ok(Link::Tcx(link)),
            // A kernel before 6.6 doesn't know the attach type.
            Err(error) if via == AttachVia::Auto && error.raw_os_error() == Some(libc::EINVAL) => {
                self.attach_clsact(ifindex, direction)
            }
            Err(error) => Err(PortError::from_kernel(
                format!("attach to port {ifindex} by TCX"),
                error,
            )),
        }
    }

    fn attach_tcx(&self, ifindex: u32, direction: Direction) -> io::Result<OwnedFd> {
        let kind = match direction {
            Direction::FromGuest => libbpf_sys::BPF_TCX_INGRESS,
            Direction::ToGuest => libbpf_sys::BPF_TCX_EGRESS,
        };
        // SAFETY: a plain system call on a descriptor that lives through it; no options.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(
                self.program(direction).as_raw_fd(),
                ifindex as i32,
                kind,
                std::ptr::null(),
            )
        };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just given us this descriptor; nobody else holds it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn attach_clsact(&self, ifindex: u32, direction: Direction) -> Result<Link, PortError> {
        let action = || format!("attach to port {ifindex} by clsact");
        let program = self
            .program(direction)
            .try_clone_to_owned()
            .map_err(|error| PortError::from_kernel(action(), error))?;
        clsact_hook(program.as_fd(), ifindex, direction)
            .create()
            .and_then(|mut hook| hook.attach())
            .map_err(|error| PortError::from_libbpf(action(), &error))?;
        Ok(Link::Clsact(ClsactFilter {
            program,
            ifindex,
            direction,
            detach_on_drop: true,
        }))
    }

    /// Removes this port's clsact filters, whoever set them; fine if there are none.
    pub(crate) fn detach_clsact(&self, ifindex: u32) {
        for direction in Direction::BOTH {
            let mut hook = clsact_hook(self.program(direction), ifindex, direction);
            if hook.query().is_ok() {
                let _gone_already = hook.detach();
            }
        }
    }

    /// Has this port our clsact filters?
    pub(crate) fn has_clsact(&self, ifindex: u32) -> bool {
        clsact_hook(
            self.program(Direction::FromGuest),
            ifindex,
            Direction::FromGuest,
        )
        .query()
        .is_ok()
    }
}

fn clsact_hook(program: BorrowedFd<'_>, ifindex: u32, direction: Direction) -> TcHook {
    let point = match direction {
        Direction::FromGuest => TC_INGRESS,
        Direction::ToGuest => TC_EGRESS,
    };
    TcHookBuilder::new(program)
        .ifindex(ifindex as i32)
        .replace(true)
        .handle(CLSACT_HANDLE)
        .priority(CLSACT_PRIORITY)
        .hook(point)
}

/// A filter on a clsact qdisc. The qdisc itself stays: others may have filters on it.
#[derive(Debug)]
pub struct ClsactFilter {
    program: OwnedFd,
    ifindex: u32,
    direction: Direction,
    detach_on_drop: bool,
}

impl ClsactFilter {
    /// Leaves the filter in place when this value goes.
    pub(crate) fn keep(&mut self) {
        self.detach_on_drop = false;
    }
}

impl Drop for ClsactFilter {
    fn drop(&mut self) {
        if self.detach_on_drop {
            // Fails only where the interface has gone, and the filter with it.
            let program = self.program.as_fd();
            let _gone_already = clsact_hook(program, self.ifindex, self.direction).detach();
        }
    }
}

//! Attaches one program to one port: by TCX (Linux 6.6 and later), otherwise by a clsact filter.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};

use crate::direction::Direction;
use crate::error::PortError;
use crate::programs::Programs;
use crate::qdisc;
use crate::refusal::silence_libbpf;

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachVia {
    /// TCX if the kernel has it, otherwise clsact.
    #[default]
    Auto,
    /// TCX only.
    Tcx,
    /// A filter on a clsact qdisc.
    Clsact,
}

/// Position of a program relative to the port's own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The port's own programs: after all programs that are attached already.
    Port,
    /// A program that processes a packet before the port's own do, whichever is attached first.
    BeforePort,
}

impl Order {
    /// Returns the priority of the clsact filter; a lower one runs first.
    fn clsact_priority(self) -> u32 {
        match self {
            Order::Port => 0x7563,
            Order::BeforePort => 0x7562,
        }
    }

    fn tcx_flags(self) -> u32 {
        match self {
            Order::Port => 0,
            Order::BeforePort => libbpf_sys::BPF_F_BEFORE,
        }
    }
}

/// Handle of our clsact filters. Like their priorities it is fixed, so that a later process can
/// find each filter and replace it in place.
const CLSACT_HANDLE: u32 = 1;

/// Maximum number of attempts to add a filter if its qdisc disappears each time.
const TRIES: usize = 3;

/// One program on one port. Dropping it detaches the program, unless it was pinned.
#[derive(Debug)]
pub enum Link {
    /// The kernel's own link; it ends with its last descriptor or pin.
    Tcx(OwnedFd),
    /// A filter, which is removed by handle and priority.
    Clsact(ClsactFilter),
}

/// Both programs of one port.
#[derive(Debug)]
pub struct PortLinks {
    /// The program for guest → network.
    pub from_guest: Link,
    /// The program for network → guest.
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
        attach_program(
            self.program(direction),
            ifindex,
            direction,
            via,
            Order::Port,
        )
    }

    /// Replaces the programs of the port's clsact filters by these: every packet passes one or the
    /// other.
    pub(crate) fn swap_clsact(&self, ifindex: u32) -> Result<(), PortError> {
        for direction in Direction::BOTH {
            match self.attach_one(ifindex, direction, AttachVia::Clsact)? {
                Link::Clsact(mut filter) => filter.keep(),
                Link::Tcx(_) => {}
            }
        }
        Ok(())
    }
}

/// Removes this port's clsact filters, whichever process added them, and the qdisc if it is ours
/// and has no other filter; succeeds if there are none.
pub(crate) fn detach_clsact(ifindex: u32) {
    for direction in Direction::BOTH {
        let mut hook = clsact_place(ifindex, direction);
        if hook.query().is_ok() {
            let _gone_already = hook.detach();
        }
    }
    let _gone_already = qdisc::remove_if_ours_and_empty(ifindex);
}

/// Returns how many of our two clsact filters this port has, of any version.
pub(crate) fn clsact_filters(ifindex: u32) -> usize {
    let has = |direction: &&Direction| clsact_place(ifindex, **direction).query().is_ok();
    Direction::BOTH.iter().filter(has).count()
}

/// Returns the place of a port's own filter, to query or remove it.
fn clsact_place(ifindex: u32, direction: Direction) -> TcHook {
    silence_libbpf();
    // libbpf queries and removes by place alone: this descriptor replaces a program's.
    let nothing = io::stdin();
    clsact_hook(nothing.as_fd(), ifindex, direction, Order::Port)
}

/// Attaches a program other than the port's own two to the interface with this index in the calling
/// thread's network namespace.
///
/// # Errors
/// The kernel's refusal, and the remedy.
pub fn attach_program(
    program: BorrowedFd<'_>,
    ifindex: u32,
    direction: Direction,
    via: AttachVia,
    order: Order,
) -> Result<Link, PortError> {
    if via == AttachVia::Clsact {
        return attach_clsact(program, ifindex, direction, order);
    }
    match attach_tcx(program, ifindex, direction, order) {
        Ok(link) => Ok(Link::Tcx(link)),
        // Kernels before 6.6 don't know the attach type.
        Err(error) if via == AttachVia::Auto && error.raw_os_error() == Some(libc::EINVAL) => {
            attach_clsact(program, ifindex, direction, order)
        }
        Err(error) => Err(PortError::from_kernel(
            format!("attach to port {ifindex} by TCX"),
            error,
        )),
    }
}

fn attach_tcx(
    program: BorrowedFd<'_>,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: order.tcx_flags(),
        ..Default::default()
    };
    // SAFETY: a plain system call on a descriptor that outlives it, as do the options.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            direction.tcx(),
            &raw const options,
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach_clsact(
    program: BorrowedFd<'_>,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> Result<Link, PortError> {
    let action = || format!("attach to port {ifindex} by clsact");
    let program = program
        .try_clone_to_owned()
        .map_err(|error| PortError::from_kernel(action(), error))?;
    let mut tries = 0..TRIES;
    loop {
        tries.next();
        qdisc::ensure(ifindex).map_err(|error| PortError::from_kernel(action(), error))?;
        match clsact_hook(program.as_fd(), ifindex, direction, order).attach() {
            Ok(_) => break,
            // Another process may have removed the last of its filters meanwhile, and the qdisc
            // with it.
            Err(error) if is_invalid(&error) && !tries.is_empty() => {}
            Err(error) => return Err(PortError::from_libbpf(action(), &error)),
        }
    }
    Ok(Link::Clsact(ClsactFilter {
        program,
        ifindex,
        direction,
        order,
        detach_on_drop: true,
    }))
}

fn is_invalid(error: &libbpf_rs::Error) -> bool {
    error.kind() == libbpf_rs::ErrorKind::InvalidInput
}

fn clsact_hook(
    program: BorrowedFd<'_>,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> TcHook {
    let point = match direction {
        Direction::FromGuest => TC_INGRESS,
        Direction::ToGuest => TC_EGRESS,
    };
    TcHookBuilder::new(program)
        .ifindex(ifindex as i32)
        .replace(true)
        .handle(CLSACT_HANDLE)
        .priority(order.clsact_priority())
        .hook(point)
}

/// A filter on a clsact qdisc. Removing the filter leaves the qdisc if another process created it
/// or it has other filters.
#[derive(Debug)]
pub struct ClsactFilter {
    program: OwnedFd,
    ifindex: u32,
    direction: Direction,
    order: Order,
    detach_on_drop: bool,
}

impl ClsactFilter {
    /// Keeps the filter attached when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.detach_on_drop = false;
    }
}

impl Drop for ClsactFilter {
    fn drop(&mut self) {
        if self.detach_on_drop {
            // Removal fails only if the interface is gone, and the filter with it.
            let program = self.program.as_fd();
            let mut hook = clsact_hook(program, self.ifindex, self.direction, self.order);
            let _gone_already = hook.detach();
            let _gone_already = qdisc::remove_if_ours_and_empty(self.ifindex);
        }
    }
}

//! One program on one port: by TCX (Linux 6.6 on), or by a clsact filter before that.

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
    /// TCX if the kernel has it, else clsact.
    #[default]
    Auto,
    /// TCX or fail.
    Tcx,
    /// A filter on a clsact qdisc.
    Clsact,
}

/// Which of our programs on a port comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The port's own programs: after whatever is there already.
    Port,
    /// A program that sees a packet before the port's own do, whichever is attached first.
    BeforePort,
}

impl Order {
    /// Returns the clsact filter's priority; a lower one runs first.
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

/// Handle of our clsact filters: fixed as their priorities are, so that each can be replaced in
/// place and found again by a later process.
const CLSACT_HANDLE: u32 = 1;

/// How often a filter is tried whose qdisc is gone each time.
const TRIES: usize = 3;

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
        attach_program(
            self.program(direction),
            ifindex,
            direction,
            via,
            Order::Port,
        )
    }

    /// Puts these programs in the place of those that the port's clsact filters have: every packet
    /// sees one or the other.
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

/// Removes this port's clsact filters, whoever set them, and the qdisc if it is ours and nothing
/// else is on it; fine if there are none.
pub(crate) fn detach_clsact(ifindex: u32) {
    for direction in Direction::BOTH {
        let mut hook = clsact_place(ifindex, direction);
        if hook.query().is_ok() {
            let _gone_already = hook.detach();
        }
    }
    let _gone_already = qdisc::remove_if_ours_and_empty(ifindex);
}

/// Returns how many of the port's two clsact filters, of any version, this port has.
pub(crate) fn clsact_filters(ifindex: u32) -> usize {
    let has = |direction: &&Direction| clsact_place(ifindex, **direction).query().is_ok();
    Direction::BOTH.iter().filter(has).count()
}

/// Returns the place of a port's own filter, to query or to remove it.
fn clsact_place(ifindex: u32, direction: Direction) -> TcHook {
    silence_libbpf();
    // libbpf asks and removes by place alone: this stands for a program that is none.
    let nothing = io::stdin();
    clsact_hook(nothing.as_fd(), ifindex, direction, Order::Port)
}

/// Attaches a program that is none of the port's own two to the interface with this index in the
/// calling thread's network namespace.
///
/// # Errors
/// What the kernel refused, and the remedy.
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
        // A kernel before 6.6 doesn't know the attach type.
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
    // SAFETY: a plain system call on a descriptor that lives through it; the options do too.
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
    // SAFETY: the kernel has just given us this descriptor; nobody else holds it.
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
            // The last of another process's filters may have gone meanwhile, and the qdisc with it.
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

/// A filter on a clsact qdisc. The qdisc itself stays where it is another's or others have filters
/// on it.
#[derive(Debug)]
pub struct ClsactFilter {
    program: OwnedFd,
    ifindex: u32,
    direction: Direction,
    order: Order,
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
            let mut hook = clsact_hook(program, self.ifindex, self.direction, self.order);
            let _gone_already = hook.detach();
            let _gone_already = qdisc::remove_if_ours_and_empty(self.ifindex);
        }
    }
}

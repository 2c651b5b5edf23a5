//! Attaches one program to one port: by TCX (Linux 6.6 and later), otherwise by a clsact filter.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};

use crate::direction::Direction;
use crate::error::PortError;
use crate::interfaces::{check_ethernet, interface_name};
use crate::order::Order;
use crate::programs::Programs;
use crate::qdisc;
use crate::refusal::silence_libbpf;

/// Kernel interface through which programs are attached to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachVia {
    /// TCX if the kernel has it, otherwise clsact.
    #[default]
    Auto,
    /// TCX only, which Linux 6.6 and later have.
    Tcx,
    /// A filter on a clsact qdisc, on every kernel.
    Clsact,
}

/// Priority and handle of a clsact filter. Both are fixed, so that a later process can find each
/// filter and replace it in place.
type Place = (u32, u32);

/// Places of the port's filters. The first two are before most others; the second is for a hook where another kind of
/// filter has the first one's priority. The last is behind filters with small priorities, but before those whose
/// priority the kernel chooses (0xc000 and below).
const PORT_PLACES: [Place; 3] = [(2, 0x7563), (3, 0x7563), (0x7563, 1)];
const BEFORE_PLACES: [Place; 2] = [(1, 0x7562), (2, 0x7562)];

impl Order {
    /// Returns the places for the clsact filter, in the order in which they are tried.
    fn places(self) -> &'static [Place] {
        match self {
            Order::Gate | Order::BeforePort => &BEFORE_PLACES,
            Order::Port => &PORT_PLACES,
            Order::PortLast | Order::Hold => &PORT_PLACES[2..],
        }
    }
}

/// Returns whether a filter is a port's own.
pub(crate) fn is_own_filter(filter: &qdisc::Filter) -> bool {
    filter.kind == "bpf" && PORT_PLACES.contains(&(filter.priority, filter.handle))
}

/// Maximum number of attempts to add a filter if its qdisc disappears each time.
const TRIES: usize = 3;

/// Maximum time for which an attempt waits until a former program leaves the hook, which takes a program only once;
/// next line: interval of the tries. The kernel ends a link some time after its pin was removed, on a busy machine
/// much later.
const LEFT_MOST: Duration = Duration::from_secs(1);
const LEFT_POLL: Duration = Duration::from_millis(5);

/// One program on one port. Dropping it detaches the program, unless it was pinned.
#[derive(Debug)]
pub enum Link {
    /// The kernel's own link; it ends with its last descriptor or pin.
    Tcx(OwnedFd),
    /// A filter, which is removed by handle and priority.
    Clsact(ClsactFilter),
}

/// The links of a port's two programs, one for each direction.
#[derive(Debug)]
pub struct PortLinks {
    /// The program that sees packets from the guest to the network.
    pub from_guest: Link,
    /// The program that sees packets from the network to the guest.
    pub to_guest: Link,
}

impl Programs {
    /// Attaches both programs to the interface with this index in the calling thread's network
    /// namespace, before the programs of others. A failure leaves nothing attached.
    pub fn attach(&self, ifindex: u32, via: AttachVia) -> Result<PortLinks, PortError> {
        self.attach_in(ifindex, via, Order::Port)
    }

    pub(crate) fn attach_in(
        &self,
        ifindex: u32,
        via: AttachVia,
        order: Order,
    ) -> Result<PortLinks, PortError> {
        let one =
            |direction| attach_program(self.program(direction), ifindex, direction, via, order);
        // the answer to the first SYN that is seen must be seen, too
        let to_guest = one(Direction::ToGuest)?;
        Ok(PortLinks {
            from_guest: one(Direction::FromGuest)?,
            to_guest,
        })
    }

    /// Replaces the programs of the port's clsact filters by these, without a gap: each packet passes the old or the
    /// new program.
    pub(crate) fn swap_clsact(&self, ifindex: u32) -> Result<(), PortError> {
        for direction in Direction::BOTH {
            for place in places_taken(ifindex, direction)? {
                let program = self.program(direction);
                clsact_hook(program, ifindex, direction, place)
                    .attach()
                    .map_err(|error| {
                        PortError::from_libbpf(
                            format!("attach to port {ifindex} by clsact"),
                            &error,
                        )
                    })?;
            }
        }
        Ok(())
    }
}

/// Removes this port's clsact filters, whichever process added them, and the qdisc if it is ours
/// and has no other filter; succeeds if there are none.
///
/// # Errors
/// The kernel's refusal to list or to remove a filter, which is attached still.
pub(crate) fn detach_clsact(ifindex: u32) -> Result<(), PortError> {
    silence_libbpf();
    // libbpf removes by place alone: this descriptor replaces a program's.
    let nothing = io::stdin();
    for direction in Direction::BOTH {
        for place in places_taken(ifindex, direction)? {
            let mut hook = clsact_hook(nothing.as_fd(), ifindex, direction, place);
            if let Err(error) = hook.detach()
                && places_taken(ifindex, direction)?.contains(&place)
            {
                let action = format!("detach from port {ifindex} by clsact");
                return Err(PortError::from_libbpf(action, &error));
            }
        }
    }
    // The qdisc harms nobody if it stays.
    let _gone_already = qdisc::remove_if_ours_and_empty(ifindex);
    Ok(())
}

/// Returns the number of directions, 0 to 2, in which this port has a clsact filter of Undercurrent's, of any version;
/// 0 if the port is gone.
///
/// # Errors
/// The kernel's refusal to list the filters.
pub(crate) fn clsact_filters(ifindex: u32) -> Result<usize, PortError> {
    let mut found = 0;
    for direction in Direction::BOTH {
        found += usize::from(!places_taken(ifindex, direction)?.is_empty());
    }
    Ok(found)
}

/// Returns the places where this hook has a filter of the port's own.
fn places_taken(ifindex: u32, direction: Direction) -> Result<Vec<Place>, PortError> {
    let failed =
        |error| PortError::from_kernel(format!("list the filters of port {ifindex}"), error);
    let filters = qdisc::filters(ifindex, direction).map_err(failed)?;
    let own = filters.iter().filter(|filter| is_own_filter(filter));
    Ok(own.map(|filter| (filter.priority, filter.handle)).collect())
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
    check_ethernet(ifindex)?;
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
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let (flags, relative_id) = order.in_tcx(ifindex, direction)?;
    options.flags = flags;
    options.__bindgen_anon_1.tcx.relative_id = relative_id;
    let until = Instant::now() + LEFT_MOST;
    let fd = loop {
        // SAFETY: a plain system call on a descriptor that outlives it, as do the options.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(
                program.as_raw_fd(),
                ifindex as i32,
                direction.tcx(),
                &raw const options,
            )
        };
        if fd != -libc::EEXIST || Instant::now() > until {
            break fd;
        }
        thread::sleep(LEFT_POLL);
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
    let mut tries = (0..TRIES).flat_map(|_| order.places()).peekable();
    let place = loop {
        let place = *tries.next().unwrap_or(&PORT_PLACES[2]);
        let other = qdisc::ensure(ifindex);
        if let Some(kind) = other.map_err(|error| PortError::from_kernel(action(), error))? {
            let name = interface_name(ifindex);
            return Err(PortError::Other(format!(
                "port {name}: a qdisc '{kind}' is in the place of clsact, as rate limits of \
                 libvirt and Proxmox put it there, and has no hook towards the guest; remove the \
                 limit (`tc qdisc del dev {name} {kind}`), or use Linux 6.6 or newer without --via \
                 clsact"
            )));
        }
        match clsact_hook(program.as_fd(), ifindex, direction, place).attach() {
            Ok(_) => break place,
            // Another kind of filter has this priority. Or another process has removed the last of
            // its filters meanwhile, and the qdisc with it.
            Err(error) if is_invalid(&error) && tries.peek().is_some() => {}
            Err(error) => return Err(PortError::from_libbpf(action(), &error)),
        }
    };
    Ok(Link::Clsact(ClsactFilter {
        program,
        ifindex,
        direction,
        place,
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
    (priority, handle): Place,
) -> TcHook {
    let point = match direction {
        Direction::FromGuest => TC_INGRESS,
        Direction::ToGuest => TC_EGRESS,
    };
    TcHookBuilder::new(program)
        .ifindex(ifindex as i32)
        .replace(true)
        .handle(handle)
        .priority(priority)
        .hook(point)
}

/// A filter on a clsact qdisc. Removing the filter leaves the qdisc if another process created it
/// or it has other filters.
#[derive(Debug)]
pub struct ClsactFilter {
    program: OwnedFd,
    ifindex: u32,
    direction: Direction,
    place: Place,
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
            let mut hook = clsact_hook(program, self.ifindex, self.direction, self.place);
            let _gone_already = hook.detach();
            let _gone_already = qdisc::remove_if_ours_and_empty(self.ifindex);
        }
    }
}

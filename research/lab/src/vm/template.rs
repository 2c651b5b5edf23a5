//! A booted VM whose memory every guest starts from: a boot takes four seconds of a CPU, a copy a quarter of a second.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::load::GoOn;
use crate::netns::Namespace;
use crate::tap::Tap;
use crate::vm::accel::{self, Accel};
use crate::vm::error::{VmError, resource};
use crate::vm::image::{Image, Programs};
use crate::vm::kernel::Kernel;
use crate::vm::machine::{Connections, Machine};
use crate::vm::monitor::Monitor;
use crate::vm::qemu::{self, Incoming, Shape};
use crate::vm::series::slowdown;

/// Time limit for a boot, which takes four seconds on an idle host and three times that on a busy
/// one.
const BOOT_BOUND: Duration = Duration::from_secs(120);
/// Time limit for a boot under KVM, which takes one second; a nested KVM that hangs never boots.
const KVM_BOUND: Duration = Duration::from_secs(8);
/// Time limit for a copy, which takes a quarter of a second.
const COPY_BOUND: Duration = Duration::from_secs(60);
/// Interval at which a VM's socket is looked for.
const SOCKET_LOOK: Duration = Duration::from_millis(5);
/// Link-layer address of the VM that is copied; each copy gets its own.
const MAC: [u8; 6] = [0x02, 0x75, 0x63, 0xff, 0xff, 0xff];

/// A booted VM's memory.
#[derive(Debug)]
pub struct Template {
    image: Image,
    accel: Accel,
    tsc_khz: u64,
    shape: Shape,
    memory: OwnedFd,
}

/// The connections of a new VM.
#[derive(Debug, Clone, Copy, Default)]
pub struct Links<'a> {
    /// Tap that is the VM's `eth0`; `None`: its interface leads nowhere.
    pub tap: Option<&'a OwnedFd>,
    /// Path where QEMU creates a socket to the guest's `/dev/virtio-ports/uc.ccc`; `None`: no socket.
    pub coupling: Option<&'a Path>,
}

/// Checks that guests of these series can be booted on this host, as far as possible without
/// booting.
///
/// # Errors
/// The first missing thing, with its remedy.
pub fn check<'a>(series: impl IntoIterator<Item = &'a str>) -> Result<(), VmError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(VmError::Architecture);
    }
    qemu::find()?;
    series
        .into_iter()
        .try_for_each(|series| Kernel::find(series).map(drop))
}

impl Template {
    /// Boots the series' kernel with these programs inside. With `offload`, segments longer than a frame may cross the
    /// VM's interface.
    ///
    /// # Errors
    /// [`VmError::Refused`] without QEMU, without the kernel, or, with the end of the console, when the VM does not
    /// boot.
    pub fn boot(series: &str, programs: &Programs, offload: bool) -> Result<Self, VmError> {
        Self::boot_while(series, programs, offload, &|| Ok(()))
    }

    /// Boots like [`Template::boot`], until `go_on` returns an error.
    ///
    /// # Errors
    /// As [`Template::boot`], and the error of `go_on`.
    pub fn boot_while(
        series: &str,
        programs: &Programs,
        offload: bool,
        go_on: GoOn<'_>,
    ) -> Result<Self, VmError> {
        Self::boot_wide(series, programs, Shape::narrow(offload), go_on)
    }

    /// Boots like [`Template::boot_while`], with any number of CPUs; stalls take away only the first CPU.
    ///
    /// # Errors
    /// As [`Template::boot_while`].
    pub fn boot_wide(
        series: &str,
        programs: &Programs,
        shape: Shape,
        go_on: GoOn<'_>,
    ) -> Result<Self, VmError> {
        check([series])?;
        let image = Image::build(Kernel::find(series)?, programs)?;
        Self::boot_image(image, shape, go_on)
    }

    fn boot_image(image: Image, shape: Shape, go_on: GoOn<'_>) -> Result<Self, VmError> {
        let tsc_khz = accel::tsc_khz();
        let mut failure = None;
        let candidates = match shape.translated {
            true => vec![Accel::Tcg],
            false => Accel::candidates(),
        };
        for accel in candidates {
            match boot_and_save(&image, (accel, tsc_khz), shape, go_on) {
                Ok(memory) => {
                    if accel == Accel::Tcg && failure.is_some() {
                        accel::remember_that_kvm_hangs();
                    }
                    return Ok(Self {
                        image,
                        accel,
                        tsc_khz,
                        shape,
                        memory,
                    });
                }
                // The caller has cancelled, or the kernel has reported a fault.
                Err(error @ (VmError::Lab(_) | VmError::Harmed { .. })) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(VmError::Architecture))
    }

    /// Returns the executor of the copies' instructions.
    pub fn accel(&self) -> Accel {
        self.accel
    }

    /// Returns the kernel that was booted.
    pub fn kernel(&self) -> &Kernel {
        &self.image.kernel
    }

    /// Starts a copy without waiting; see [`Template::settle`].
    ///
    /// # Errors
    /// QEMU can't be started, or [`VmError::Resource`].
    pub fn start(&self, node: &str, links: Links<'_>) -> Result<Machine, VmError> {
        let memory = again(&self.memory).map_err(resource("open a machine's memory"))?;
        self.continue_from(Incoming::Memory(&memory), node, links)
    }

    /// Starts a VM that waits at this socket, which it makes, for the guest of a copy
    /// ([`Machine::migrate`]).
    ///
    /// # Errors
    /// QEMU can't be started, or [`VmError::Resource`].
    pub fn awaiting(
        &self,
        socket: &Path,
        node: &str,
        links: Links<'_>,
    ) -> Result<Machine, VmError> {
        let machine = self.continue_from(Incoming::Socket(socket), node, links)?;
        let started = Instant::now();
        while !socket.exists() {
            if started.elapsed() > COPY_BOUND {
                return Err(resource("wait for a VM's migration socket")(
                    io::ErrorKind::TimedOut.into(),
                ));
            }
            std::thread::sleep(SOCKET_LOOK);
        }
        Ok(machine)
    }

    fn continue_from(
        &self,
        incoming: Incoming<'_>,
        node: &str,
        links: Links<'_>,
    ) -> Result<Machine, VmError> {
        let nowhere;
        let tap = match links.tap {
            Some(tap) => tap,
            None => {
                nowhere = tap_to_nowhere(self.shape.offload)?;
                &nowhere
            }
        };
        let connections = Connections {
            tap,
            mac: MAC,
            shape: self.shape,
            coupling: links.coupling,
            incoming: Some(incoming),
        };
        Machine::start(node, &self.image, (self.accel, self.tsc_khz), connections)
    }

    /// Waits until a copy's agent answers, or until `go_on` returns an error.
    ///
    /// # Errors
    /// The VM does not boot, or the error of `go_on`.
    pub fn settle(&self, machine: &mut Machine, go_on: GoOn<'_>) -> Result<(), VmError> {
        let bound = COPY_BOUND * slowdown(&self.image.kernel.series);
        machine.wait_ready(bound, go_on)
    }

    /// Starts a copy and waits until it answers.
    ///
    /// # Errors
    /// As [`Template::start`] and [`Template::settle`].
    pub fn machine(&self, node: &str, links: Links<'_>) -> Result<Machine, VmError> {
        let mut machine = self.start(node, links)?;
        self.settle(&mut machine, &|| Ok(()))?;
        Ok(machine)
    }
}

fn boot_and_save(
    image: &Image,
    (accel, tsc_khz): (Accel, u64),
    shape: Shape,
    go_on: GoOn<'_>,
) -> Result<OwnedFd, VmError> {
    let tap = tap_to_nowhere(shape.offload)?;
    let connections = Connections {
        tap: &tap,
        mac: MAC,
        shape,
        coupling: None,
        incoming: None,
    };
    let node = "the template";
    let mut machine = Machine::start(node, image, (accel, tsc_khz), connections)?;
    let bound = match accel {
        Accel::Kvm => KVM_BOUND,
        Accel::Tcg => BOOT_BOUND,
    };
    machine.wait_ready(bound * slowdown(&image.kernel.series), go_on)?;
    // A copy has a console of its own.
    machine.check_unharmed()?;
    let memory = memfd_create(c"uc-machine", MFdFlags::MFD_CLOEXEC)
        .map_err(|errno| resource("keep a machine in memory")(errno.into()))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    Monitor::open(&mut machine.monitor, node)?.save(&path)?;
    Ok(memory)
}

/// Creates a tap in a namespace that ends with it.
fn tap_to_nowhere(offload: bool) -> Result<OwnedFd, VmError> {
    let namespace = Namespace::new("a machine without a network")?;
    Ok(Tap::for_machine(&namespace, "tap0", offload)?.into())
}

/// Reopens the memory at its beginning: a duplicate of the descriptor would share its position.
fn again(memory: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let file: File = OpenOptions::new().read(true).open(path)?;
    Ok(file.into())
}

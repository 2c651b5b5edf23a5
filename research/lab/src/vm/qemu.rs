//! QEMU's command line and its process. The parameters of the VM were found by trial: without
//! `pit` a microvm never boots, and without `tsc_early_khz` some boots hang.
//!
//! Nothing has a name: archive, console and memory are descriptors, the channels are socket pairs,
//! and the process dies with the thread that started it, however that ends.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::vm::accel::Accel;
use crate::vm::error::VmError;
use crate::vm::image::{INIT, Image};

/// QEMU's program.
const QEMU: &str = "qemu-system-x86_64";
/// Nice value of QEMU: before user programs and daemons, after the network's real-time thread.
const PRIORITY: i32 = -15;

/// The name of the control channel's port in the guest.
pub const CONTROL_PORT: &str = "uc.ctl";
/// The name of the port to the host's coupling, in the guest `/dev/virtio-ports/uc.ccc`.
pub const COUPLING_PORT: &str = "uc.ccc";

/// The shape of a VM.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Whether segments longer than a frame may cross the VM's interface.
    pub offload: bool,
    /// Number of CPUs.
    pub processors: u8,
    /// Whether one thread executes all emulated CPUs in turn; see [`Accel::arguments`]. Then the CPUs can't be stopped
    /// one by one.
    pub in_turn: bool,
    /// Whether QEMU translates the guest's instructions even where KVM could run them.
    pub translated: bool,
}

impl Shape {
    /// Returns a VM of one CPU.
    pub fn narrow(offload: bool) -> Self {
        Self {
            offload,
            processors: 1,
            in_turn: false,
            translated: false,
        }
    }
}

/// The connections of a VM.
#[derive(Debug)]
pub(crate) struct Wires<'a> {
    /// Tap that is the VM's network; for a VM without a network, a tap that leads nowhere.
    pub tap: &'a OwnedFd,
    /// Link-layer address at boot.
    pub mac: [u8; 6],
    /// Shape of the VM.
    pub shape: Shape,
    /// Path of the socket that QEMU creates for clients of the guest's coupling port; `None`: no socket.
    pub coupling: Option<&'a Path>,
    /// QEMU's end of the control channel.
    pub control: &'a OwnedFd,
    /// QEMU's end of the monitor channel.
    pub monitor: &'a OwnedFd,
    /// Output of the console.
    pub console: &'a OwnedFd,
    /// VM to continue from; `None`: the VM boots.
    pub incoming: Option<Incoming<'a>>,
}

/// The source of the state from which QEMU continues a VM that ran before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Incoming<'a> {
    /// A file with its memory.
    Memory(&'a OwnedFd),
    /// The QEMU process that runs it, which will connect to this socket.
    Socket(&'a Path),
}

impl Incoming<'_> {
    /// Returns the value of QEMU's option `-incoming`.
    fn uri(self) -> String {
        match self {
            Incoming::Memory(memory) => format!("fd:{}", memory.as_raw_fd()),
            Incoming::Socket(path) => format!("unix:{}", path.display()),
        }
    }
}

/// Finds QEMU on PATH.
///
/// # Errors
/// When it is missing, with the package.
pub fn find() -> Result<PathBuf, VmError> {
    crate::need::find(QEMU).ok_or_else(|| {
        VmError::Refused(format!(
            "`{QEMU}` is not on PATH: install the package qemu-system-x86 (scripts/bootstrap vm)"
        ))
    })
}

/// Starts QEMU. It dies when the calling thread ends: a VM belongs to the thread that made it.
pub(crate) fn spawn(
    node: &str,
    image: &Image,
    accel: Accel,
    tsc_khz: u64,
    wires: &Wires<'_>,
) -> Result<Child, VmError> {
    let mut command = Command::new(find()?);
    command
        .args(accel.arguments(wires.shape.in_turn))
        .args(machine(image.kernel.memory_mib(), wires.shape.processors))
        .args(boot(image, tsc_khz, wires.shape.processors))
        .args(devices(wires));
    if let Some(incoming) = wires.incoming {
        command.args(["-incoming", &incoming.uri()]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let given = [wires.tap, wires.control, wires.monitor, wires.console];
    let mut fds = given.map(AsRawFd::as_raw_fd).to_vec();
    fds.push(image.archive.as_raw_fd());
    if let Some(Incoming::Memory(memory)) = wires.incoming {
        fds.push(memory.as_raw_fd());
    }
    give(&mut command, fds);
    let child = command.spawn().map_err(|source| {
        VmError::Refused(format!("QEMU could not be started for {node}: {source}"))
    })?;
    raise_priority(child.id());
    Ok(child)
}

/// Lets QEMU keep the descriptors `fds`, and makes it die with the thread that starts it.
fn give(command: &mut Command, fds: Vec<RawFd>) {
    use std::os::unix::process::CommandExt;
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure makes async-signal-safe system calls (prctl,
    // setsid, getppid, fcntl) only; it allocates nothing, and the descriptors outlive `spawn`.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            // A group of its own for the scheduler (sched(7), autogroup), which Ctrl-C does not
            // reach.
            nix::unistd::setsid()?;
            // The parent may have died before the call: then no signal comes.
            if nix::unistd::getppid().as_raw() as u32 != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            for fd in &fds {
                let fd = std::os::fd::BorrowedFd::borrow_raw(*fd);
                fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            Ok(())
        });
    }
}

/// Raises QEMU's priority, so that other processes of this host do not look to a guest like a
/// stall. Where the scheduler groups processes, a nice value counts only within the group, and the
/// group has one itself. Without the right to do so a guest waits longer, which is counted.
fn raise_priority(pid: u32) {
    // SAFETY: takes numbers only and changes nothing but the priority of that process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, PRIORITY) };
    // Kernels without such groups lack the file.
    let _ = std::fs::write(format!("/proc/{pid}/autogroup"), PRIORITY.to_string());
}

fn machine(memory_mib: u32, processors: u8) -> Vec<String> {
    let (memory, processors) = (memory_mib.to_string(), processors.to_string());
    let words = [
        "-m",
        &memory,
        "-smp",
        &processors,
        "-name",
        "uc,debug-threads=on",
        "-nodefaults",
        "-no-user-config",
        "-nographic",
        "-no-reboot",
        "-M",
        "microvm,x-option-roms=off,pit=on,pic=off,rtc=on,isa-serial=on",
    ];
    words.map(str::to_owned).to_vec()
}

/// Returns the kernel's command line. Idle guests tick only when something is due, as today's
/// guests do; a lockup watchdog would take a stall of the host for a fault. The console gets
/// warnings, too (`quiet` would leave them out). With several CPUs a kernel compares the time stamp
/// counters, finds that emulated ones differ and falls back to its ticks, unless it is told to trust
/// them.
fn boot(image: &Image, tsc_khz: u64, processors: u8) -> Vec<String> {
    let tsc = if processors > 1 {
        "reliable"
    } else {
        "nowatchdog"
    };
    let line = format!(
        "console=ttyS0 loglevel=5 panic=-1 nokaslr mitigations=off nowatchdog tsc={tsc} \
         tsc_early_khz={tsc_khz} rdinit={INIT} -- machine"
    );
    vec![
        "-kernel".into(),
        image.kernel.vmlinuz().display().to_string(),
        "-initrd".into(),
        by_descriptor(image.archive.as_raw_fd()),
        "-append".into(),
        line,
    ]
}

fn devices(wires: &Wires<'_>) -> Vec<String> {
    const PLAIN: &str = "csum=off,gso=off,host_tso4=off,host_tso6=off,host_ufo=off,host_ecn=off,\
                         guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,\
                         guest_ecn=off,mrg_rxbuf=off";
    let mac = wires.mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut card = format!("virtio-net-device,netdev=net,mac={mac}");
    if !wires.shape.offload {
        card = format!("{card},{PLAIN}");
    }
    let coupling = match wires.coupling {
        None => "null,id=ccc".to_owned(),
        Some(path) => format!("socket,id=ccc,path={},server=on,wait=off", path.display()),
    };
    let console = by_descriptor(wires.console.as_raw_fd());
    [
        "-netdev".into(),
        format!("tap,id=net,fd={}", wires.tap.as_raw_fd()),
        "-device".into(),
        card,
        "-chardev".into(),
        format!("file,id=console,path={console}"),
        "-serial".into(),
        "chardev:console".into(),
        "-chardev".into(),
        format!("socket,id=monitor,fd={}", wires.monitor.as_raw_fd()),
        "-mon".into(),
        "chardev=monitor,mode=control".into(),
        "-device".into(),
        "virtio-serial-device".into(),
        "-chardev".into(),
        format!("socket,id=control,fd={}", wires.control.as_raw_fd()),
        "-device".into(),
        format!("virtserialport,chardev=control,name={CONTROL_PORT}"),
        "-chardev".into(),
        coupling,
        "-device".into(),
        format!("virtserialport,chardev=ccc,name={COUPLING_PORT}"),
    ]
    .to_vec()
}

/// Returns a path by which the process can reopen its descriptor.
fn by_descriptor(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

//! Errors of guests that are VMs. Every message names the object, the place and the remedy.

use std::io;
use std::path::PathBuf;

use crate::LabError;
use crate::vm::series;

/// Why a VM can't be built, booted or used.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A program is missing on the host.
    #[error("`{program}` is not on PATH: install the package {package} (scripts/bootstrap vm)")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// The host is not x86-64: guests are built from the host's own programs, and the kernels are
    /// Debian's for amd64.
    #[error("VM guests need an x86-64 host, and this host is none: use --on live")]
    Architecture,
    /// No kernel of the series was fetched.
    #[error(
        "no kernel {series} for guests in {folder}: {}",
        series::command(series, "")
    )]
    Kernel {
        /// Series as the stack names it.
        series: String,
        /// Folder where the kernel would be.
        folder: PathBuf,
    },
    /// PVTCP's module was not built for this kernel.
    #[error(
        "no module of PVTCP for {release} at {path}: {}",
        series::command(series, "--pvtcp ")
    )]
    Pvtcp {
        /// Series of the kernel.
        series: String,
        /// Full version of the kernel.
        release: String,
        /// Path where the module would be.
        path: PathBuf,
    },
    /// The user's cache folder is unknown.
    #[error("neither XDG_CACHE_HOME nor HOME is set: set one; guests' kernels are below it")]
    NoCache,
    /// A file that goes into a guest could not be read.
    #[error("{path} cannot be put into a guest's image: {source}; {mend}")]
    Image {
        /// Path of the file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
        /// Remedy of the error.
        mend: &'static str,
    },
    /// A module that the guest needs is missing, or the guest's kernel refuses it.
    #[error("the guest's module {name}: {source}; fetch the kernel again with scripts/vm-kernels")]
    Module {
        /// Name of the module.
        name: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A module that an experiment brings could not be loaded or unloaded.
    #[error("{module} cannot be {action}: {source}; see the guest's kernel log")]
    Foreign {
        /// File or name of the module.
        module: String,
        /// Action that failed: "loaded" or "unloaded".
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// QEMU could not be started.
    #[error("QEMU could not be started for {node}: {source}")]
    Spawn {
        /// Guest of the VM.
        node: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The VM did not report in time.
    #[error("{node}: the VM with kernel {kernel} did not boot: {detail}")]
    Boot {
        /// Guest of the VM.
        node: String,
        /// Kernel of the VM.
        kernel: String,
        /// Time limit that passed and the end of the console, or how QEMU ended.
        detail: String,
    },
    /// The VM's control channel failed or carried something unexpected.
    #[error("{node}: the VM's control channel failed while {action}: {detail}")]
    Channel {
        /// Guest of the VM.
        node: String,
        /// Action during which it failed.
        action: &'static str,
        /// Description of the failure.
        detail: String,
    },
    /// A request failed in the guest.
    #[error("in the VM of {node}: {detail}")]
    Inside {
        /// Guest of the VM.
        node: String,
        /// Error text of the guest's agent.
        detail: String,
    },
    /// The guest's kernel reported a fault, so the measurements of the run are void.
    #[error("{node}: the guest's kernel warned, died or had a CPU locked up; {detail}")]
    Harmed {
        /// Guest of the VM.
        node: String,
        /// First report of a fault, of several lines, or the end of the console.
        detail: String,
    },
    /// QEMU refused a command.
    #[error("{node}: QEMU refused `{command}`: {detail}")]
    Monitor {
        /// Guest of the VM.
        node: String,
        /// Name of the command.
        command: &'static str,
        /// Answer of QEMU.
        detail: String,
    },
    /// A VM's CPU could not be taken away or given back.
    #[error("{node}: the VM's CPU could not be {action}: {source}; CAP_SYS_PTRACE is needed")]
    Stall {
        /// Guest of the VM.
        node: String,
        /// Action that failed: "found", "taken away" or "given back".
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The host lacks descriptors, threads or memory.
    #[error("the VMs' host could not {action}: {source}; check ulimit -n and memory")]
    Resource {
        /// Action that failed.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// An action of the lab for a VM failed.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl From<VmError> for LabError {
    fn from(error: VmError) -> Self {
        match error {
            VmError::Lab(error) => error,
            other => LabError::Platform(Box::new(other)),
        }
    }
}

/// Returns a conversion of a kernel error in `action` into [`VmError::Resource`].
pub(crate) fn resource(action: &'static str) -> impl Fn(io::Error) -> VmError {
    move |source| VmError::Resource { action, source }
}

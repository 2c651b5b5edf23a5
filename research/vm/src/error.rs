//! What can go wrong with guests that are machines. Every message names the thing, the place and
//! the mend.

use std::io;
use std::path::PathBuf;

use uc_lab::LabError;

/// An error of the machines.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A program is missing on the host.
    #[error("`{program}` is not on PATH: install the package {package} (scripts/bootstrap vm)")]
    Program {
        /// The program.
        program: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// Guests are built from the host's own programs, and the kernels are Debian's for amd64.
    #[error("guests are x86-64 machines, and this host is another: use --on live")]
    Architecture,
    /// No kernel of the series was fetched.
    #[error("no kernel {series} for guests in {folder}: scripts/vm-kernels {series}")]
    Kernel {
        /// As the stack names it.
        series: String,
        /// Where it would be.
        folder: PathBuf,
    },
    /// Nobody built PVTCP's module for this kernel.
    #[error("no module of PVTCP for {release} at {path}: scripts/vm-kernels --pvtcp {series}")]
    Pvtcp {
        /// The kernel's series.
        series: String,
        /// Its whole name.
        release: String,
        /// Where the module would be.
        path: PathBuf,
    },
    /// The user's cache has no place.
    #[error("neither XDG_CACHE_HOME nor HOME is set: set one, kernels for guests lie beneath it")]
    NoCache,
    /// A file that goes into a guest could not be read.
    #[error("{path} cannot be put into a guest's image: {source}; {mend}")]
    Image {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// A module that the guest needs is not there, or the guest's kernel refuses it.
    #[error("the guest's module {name}: {source}; fetch the kernel again with scripts/vm-kernels")]
    Module {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A module that an experiment brings could not be loaded or unloaded.
    #[error("{module} cannot be {action}: {source}; the guest's kernel log says why")]
    Foreign {
        /// Its file or its name.
        module: String,
        /// "loaded" or "unloaded".
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// QEMU could not be started.
    #[error("QEMU could not be started for {node}: {source}")]
    Spawn {
        /// Whose machine.
        node: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The machine did not report in time.
    #[error("{node}: the machine with {kernel} did not boot: {detail}")]
    Boot {
        /// Whose machine.
        node: String,
        /// Its kernel.
        kernel: String,
        /// The bound that passed and the end of its console, or how QEMU ended.
        detail: String,
    },
    /// The machine's channel failed or said what can't be.
    #[error("{node}: its control channel failed while {action}: {detail}")]
    Channel {
        /// Whose machine.
        node: String,
        /// What was going on.
        action: &'static str,
        /// What happened.
        detail: String,
    },
    /// Something in the guest failed; its own words.
    #[error("inside the machine of {node}: {detail}")]
    Inside {
        /// Whose machine.
        node: String,
        /// What the guest's agent said.
        detail: String,
    },
    /// Its kernel is no longer to be trusted, and so is what the run measured.
    #[error("{node}: its kernel warned, died or had a processor locked up; {detail}")]
    Harmed {
        /// Whose machine.
        node: String,
        /// The end of its console.
        detail: String,
    },
    /// QEMU refused a command.
    #[error("{node}: QEMU refused `{command}`: {detail}")]
    Monitor {
        /// Whose machine.
        node: String,
        /// The command.
        command: &'static str,
        /// Its answer.
        detail: String,
    },
    /// A machine's CPU could not be taken away or given back.
    #[error("{node}: its CPU could not be {action}: {source}; CAP_SYS_PTRACE is needed")]
    Stall {
        /// Whose machine.
        node: String,
        /// "found", "taken away" or "given back".
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A descriptor, a thread or memory ran out.
    #[error("the machines' host could not {action}: {source}; check ulimit -n and memory")]
    Resource {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// What the lab does for a machine failed.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl From<VmError> for LabError {
    fn from(error: VmError) -> Self {
        match error {
            VmError::Lab(error) => error,
            other => LabError::Home(Box::new(other)),
        }
    }
}

/// An answer of the kernel to the want of something.
pub(crate) fn resource(action: &'static str) -> impl Fn(io::Error) -> VmError {
    move |source| VmError::Resource { action, source }
}

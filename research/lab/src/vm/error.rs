//! Errors of guests that are VMs. Every message names the object, the place and the remedy.

use std::io;

use crate::LabError;

/// Why a VM can't be built, booted or used.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The host lacks something, or a VM refuses a request; the message names the remedy.
    #[error("{0}")]
    Refused(String),
    /// The host is not x86-64: guests are built from the host's own programs, and the kernels are
    /// Debian's for amd64.
    #[error("VM guests need an x86-64 host, and this host is not one; use --on live")]
    Architecture,
    /// The VM's control channel failed or carried something unexpected.
    #[error("{node}: the VM's control channel failed while {action}: {detail}")]
    Channel {
        /// Label of the guest that the VM runs, `group[index]`.
        node: String,
        /// Action during which the channel failed.
        action: &'static str,
        /// Description of what failed, for the message.
        detail: String,
    },
    /// A request failed in the guest.
    #[error("in the VM of {node}: {detail}")]
    Inside {
        /// Label of the guest that the VM runs, `group[index]`.
        node: String,
        /// Error text of the guest's agent.
        detail: String,
    },
    /// The guest's kernel reported a fault, so the measurements of the run are void.
    #[error("{node}: the guest's kernel warned, died or had a CPU locked up; {detail}")]
    Harmed {
        /// Label of the guest that the VM runs, `group[index]`.
        node: String,
        /// First report of a fault, of several lines, or the end of the console.
        detail: String,
    },
    /// A VM's CPU could not be taken away or given back.
    #[error("{node}: the VM's CPU could not be {action}: {source}")]
    Stall {
        /// Label of the guest that the VM runs, `group[index]`.
        node: String,
        /// Action that failed: "found", "taken away" or "given back".
        action: &'static str,
        /// Error of the kernel, with the remedy where there is one.
        source: io::Error,
    },
    /// The host lacks descriptors, threads or memory.
    #[error("the VMs' host could not {action}: {source}; check ulimit -n and memory")]
    Resource {
        /// Operation that failed, for the message.
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

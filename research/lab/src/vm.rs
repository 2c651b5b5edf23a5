//! Guests that are VMs: QEMU with a kernel of its own for each sender of an experiment.
//!
//! As in the live backend nothing has a name: a VM's memory, disk-less file system and console are
//! descriptors, its channels socket pairs, its network a tap in an anonymous namespace, and its
//! process dies with this one. This program also runs inside, as the VM's first process, so the
//! traffic is the lab's own.
//!
//! Read in this order:
//! - [`series`], [`kernel`], [`modules`], [`cpio`], [`image`]: the boot image.
//! - [`accel`], [`qemu`], [`monitor`], [`machine`], `processors`, [`template`]: one VM, its
//!   placement, and copies of it.
//! - [`message`], [`channel`], [`agent`]: both ends of the control channel.
//! - `fault`: faults that a guest's kernel reports.
//! - [`platform`], [`staller`]: VMs as the guests of an experiment; those that couple their own
//!   connections are coupled by the host.

pub mod accel;
pub mod agent;
pub mod channel;
mod coupling;
pub mod cpio;
pub mod error;
mod fault;
pub mod image;
pub mod kernel;
mod load;
pub mod machine;
pub mod message;
pub mod modules;
mod monitor;
pub mod platform;
mod processors;
mod pvtcp;
pub mod qemu;
pub mod series;
pub mod staller;
pub mod template;

pub use error::VmError;
pub use image::Programs;
pub use kernel::Kernel;
pub use machine::Machine;
pub use platform::{Machines, Templates};
pub use qemu::Shape;
pub use template::{Links, Template, check};

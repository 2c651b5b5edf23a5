//! Guests that are machines: QEMU with a kernel of its own for each sender of an experiment.
//!
//! As in the live arm nothing has a name: a machine's memory, disk-less file system and console are
//! descriptors, its channels socket pairs, its network a tap in an anonymous namespace, and its
//! process dies with us. What runs inside is this program too, as the machine's first process, so
//! that the traffic is the lab's own.
//!
//! Read in this order:
//! - [`kernel`], [`modules`], [`cpio`], [`image`]: what is booted.
//! - [`accel`], [`qemu`], [`monitor`], [`machine`], `processors`, [`template`]: one machine,
//!   where it runs, and copies of it.
//! - [`message`], [`channel`], [`agent`]: both ends of the control channel.
//! - [`home`], [`freezer`]: machines as the guests of an experiment; those that couple
//!   their own connections are coupled by the host.

pub mod accel;
pub mod agent;
pub mod channel;
mod coupling;
pub mod cpio;
pub mod error;
pub mod freezer;
pub mod home;
pub mod image;
pub mod kernel;
mod load;
pub mod machine;
pub mod message;
pub mod modules;
mod monitor;
mod processors;
mod pvtcp;
pub mod qemu;
pub mod template;

pub use error::VmError;
pub use home::{Machines, Templates};
pub use kernel::Kernel;
pub use machine::Machine;
pub use qemu::Shape;
pub use template::{Links, Template, check};

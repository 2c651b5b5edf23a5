//! HWatch live: the watch programs of tenant ports, and the process that holds handshakes back for
//! them while probes measure the path.
//!
//! Read in this order:
//! - `bpf/watch/probe.h`: what a probe looks like, and who can make one; [`ProbeKey`] is the secret.
//! - `bpf/watch/watch.bpf.c`: what a port does with handshakes, probes and windows.
//! - [`Programs`], [`Settings`]: the same in the kernel, and what the operator wants of them.
//! - [`Holder`]: sends probes, then what waited for them. [`Keeper`]: two processes, of which
//!   either may be killed and nothing is lost.
//! - [`Events`]: what became of handshakes and probes.

mod clock;
mod error;
mod events;
mod frame;
mod holder;
mod inject;
mod keeper;
mod key;
mod probe;
mod programs;
mod schedule;
mod settings;
mod sweep;

pub use error::WatchError;
pub use events::{Event, Events};
pub use holder::{Holder, Stop};
pub use inject::Injector;
pub use keeper::Keeper;
pub use key::ProbeKey;
pub use programs::{Programs, Watched};
pub use uc_law::{Data, StartSettings as Settings};

/// What bindgen makes of `bpf/watch/layout.h`.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

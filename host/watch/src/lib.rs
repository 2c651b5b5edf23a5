//! HWatch live: the watch programs of tenant ports, and the process that holds their handshakes
//! while probes measure the path.
//!
//! Read in this order:
//! - `bpf/watch/probe.h`: the format of probes; [`ProbeKey`] is the secret that authenticates them.
//! - `bpf/watch/watch.bpf.c`: handshakes, probes and windows on a port.
//! - [`Programs`], [`Settings`]: the programs in the kernel, and the operator's settings of them.
//! - [`Holder`]: sends probes, then the handshakes that waited for them. [`Keeper`]: two processes,
//!   either of which may be killed without loss.
//! - [`Setup`], [`Status`]: what an agent has the process do, and the process's report.
//! - [`Asker`], [`GranterHost`]: first windows on a link that several hosts share, which one of them
//!   grants.
//! - [`Events`]: counters of handshakes and probes.

mod asking;
mod clock;
mod error;
mod events;
mod frame;
mod granter;
mod holder;
mod inject;
mod keeper;
mod key;
mod message;
mod names;
mod probe;
mod programs;
mod schedule;
mod settings;
mod setup;
mod socket;
mod sweep;

pub use asking::Asker;
pub use error::WatchError;
pub use events::{Event, Events};
pub use granter::{Granted, GranterHost};
pub use holder::{Holder, Stop};
pub use inject::Injector;
pub use keeper::{Duties, Keeper, Next};
pub use key::{ProbeKey, ProbeKeys};
pub use programs::{Programs, Watched};
pub use setup::{Done, PortSetup, Setup, Status};
pub use uc_law::{Data, StartSettings as Settings};

/// Types that bindgen generates from `bpf/watch/layout.h`.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

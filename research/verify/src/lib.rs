//! g(T(x)) = f(x) as an executable property: vCC's theorems (Cronkite-Ratcliff and others, SIGCOMM
//! 2016, §2.4) on random cases.
//!
//! A native sender with the law f, and a guest with the law g under the translator T (the core on
//! the guest's port), get the same network: the same fate for the packet of the same number, the
//! same application, the same receiver. Their transmissions are compared one by one: when, which
//! sequence numbers, flags and ECN codepoint. As long as they are the same, so is all that comes
//! back.
//!
//! The native sender is `uc-tcp`'s, which shares no code with `core/`.
//!
//! Read in this order: [`plan`] (a case as data), [`draw`] (random cases), [`direction`] and [`world`]
//! (how a case runs), [`element`] (T), [`layout`] (of other hosts' flows), [`law`] (f and g),
//! [`compare`], [`coverage`], [`campaign`], then [`shrink`] and [`trace`] for what happens when a case
//! fails, [`lift`] for the assumptions, [`matrix`] for other guests, [`smallest`] with [`rounds`]
//! for the smallest case in which a receive window cannot express f, and [`record`] for what is kept.
//!
//! [`games`] are about guests that obey no law: what one gains against its port and its neighbours.

mod bottleneck;
pub mod campaign;
pub mod compare;
pub mod coverage;
pub mod direction;
pub mod draw;
pub mod element;
pub mod error;
pub mod games;
pub mod law;
pub mod layout;
pub mod lift;
pub mod matrix;
pub mod plan;
pub mod record;
pub mod rounds;
pub mod shrink;
pub mod smallest;
pub mod trace;
pub mod world;

pub use campaign::{Campaign, Report};
pub use compare::{Limit, Outcome, Workspace, compare};
pub use coverage::Class;
pub use error::VerifyError;
pub use law::{Guest, Law};
pub use plan::Plan;

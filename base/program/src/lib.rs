//! What `uc` and `uc-bench` share: exit statuses, errors in one line, output, signals, manual pages and
//! completions, and how one finds the other.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod manual;
pub mod out;
mod run;
mod sibling;
mod signals;

pub use run::run;
pub use sibling::{BENCH, Sibling, UC};
pub use signals::cancel_on_signal;

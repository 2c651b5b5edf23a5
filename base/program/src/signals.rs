//! Signals that ask a program to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Returns a flag that Ctrl-C or SIGTERM sets, so that the program can end in order. Call it before
/// creating what must be removed at the end.
///
/// # Errors
/// The signals have another handler already.
pub fn cancel_on_signal() -> Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("could not install a handler for Ctrl-C and SIGTERM")?;
    Ok(cancel)
}

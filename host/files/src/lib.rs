//! Files and locks that only root may write: what a process of the host reads as root affects every tenant.
//!
//! - [`read`], [`read_most`], [`read_bytes`], [`read_secret`], [`read_any`]: files of the operator.
//! - [`write`], [`make_folder`], [`beside`]: files of the agent.
//! - [`lock_file`], [`try_lock`], [`wait_for_lock`], [`claim_port`], [`claim_namespace`]: locks among the processes of
//!   this host; [`socket_path`]: where they answer.

mod error;
mod locks;
mod read;
mod write;

pub use error::FileError;
pub use locks::{
    LOCKS_FOLDER, check_folder_owner, claim_namespace, claim_port, lock_file, socket_path,
    try_lock, wait_for_lock,
};
pub use read::{TEXT_MAX_BYTES, read, read_any, read_bytes, read_most, read_secret};
pub use write::{beside, make_folder, write};

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Mode bits that let the group or everybody write.
const OTHERS_WRITE: u32 = 0o022;

/// Returns whether root or the calling user owns the file.
fn is_ours(metadata: &Metadata) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    metadata.uid() == 0 || metadata.uid() == own
}

/// Returns whether another user may write the file.
fn is_exposed(metadata: &Metadata) -> bool {
    !is_ours(metadata) || metadata.mode() & OTHERS_WRITE != 0
}

/// Returns the permission bits of the file's mode, with set-user-ID, set-group-ID and sticky bit.
fn mode_of(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

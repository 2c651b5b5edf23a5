//! The guest's end of a channel to a host that couples guests: sends reports, and writes answers into the groups' map.
//! If this process or the host stops, the groups are uncoupled after one RTO.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::coupling::channel::{Channel, Received};
use crate::coupling::guest::GuestEnd;
use crate::coupling::wire::{FRAME_BYTES_MAX, GroupName, WireError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::across::Across;
use crate::clock::now_ns;
use crate::error::GuestError;

/// Pause before a channel that failed or was closed is opened again.
const RETRY: Duration = Duration::from_millis(200);
/// Minimum ratio of the time between two reports to the time that reading the groups took last: reading takes at most a
/// tenth of the time.
const REST: u64 = 10;

/// A change between coupled and uncoupled groups.
#[derive(Debug)]
pub enum CoupleEvent<'a> {
    /// The host has answered: it couples the guest's groups.
    Coupled,
    /// The host no longer answers, or can't be reached: the groups are uncoupled.
    Alone(&'a Alone),
}

/// Why the groups are uncoupled.
#[derive(Debug, thiserror::Error)]
pub enum Alone {
    /// The channel can't be opened or used.
    #[error("the channel {path} to the host failed: {source}")]
    Channel {
        /// Path of the channel to the host.
        path: PathBuf,
        /// Error of the kernel when the channel was opened or used.
        source: io::Error,
    },
    /// The channel's other end is closed.
    #[error(
        "no host reads the channel {path}: its other end is closed; run `uc couple` on the host"
    )]
    Nobody {
        /// Path of the channel to the host.
        path: PathBuf,
    },
    /// The host sent an invalid frame.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The maps of the groups can't be read or written.
    #[error("{0}")]
    Guest(#[from] GuestError),
}

/// Sends reports and applies answers until `stop` is set. Calls `event` at each change between coupled and uncoupled,
/// and if the first attempt fails.
///
/// # Errors
/// [`GuestError`] if the groups can't be read or written.
pub fn couple(
    across: &Across<'_>,
    path: &Path,
    stop: &AtomicBool,
    event: &mut dyn FnMut(CoupleEvent<'_>),
) -> Result<(), GuestError> {
    let mut was_coupled = true; // so that the first failure is reported
    while !stop.load(Ordering::Relaxed) {
        let mut tell = |now_coupled: CoupleEvent<'_>| {
            let coupled = matches!(now_coupled, CoupleEvent::Coupled);
            if coupled || was_coupled {
                event(now_coupled);
            }
            was_coupled = coupled;
        };
        match attend(across, path, stop, &mut tell) {
            Ok(()) => break,
            Err(Alone::Guest(error)) => return Err(error),
            Err(alone) => tell(CoupleEvent::Alone(&alone)),
        }
        thread::sleep(RETRY);
    }
    Ok(())
}

/// Serves one channel until `stop` is set, or until it fails.
fn attend(
    across: &Across<'_>,
    path: &Path,
    stop: &AtomicBool,
    event: &mut dyn FnMut(CoupleEvent<'_>),
) -> Result<(), Alone> {
    let failed = |source| Alone::Channel {
        path: path.to_owned(),
        source,
    };
    let mut channel = Channel::open(path).map_err(failed)?;
    let mut end = GuestEnd::default();
    let mut known = BTreeSet::new();
    let (mut coupled, mut due_ns) = (false, 0);
    while !stop.load(Ordering::Relaxed) {
        if now_ns() >= due_ns {
            let began_ns = now_ns();
            let reports = across.reports()?;
            let names = reports.iter().map(|report| report.name).collect();
            forget(across, &mut known, names);
            channel
                .send(&end.report(reports, began_ns))
                .map_err(failed)?;
            let took_ns = now_ns().saturating_sub(began_ns);
            due_ns = end.due_ns().max(began_ns + REST * took_ns);
        }
        wait(&channel, due_ns).map_err(failed)?;
        let mut bytes = [0; FRAME_BYTES_MAX];
        let length = match channel.receive(&mut bytes).map_err(failed)? {
            Received::Nothing => continue,
            Received::Bytes(length) => length,
            Received::Nobody => {
                return Err(Alone::Nobody {
                    path: path.to_owned(),
                });
            }
        };
        for (name, told) in end.hear(&bytes[..length], now_ns())? {
            across.tell(&name, &told)?;
        }
        if end.is_answered() && !std::mem::replace(&mut coupled, true) {
            event(CoupleEvent::Coupled);
        }
    }
    Ok(())
}

/// Removes the answers for the groups in `known` that are not in `names`, because they have ended.
fn forget(across: &Across<'_>, known: &mut BTreeSet<GroupName>, names: BTreeSet<GroupName>) {
    known
        .difference(&names)
        .for_each(|name| across.forget(name));
    *known = names;
}

/// Waits until the channel is readable or a report is due.
fn wait(channel: &Channel, due_ns: u64) -> io::Result<()> {
    let left_ms = due_ns.saturating_sub(now_ns()).div_ceil(1_000_000);
    let timeout = PollTimeout::from(left_ms.min(RETRY.as_millis() as u64) as u16);
    let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

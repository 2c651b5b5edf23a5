//! The guest's end of a channel to a host that couples guests: reports go out, answers go into the
//! groups' map. If this stops, or the host does, the groups are their own after an RTO.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use uc_couple::channel::{Channel, Received};
use uc_couple::guest::GuestEnd;
use uc_couple::wire::{FRAME_BYTES_MAX, GroupName, WireError};

use crate::across::Across;
use crate::clock::now_ns;
use crate::error::GuestError;

/// How long to wait before a channel that nobody answers at is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// The pause between two reports, in multiples of the time that reading the groups took: at most a
/// tenth of the time is spent on that.
const REST: u64 = 10;

/// What happens to the coupling.
#[derive(Debug)]
pub enum CoupleEvent<'a> {
    /// The host has answered.
    Coupled,
    /// The host doesn't answer any more: the guest's groups are uncoupled from others.
    Alone(&'a Alone),
}

/// Why the guest's groups aren't coupled with those of other guests.
#[derive(Debug, thiserror::Error)]
pub enum Alone {
    /// The channel can't be opened or used.
    #[error("{path}: {source}")]
    Channel {
        /// The channel's path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Nobody is at its other end.
    #[error("nobody is at the other end of {path}")]
    Nobody {
        /// The channel's path.
        path: PathBuf,
    },
    /// Somebody is who speaks something else.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The maps.
    #[error("{0}")]
    Guest(#[from] GuestError),
}

/// Reports and follows until `stop`; `event` hears of changes.
///
/// # Errors
/// [`GuestError`] when the groups can't be read or written.
pub fn couple(
    across: &Across<'_>,
    path: &Path,
    stop: &AtomicBool,
    event: &mut dyn FnMut(CoupleEvent<'_>),
) -> Result<(), GuestError> {
    let mut was_coupled = true; // so that the first failure is told
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

/// As long as the channel lasts.
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

/// Removes what was told to groups that aren't there any more.
fn forget(across: &Across<'_>, known: &mut BTreeSet<GroupName>, names: BTreeSet<GroupName>) {
    known
        .difference(&names)
        .for_each(|name| across.forget(name));
    *known = names;
}

/// Until something has come, or a report is due.
fn wait(channel: &Channel, due_ns: u64) -> io::Result<()> {
    let left_ms = due_ns.saturating_sub(now_ns()).div_ceil(1_000_000);
    let timeout = PollTimeout::from(left_ms.min(RETRY.as_millis() as u64) as u16);
    let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

//! What goes wrong, at which system call.

use crate::dice::Dice;

/// Errors that any call may return.
const USUAL: [i32; 4] = [libc::ENOMEM, libc::EINTR, libc::EPERM, libc::EIO];

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A kill: everything in the kernel that is pinned stays.
    Kill,
    /// The host lost its power: only what was written to the disk stays.
    PowerCut,
}

/// A mishap at a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mishap {
    /// The call fails with this error.
    Fails(i32),
    /// The call processes a part of its bytes.
    IsCutShort,
    /// The process ends before the call has an effect.
    Ends(End),
    ClockSteps,
    InterfacesChange,
    OtherProcessLocks,
}

/// The mishaps to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mishaps {
    /// Number of calls so far.
    pub(crate) calls: u64,
    /// Number of the call at which the next mishap comes; `None`: nothing goes wrong.
    next: Option<u64>,
    /// The next mishap comes within two to the power of at most this, plus one, many calls.
    rarity: u32,
    /// Number of mishaps to come.
    left: u32,
    /// A call that keeps failing, its error, and how many more times it fails.
    failing: Option<(&'static str, i32, u32)>,
    /// Number of a call that fails, or at which the process ends.
    only: Option<(u64, Option<End>)>,
}

impl Mishaps {
    /// Lets up to `most` things go wrong from now on, each within `2^(rarity + 1)` calls.
    pub(crate) fn arm(&mut self, most: u32, rarity: u32, dice: &mut Dice) {
        (self.left, self.rarity) = (most, rarity);
        self.draw_next(dice);
    }

    /// Lets the call after so many others fail with EIO, or be the process's last one.
    pub(crate) fn arm_at(&mut self, after: u64, end: Option<End>) {
        self.only = Some((self.calls + after + 1, end));
    }

    /// Lets nothing go wrong any more.
    pub(crate) fn disarm(&mut self) {
        (self.next, self.failing, self.left, self.only) = (None, None, 0, None);
    }

    fn draw_next(&mut self, dice: &mut Dice) {
        let power = dice.below(u64::from(self.rarity) + 1);
        self.next = (self.left > 0).then(|| self.calls + dice.below(2 << power));
    }

    /// Counts a call, and returns the mishap that comes at it. The call may fail with one of the usual
    /// errors or of these.
    pub(crate) fn at(
        &mut self,
        call: &'static str,
        errors: &[i32],
        dice: &mut Dice,
    ) -> Option<Mishap> {
        self.calls += 1;
        if let Some((_, end)) = self.only.take_if(|(number, _)| *number == self.calls) {
            return Some(end.map_or(Mishap::Fails(libc::EIO), Mishap::Ends));
        }
        if let Some((failing, errno, left)) = self.failing
            && failing == call
        {
            self.failing = (left > 1).then_some((failing, errno, left - 1));
            return Some(Mishap::Fails(errno));
        }
        if self.next.is_none_or(|next| self.calls < next) {
            return None;
        }
        self.left -= 1;
        self.draw_next(dice);
        let errno = |dice: &mut Dice| {
            let at = dice.below((USUAL.len() + errors.len()) as u64) as usize;
            *USUAL.iter().chain(errors).nth(at).unwrap_or(&libc::EIO)
        };
        Some(match dice.below(20) {
            0..8 => Mishap::Fails(errno(dice)),
            8..10 => {
                let errno = errno(dice);
                self.failing = Some((call, errno, dice.below(20) as u32 + 1));
                Mishap::Fails(errno)
            }
            10..12 => Mishap::IsCutShort,
            12..15 => Mishap::Ends(End::Kill),
            15 => Mishap::Ends(End::PowerCut),
            16 => Mishap::ClockSteps,
            17..19 => Mishap::InterfacesChange,
            _ => Mishap::OtherProcessLocks,
        })
    }
}

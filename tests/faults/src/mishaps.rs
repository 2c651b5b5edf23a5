//! Mishaps of a simulated host: what goes wrong, and at which system call.

use crate::dice::Dice;

/// Errors that any call may return.
const USUAL: [i32; 4] = [libc::ENOMEM, libc::EINTR, libc::EPERM, libc::EIO];

/// How a process was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By SIGKILL: everything that is pinned in the kernel stays.
    Kill,
    /// By a power cut of the host: only what was written to the disk stays.
    PowerCut,
}

/// A mishap at a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mishap {
    /// The call fails with this errno.
    Fails(i32),
    /// The call processes only a part of its bytes.
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
    /// Number of the call at which the next mishap happens; `None`: none happens.
    next: Option<u64>,
    /// Exponent of the maximum distance between two mishaps, which is 2^(rarity + 1) calls.
    rarity: u32,
    /// Number of mishaps that may still happen.
    left: u32,
    /// A call that keeps failing: its name, its errno, and how many more times it fails.
    failing: Option<(&'static str, i32, u32)>,
    /// Number of the only call at which something goes wrong: it fails with EIO, or the process ends there in this way.
    only: Option<(u64, Option<End>)>,
}

impl Mishaps {
    /// Lets up to `most` mishaps happen from now on, each at most `2^(rarity + 1)` calls after the one before.
    pub(crate) fn arm(&mut self, most: u32, rarity: u32, dice: &mut Dice) {
        (self.left, self.rarity) = (most, rarity);
        self.draw_next(dice);
    }

    /// Lets the call after the next `after` calls fail with EIO; with `end`, ends the process there.
    pub(crate) fn arm_at(&mut self, after: u64, end: Option<End>) {
        self.only = Some((self.calls + after + 1, end));
    }

    /// Lets no mishap happen from now on.
    pub(crate) fn disarm(&mut self) {
        (self.next, self.failing, self.left, self.only) = (None, None, 0, None);
    }

    fn draw_next(&mut self, dice: &mut Dice) {
        let power = dice.below(u64::from(self.rarity) + 1);
        self.next = (self.left > 0).then(|| self.calls + dice.below(2 << power));
    }

    /// Counts a call, and returns the mishap that happens at it; `None`: none does. A failing call gets one of the
    /// usual errors or of `errors`.
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

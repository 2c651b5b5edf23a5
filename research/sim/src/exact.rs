//! DCTCP's α of a sender that knows the mark of every byte: the reference for the estimate of a
//! port's shadow, which learns of marks through a receiver's echo.
//!
//! This is an instrument, not part of a port: it sees both ends. It takes marks from data as they reach the receiver's
//! host, and counts them when the ACK of their bytes reaches the sender's port, over the same observation windows as
//! the shadow. So both estimates differ by the echo alone.

use std::collections::VecDeque;

use uc_core::{Flow, Policy, consts};

/// The value 1 in α's unit of 1/2³⁰.
const ONE_Q30: u32 = 1 << 30;
/// Maximum window (RFC 7323 §2.3). An ACK that covers more bytes at once is ignored.
const WINDOW_MAX_BYTES: u32 = 1 << 30;

/// The variables of RFC 8257 §3.3, with true marks.
#[derive(Clone, Debug)]
pub struct ExactAlpha {
    alpha_q30: u32,
    gain_shift: u8,
    is_open: bool,
    /// SND.UNA as the port knows it.
    una: u32,
    /// Variable DCTCP.WindowEnd of RFC 8257 §3.3, a sequence number.
    window_end: u32,
    /// Variable DCTCP.BytesAcked of RFC 8257 §3.3.
    acked_bytes: u64,
    /// Variable DCTCP.BytesMarked of RFC 8257 §3.3.
    marked_bytes: u64,
    /// Marked bytes that no ACK has covered: ascending ranges that neither touch nor overlap.
    marked: VecDeque<(u32, u32)>,
}

/// Returns whether sequence number `a` lies after `b`, modulo 2³².
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl ExactAlpha {
    /// Creates the instrument of a port with this policy; `None` for a law without α.
    pub fn of(policy: &Policy) -> Option<ExactAlpha> {
        if u32::from(policy.law) != consts::LAW_DCTCP {
            return None;
        }
        Some(ExactAlpha {
            alpha_q30: u32::from(policy.dctcp().initial_alpha_q7.min(128)) * (ONE_Q30 / 128),
            gain_shift: policy.dctcp().gain_shift & 15,
            is_open: false,
            una: 0,
            window_end: 0,
            acked_bytes: 0,
            marked_bytes: 0,
            marked: VecDeque::new(),
        })
    }

    /// Returns α in 1/2³⁰; `None` before the handshake is complete.
    pub fn alpha_q30(&self) -> Option<u32> {
        self.is_open.then_some(self.alpha_q30)
    }

    /// Records data that reached the receiver's host with CE. A byte counts as marked if any of its
    /// copies was.
    pub fn marked(&mut self, seq: u32, payload_bytes: u16) {
        let (mut start, mut end) = (seq, seq.wrapping_add(u32::from(payload_bytes)));
        if is_after(self.una, start) {
            start = self.una;
        }
        if !self.is_open || !is_after(end, start) {
            return;
        }
        // Nearly always after all other ranges, so the search starts at the back.
        let mut place = self.marked.len();
        while place > 0 && !is_after(start, self.marked[place - 1].1) {
            place -= 1;
        }
        while let Some(&(from, to)) = self.marked.get(place)
            && !is_after(from, end)
        {
            start = if is_after(start, from) { from } else { start };
            end = if is_after(to, end) { to } else { end };
            self.marked.remove(place);
        }
        self.marked.insert(place, (start, end));
    }

    /// Processes an ACK that has passed the port; `flow` is the port's state after it.
    pub fn acknowledged(&mut self, flow: &Flow) {
        if u32::from(flow.stage) != consts::TRANSLATING {
            return;
        }
        if !self.is_open {
            // RFC 8257 §3.3: the first window ends at SND.UNA.
            (self.una, self.window_end) = (flow.snd_una, flow.snd_una);
            self.is_open = true;
            return;
        }
        let acked_bytes = flow.snd_una.wrapping_sub(self.una);
        if acked_bytes == 0 || acked_bytes > WINDOW_MAX_BYTES {
            return;
        }
        self.acked_bytes += u64::from(acked_bytes);
        self.marked_bytes += self.take_until(flow.snd_una);
        self.una = flow.snd_una;
        if is_after(self.una, self.window_end) {
            self.end_window();
            self.window_end = flow.snd_nxt;
        }
    }

    /// Removes the marked bytes below `una`, which no later ACK covers, and returns their number.
    fn take_until(&mut self, una: u32) -> u64 {
        let mut bytes = 0;
        while let Some(front) = self.marked.front_mut()
            && is_after(una, front.0)
        {
            let end = if is_after(front.1, una) { una } else { front.1 };
            bytes += u64::from(end.wrapping_sub(front.0));
            front.0 = end;
            if front.0 == front.1 {
                self.marked.pop_front();
            }
        }
        bytes
    }

    /// Ends an observation window (RFC 8257 §3.3, steps 5 to 8): M, and α ← α·(1 − g) + g·M,
    /// rounded as in the core.
    fn end_window(&mut self) {
        let marked_q30 = u128::from(self.marked_bytes) << 30;
        let fraction_q30 = (marked_q30 / u128::from(self.acked_bytes)) as u32;
        let decayed_q30 = self.alpha_q30 - (self.alpha_q30 >> self.gain_shift);
        self.alpha_q30 = decayed_q30 + (fraction_q30 >> self.gain_shift);
        (self.acked_bytes, self.marked_bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use uc_core::{DctcpParameters, FlowState};

    use super::*;

    fn open(una: u32) -> (ExactAlpha, Flow) {
        let policy = Policy::new(consts::LAW_DCTCP, consts::PROFILE_RFC);
        let policy = policy.with_dctcp(DctcpParameters {
            gain_shift: 1,
            ..policy.dctcp()
        });
        let mut exact = ExactAlpha::of(&policy).expect("law dctcp keeps an estimate");
        let state = FlowState {
            stage: consts::TRANSLATING as u8,
            snd_una: una,
            snd_nxt: una,
            ..FlowState::default()
        };
        let mut flow = Flow::from(state);
        assert_eq!(exact.alpha_q30(), None);
        exact.acknowledged(&flow);
        assert_eq!(exact.alpha_q30(), Some(ONE_Q30));
        flow.snd_nxt = una.wrapping_add(10_000);
        (exact, flow)
    }

    fn ack(exact: &mut ExactAlpha, flow: &mut Flow, bytes: u32) {
        flow.snd_una = flow.snd_una.wrapping_add(bytes);
        exact.acknowledged(flow);
    }

    #[test]
    fn a_windows_marked_fraction_is_exact_even_where_sequence_numbers_wrap() {
        for una in [1_000, u32::MAX - 2_500] {
            let (mut exact, mut flow) = open(una);
            exact.marked(una.wrapping_add(1_000), 1_000);
            exact.marked(una.wrapping_add(3_000), 1_000);
            // The first ACK ends the first window, in which nothing was marked: α = 1/2.
            ack(&mut exact, &mut flow, 1_000);
            assert_eq!(exact.alpha_q30(), Some(ONE_Q30 / 2), "from {una}");
            ack(&mut exact, &mut flow, 3_500);
            ack(&mut exact, &mut flow, 4_500);
            assert_eq!(exact.alpha_q30(), Some(ONE_Q30 / 2), "within the window");
            flow.snd_nxt = flow.snd_nxt.wrapping_add(1_000);
            ack(&mut exact, &mut flow, 2_000);
            // 2,000 of 10,000 bytes: α = 1/4 + 1/10.
            let expected = ONE_Q30 / 4 + (ONE_Q30 / 5) / 2;
            assert_eq!(exact.alpha_q30(), Some(expected), "from {una}");
            assert!(exact.marked.is_empty());
        }
    }

    #[test]
    fn copies_and_overlaps_count_once_and_acknowledged_bytes_not_at_all() {
        let (mut exact, mut flow) = open(0);
        ack(&mut exact, &mut flow, 1_000);
        exact.marked(500, 1_000);
        exact.marked(5_000, 1_000);
        exact.marked(3_000, 1_000);
        exact.marked(3_500, 1_600);
        exact.marked(3_000, 100);
        exact.marked(0, 900);
        assert_eq!(exact.marked, [(1_000, 1_500), (3_000, 6_000)]);
        assert_eq!(exact.take_until(4_000), 1_500);
        assert_eq!(exact.marked, [(4_000, 6_000)]);
    }

    #[test]
    fn laws_other_than_dctcp_have_no_estimate() {
        let policy = Policy::new(consts::LAW_ECN, consts::PROFILE_RFC);
        assert!(ExactAlpha::of(&policy).is_none());
    }
}

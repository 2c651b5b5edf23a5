//! The sending half: its variables and its one timer. `output` chooses the segments, `acks`
//! processes ACKs, `recovery`, `sack_recovery` and `frto` handle loss.

use uc_net::Nanos;

use crate::config::{Config, Reduction};
use crate::congestion::{Control, Law, Window};
use crate::frto::Frto;
use crate::info::Totals;
use crate::prr::Prr;
use crate::rto::Rto;
use crate::scoreboard::Scoreboard;
use crate::send_times::SendTimes;

/// Stands for endless data of the application, in bytes.
const ENDLESS: u64 = u64::MAX >> 1;
/// R2 (RFC 9293 §3.8.3), after which a connection is given up: timeouts in a row (as many as
/// Linux's tcp_retries2), and 100 s at least.
const MOST_TIMEOUTS: u32 = 15;
const LEAST_PATIENCE: Nanos = Nanos::from_secs(100);

/// The sender's phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The sender repairs no loss.
    Open,
    /// Fast recovery (RFC 6582, RFC 6675).
    Fast,
    /// Recovery after a timeout, until the data that was in flight at the timeout is acknowledged.
    Loss,
}

/// The event that the retransmission timer of RFC 6298 §5 waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The sender waits for an ACK of data.
    Ack,
    /// The sender waits for a window to send into (RFC 9293 §3.8.6.1).
    Window,
    /// The sender waits for its timer: RFC 3168 §6.1.2 suspends sending after a mark at a window of one segment.
    Mark,
}

/// The sending half of a connection. Positions in its stream are 64-bit numbers as in
/// [`crate::seq`].
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// SND.UNA: the first byte that is not acknowledged.
    pub(crate) una: u64,
    /// SND.NXT; a timeout moves it back.
    pub(crate) nxt: u64,
    /// End of all data ever sent.
    pub(crate) max: u64,
    /// End of the application's data; a FIN takes the position after it.
    pub(crate) write_end: u64,
    pub(crate) window: Window,
    /// SND.WND: the peer's window, in bytes.
    pub(crate) snd_wnd: u32,
    /// The largest window that the peer has advertised (RFC 9293 §3.8.6.2.1).
    pub(crate) max_wnd: u32,
    /// SND.WL1: sequence number of the segment that last updated the window.
    pub(crate) wl1: u64,
    pub(crate) phase: Phase,
    pub(crate) dup_acks: u32,
    /// Bytes that limited transmit has sent since the last ACK of new data (RFC 3042).
    pub(crate) limited_bytes: u32,
    /// Last byte sent when the last recovery or timeout began (RFC 6582 §3.2).
    pub(crate) recover: u64,
    /// A mark causes no further reduction before a byte beyond this is acknowledged (RFC 3168
    /// §6.1.2).
    pub(crate) cut_end: u64,
    /// End of the data that was sent when the congestion window last held data back.
    pub(crate) limited_end: u64,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) waits: Waits,
    /// The segment being timed: its end, and when it was sent (RFC 6298 §3); `None`: no segment is.
    pub(crate) timed: Option<(u64, Nanos)>,
    /// Time of the last data segment.
    pub(crate) sent_at: Nanos,
    pub(crate) finishing: bool,
    /// Whether the first unacknowledged segment is to be retransmitted, whatever the windows are.
    pub(crate) resend_first: bool,
    /// Whether the timer has retransmitted the first unacknowledged segment (RFC 5681 §3.1).
    pub(crate) timer_resent: bool,
    /// Whether a partial ACK of this recovery has restarted the timer (RFC 6582 §3.2 step 5).
    pub(crate) timer_restarted: bool,
    /// Whether the persist timer has fired, so that whatever fits may be sent, however small.
    pub(crate) probe: bool,
    /// Whether a window probe was sent whose byte, at `max`, the peer may acknowledge.
    pub(crate) probed: bool,
    /// Whether both ends agreed on ECN.
    pub(crate) ecn: bool,
    /// Whether the next new segment carries CWR.
    pub(crate) cwr_pending: bool,
    pub(crate) sack: bool,
    /// Room that the SACK blocks of the next segment take from its payload, in bytes.
    pub(crate) sack_bytes: u32,
    timeouts_in_row: u32,
    /// When the first of `timeouts_in_row` timeouts fired.
    unheard_since: Nanos,
    pub(crate) law: Law,
    /// Send times, for a law that measures delay; otherwise `None`.
    pub(crate) send_times: Option<Box<SendTimes>>,
    pub(crate) scoreboard: Scoreboard,
    /// HighRxt of RFC 6675 §2, exclusive: the number after the byte that the RFC names.
    pub(crate) high_rxt: u64,
    /// RescueRxt of RFC 6675 §2, exclusive: the number after the byte that the RFC names.
    pub(crate) rescue_rxt: u64,
    /// Proportional rate reduction; `None`: the host reduces at once.
    pub(crate) prr: Option<Box<Prr>>,
    pub(crate) frto: Frto,
    pub(crate) rto: Rto,
    pub(crate) habits: Habits,
    pub(crate) totals: Totals,
}

/// The settings that the sender needs after the handshake.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) initial_window_segments: u32,
    pub(crate) limited_transmit: bool,
    pub(crate) timeout_keeps_ssthresh: bool,
    pub(crate) any_window_duplicates: bool,
    pub(crate) new_acks_set_window: bool,
    pub(crate) nagle: bool,
    pub(crate) cwnd_validation: bool,
    pub(crate) restart_after_idle: bool,
    pub(crate) ignores_receive_window: bool,
    pub(crate) spurious_timeout: crate::config::SpuriousTimeout,
}

impl Sender {
    pub(crate) fn new(config: &Config, iss: u64) -> Sender {
        let smss_bytes = u32::from(config.mss_bytes);
        let law = Law::new(config.congestion_control);
        let send_times = law.measures_delay().then(Box::default);
        Sender {
            una: iss,
            nxt: iss,
            max: iss,
            write_end: iss + 1,
            window: Window {
                cwnd_bytes: smss_bytes,
                ssthresh_bytes: config.initial_ssthresh_bytes,
                smss_bytes,
            },
            snd_wnd: 0,
            max_wnd: 0,
            wl1: 0,
            phase: Phase::Open,
            dup_acks: 0,
            limited_bytes: 0,
            // Below all data. RFC 6582 §3.2 step 1 uses the initial send sequence number, with
            // which the loss of the very first segment would wait for the timer.
            recover: iss - 1,
            cut_end: iss,
            limited_end: iss,
            deadline: None,
            waits: Waits::Ack,
            timed: None,
            sent_at: Nanos::ZERO,
            finishing: false,
            resend_first: false,
            timer_resent: false,
            timer_restarted: false,
            probe: false,
            probed: false,
            ecn: false,
            cwr_pending: false,
            sack: false,
            sack_bytes: 0,
            timeouts_in_row: 0,
            unheard_since: Nanos::ZERO,
            law,
            send_times,
            scoreboard: Scoreboard::default(),
            high_rxt: iss,
            rescue_rxt: 0,
            prr: (config.reduction == Reduction::Proportional).then(Box::default),
            frto: Frto::default(),
            rto: Rto::new(config),
            habits: Habits {
                initial_window_segments: u32::from(config.initial_window_segments.max(1)),
                limited_transmit: config.limited_transmit,
                timeout_keeps_ssthresh: config.timeout_keeps_ssthresh,
                any_window_duplicates: config.any_window_duplicates,
                new_acks_set_window: config.new_acks_set_window,
                nagle: config.nagle,
                cwnd_validation: config.cwnd_validation,
                restart_after_idle: config.restart_after_idle,
                ignores_receive_window: config.ignores_receive_window,
                spurious_timeout: config.spurious_timeout,
            },
            totals: Totals::default(),
        }
    }

    /// Starts sending after the handshake, with segments of `smss_bytes`.
    pub(crate) fn establish(&mut self, smss_bytes: u32, syn_lost: bool) {
        self.una += 1;
        self.window.smss_bytes = smss_bytes;
        // RFC 5681 §3.1: one segment after a SYN or SYN-ACK was lost
        let segments = if syn_lost {
            1
        } else {
            self.habits.initial_window_segments
        };
        self.window.cwnd_bytes = segments * smss_bytes;
        self.deadline = None;
        self.timeouts_in_row = 0;
        if syn_lost {
            self.rto.after_lost_syn();
        }
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        if !self.finishing {
            self.write_end = self.write_end.saturating_add(bytes).min(ENDLESS);
        }
    }

    /// Discards unsent data: the written data then ends where the sent data ends. `unsent_syn`: 1 if the SYN, which
    /// precedes the data, is unsent; otherwise 0.
    pub(crate) fn take_back(&mut self, unsent_syn: u64) {
        if !self.finishing {
            self.write_end = self.write_end.min(self.max + unsent_syn);
        }
    }

    /// Returns the largest payload of the next segment, in bytes.
    #[inline(always)]
    pub(crate) fn payload_most(&self) -> u32 {
        self.window.smss_bytes - self.sack_bytes
    }

    /// Returns FlightSize of RFC 5681 §2 in bytes.
    pub(crate) fn flight_bytes(&self) -> u32 {
        (self.max - self.una) as u32
    }

    /// Returns whether all data of the application, and the FIN, are acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.finishing && self.una == self.write_end + 1
    }

    /// Returns whether more than `most` timeouts in a row were unanswered, and `patience` has
    /// passed since the first.
    pub(crate) fn is_given_up(&self, now: Nanos, most: u32, patience: Nanos) -> bool {
        self.timeouts_in_row > most && now.since(self.unheard_since) >= patience
    }

    /// Returns whether R2 of data is exceeded (RFC 9293 §3.8.3).
    pub(crate) fn is_out_of_patience(&self, now: Nanos) -> bool {
        self.is_given_up(now, MOST_TIMEOUTS, LEAST_PATIENCE)
    }

    /// Restarts the timer (RFC 6298 (5.1) and (5.3)) in place of whatever it waited for.
    pub(crate) fn start_timer(&mut self, now: Nanos, waits: Waits) {
        self.waits = waits;
        self.deadline = Some(now + self.rto.current());
    }

    /// Resets the count of unanswered timeouts when an ACK arrives.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.timeouts_in_row = 0;
    }

    /// Counts a timeout of any kind and doubles the interval (RFC 6298 (5.5), RFC 9293 §3.8.6.1).
    pub(crate) fn count_timeout(&mut self, now: Nanos) {
        if self.timeouts_in_row == 0 {
            self.unheard_since = now;
        }
        self.timeouts_in_row += 1;
        self.rto.back_off();
        self.deadline = None;
    }

    /// Handles the timer that has expired.
    pub(crate) fn expire(&mut self, now: Nanos) {
        match self.waits {
            Waits::Ack => self.retransmission_timeout(now),
            Waits::Window => {
                self.count_timeout(now);
                self.probe = true;
            }
            Waits::Mark if self.una < self.max => self.retransmission_timeout(now),
            // RFC 3168 §6.1.2: now a new segment may go
            Waits::Mark => {
                self.deadline = None;
                self.waits = Waits::Ack;
            }
        }
    }

    /// Reduces the window for an ECE that counts (RFC 3168 §6.1.2).
    pub(crate) fn cut_by_mark(&mut self, now: Nanos, acked: u32) {
        let ssthresh = self.law.marked(&self.window, now);
        let at_one_segment = self.window.cwnd_bytes <= self.window.smss_bytes;
        self.window.ssthresh_bytes = ssthresh;
        // A mark never enlarges the window.
        if self.phase == Phase::Open && self.begin_reduction(u64::from(acked)) {
            self.reduce(0, false);
        } else {
            self.window.cwnd_bytes = ssthresh.min(self.window.cwnd_bytes);
        }
        self.remember_reduction();
        self.totals.ecn_cuts += 1;
        if at_one_segment {
            self.start_timer(now, Waits::Mark);
        }
    }

    /// Records a reduction: at most one for a window of data whatever its cause, and CWR after it
    /// (RFC 3168 §6.1.2).
    pub(crate) fn remember_reduction(&mut self) {
        self.cut_end = self.max;
        self.cwr_pending = self.ecn;
    }
}

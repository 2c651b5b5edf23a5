//! The three-way handshake and its negotiation: RFC 9293 §3.5, RFC 7323, RFC 2018, RFC 3168 §6.1.1.

use uc_net::{Ecn, Nanos};

use crate::connection::{Connection, State};
use crate::outlet::Outlet;
use crate::segment::{Options, Segment, flags, timestamp_ms};
use crate::seq;

/// MSS of a peer that announces none (RFC 9293 §3.7.1), in bytes.
const DEFAULT_MSS_BYTES: u16 = 536;
/// Room that timestamps take in each segment, padded (RFC 7323 §3.2, Appendix A).
const TIMESTAMPS_BYTES: u32 = 12;
/// Minimum SMSS in bytes; smaller values count as this (RFC 9293 §3.7.1, as in Linux).
const LEAST_SMSS_BYTES: u32 = 48;
/// Maximum window scale; larger values count as this (RFC 7323 §2.3).
const MOST_WSCALE: u8 = 14;
/// R2 of a SYN (RFC 9293 §3.8.3): 3 minutes at least, and as many timeouts as Linux's
/// tcp_syn_retries.
const MOST_SYN_TIMEOUTS: u32 = 6;
const LEAST_SYN_PATIENCE: Nanos = Nanos::from_secs(180);

impl Connection {
    /// Sends the SYN, if the connection is unopened.
    pub fn open(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        if self.state != State::Idle {
            return;
        }
        self.state = State::SynSent;
        self.sender.nxt += 1;
        self.sender.max = self.sender.nxt;
        self.send_syn(now, out);
    }

    /// Sends the SYN or SYN-ACK, or retransmits it.
    pub(crate) fn send_syn(&mut self, now: Nanos, out: &mut impl Outlet) {
        let answer = self.state == State::SynReceived;
        let config = &self.config;
        // RFC 3168 §6.1.1: the ECN-setup SYN has both, the ECN-setup SYN-ACK has ECE alone
        let flags = match (answer, config.wants_ecn(), self.sender.ecn) {
            (false, true, _) => flags::SYN | flags::ECE | flags::CWR,
            (false, false, _) => flags::SYN,
            (true, _, true) => flags::SYN | flags::ACK | flags::ECE,
            (true, _, false) => flags::SYN | flags::ACK,
        };
        let now_ms = timestamp_ms(now);
        let timestamps = if answer {
            self.timestamps
        } else {
            config.timestamps
        };
        let options = Options {
            mss_bytes: config.mss_bytes,
            // RFC 7323 §2.2, RFC 2018 §2: a SYN-ACK has only options that the SYN offered
            wscale: config.wscale.filter(|_| !answer || self.scaling),
            sack_permitted: if answer {
                self.sender.sack
            } else {
                config.sack
            },
            timestamps: timestamps.then_some((now_ms, self.receiver.ts_recent)),
            ..Options::default()
        };
        out.send(Segment {
            seq: self.sender.una as u32,
            ack: if answer { self.receiver.nxt as u32 } else { 0 },
            window: self.receiver.syn_window(),
            payload_bytes: 0,
            flags,
            ecn: Ecn::NotEct, // RFC 3168 §6.1.1
            options,
        });
        self.syn_sent_at = now;
        self.sender.start_timer(now, crate::sender::Waits::Ack);
    }

    /// Handles the retransmission timeout of a SYN or SYN-ACK (RFC 6298 §5).
    pub(crate) fn syn_timeout(&mut self, now: Nanos, out: &mut impl Outlet) {
        self.sender.totals.timeouts += 1;
        self.sender.count_timeout(now);
        if self
            .sender
            .is_given_up(now, MOST_SYN_TIMEOUTS, LEAST_SYN_PATIENCE)
        {
            self.close();
            return;
        }
        self.syn_lost = true;
        self.sender.totals.retransmits += 1;
        self.send_syn(now, out);
    }

    /// Enables the options that both ends offer; `syn` is the peer's SYN or SYN-ACK.
    fn agree(&mut self, syn: &Segment) {
        let options = &syn.options;
        self.scaling = self.config.wscale.is_some() && options.wscale.is_some();
        if self.scaling {
            self.peer_wscale = options.wscale.unwrap_or(0).min(MOST_WSCALE);
            self.receiver.set_wscale(self.config.wscale.unwrap_or(0));
        }
        self.sender.sack = self.config.sack && options.sack_permitted;
        if !self.sender.sack {
            self.receiver.without_sack();
        }
        self.timestamps = self.config.timestamps && options.timestamps.is_some();
        if let (true, Some((ts_val, _))) = (self.timestamps, options.timestamps) {
            self.receiver.ts_recent = ts_val;
        }
        self.peer_mss_bytes = match options.mss_bytes {
            0 => DEFAULT_MSS_BYTES,
            mss_bytes => mss_bytes,
        };
    }

    /// Returns the SMSS: the MSS without the options of each segment (RFC 9293 §3.7.1, RFC 6691).
    fn smss_bytes(&self) -> u32 {
        let mss_bytes = u32::from(self.config.mss_bytes.min(self.peer_mss_bytes));
        let options_bytes = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        mss_bytes
            .saturating_sub(options_bytes)
            .max(LEAST_SMSS_BYTES)
    }

    /// Processes a SYN that arrives in state LISTEN.
    pub(crate) fn receive_syn(&mut self, now: Nanos, syn: &Segment, out: &mut impl Outlet) {
        if syn.has(flags::RST) {
            return;
        }
        if syn.has(flags::ACK) {
            out.send(reset_for(syn));
            return;
        }
        if !syn.has(flags::SYN) {
            return;
        }
        self.sender.nxt += 1;
        self.sender.max = self.sender.nxt;
        self.answer_syn(now, syn, out);
    }

    /// Enters SYN-RECEIVED, and sends the SYN-ACK.
    fn answer_syn(&mut self, now: Nanos, syn: &Segment, out: &mut impl Outlet) {
        self.agree(syn);
        let both = flags::ECE | flags::CWR;
        self.sender.ecn = self.config.grants_ecn() && syn.flags & both == both;
        self.take_syn(syn);
        self.state = State::SynReceived;
        self.send_syn(now, out);
    }

    /// Takes the peer's initial sequence number, its window, and what else its SYN carries.
    fn take_syn(&mut self, syn: &Segment) {
        self.receiver.start(seq::start(syn.seq));
        if self.state == State::SynSent {
            self.receiver.round_buffer(self.smss_bytes());
        }
        self.take_syn_window(syn);
        if syn.sequence_bytes() > 1 {
            self.receiver.hold_early(syn);
        }
    }

    /// Takes the window of a SYN or SYN-ACK, which is not scaled (RFC 7323 §2.2).
    fn take_syn_window(&mut self, syn: &Segment) {
        self.sender.snd_wnd = u32::from(syn.window);
        self.sender.max_wnd = self.sender.snd_wnd;
        self.sender.wl1 = seq::start(syn.seq);
    }

    /// Processes a segment in SYN-SENT (RFC 9293 §3.10.7.3).
    pub(crate) fn receive_syn_ack(&mut self, now: Nanos, segment: &Segment, out: &mut impl Outlet) {
        let acknowledges = segment.has(flags::ACK) && segment.ack == self.sender.nxt as u32;
        if segment.has(flags::ACK) && !acknowledges {
            if !segment.has(flags::RST) {
                out.send(reset_for(segment));
            }
            return;
        }
        if segment.has(flags::RST) {
            if acknowledges {
                self.close();
            }
            return;
        }
        if !segment.has(flags::SYN) {
            return;
        }
        if !acknowledges {
            self.answer_syn(now, segment, out); // both ends open (RFC 9293 §3.5)
            return;
        }
        self.agree(segment);
        let both = flags::ECE | flags::CWR;
        self.sender.ecn = self.config.wants_ecn() && segment.flags & both == flags::ECE;
        self.take_syn(segment);
        self.establish(now);
        if self.config.acknowledges_before_data {
            self.emit_ack(now, out);
        } else {
            self.receiver.due = crate::receiver::Due::Now;
        }
        self.flush(now, out);
    }

    /// Enters ESTABLISHED when this end's SYN is acknowledged.
    pub(crate) fn establish(&mut self, now: Nanos) {
        self.state = State::Established;
        if !self.syn_lost {
            self.sender.rto.sample(now.since(self.syn_sent_at)); // Karn's rule
        }
        self.sender.establish(self.smss_bytes(), self.syn_lost);
        self.receiver.round_buffer(self.smss_bytes());
        let readable = self.receiver.take_early(now);
        self.sender.totals.delivered_bytes += u64::from(readable);
    }
}

/// Returns the reset that answers a segment of no connection (RFC 9293 §3.5.2).
pub fn reset_for(segment: &Segment) -> Segment {
    let acknowledges = segment.has(flags::ACK);
    Segment {
        seq: if acknowledges { segment.ack } else { 0 },
        ack: if acknowledges {
            0
        } else {
            segment.seq.wrapping_add(segment.sequence_bytes())
        },
        window: 0,
        payload_bytes: 0,
        flags: if acknowledges {
            flags::RST
        } else {
            flags::RST | flags::ACK
        },
        ecn: Ecn::NotEct,
        options: Options::default(),
    }
}

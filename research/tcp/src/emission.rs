//! Construction of outgoing segments: header, flags, marks, options.

use uc_net::{Ecn, Nanos};

use crate::connection::{Connection, State};
use crate::outlet::Outlet;
use crate::output::Chunk;
use crate::receiver::Due;
use crate::segment::{Options, SackBlocks, Segment, flags, timestamp_ms};

/// Room that SACK blocks take in a segment: padding and header, and each block (RFC 2018 §3).
const SACK_HEADER_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;

impl Connection {
    /// Sends what may go now, and an ACK if no segment carried it. Does nothing if a controller decides the
    /// connection's window (`overrule.rs`): then the caller sends after the controller's answer.
    #[inline(always)]
    pub(crate) fn flush(&mut self, now: Nanos, out: &mut impl Outlet) {
        if self.overruled.is_none() {
            self.send_all(now, out);
        }
    }

    // One loop for data and ACK, so that the code that makes a segment and sends it is there once.
    #[inline(always)]
    pub(crate) fn send_all(&mut self, now: Nanos, out: &mut impl Outlet) {
        if self.state != State::Established {
            return;
        }
        let mut may_send = !self.sender.is_idle();
        loop {
            if may_send && self.receiver.sack_on_data {
                self.sender.sack_bytes = self.sack_bytes();
            }
            let data = may_send.then(|| self.sender.poll(now)).flatten();
            may_send = data.is_some_and(|chunk| !chunk.last);
            let chunk = match data {
                Some(data) => data,
                None if self.receiver.due as u8 >= Due::Now as u8 => self.answer(),
                None => return,
            };
            self.emit(now, &chunk, out);
        }
    }

    /// Returns the segment that carries an ACK alone; a 4.4BSD receiver repeats its own unacknowledged FIN in it.
    #[inline]
    fn answer(&self) -> Chunk {
        if self.receiver.bsd && self.sender.is_fin_in_flight() {
            return self.sender.repeated_fin();
        }
        self.bare_ack()
    }

    #[inline]
    fn bare_ack(&self) -> Chunk {
        Chunk {
            seq: self.sender.nxt.max(self.sender.max),
            bytes: 0,
            fin: false,
            push: false,
            fresh: false,
            last: false,
        }
    }

    /// Sends an ACK now, before any data that may be sent.
    #[inline(never)]
    pub(crate) fn emit_ack(&mut self, now: Nanos, out: &mut impl Outlet) {
        let ack = self.bare_ack();
        self.emit(now, &ack, out);
    }

    #[inline(always)]
    fn emit(&mut self, now: Nanos, chunk: &Chunk, out: &mut impl Outlet) {
        let mut flags = flags::ACK;
        let mut ecn = Ecn::NotEct;
        if chunk.push {
            flags |= flags::PSH;
        }
        if chunk.fin {
            self.closed_last |= chunk.fresh && self.receiver.finished;
            flags |= flags::FIN;
        }
        if self.sender.ecn {
            let new_data = chunk.fresh && chunk.bytes > 0;
            // RFC 3168 §6.1.4 to §6.1.6: new data only
            if new_data || self.all_ect {
                ecn = Ecn::Ect0;
            }
            if new_data && std::mem::take(&mut self.sender.cwr_pending) {
                flags |= flags::CWR;
            }
            if self.receiver.echo {
                flags |= flags::ECE;
            }
        }
        let window = self.receiver.take_window();
        let options = self.options(now, chunk.bytes);
        self.receiver.acknowledged();
        out.send(Segment {
            seq: chunk.seq as u32,
            ack: self.receiver.nxt as u32,
            window,
            payload_bytes: chunk.bytes as u16,
            flags,
            ecn,
            options,
        });
    }

    #[inline(always)]
    fn options(&self, now: Nanos, payload_bytes: u32) -> Options {
        let mut options = Options::default();
        if self.timestamps {
            options.timestamps = Some((timestamp_ms(now), self.receiver.ts_recent));
        }
        if self.reports_blocks() {
            let blocks = self.sack_blocks();
            // a full segment has no room for SACK blocks
            if payload_bytes + room_bytes(&blocks) <= self.sender.window.smss_bytes {
                options.sack = blocks;
            }
        }
        options
    }

    #[inline(always)]
    fn reports_blocks(&self) -> bool {
        let held = &self.receiver.held;
        self.sender.sack && (!held.is_empty() || held.has_duplicate())
    }

    fn sack_blocks(&self) -> SackBlocks {
        // Three blocks fit beside timestamps (RFC 2018 §3).
        let most = if self.timestamps {
            3
        } else {
            self.config.sack_blocks
        };
        self.receiver.held.blocks(most)
    }

    /// Returns the room that the SACK blocks of the next segment take, in bytes.
    #[inline(never)]
    fn sack_bytes(&self) -> u32 {
        if self.reports_blocks() {
            room_bytes(&self.sack_blocks())
        } else {
            0
        }
    }
}

fn room_bytes(blocks: &SackBlocks) -> u32 {
    SACK_HEADER_BYTES + SACK_BLOCK_BYTES * blocks.as_slice().len() as u32
}

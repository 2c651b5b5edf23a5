//! One port: what its programs hand over goes to its hold, and what the hold returns goes to the wire.

use std::collections::BTreeMap;
use std::fs::File;
use std::rc::Rc;

use libbpf_rs::MapHandle;
use nix::net::if_::if_indextoname;
use uc_core::consts;
use uc_files::claim_port;
use uc_hold_core::{Hold, Out, Settings, flags};
use uc_port::{PortError, interface_index};
use uc_service::commands::hold::HeldFlow;
use zerocopy::FromBytes;

use crate::counts::Counts;
use crate::error::HoldError;
use crate::flow::Flow;
use crate::frame::{Checksum, Frame, Marks};
use crate::held_segment::{HeldSegment, Joined};
use crate::laws::Laws;
use crate::layout::uc_hold_head;
use crate::programs::{Attached, PortMaps, Programs};
use crate::wire::Wire;

const SYN_ACK: u8 = flags::SYN | flags::ACK;
/// Flag by which a SYN-ACK accepts Accurate ECN (RFC 9768 §3.1.2); some do so by [`consts::OPT_AE`].
const CWR: u8 = 0x80;
/// Options of connections that are not held: a signature also covers the ACK number, and Multipath TCP maps
/// sequence numbers onto others.
const UNHELD_OPTIONS: u32 = consts::OPT_SIGNED | consts::OPT_MPTCP;
/// Maximum number of segments of a frame that is held: 64 KiB in segments of 512 bytes. A guest could send segments of
/// one byte, each of which takes time and memory.
const SEGMENTS_MAX: usize = 128;

/// Interval of the rounds that check whether a law still translates the flows whose data is kept; next line: number of
/// flows that are checked at once.
const ASK_NS: u64 = 1_000_000_000;
const ASKED_AT_ONCE: usize = 64;

/// A port whose packets are held. Dropping it detaches its programs.
#[derive(Debug)]
pub struct Port {
    ifindex: u32,
    name: String,
    programs: Rc<Programs>,
    /// The laws of the ports; `None`: no data is kept.
    laws: Option<Rc<Laws>>,
    /// The last flow that this round of checks has reached; `None`: the round is over.
    asked: Option<Flow>,
    /// When the next round begins, in ns.
    ask_ns: u64,
    hold: Hold<Flow, HeldSegment>,
    maps: PortMaps,
    wire: Wire,
    counts: Counts,
    is_paced: bool,
    /// Number of the host's retransmissions, keyed by flow.
    retransmits: BTreeMap<Flow, u64>,
    attached: Option<Attached>,
    _claim: File,
}

impl Port {
    /// Claims a port of the calling thread's network namespace, and creates its maps and sockets. Its programs are not
    /// attached yet.
    ///
    /// # Errors
    /// If no interface has this name, the port has no law and data is to be kept, another process holds the port's
    /// packets, or the kernel refuses.
    pub fn open(
        programs: &Rc<Programs>,
        laws: Option<&Rc<Laws>>,
        name: &str,
        settings: Settings,
    ) -> Result<Self, HoldError> {
        let ifindex = interface_index(name)?;
        if let Some(laws) = laws {
            laws.check(ifindex, name)?;
        }
        let claim = claim_port("hold", ifindex).map_err(PortError::from)?;
        let claim = claim.ok_or_else(|| {
            HoldError::Refused(format!(
                "port {name}: another `uc hold` runs for it; end that first"
            ))
        })?;
        let hold = Hold::new(settings);
        let wire = Wire::open(ifindex)?;
        Ok(Self {
            ifindex,
            name: name.to_owned(),
            programs: Rc::clone(programs),
            laws: laws.map(Rc::clone),
            asked: None,
            ask_ns: 0,
            maps: programs.add_port(ifindex, settings.bytes_max, hold.flows_max(), wire.own())?,
            hold,
            wire,
            counts: Counts::default(),
            is_paced: settings.pace,
            retransmits: BTreeMap::new(),
            attached: None,
            _claim: claim,
        })
    }

    /// Attaches the programs: from now on packets are handed over.
    ///
    /// # Errors
    /// As [`Programs::attach`].
    pub fn attach(&mut self) -> Result<(), HoldError> {
        self.attached = Some(self.programs.attach(self.ifindex, &self.name)?);
        Ok(())
    }

    /// Returns the index of the port's interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Returns what is held of a flow; `None`: its packets pass.
    pub fn held(&self, flow: &Flow) -> Option<HeldFlow> {
        self.hold.knows(flow).then(|| HeldFlow {
            paced: self.is_paced,
            kept: self.laws.as_ref().is_some_and(|laws| laws.translate(flow)),
            retransmits: self.retransmits.get(flow).copied().unwrap_or_default(),
        })
    }

    /// Returns the ring in which the programs hand packets over.
    pub fn ring(&self) -> &MapHandle {
        &self.maps.ring
    }

    /// Processes a packet that the programs handed over.
    pub fn receive(&mut self, now_ns: u64, entry: &[u8]) {
        let Ok((head, rest)) = uc_hold_head::read_from_prefix(entry) else {
            return;
        };
        let bytes = rest.get(..head.frame_bytes as usize);
        let frame = bytes.and_then(|bytes| {
            let (at, payload) = (head.tcp_at.into(), head.payload_bytes as usize);
            Frame::read(bytes, at, payload, head.gso_size.into())
        });
        // The programs hand over whole headers only.
        let Some(mut frame) = frame else { return };
        frame.marks = Marks {
            mark: head.mark,
            priority: head.priority,
        };
        self.counts.packets += 1;
        let is_from_guest = u32::from(head.direction) == consts::FROM_GUEST;
        if frame.segments() > SEGMENTS_MAX || frame.checksum() == Checksum::Wrong {
            if !is_from_guest {
                self.send_to_guest(&frame);
            }
            return;
        }
        let (flow, own) = (Flow::from(head.key), frame.flags());
        let is_declined = is_declined(own, head.options.into());
        if is_declined {
            // before a SYN-ACK opens it
            self.hold.decline(flow);
        }
        if is_from_guest {
            self.sent(now_ns, flow, frame);
        } else {
            for piece in HeldSegment::of(flow, frame) {
                self.hold.arrived(now_ns, flow, &piece.segment(), piece);
            }
        }
        if is_declined {
            // and after a SYN of the guest has ended the connection before it
            self.hold.decline(flow);
        } else if own & flags::SYN != 0 {
            self.follow(flow, own);
        }
        if own & SYN_ACK == SYN_ACK
            && let Some(laws) = &self.laws
            && !laws.translate(&flow)
        {
            self.hold.keep_nothing(&flow);
        }
    }

    fn sent(&mut self, now_ns: u64, flow: Flow, frame: Frame) {
        for piece in HeldSegment::of(flow, frame) {
            let segment = piece.segment();
            self.hold.sent(now_ns, flow, &segment, || piece.alone());
        }
    }

    /// Adds the flow of a SYN to the programs' table. At a handshake this is done before the SYN-ACK reaches
    /// the guest, so the guest's first data is handed over, too.
    fn follow(&mut self, flow: Flow, own: u8) {
        self.remove_forgotten();
        let is_held = self.hold.knows(&flow) && self.maps.table.add(&flow);
        if !is_held && own & flags::ACK == 0 {
            self.counts.flows_unheld += 1;
        }
    }

    /// Forgets flows that no longer need an entry, and stops keeping data of flows that no law translates any more.
    pub fn sweep(&mut self, now_ns: u64) {
        self.hold.sweep(now_ns);
        let Some(laws) = &self.laws else { return };
        if self.asked.is_none() {
            if now_ns < self.ask_ns {
                return;
            }
            self.ask_ns = now_ns + ASK_NS;
        }
        let (keeping, asked) = self.hold.keeping(self.asked, ASKED_AT_ONCE);
        self.asked = asked;
        for flow in keeping {
            if !laws.translate(&flow) {
                self.hold.keep_nothing(&flow);
            }
        }
    }

    /// Sends all packets that are due by this time.
    pub fn send_due(&mut self, now_ns: u64) {
        let mut joined: Option<Joined> = None;
        while let Some(out) = self.hold.take(now_ns) {
            let next = match out {
                Out::ToGuest {
                    packet,
                    ack,
                    without_sack,
                } => Joined::new(packet, ack, without_sack),
                Out::ToNetwork(piece) => {
                    self.send_to_network(&piece);
                    continue;
                }
            };
            let left = match &mut joined {
                None => Some(next),
                Some(before) => before.add(next),
            };
            if let Some(next) = left
                && let Some(whole) = joined.replace(next)
            {
                whole.send(|frame| self.send_to_guest(frame));
            }
        }
        if let Some(last) = joined {
            last.send(|frame| self.send_to_guest(frame));
        }
        self.remove_forgotten();
    }

    /// Removes flows from the programs' table that the hold has forgotten.
    fn remove_forgotten(&mut self) {
        for flow in self.hold.forgotten() {
            self.maps.table.remove(&flow);
            self.retransmits.remove(&flow);
        }
    }

    fn send_to_guest(&mut self, frame: &Frame) {
        if !self.wire.to_guest(frame) {
            self.counts.unsent += 1;
        }
    }

    fn send_to_network(&mut self, piece: &HeldSegment) {
        let mut frame = piece.to_frame();
        *self.retransmits.entry(piece.flow()).or_default() += 1;
        if let Some(newest) = self.maps.table.newest(&piece.flow()) {
            newest.write(&mut frame);
        }
        frame.remove_ecn();
        if !self.wire.to_network(&frame) {
            self.counts.unsent += 1;
        }
    }

    /// Returns the time in ns at which the hold has something to send; `None`: nothing is due.
    pub fn next_at(&self) -> Option<u64> {
        self.hold.next_at()
    }

    /// Sends the waiting ACKs towards the guest, in order, and drops the copies of data.
    pub fn release(&mut self, now_ns: u64) {
        self.hold.release();
        self.send_due(now_ns);
    }

    /// Checks that the interface still exists, and that no program runs behind those of the hold. Returns
    /// false if the interface is gone.
    ///
    /// # Errors
    /// [`HoldError::Behind`]; the kernel's refusal.
    pub fn check(&self) -> Result<bool, HoldError> {
        // by index: a renamed interface is the same port
        if if_indextoname(self.ifindex).is_err() {
            return Ok(false);
        }
        self.programs.check_last(self.ifindex, &self.name)?;
        Ok(true)
    }

    /// Returns the counters of the port since it was opened.
    pub fn counts(&self) -> Counts {
        Counts {
            flows_unheld: self.counts.flows_unheld + self.hold.displaced(),
            decisions: self.hold.counts(),
            ..self.counts
        }
    }
}

/// Returns whether a SYN or SYN-ACK with these flags and options belongs to a connection that is not held: one with
/// [`UNHELD_OPTIONS`], or one that accepts Accurate ECN, which counts marks in TCP flags. In an ACK that the host
/// makes, these flags would be wrong.
fn is_declined(own: u8, options: u32) -> bool {
    let is_answer = own & SYN_ACK == SYN_ACK;
    let is_accurate = is_answer && (own & CWR != 0 || options & consts::OPT_AE != 0);
    is_accurate || options & UNHELD_OPTIONS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_with_accurate_ecn_signatures_or_multipath_tcp_are_declined() {
        const ECE: u8 = 0x40;
        // an offer, and how it is refused or taken for the ECN of RFC 3168
        assert!(!is_declined(flags::SYN | CWR | ECE, consts::OPT_AE));
        assert!(!is_declined(SYN_ACK, 0));
        assert!(!is_declined(SYN_ACK | ECE, 0));
        for accepting in [CWR, CWR | ECE] {
            assert!(is_declined(SYN_ACK | accepting, 0));
        }
        for accepting in [0, CWR] {
            assert!(is_declined(SYN_ACK | accepting, consts::OPT_AE));
        }
        // the counter of marks in other segments
        assert!(!is_declined(flags::ACK | CWR, consts::OPT_AE));
        for option in [consts::OPT_SIGNED, consts::OPT_MPTCP] {
            assert!(is_declined(flags::SYN, option) && is_declined(SYN_ACK, option));
        }
        assert!(!is_declined(flags::SYN, consts::OPT_SACK));
    }
}

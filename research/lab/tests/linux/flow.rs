//! A flow under way: its sockets, what their programs still write and read, and its record.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use uc_core::slot::Slot;
use uc_core::{Edit, Segment, consts};
use uc_lab::tcp_info::TcpInfo;

use super::case::{Case, Reading, Write};
use super::path::Ways;
use super::record::{Event, Fate, Record};

/// One end's data still to be written.
#[derive(Debug)]
struct Writer {
    writes: VecDeque<Write>,
    /// The write that waits for its time, or for room, and when it is due.
    now: Option<(Write, Option<u64>)>,
    done: bool,
}

/// A step that a flow asks for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    GuestWrites,
    FarWrites,
    FarReads,
}

/// A flow under way.
#[derive(Debug)]
pub struct Flow {
    pub case: Case,
    pub ways: Ways,
    pub record: Record,
    pub deadline_ns: u64,
    guest: TcpStream,
    far: Option<TcpStream>,
    writers: [Writer; 2],
    /// Bytes that each end has yet to receive: the guest, the far end.
    missing: [u64; 2],
    far_read_ns: u64,
    port: Box<Slot>,
    scratch: Vec<u8>,
}

impl Writer {
    fn new(writes: &[Write]) -> Writer {
        Writer {
            writes: writes.iter().copied().collect(),
            now: None,
            done: false,
        }
    }

    /// Writes what is due. Returns when the next write is due, if one waits for its time.
    fn go_on(&mut self, socket: &mut TcpStream, now_ns: u64) -> Option<u64> {
        loop {
            let (write, due_ns) = match self
                .now
                .take()
                .or_else(|| Some((self.writes.pop_front()?, None)))
            {
                Some(now) => now,
                None => {
                    self.done = true;
                    return None;
                }
            };
            let pause_ns = write.pause_before.as_nanos() as u64;
            let due_ns = due_ns.unwrap_or(now_ns + pause_ns);
            if due_ns > now_ns {
                self.now = Some((write, Some(due_ns)));
                return Some(due_ns);
            }
            match socket.write(&vec![7; write.bytes as usize]) {
                Ok(written) if written as u32 == write.bytes => {}
                Ok(written) => {
                    let bytes = write.bytes - written as u32;
                    self.now = Some((Write { bytes, ..write }, Some(due_ns)));
                }
                Err(_) => {
                    self.now = Some((write, Some(due_ns)));
                    return None;
                }
            }
        }
    }
}

fn total(writes: &[Write]) -> u64 {
    writes.iter().map(|write| u64::from(write.bytes)).sum()
}

impl Flow {
    pub fn new(case: Case, guest: OwnedFd, now_ns: u64, deadline_ns: u64) -> Flow {
        Flow {
            ways: Ways::new(&case, now_ns),
            record: Record::default(),
            deadline_ns,
            guest: TcpStream::from(guest),
            far: None,
            writers: [Writer::new(&case.writes), Writer::new(&case.far_writes)],
            missing: [total(&case.far_writes), total(&case.writes)],
            far_read_ns: 0,
            port: Box::new(Slot::new(case.policy())),
            scratch: vec![0; 1 << 16],
            case,
        }
    }

    /// Takes in a segment at the port, and returns the port's edit if it writes one.
    pub fn port(&mut self, segment: &Segment, now_ns: u64) -> Option<Edit> {
        let pass = |port: &mut Slot| port.pass(segment, now_ns, &mut |_| None).1;
        self.case.translated.then(|| pass(&mut self.port))
    }

    pub fn note(&mut self, segment: Segment, fate: Fate, now_ns: u64) {
        if uc_core::is_syn(&segment) {
            let has = |bit: u32| u32::from(segment.options) & bit != 0;
            let offered = [has(consts::OPT_SACK), has(consts::OPT_TIMESTAMPS)];
            self.record.is_mixed |= offered != self.case.offers()[..2];
        }
        self.record.note(now_ns, Event::Segment { segment, fate });
    }

    /// Notes what the guest's kernel holds now.
    pub fn note_kernel(&mut self, now_ns: u64) {
        if let Ok(info) = TcpInfo::read(self.guest.as_fd()) {
            self.record.note(now_ns, Event::Kernel(info));
        }
    }

    pub fn accepted(&mut self, far: TcpStream) {
        self.far = Some(far);
    }

    pub fn is_accepted(&self) -> bool {
        self.far.is_some()
    }

    /// Lets the guest's program write and read what it can. Returns when it goes on.
    pub fn guest_acts(&mut self, now_ns: u64) -> Option<(u64, Step)> {
        self.missing[0] -= read_all(&mut self.guest, &mut self.scratch, usize::MAX);
        let was_done = self.writers[0].done;
        let due = self.writers[0].go_on(&mut self.guest, now_ns);
        if self.writers[0].done && !was_done && self.case.fin {
            let _ = self.guest.shutdown(Shutdown::Write);
        }
        due.map(|at_ns| (at_ns, Step::GuestWrites))
    }

    /// Lets the far end's program write. Returns when it goes on.
    pub fn far_writes(&mut self, now_ns: u64) -> Option<(u64, Step)> {
        let due = self.writers[1].go_on(self.far.as_mut()?, now_ns);
        due.map(|at_ns| (at_ns, Step::FarWrites))
    }

    /// Lets the far end's program read, if it is time. Returns when it goes on.
    pub fn far_reads(&mut self, now_ns: u64) -> Option<(u64, Step)> {
        let far = self.far.as_mut()?;
        match self.case.reading {
            Reading::AtOnce => {
                self.missing[1] -= read_all(far, &mut self.scratch, usize::MAX);
                None
            }
            Reading::Slowly { every, bytes } => {
                if now_ns < self.far_read_ns {
                    return None;
                }
                self.far_read_ns = now_ns + every.as_nanos() as u64;
                self.missing[1] -= read_all(far, &mut self.scratch, bytes);
                (self.missing[1] > 0).then_some((self.far_read_ns, Step::FarReads))
            }
        }
    }

    /// Returns whether both ends have all data, and the guest knows.
    pub fn is_done(&self) -> bool {
        self.missing == [0, 0]
            && self.writers.iter().all(|writer| writer.done)
            && TcpInfo::read(self.guest.as_fd()).is_ok_and(|info| info.unacked == 0)
    }
}

/// Reads at most `most` bytes; returns how many there were.
fn read_all(socket: &mut TcpStream, scratch: &mut [u8], most: usize) -> u64 {
    let mut total = 0;
    while total < most {
        let room = scratch.len().min(most - total);
        match socket.read(&mut scratch[..room]) {
            Ok(0) => break,
            Ok(bytes) => total += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    total as u64
}

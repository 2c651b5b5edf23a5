//! A simulated host on which a process runs: its clocks, descriptors and log, and the events between system calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Error;

use crate::dice::Dice;
use crate::files::Files;
use crate::mishaps::{End, Mishap, Mishaps};
use crate::objects::Bpf;

/// An answer of the world to a system call: a value, or an errno.
pub type Answer<T = i64> = Result<T, i32>;

/// Number of the first descriptor that belongs to a world. The test program's own descriptors have lower numbers.
const FIRST_FD: i32 = 1 << 20;
/// Time that a system call takes, in ns.
const CALL_NS: u64 = 2_000;
/// Unix time of a host's first start, in ns.
const FIRST_NS: u64 = 1_700_000_000_000_000_000;
/// Maximum number of log lines that are printed after a failure.
const LOG_MAX: usize = 200;
/// Calls that are logged even if they succeed.
const CHANGES: [&str; 10] = [
    "pin",
    "unlink",
    "rename",
    "mkdir",
    "rmdir",
    "link_create",
    "link_update",
    "link_detach",
    "prog_load",
    "map_delete",
];

/// An open file, socket or object.
#[derive(Clone, Debug)]
pub enum Fd {
    /// A file on the disk or in memory, and the current position in it.
    File { inode: usize, at: usize },
    /// A folder.
    Folder(String),
    /// A BPF program, map or link, by the object's number.
    Object(usize),
    /// A netlink socket, with the answers that were not read yet.
    Netlink(VecDeque<Vec<u8>>),
    /// A descriptor without a file, which only occupies its number.
    Placeholder,
}

/// An interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface, at most 15 bytes.
    pub name: String,
    pub(crate) mtu: u32,
}

/// A host: the state of its kernel and disk, and its mishaps.
#[derive(Debug)]
pub struct World {
    /// Random numbers of this world's seed.
    pub dice: Dice,
    /// Files and pins by their paths.
    pub files: Files,
    /// Maps, programs and links of the kernel.
    pub bpf: Bpf,
    /// Interfaces by index.
    pub interfaces: BTreeMap<u32, Interface>,
    pub(crate) next_ifindex: u32,
    /// Names that interfaces may get.
    pub(crate) names: Vec<String>,
    /// Open descriptors by number, from [`FIRST_FD`] on.
    fds: Vec<Option<Fd>>,
    /// How the process was ended; from then on all its calls fail without effect. `None`: it runs.
    pub end: Option<End>,
    now_ns: u64,
    /// Unix time minus the time since the host's start, in ns; it changes when the clock is set.
    wall_ns: u64,
    mishaps: Mishaps,
    cut_short: bool,
    /// Time since the host's start, in ns, until which another process holds the lock of the pins.
    pub locked_until_ns: u64,
    /// Ports that must keep their programs and flows whatever happens to the process: any loss is a failure.
    pub promised: BTreeSet<u32>,
    /// Flows of promised ports, as keys of the flow table.
    pub flows: Vec<(u32, Vec<u8>)>,
    /// Description of the first promise that was broken; `None`: none was.
    pub broken: Option<String>,
    log: VecDeque<String>,
    is_logged: bool,
}

impl World {
    /// Creates a host without interfaces, on which no mishap happens.
    pub fn new(seed: u64, names: &[&str], is_logged: bool) -> Self {
        Self {
            dice: Dice::new(seed),
            files: Files::new(),
            bpf: Bpf::default(),
            interfaces: BTreeMap::new(),
            next_ifindex: 2,
            names: names.iter().map(ToString::to_string).collect(),
            fds: Vec::new(),
            end: None,
            now_ns: 1_000_000_000_000,
            wall_ns: FIRST_NS,
            mishaps: Mishaps::default(),
            cut_short: false,
            locked_until_ns: 0,
            promised: BTreeSet::new(),
            flows: Vec::new(),
            broken: None,
            log: VecDeque::new(),
            is_logged,
        }
    }

    /// Lets up to `most` mishaps happen from now on, each at most `2^(rarity + 1)` calls after the one before.
    pub fn arm(&mut self, most: u32, rarity: u32) {
        self.mishaps.arm(most, rarity, &mut self.dice);
    }

    /// Lets the call after the next `after` calls fail with EIO; with `end`, ends the process there.
    pub fn arm_at(&mut self, after: u64, end: Option<End>) {
        self.mishaps.arm_at(after, end);
    }

    /// Lets no mishap happen from now on.
    pub fn disarm(&mut self) {
        self.mishaps.disarm();
        self.cut_short = false;
    }

    /// Returns the number of system calls so far.
    pub fn calls(&self) -> u64 {
        self.mishaps.calls
    }

    /// Counts a system call and applies the mishap that happens at it.
    ///
    /// # Errors
    /// The call fails, with one of the usual errors or of `errors`; or the process has ended.
    pub(crate) fn may(&mut self, call: &'static str, errors: &[i32]) -> Answer<()> {
        if self.end.is_some() {
            return Err(libc::EIO);
        }
        self.now_ns += CALL_NS;
        let mishap = self.mishaps.at(call, errors, &mut self.dice);
        let number = self.mishaps.calls;
        if let Some(mishap) = mishap {
            self.note(|| match mishap {
                Mishap::Fails(errno) => {
                    format!("{number} {call}: {}", Error::from_raw_os_error(errno))
                }
                other => format!("{number} {call}: {other:?}"),
            });
        } else if CHANGES.contains(&call) {
            self.note(|| format!("{number} {call}"));
        }
        match mishap {
            None => {}
            Some(Mishap::Fails(errno)) => return Err(errno),
            Some(Mishap::Ends(end)) => {
                self.end = Some(end);
                return Err(libc::EIO);
            }
            Some(Mishap::IsCutShort) => self.cut_short = true,
            // up to a year off
            Some(Mishap::ClockSteps) => {
                self.wall_ns = FIRST_NS + self.dice.below(31_536_000_000_000_000);
            }
            Some(Mishap::InterfacesChange) => self.change_interfaces(),
            Some(Mishap::OtherProcessLocks) => {
                self.locked_until_ns = self.now_ns + self.dice.below(20_000_000_000);
            }
        }
        Ok(())
    }

    /// Adds a line to the log, which is printed after a failure.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.is_logged {
            self.log.push_back(text());
            if self.log.len() > LOG_MAX {
                self.log.pop_front();
            }
        }
    }

    /// Returns the last lines of the log.
    pub fn last_notes(&self) -> String {
        let lines: Vec<&str> = self.log.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    /// Returns how many of `length` bytes this call processes: all, unless a mishap cuts it short.
    pub(crate) fn part(&mut self, length: usize) -> usize {
        if std::mem::take(&mut self.cut_short) && length > 1 {
            return 1 + self.dice.below(length as u64 - 1) as usize;
        }
        length
    }

    /// Removes the promise for a port.
    pub fn withdraw(&mut self, port: u32) {
        self.promised.remove(&port);
        self.flows.retain(|(of, _)| *of != port);
    }

    /// Removes what is left of an ended process: its descriptors are closed. After a power cut the host starts again.
    pub fn bury(&mut self) {
        let end = self.end.take();
        for (at, fd) in std::mem::take(&mut self.fds).into_iter().enumerate() {
            if let Some(fd) = fd {
                self.release(FIRST_FD + at as i32, &fd);
            }
        }
        self.locked_until_ns = 0;
        if end == Some(End::PowerCut) {
            self.note(|| "the power is cut".to_owned());
            self.promised.clear();
            self.flows.clear();
            self.bpf = Bpf::default();
            self.files.lose_power(&mut self.dice);
            self.next_ifindex = 2;
            self.now_ns = 10_000_000_000;
            for own in std::mem::take(&mut self.interfaces).into_values() {
                self.add_interface(own.name);
            }
        }
    }

    /// Releases what a descriptor refers to; returns whether a BPF object has lost its last user.
    fn release(&mut self, number: i32, fd: &Fd) -> bool {
        match fd {
            Fd::Object(object) => self.bpf.drop_user(*object),
            Fd::File { inode, .. } => {
                self.files.unlock(*inode, number);
                false
            }
            _ => false,
        }
    }

    /// Returns whether the descriptor belongs to this world.
    pub(crate) fn owns(&self, fd: i32) -> bool {
        fd >= FIRST_FD
    }

    /// Returns the number of open descriptors.
    pub fn open_fds(&self) -> usize {
        self.fds.iter().flatten().count()
    }

    /// Adds an open file under the lowest free descriptor; returns the descriptor.
    pub(crate) fn enter(&mut self, fd: Fd) -> i64 {
        if let Fd::Object(object) = fd {
            self.bpf.add_user(object);
        }
        let free = self.fds.iter().position(Option::is_none);
        let at = free.unwrap_or(self.fds.len());
        match free {
            Some(at) => self.fds[at] = Some(fd),
            None => self.fds.push(Some(fd)),
        }
        i64::from(FIRST_FD) + at as i64
    }

    fn entry(&mut self, fd: i32) -> Option<&mut Option<Fd>> {
        self.fds.get_mut(usize::try_from(fd - FIRST_FD).ok()?)
    }

    pub(crate) fn fd(&mut self, fd: i32) -> Answer<&mut Fd> {
        self.entry(fd).and_then(Option::as_mut).ok_or(libc::EBADF)
    }

    pub(crate) fn close(&mut self, fd: i32) -> Answer {
        // a process that has ended closes nothing: its end did
        if self.end.is_none()
            && let Some(own) = self.entry(fd).and_then(Option::take)
            && self.release(fd, &own)
        {
            self.check();
        }
        Ok(0)
    }

    pub(crate) fn fcntl(&mut self, fd: i32, command: i32) -> Answer {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                self.may("dup", &[libc::EMFILE])?;
                let copy = self.fd(fd)?.clone();
                Ok(self.enter(copy))
            }
            _ => self.fd(fd).map(|_| 0),
        }
    }

    pub(crate) fn placeholder(&mut self) -> Answer {
        self.may("memfd_create", &[libc::EMFILE])?;
        Ok(self.enter(Fd::Placeholder))
    }

    pub(crate) fn dup_to(&mut self, from: i32, to: i32) -> Answer {
        self.may("dup3", &[libc::EBUSY])?;
        let copy = self.fd(from)?.clone();
        if let Fd::Object(object) = copy {
            self.bpf.add_user(object);
        }
        let entry = self.entry(to).ok_or(libc::EBADF)?;
        if let Some(old) = entry.replace(copy) {
            self.release(to, &old);
        }
        Ok(to.into())
    }

    pub(crate) fn time_ns(&self, clock: i32) -> u64 {
        match clock {
            libc::CLOCK_REALTIME => self.wall_ns + self.now_ns,
            _ => self.now_ns,
        }
    }

    /// Lets this much time pass, in ns.
    pub fn sleep(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Checks the promised ports: programs at both hooks, and their flows. Records the first failure in `broken`.
    pub fn check(&mut self) {
        if self.broken.is_some() {
            return;
        }
        for &index in &self.promised {
            if let Some(why) = self.bpf.fault_of(index, &self.flows) {
                self.broken = Some(format!("port {index}: {why}"));
                return;
            }
        }
    }
}

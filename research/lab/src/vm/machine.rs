//! A running VM: QEMU's process, the channel to the agent inside, and its console.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::load::GoOn;
use crate::vm::accel::Accel;
use crate::vm::channel::Channel;
use crate::vm::error::{VmError, resource};
use crate::vm::fault;
use crate::vm::image::Image;
use crate::vm::message::{Answer, Ran, Request};
use crate::vm::monitor::Monitor;
use crate::vm::qemu::{self, Incoming, Shape, Wires};
use crate::vm::series;

/// Time limit for an agent's short actions. Ten emulated CPUs that start the same programs at the
/// same time on two busy cores have needed more than half a minute.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which a wait calls `go_on`, which may end it.
const LOOK: Duration = Duration::from_millis(20);
/// Number of checks whether QEMU has ended.
const ENDING_LOOKS: u32 = 10;
/// File with the faults of a guest's kernel.
const TAINTED: &str = "/proc/sys/kernel/tainted";
/// Bits of the file that count (the kernel's tainted-kernels.rst): it died, it warned, a CPU was
/// locked up. An unsigned or out-of-tree module does not count.
const HARMED: u64 = 1 << 7 | 1 << 9 | 1 << 14;
/// File with the state of lockdep.
const LOCKDEP: &str = "/proc/lockdep_stats";
/// Maximum length of a console or of QEMU's messages in an error, in bytes.
const EXCERPT_BYTES: usize = 400;

/// A VM. It ends when dropped, and with the thread that made it.
#[derive(Debug)]
pub struct Machine {
    node: String,
    kernel: String,
    child: Child,
    control: Channel,
    pub(crate) monitor: Channel,
    console: File,
}

/// The connections of a VM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connections<'a> {
    pub tap: &'a OwnedFd,
    pub mac: [u8; 6],
    pub shape: Shape,
    pub coupling: Option<&'a Path>,
    pub incoming: Option<Incoming<'a>>,
}

impl Machine {
    /// Starts QEMU without waiting.
    pub(crate) fn start(
        node: &str,
        image: &Image,
        (accel, tsc_khz): (Accel, u64),
        connections: Connections<'_>,
    ) -> Result<Self, VmError> {
        let pair = || Channel::pair().map_err(resource("make a channel"));
        let (control, control_end) = pair()?;
        let (monitor, monitor_end) = pair()?;
        let console = memfd_create(c"uc-console", MFdFlags::MFD_CLOEXEC)
            .map_err(|errno| resource("make a console in memory")(errno.into()))?;
        let wires = Wires {
            tap: connections.tap,
            mac: connections.mac,
            shape: connections.shape,
            coupling: connections.coupling,
            control: &control_end,
            monitor: &monitor_end,
            console: &console,
            incoming: connections.incoming,
        };
        Ok(Self {
            node: node.into(),
            kernel: image.kernel.release.clone(),
            child: qemu::spawn(node, image, accel, tsc_khz, &wires)?,
            control,
            monitor,
            console: console.into(),
        })
    }

    /// Returns the name of the VM's guest, for messages.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the process number of QEMU.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the agent inside answers, at most `bound`, or until `go_on` returns an error.
    pub(crate) fn wait_ready(&mut self, bound: Duration, go_on: GoOn<'_>) -> Result<(), VmError> {
        let deadline = Instant::now() + bound;
        let mut answered = self.control.ask(&Request::Hello).and_then(|()| self.look());
        while let Err(error) = &answered
            && error.kind() == io::ErrorKind::TimedOut
            && Instant::now() < deadline
        {
            go_on()?;
            answered = self.look();
        }
        match answered {
            Ok(Answer::Ready { kernel }) if kernel == self.kernel => Ok(()),
            Ok(other) => Err(self.failed("greeting", format!("{other:?}"))),
            Err(error) => {
                let detail = match error.kind() {
                    io::ErrorKind::TimedOut => {
                        format!(
                            "no word from it in {} s; {}",
                            bound.as_secs(),
                            self.last_words()
                        )
                    }
                    _ => self.last_words(),
                };
                Err(VmError::Refused(format!(
                    "{node}: the VM with kernel {kernel} did not boot: {detail}",
                    node = self.node,
                    kernel = self.kernel
                )))
            }
        }
    }

    fn look(&mut self) -> io::Result<Answer> {
        self.control.answer(Instant::now() + LOOK)
    }

    /// Asks the agent and waits for its answer, at most `patience`.
    ///
    /// # Errors
    /// [`VmError::Channel`] when none comes in time, [`VmError::Inside`] when the request failed.
    pub fn ask(&mut self, request: &Request, patience: Duration) -> Result<Answer, VmError> {
        self.tell(request)?;
        self.hear(patience)
    }

    /// Sends a request, whose answer [`Machine::hear`] waits for: many VMs can be asked at once.
    ///
    /// # Errors
    /// [`VmError::Channel`].
    pub fn tell(&mut self, request: &Request) -> Result<(), VmError> {
        let told = self.control.ask(request);
        told.map_err(|error| self.failed("asking", error.to_string()))
    }

    /// Waits for the answer to a request, at most `patience`.
    ///
    /// # Errors
    /// As [`Machine::ask`].
    pub fn hear(&mut self, patience: Duration) -> Result<Answer, VmError> {
        match self.control.answer(Instant::now() + patience) {
            Ok(Answer::Failed(detail)) => Err(VmError::Inside {
                node: self.node.clone(),
                detail,
            }),
            Ok(answer) => Ok(answer),
            Err(error) => {
                let detail = format!("{error}; {}", self.last_words());
                Err(self.failed("waiting for the guest's answer to a request", detail))
            }
        }
    }

    /// Waits for the answer to a request, at most `patience`, or until `go_on` returns an error.
    ///
    /// # Errors
    /// As [`Machine::ask`], and the error of `go_on`.
    pub fn hear_while(&mut self, patience: Duration, go_on: GoOn<'_>) -> Result<Answer, VmError> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            go_on()?;
            if self.control.has_answer(Instant::now() + LOOK) {
                break;
            }
        }
        self.hear(Duration::ZERO)
    }

    /// Sends a request whose only answer is [`Answer::Done`], and waits for it, at most [`PATIENCE`].
    ///
    /// # Errors
    /// As [`Machine::ask`].
    pub fn order(&mut self, request: &Request) -> Result<(), VmError> {
        match self.ask(request, PATIENCE)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs a program inside, by its absolute path, and waits for its end, at most `limit`.
    ///
    /// # Errors
    /// As [`Machine::ask`]; a program that fails or is killed at its limit is no error.
    pub fn run(&mut self, arguments: &[&str], limit: Duration) -> Result<Ran, VmError> {
        let request = Request::Run {
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            input: String::new(),
            seconds: limit.as_secs().max(1),
        };
        match self.ask(&request, limit + PATIENCE)? {
            Answer::Ran(ran) => Ok(ran),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Migrates the guest, while it runs, to a VM that [`Template::awaiting`] has started at this socket. Calls
    /// `at_switch_over` while the guest runs in neither VM. Afterwards the guest runs in the new VM, and this VM is
    /// paused for good.
    ///
    /// # Errors
    /// QEMU's refusal, or when the migration takes too long.
    ///
    /// [`Template::awaiting`]: crate::vm::Template::awaiting
    pub fn migrate(&mut self, socket: &Path, at_switch_over: impl FnOnce()) -> Result<(), VmError> {
        Monitor::open(&mut self.monitor, &self.node)?.hand_over(socket, at_switch_over)
    }

    /// Checks that the guest's kernel has reported no fault, which would void the run.
    ///
    /// # Errors
    /// [`VmError::Harmed`], with its first report on the console, if it died, warned, found a CPU
    /// locked up or failed one of its own checks, or if lockdep is off in a kernel that has it; else
    /// as [`Machine::ask`].
    pub fn check_unharmed(&mut self) -> Result<(), VmError> {
        if let Some(report) = fault::first_report(&self.console()) {
            return Err(self.harmed(reported(&report)));
        }
        let tainted = self.read(TAINTED)?.trim().parse::<u64>();
        if tainted.is_err() || tainted.is_ok_and(|tainted| tainted & HARMED != 0) {
            let detail = self.last_words();
            return Err(self.harmed(detail));
        }
        // Lockdep switches itself off at a report, and when its tables are full.
        if series::is_checked(&self.kernel) && !fault::lockdep_is_on(&self.read(LOCKDEP)?) {
            let detail = format!("lockdep is off; {}", self.last_words());
            return Err(self.harmed(detail));
        }
        Ok(())
    }

    fn read(&mut self, path: &str) -> Result<String, VmError> {
        let path = path.into();
        match self.ask(&Request::Read { path }, PATIENCE)? {
            Answer::Text(text) => Ok(text),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the console's output so far: the kernel's errors, and the output of programs left
    /// running.
    pub fn console(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.console.seek(SeekFrom::Start(0));
        match read.and_then(|_| self.console.read_to_end(&mut bytes)) {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("(its console cannot be read: {error})"),
        }
    }

    /// Describes why the VM may be silent: the first fault that its kernel reported, else how QEMU ended and the end of
    /// the console.
    fn last_words(&mut self) -> String {
        let console = self.console();
        if let Some(report) = fault::first_report(&console) {
            return reported(&report);
        }
        let console = console.split_whitespace().collect::<Vec<_>>().join(" ");
        let from = console.len().saturating_sub(EXCERPT_BYTES);
        let from = (from..console.len()).find(|at| console.is_char_boundary(*at));
        let console = match &console[from.unwrap_or(0)..] {
            "" => "its console is empty".to_owned(),
            end => format!("its console ends with: {end}"),
        };
        match self.ending() {
            Some(status) => {
                let complaints = self.complaints();
                let complaints = complaints.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("QEMU ended with {status}: {complaints}; {console}")
            }
            None => console,
        }
    }

    /// Returns QEMU's exit status if it has ended or ends within 0.2 s, since its channels close shortly before; else
    /// `None`.
    fn ending(&mut self) -> Option<ExitStatus> {
        for _ in 0..ENDING_LOOKS {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// Returns QEMU's standard error; only after QEMU has ended, since this waits for the pipe's
    /// end.
    fn complaints(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(pipe) = &mut self.child.stderr {
            // An unreadable pipe leaves the text empty.
            let _ = pipe.take(1 << 16).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn unexpected(&self, answer: &Answer) -> VmError {
        self.failed("listening", format!("unexpected: {answer:?}"))
    }

    fn harmed(&self, detail: String) -> VmError {
        VmError::Harmed {
            node: self.node.clone(),
            detail,
        }
    }

    fn failed(&self, action: &'static str, detail: String) -> VmError {
        VmError::Channel {
            node: self.node.clone(),
            action,
            detail,
        }
    }
}

fn reported(report: &str) -> String {
    format!("its kernel reported first:\n{report}")
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself; then only its status is to be collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

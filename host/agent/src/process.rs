//! A child process that runs this program with other arguments, such as `uc split`, for a part of the agent's work. It
//! ends when the agent ends, for whatever reason. If it ends by itself, it is started again after a pause.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time to end after SIGTERM. A process that takes longer is killed.
const END_MOST: Duration = Duration::from_secs(5);
/// First pause before a process that ended is started again; each further pause is twice as long.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MOST: Duration = Duration::from_secs(60);
/// Running time of a process after which the pause is [`AGAIN_FIRST`] again.
const STABLE: Duration = Duration::from_secs(60);

/// A process, whether it runs or not.
#[derive(Debug)]
pub struct Process {
    /// Name of the command that the process runs, for messages.
    name: &'static str,
    child: Option<Child>,
    starts: u64,
    /// When the process was started last; `None` before its first start, and after the agent ended it.
    started: Option<Instant>,
    pause: Duration,
    error: Option<String>,
}

impl Process {
    /// Creates a process that has not started.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            child: None,
            starts: 0,
            started: None,
            pause: AGAIN_FIRST,
            error: None,
        }
    }

    /// Returns the process ID while the process runs, otherwise `None`.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns how often the process was started.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns why the process ended or could not start; `None` if it did not, or has run for [`STABLE`] since.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Starts this program with arguments that `complete` adds. Returns its standard input; `None` if it could not be
    /// started.
    pub fn start(&mut self, complete: impl FnOnce(&mut Command)) -> Option<ChildStdin> {
        // The agent's own program, also when its file has been replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        complete(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let agent = std::process::id();
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe { command.pre_exec(move || end_with(agent)) };
        self.started = Some(Instant::now());
        self.starts += 1;
        match command.spawn() {
            Ok(mut child) => {
                let stdin = child.stdin.take();
                self.child = Some(child);
                stdin
            }
            Err(error) => {
                self.fail(format!("could not start `{}`: {error}", self.name));
                None
            }
        }
    }

    /// Records whether the process has ended. Returns whether it must be started now: it does not run, and its pause is
    /// over.
    pub fn look(&mut self) -> bool {
        self.notice();
        let Some(started) = self.started else {
            return true;
        };
        let is_due = self.child.is_none() && started.elapsed() >= self.pause;
        if is_due {
            self.pause = (self.pause * 2).min(AGAIN_MOST);
        }
        is_due
    }

    fn notice(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        match child.try_wait() {
            Ok(None) if self.started.is_some_and(|at| at.elapsed() >= STABLE) => {
                self.pause = AGAIN_FIRST;
                self.error = None;
            }
            Ok(None) => {}
            Ok(Some(status)) => {
                self.child = None;
                let how = ended(status);
                self.fail(format!("`{}` ended ({how}); the log says why", self.name));
            }
            Err(error) => {
                self.child = None;
                self.fail(format!(
                    "could not find out whether `{}` runs: {error}",
                    self.name
                ));
            }
        }
    }

    fn fail(&mut self, error: String) {
        tracing::error!("{error}");
        self.error = Some(error);
    }

    /// Kills the process for the reason `why`. It is started again after a pause, like a process that ended by itself.
    pub fn kill(&mut self, why: String) {
        if let Some(mut child) = self.child.take() {
            let _ended = child.kill();
            let _ended = child.wait();
            self.fail(why);
        }
    }

    /// Ends the process by SIGTERM, or kills it after [`END_MOST`]; it is not started again until [`Process::start`].
    pub fn end(&mut self) {
        let name = self.name;
        let ended = std::mem::replace(self, Self::new(name));
        self.starts = ended.starts;
        let Some(mut child) = ended.child else {
            return;
        };
        // It has ended already where this fails.
        let _ended = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let until = Instant::now() + END_MOST;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ended = child.kill();
                let _ended = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Asks the kernel to end the calling process, a child of the agent, by SIGTERM when the agent
/// ends.
fn end_with(agent: u32) -> std::io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
    if nix::unistd::getppid().as_raw() as u32 != agent {
        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

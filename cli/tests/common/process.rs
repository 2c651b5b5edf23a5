//! Processes that a test leaves in no case: neither when it fails nor when it is killed.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that runs until it is ended, and the lines that it prints. Dropping it kills it.
pub struct Process {
    child: Child,
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a command. The kernel kills it when the calling thread, a test's, ends.
    pub fn start(mut command: Command) -> Self {
        // SAFETY: one system call between fork and exec, which allocates nothing.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line that contains these words.
    pub fn says(&mut self, words: &str) {
        let mut others = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(words) {
                return;
            }
            others.push(line);
        }
        panic!("no {words:?} in {others:?}");
    }

    /// Waits until the process has ended by itself; returns its status code.
    pub fn status(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Asks the process to end, and waits for it.
    pub fn end(mut self) {
        kill(Pid::from_raw(self.id() as i32), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL: no orderly end. It may have ended.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

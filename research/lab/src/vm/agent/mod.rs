//! The agent, a guest's first process: it initializes the system, then executes the host's requests
//! from the control channel. When it ends, the VM ends.

mod flows;
mod init;
mod programs;
mod stack;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use flows::Flows;

use crate::vm::error::VmError;
use crate::vm::message::{Answer, Done, LINE_BYTES_MAX, Request};
use crate::vm::modules;

/// Runs the first process of a guest. Returns only on failure.
///
/// # Errors
/// The process is not a guest's first, or the guest lacks something; the VM then ends, and its
/// console shows the error.
pub fn main() -> Result<(), VmError> {
    if std::process::id() != 1 {
        return Err(VmError::Inside {
            node: "nobody".into(),
            detail:
                "this program is the first process of a VM guest and must have process id 1; use \
                 --on vm, which starts it"
                    .into(),
        });
    }
    let port = init::init()?;
    serve(&port).map_err(|error| VmError::Channel {
        node: "this guest".into(),
        action: "serving",
        detail: error.to_string(),
    })
}

fn serve(port: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(port)?;
    let mut writer = file.try_clone()?;
    let mut lines = BufReader::new(Patient(file));
    let mut agent = Agent::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut lines)
            .take(LINE_BYTES_MAX as u64)
            .read_until(b'\n', &mut line)?;
        let answer = match serde_json::from_slice(&line) {
            Ok(request) => agent.answer(request),
            Err(error) => Answer::Failed(format!("not understood: {error}")),
        };
        let mut answer = serde_json::to_vec(&answer)?;
        answer.push(b'\n');
        writer.write_all(&answer)?;
    }
}

/// A reader of the control port. Reads of 0 bytes, which the port gives while nothing is connected to its other end,
/// are repeated.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 => std::thread::sleep(Duration::from_millis(5)),
                count => return Ok(count),
            }
        }
    }
}

#[derive(Default)]
struct Agent {
    flows: Flows,
}

impl Agent {
    fn answer(&mut self, request: Request) -> Answer {
        let answered = match request {
            Request::Hello => ready(),
            Request::SetUp(set_up) => self.flows.set_up(&set_up).map(|()| Answer::Done),
            Request::Run {
                arguments,
                input,
                seconds,
            } => programs::run(&arguments, &input, seconds).map(Answer::Ran),
            Request::Start { arguments } => programs::start(&arguments).map(|()| Answer::Done),
            Request::Write { path, text } => write(&path, text.as_bytes()).map(|()| Answer::Done),
            Request::Store { path, bytes } => write(&path, &bytes).map(|()| Answer::Done),
            Request::Read { path } => read(&path).map(Answer::Text),
            Request::Insert { path, parameters } => {
                let inserted = modules::insert_with(Path::new(&path), &parameters);
                inserted
                    .map(|()| Answer::Done)
                    .map_err(|error| error.to_string())
            }
            Request::Remove { module } => modules::remove(&module)
                .map(|()| Answer::Done)
                .map_err(|error| error.to_string()),
            Request::Send(orders) => self.flows.open(&orders).map(|()| Answer::Done),
            Request::Events => Ok(Answer::Events(self.flows.events())),
            Request::Sample => self.flows.sample().map(|sightings| Answer::Samples {
                sightings,
                events: self.flows.events(),
            }),
            Request::Counters => stack::counters().map(Answer::Counters),
        };
        answered.unwrap_or_else(Answer::Failed)
    }
}

fn ready() -> Done<Answer> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_err(|error| format!("the kernel's name: {error}"))?;
    Ok(Answer::Ready {
        kernel: release.trim().into(),
    })
}

fn write(path: &str, bytes: &[u8]) -> Done<()> {
    std::fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
}

fn read(path: &str) -> Done<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

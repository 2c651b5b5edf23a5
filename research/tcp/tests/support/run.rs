//! The runner of scripts against an endpoint.

use std::fmt;

use uc_tcp::Config;

use super::compare::{check, sends};
use super::endpoint::Endpoint;
use super::parse::{Command, Line, Time, parse};
use super::serve::serve;
use super::settings::{Peer, configure};
use super::{OUR_ISS, PEER_ISS, show};

/// Maximum number of exchanged segments that a failure shows.
const TRACE_SHOWN: usize = 30;

/// The line at which a script fails, the reason, and the exchange before it.
#[derive(Debug)]
pub struct Failure {
    pub line: usize,
    pub why: String,
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.line, self.why, self.trace)
    }
}

/// Runs the script in `text`.
pub fn run(text: &str) -> Result<(), Failure> {
    let fail = |(line, why)| Failure {
        line,
        why,
        trace: String::new(),
    };
    let lines = parse(text).map_err(fail)?;
    let mut script = Script {
        config: Config::textbook(),
        endpoint: None,
    };
    let last = lines.last().map_or(0, |line| line.number);
    for line in &lines {
        script
            .step(line)
            .map_err(|why| script.failure(line.number, why))?;
    }
    script
        .nothing_left()
        .map_err(|why| script.failure(last, why))
}

struct Script {
    config: Config,
    endpoint: Option<Endpoint>,
}

impl Script {
    fn failure(&self, line: usize, why: String) -> Failure {
        let trace = self
            .endpoint
            .as_ref()
            .map_or(&[][..], |endpoint| &endpoint.trace[..]);
        let from = trace.len().saturating_sub(TRACE_SHOWN);
        Failure {
            line,
            why,
            trace: trace[from..].join("\n"),
        }
    }

    fn endpoint(&mut self) -> Result<&mut Endpoint, String> {
        self.endpoint
            .as_mut()
            .ok_or_else(|| "`open`, `listen` or `handshake` first".to_owned())
    }

    fn step(&mut self, line: &Line) -> Result<(), String> {
        if let Command::Config(settings) = &line.command {
            return configure(&mut self.config, settings);
        }
        if let Command::Handshake(settings) = &line.command {
            let peer = Peer::new(&self.config, settings)?;
            let mut endpoint = Endpoint::new(&self.config, peer.opens);
            let done = endpoint.handshake(&peer, &self.config);
            self.endpoint = Some(endpoint);
            return done;
        }
        if matches!(line.command, Command::Open | Command::Listen) && self.endpoint.is_none() {
            let server = matches!(line.command, Command::Listen);
            self.endpoint = Some(Endpoint::new(&self.config, server));
        }
        let endpoint = self.endpoint()?;
        let time = match line.time {
            None => endpoint.now,
            Some(Time::At(at)) => endpoint.origin + at,
            Some(Time::After(span)) => endpoint.now + span,
        };
        if !matches!(
            line.command,
            Command::Sends(_) | Command::Expect(_) | Command::Serve(_)
        ) {
            self.nothing_left()?;
        }
        let endpoint = self.endpoint()?;
        match &line.command {
            Command::Serve(settings) => return serve(endpoint, time, settings),
            Command::Sends(pattern) => {
                endpoint.advance(time)?;
                return sends(endpoint, pattern);
            }
            _ => endpoint.advance(time)?,
        }
        // a segment that a timer sent before this time was not expected either
        if !matches!(line.command, Command::Expect(_)) {
            self.nothing_left()?;
        }
        act(self.endpoint()?, &line.command)
    }

    fn nothing_left(&self) -> Result<(), String> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        match endpoint.sent.front() {
            None => Ok(()),
            Some((at, segment)) => Err(format!(
                "expected nothing more before this, seen at {}: > {}",
                endpoint.clock(*at),
                show(&endpoint.readable(segment), OUR_ISS, PEER_ISS)
            )),
        }
    }
}

fn act(endpoint: &mut Endpoint, command: &Command) -> Result<(), String> {
    match command {
        Command::Open => endpoint.call(|end, now, mut out| end.open(now, &mut out)),
        Command::Write(bytes) => {
            endpoint.call(|end, now, mut out| end.write(now, *bytes, &mut out))
        }
        Command::Finish => endpoint.call(|end, now, mut out| end.finish(now, &mut out)),
        Command::Reading(reads) => {
            endpoint.call(|end, now, mut out| end.set_reading(now, *reads, &mut out));
        }
        Command::Arrives(pattern) => {
            let unsaid = endpoint.last_ack();
            let (first, last, step) = pattern.ack.unwrap_or((unsaid, unsaid, 1));
            for _ in 0..pattern.times {
                for ack in (first..=last).step_by(step as usize) {
                    endpoint.arrives(pattern, ack);
                }
            }
        }
        Command::Expect(bounds) => {
            return bounds.iter().try_for_each(|bound| check(endpoint, bound));
        }
        _ => {}
    }
    Ok(())
}

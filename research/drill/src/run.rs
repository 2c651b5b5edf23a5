//! Plays a script on a target, event by event.

use std::collections::HashMap;

use uc_net::Nanos;

use crate::assert;
use crate::calls::{number, translate};
use crate::compare::{Against, compare, join, show};
use crate::constants::{constant, errno_name};
use crate::kernel_call::Argument;
use crate::memory;
use crate::syntax::{Act, Call, Content, Event, Expression, Moment, Packet, Script, When};
use crate::target::{Answer, Target};
use crate::translate::Numbers;
use crate::verdict::{Stop, Verdict};

/// Minimum tolerance of an event's time, unless the script gives one.
const TOLERANCE: Nanos = Nanos::from_millis(4);
/// Tolerance of an event's time in thousandths of the time since the event before, as in packetdrill. The larger of
/// both tolerances counts.
const TOLERANCE_PERMILLE: u64 = 125;
/// Longest wait for a packet that a script expects at any time (`*`).
const PATIENCE: Nanos = Nanos::from_secs(600);

/// Plays a script on a target, up to the first event that does not hold.
pub fn run(script: &Script, target: &mut dyn Target) -> Verdict {
    let head = script.flags.first().map(|flag| flag.place);
    let first = head.or(script.events.first().map(|event| event.place));
    let mut run = Run {
        target,
        numbers: Numbers::default(),
        files: HashMap::new(),
        newest: None,
        tolerance: TOLERANCE,
        permille: TOLERANCE_PERMILLE,
        stamp_tick: None,
        is_strict: false,
        variables: HashMap::new(),
        base: Nanos::ZERO,
        waiting: None,
    };
    if let Err(stop) = run.begin(script) {
        return first.map_or(Verdict::Passed, |place| stop.verdict(place));
    }
    for event in &script.events {
        let applies = event
            .conditions
            .iter()
            .all(|(symbol, defined)| run.target.defines(symbol) == *defined);
        if applies && let Err(stop) = run.event(event) {
            return stop.verdict(event.place);
        }
    }
    match (run.finish_waiting(PATIENCE), script.events.last()) {
        (Err(stop), Some(last)) => stop.verdict(last.place),
        _ => Verdict::Passed,
    }
}

/// Returns whether a flag at the head of a script concerns only packetdrill's own program, or this
/// reader.
fn is_own(flag: &str) -> bool {
    matches!(
        flag,
        "tolerance_usecs"
            | "tolerance_percent"
            | "tcp_ts_tick_usecs"
            | "tcp_ts_ecr_scaled"
            | "strict_segments"
            | "send_omit_free"
            | "non_fatal"
            | "debug"
            | "verbose"
            | "speed"
            | "code_command"
            | "code_format"
            | "code_sockopt"
    )
}

/// Returns whether a script expects a call to fail.
fn fails(call: &Call) -> bool {
    number(&call.result) == Ok(-1)
}

/// A blocking system call that has not returned.
struct Waiting<'a> {
    call: &'a Call,
    begun: Nanos,
    /// Time by which the call must return.
    due: Nanos,
}

struct Run<'a> {
    target: &'a mut dyn Target,
    numbers: Numbers,
    /// The target's file descriptor by the script's.
    files: HashMap<i64, i64>,
    /// The target's newest file descriptor, whose connection assertions are about; `None`: no socket was opened yet.
    newest: Option<i64>,
    tolerance: Nanos,
    permille: u64,
    /// The unit of timestamps; `None`: their values are not compared.
    stamp_tick: Option<Nanos>,
    /// Whether each line of the script matches exactly one segment (`--strict_segments`); otherwise segments that
    /// follow each other count as one.
    is_strict: bool,
    /// The variables of the script's code.
    variables: HashMap<String, i64>,
    /// Time of the last event, from which relative times count: as written, but for a packet at any time (`*`) when it
    /// was sent.
    base: Nanos,
    waiting: Option<Waiting<'a>>,
}

impl<'a> Run<'a> {
    fn begin(&mut self, script: &'a Script) -> Result<(), Stop> {
        for flag in &script.flags {
            let wants_number = || Stop::Differs(format!("--{} needs a number", flag.name));
            let number = || flag.value.parse::<u64>().map_err(|_| wants_number());
            match flag.name.as_str() {
                "tolerance_usecs" => self.tolerance = Nanos::from_micros(number()?),
                "tolerance_percent" => {
                    let percent: f64 = flag.value.parse().map_err(|_| wants_number())?;
                    self.permille = (percent * 10.0) as u64;
                }
                "tcp_ts_tick_usecs" => {
                    let tick = Nanos::from_micros(number()?);
                    self.stamp_tick = (tick > Nanos::ZERO).then_some(tick);
                }
                "strict_segments" => self.is_strict = true,
                _ => {}
            }
        }
        self.tolerance = self.tolerance.max(self.target.least_tolerance());
        // What only says how packetdrill's own program works is no affair of the target.
        let others = script.flags.iter().filter(|flag| !is_own(&flag.name));
        let others: Vec<_> = others.cloned().collect();
        self.target.begin(&others)
    }

    /// Returns the tolerance of an event that comes `apart` after the one before.
    fn tolerance(&self, apart: Nanos) -> Nanos {
        self.tolerance.max(Nanos(apart.0 * self.permille / 1000))
    }

    fn event(&mut self, event: &'a Event) -> Result<(), Stop> {
        let base = self.base;
        let at = |moment: Moment| match moment.relative {
            true => base + moment.time,
            false => moment.time,
        };
        let (earliest, latest) = match event.when {
            When::Any => (Nanos::ZERO, base + PATIENCE),
            When::At(moment) => (at(moment), at(moment)),
            When::Between(from, to) => (at(from), at(to)),
            When::Blocking(from, _) => (at(from), at(from)),
        };
        self.base = earliest.max(base);
        let tolerance = self.tolerance(earliest.since(base));
        if let Act::Sends(packet) = &event.act {
            let seen_at = self.sends(packet, earliest, latest, tolerance)?;
            if event.when == When::Any {
                self.base = seen_at;
            }
            return Ok(());
        }
        self.target.advance(self.base);
        self.finish_waiting_if_due()?;
        match &event.act {
            Act::Arrives(packet) => self.arrives(packet)?,
            Act::Calls(call) => {
                let due = match event.when {
                    When::Blocking(_, until) => Some(at(until)),
                    _ => None,
                };
                self.calls(call, due)?;
            }
            Act::Command(command) => self.target.command(command)?,
            Act::Code(code) => {
                let info = self.newest.and_then(|fd| self.target.info(fd));
                let info = info.ok_or_else(|| {
                    Stop::Differs("there is no open socket from which to read tcp_info".into())
                })?;
                assert::check(code, &info, &mut self.variables)?;
            }
            Act::Sends(_) => {}
        }
        self.finish_waiting_now()
    }

    /// Waits for a packet and compares it; returns when it was sent. Several segments that follow each
    /// other count as one, up to the bytes of the packet.
    fn sends(
        &mut self,
        packet: &Packet,
        earliest: Nanos,
        latest: Nanos,
        tolerance: Nanos,
    ) -> Result<Nanos, Stop> {
        let Content::Tcp(tcp) = &packet.content else {
            return Err(Stop::Lacks(
                "packets of the host other than TCP are not supported".to_owned(),
            ));
        };
        crate::translate::understood(packet, tcp, self.target.is_kernel())?;
        let until = latest + tolerance;
        let Some((mut at, mut seen)) = self.target.next_sent(until) else {
            return Err(Stop::Differs(format!(
                "expected a packet of the host by {until}, but it sent none"
            )));
        };
        let mut last_bytes = seen.segment.payload_bytes;
        while !self.is_strict && u32::from(seen.segment.payload_bytes) < tcp.range.bytes {
            let Some((next_at, next)) = self.target.next_sent(until) else {
                break;
            };
            let left = tcp.range.bytes - u32::from(seen.segment.payload_bytes);
            seen = join(&seen, last_bytes, &next, left)?;
            (at, last_bytes) = (next_at, next.segment.payload_bytes);
        }
        self.numbers.learn(tcp, &seen.segment);
        let apart = self.tolerance(earliest) + self.target.stood_still();
        let stamps = self.stamp_tick.map(|tick| apart.0 / tick.0);
        let against = Against {
            packet,
            tcp,
            stamps_apart: stamps,
            is_ecn_edited: self.target.edits_ecn(),
        };
        compare(&self.numbers, &against, &seen)?;
        if at + tolerance < earliest || at > until {
            let shown = show(&self.numbers, &seen);
            let why = format!("expected at {earliest}, sent at {at}: {shown}");
            return Err(Stop::Differs(why));
        }
        Ok(at)
    }

    fn arrives(&mut self, packet: &Packet) -> Result<(), Stop> {
        let Content::Tcp(tcp) = &packet.content else {
            let report = self.numbers.reported(packet)?;
            return self.target.report(&report);
        };
        crate::translate::understood(packet, tcp, self.target.is_kernel())?;
        let datagram = self.numbers.arriving(packet, tcp)?;
        self.target.arrive(&datagram)
    }

    fn calls(&mut self, call: &'a Call, due: Option<Nanos>) -> Result<(), Stop> {
        // At most one call blocks at a time: the one before should have returned.
        if due.is_some() {
            self.finish_waiting(Nanos::ZERO)?;
        }
        let files = &self.files;
        let fd = |fd| {
            let known = files.get(&fd).copied();
            known.ok_or_else(|| Stop::Differs(format!("no file descriptor {fd} is open")))
        };
        if memory::connects(call) {
            self.numbers.opens();
        }
        let answer = match translate(call, fd) {
            Err(Stop::Lacks(_)) if self.target.is_kernel() => {
                let kernel_call = memory::lay_out(call, due.is_some(), fd)?;
                self.target.call_kernel(kernel_call)
            }
            system_call => self.target.call(system_call?, due.is_some()),
        };
        match (answer, due) {
            (Some(answer), _) => self.answered(call, &answer),
            (None, Some(due)) if self.waiting.is_none() => {
                let begun = self.base;
                self.waiting = Some(Waiting { call, begun, due });
                Ok(())
            }
            (None, _) => Err(Stop::Differs(format!(
                "expected {} to return at once, but it blocks",
                call.name
            ))),
        }
    }

    /// Judges a blocking call that must have returned by now.
    fn finish_waiting_if_due(&mut self) -> Result<(), Stop> {
        match &self.waiting {
            Some(waiting) if self.base > waiting.due + self.tolerance => {
                self.finish_waiting(Nanos::ZERO)
            }
            _ => Ok(()),
        }
    }

    /// Judges the blocking call if it is due and has returned: a later call may depend on it.
    fn finish_waiting_now(&mut self) -> Result<(), Stop> {
        let base = self.base;
        if let Some(waiting) = self.waiting.take_if(|waiting| base >= waiting.due) {
            match self.target.completed() {
                Some((at, answer)) => return self.returned(&waiting, at, &answer),
                None => self.waiting = Some(waiting),
            }
        }
        self.finish_waiting_if_due()
    }

    fn finish_waiting(&mut self, patience: Nanos) -> Result<(), Stop> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        if patience > Nanos::ZERO {
            self.target
                .advance(self.base.max(waiting.due) + self.tolerance);
        }
        let (name, due) = (&waiting.call.name, waiting.due);
        match self.target.completed() {
            Some((at, answer)) => self.returned(&waiting, at, &answer),
            None => Err(Stop::Differs(format!(
                "expected {name} to return by {due}, but it did not"
            ))),
        }
    }

    /// Judges a blocking call that returned.
    fn returned(&mut self, waiting: &Waiting<'_>, at: Nanos, answer: &Answer) -> Result<(), Stop> {
        let (name, due) = (&waiting.call.name, waiting.due);
        let tolerance = self.tolerance(due.since(waiting.begun));
        if at + tolerance < due || at > due + tolerance {
            let why = format!("expected {name} to return at {due}, not at {at}");
            return Err(Stop::Differs(why));
        }
        self.answered(waiting.call, answer)
    }

    /// Compares what a call returned with what the script expects.
    fn answered(&mut self, call: &Call, answer: &Answer) -> Result<(), Stop> {
        let makes_file = matches!(call.name.as_str(), "socket" | "accept" | "epoll_create");
        if makes_file && answer.result >= 0 {
            if call.name != "epoll_create" {
                self.newest = Some(answer.result);
            }
            self.files.insert(number(&call.result)?, answer.result);
            return Ok(());
        }
        if let (Some(Expression::List(ends)), [Argument::Memory(made)]) =
            (call.arguments.first(), answer.after.as_slice())
        {
            // The ends of a pipe.
            for (end, bytes) in ends.iter().zip(made.bytes.chunks_exact(4)) {
                let made = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                self.files.insert(number(end)?, made.into());
            }
        }
        let name = &call.name;
        let error = call.errno.as_deref();
        let wanted = error.map(|error| {
            let lacks = || Stop::Lacks(format!("the error {error} is not supported"));
            constant(error).ok_or_else(lacks)
        });
        let wanted = wanted.transpose()?.unwrap_or(0);
        // A script may leave the error open: `= -1` alone.
        if answer.errno != wanted && (error.is_some() || answer.result >= 0 || !fails(call)) {
            let (seen, wanted) = (errno_name(answer.errno), error.unwrap_or("no error"));
            return Err(Stop::Differs(format!(
                "expected {wanted} from {name}, seen {seen}"
            )));
        }
        if call.result != Expression::Any && answer.result != number(&call.result)? {
            let result = answer.result;
            return Err(Stop::Differs(format!("{name} returned {result}")));
        }
        if answer.errno == 0 && !answer.after.is_empty() {
            return memory::compare(call, &answer.after);
        }
        if call.name == "getsockopt" && answer.errno == 0 {
            let wanted = number(&call.arguments[3])?;
            match answer.value {
                Some(value) if value == wanted => {}
                value => {
                    let value = value.unwrap_or(0);
                    let why = format!("expected {wanted} from getsockopt, seen {value}");
                    return Err(Stop::Differs(why));
                }
            }
        }
        Ok(())
    }
}

//! Reasons why a flow is unfinished. No run waits for such a flow: a run ends when its duration is over, and its record
//! names the unfinished flows and their reasons.

use std::fmt;

use crate::app::Flow;
use crate::hosts::{Hosts, Side};
use crate::scenario::Application;

/// The reason why a flow is unfinished at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfinished {
    /// The flow was to begin after the end.
    NotStarted,
    /// The flow's handshake did not complete.
    NoHandshake,
    /// One of the flow's connections gave up.
    GaveUp,
    /// The receiver's window is smaller than a segment, and nothing is in flight.
    WindowClosed,
    /// The run ended while data was still in transfer.
    OutOfTime,
}

impl Unfinished {
    /// Returns the reason's name in the record's counters.
    pub fn label(self) -> &'static str {
        match self {
            Unfinished::NotStarted => "not_started",
            Unfinished::NoHandshake => "no_handshake",
            Unfinished::GaveUp => "gave_up",
            Unfinished::WindowClosed => "window_closed",
            Unfinished::OutOfTime => "out_of_time",
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfinished::NotStarted => "it was to begin after the end of the run",
            Unfinished::NoHandshake => "its handshake was never done",
            Unfinished::GaveUp => "its connection gave up",
            Unfinished::WindowClosed => "its receiver's window stayed below a segment",
            Unfinished::OutOfTime => "the run was over before it was",
        })
    }
}

/// Returns why `flow` is unfinished now; `None` for a finished flow, and for an endless flow that can still move data.
pub fn unfinished(hosts: &Hosts, flow: &Flow) -> Option<Unfinished> {
    if !flow.has_started() {
        return Some(Unfinished::NotStarted);
    }
    let is_endless = match &flow.plan().application {
        Application::Bulk => !flow.has_stopped(),
        Application::Web { .. } | Application::Messages { .. } => true,
        Application::Transfer { .. } | Application::Epochs(_) | Application::List(_) => false,
        Application::Exchange(exchange) => exchange.rounds == 0,
    };
    let transfers = flow.completions();
    let waits = transfers
        .iter()
        .any(|transfer| transfer.finished_ns.is_none());
    let is_done = match &flow.plan().application {
        Application::Exchange(exchange) if exchange.rounds > 0 => {
            !waits && transfers.len() == exchange.rounds as usize
        }
        Application::Epochs(epochs) => !waits && transfers.len() == epochs.turns.len(),
        Application::List(list) => !waits && transfers.len() == list.len(),
        Application::Transfer { .. } => !waits && transfers.len() == flow.plan().receivers.len(),
        _ => !waits,
    };
    let stuck = flow.open().find_map(|slot| why_stuck(hosts, slot));
    match (stuck, is_done || is_endless) {
        (Some(why), _) if !is_done || is_endless => Some(why),
        (_, true) => None,
        (_, false) => Some(Unfinished::OutOfTime),
    }
}

/// Returns what keeps a connection from moving data; `None`: nothing does.
fn why_stuck(hosts: &Hosts, slot: crate::hosts::Slot) -> Option<Unfinished> {
    let guest = &hosts.end(slot, Side::Guest).connection;
    let info = guest.info();
    if guest.is_closed() {
        return Some(Unfinished::GaveUp);
    }
    if !guest.is_established() {
        return Some(Unfinished::NoHandshake);
    }
    let is_shut = info.send_window_bytes < info.smss_bytes && info.flight_bytes == 0;
    is_shut.then_some(Unfinished::WindowClosed)
}

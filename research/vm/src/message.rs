//! What the host asks a guest's agent, and what that answers: a JSON object in a line each. Both
//! ends are the same build of the same program, so the messages have no versions.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use uc_experiment::FlowSample;

/// The longest line. A guest with thousands of flows has long ones.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Of each stream of a program that ran in a guest, this much is handed over.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The host's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who is there?
    Hello,
    /// Become the guest that the plan has.
    SetUp(SetUp),
    /// Run a program to its end.
    Run {
        /// It and its arguments.
        arguments: Vec<String>,
        /// What it reads.
        input: String,
        /// It is killed after this time.
        seconds: u64,
    },
    /// Start a program that runs until the machine ends; what it prints goes to the console.
    Start {
        /// It and its arguments.
        arguments: Vec<String>,
    },
    /// Write a file.
    Write {
        /// Where.
        path: String,
        /// What.
        text: String,
    },
    /// Write a file that is no text.
    Store {
        /// Where.
        path: String,
        /// What.
        bytes: Vec<u8>,
    },
    /// Read a file that is text.
    Read {
        /// Where.
        path: String,
    },
    /// Load a kernel module; what it depends on is there.
    Insert {
        /// Its file.
        path: String,
        /// `name=value`, separated by spaces.
        parameters: String,
    },
    /// Unload a kernel module.
    Remove {
        /// Its name.
        module: String,
    },
    /// Open bulk flows.
    Send(Vec<Order>),
    /// What has become of the connections since it was asked last.
    Events,
    /// The state of every flow, in the orders' order.
    Sample,
    /// What the guest's TCP has counted since it booted.
    Counters,
}

/// A guest's address, its interface and its stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetUp {
    /// Sysctls, in the order in which they are to be written.
    pub sysctls: Vec<(String, String)>,
    /// Lines for `ip -batch`.
    pub lines: Vec<String>,
    /// Whether the interface segments and coalesces.
    pub offload: bool,
    /// The congestion controls that its flows will ask for.
    pub congestion_controls: Vec<String>,
}

/// One bulk flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The guest's end.
    pub from: SocketAddr,
    /// The server's.
    pub to: SocketAddr,
    /// By the name that the experiment has for it.
    pub congestion_control: String,
    /// How long it waits before it connects.
    pub wait_us: u64,
    /// How much it sends when it is asked; as much as TCP takes where absent.
    pub block_bytes: Option<u32>,
}

/// The agent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is up.
    Ready {
        /// The kernel that runs.
        kernel: String,
    },
    /// It is done.
    Done,
    /// A program has run.
    Ran(Ran),
    /// See [`Request::Read`].
    Text(String),
    /// See [`Request::Events`].
    Events(Vec<FlowEvent>),
    /// See [`Request::Sample`].
    Samples {
        /// One for each flow.
        sightings: Vec<Sighting>,
        /// What a question for them would have answered.
        events: Vec<FlowEvent>,
    },
    /// See [`Request::Counters`].
    Counters(BTreeMap<String, u64>),
    /// It could not be done; why.
    Failed(String),
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Its exit status; none when a signal ended it, which the time limit's does.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowEvent {
    /// It stands.
    Connected {
        /// How often its SYN was sent again.
        retransmits: u32,
    },
    /// It failed.
    Failed(String),
}

/// One flow as its sender sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// What TCP says of it. The times and the receiver's numbers are for the host to fill in.
    pub sample: FlowSample,
    /// Whether ECN was negotiated.
    pub negotiated_ecn: bool,
}

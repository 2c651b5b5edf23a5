//! The requests of the host to a guest's agent, and the agent's answers: one JSON object in each
//! line. Both ends are the same build of the same program, so the messages have no versions.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use uc_experiment::FlowSample;

/// Maximum length of a line, in bytes. Guests with thousands of flows have long ones.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Maximum number of bytes that are returned of each output stream of a program in a guest.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The result of a request. Errors travel as text, since the host treats them all alike.
pub type Done<T> = Result<T, String>;

/// A request from the host to a guest's agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Ask whether the agent is up.
    Hello,
    /// Apply the guest's settings.
    SetUp(SetUp),
    /// Run a program to its end.
    Run {
        /// Path of the program, then its arguments.
        arguments: Vec<String>,
        /// Standard input of the program.
        input: String,
        /// Time limit in seconds, after which the program is killed.
        seconds: u64,
    },
    /// Start a program that runs until the VM ends; its output goes to the console.
    Start {
        /// Path of the program, then its arguments.
        arguments: Vec<String>,
    },
    /// Write a text file.
    Write {
        /// Path of the file.
        path: String,
        /// Text to write to the file, replacing its content.
        text: String,
    },
    /// Write a binary file.
    Store {
        /// Path of the file.
        path: String,
        /// Bytes to write to the file, replacing its content.
        bytes: Vec<u8>,
    },
    /// Read a text file.
    Read {
        /// Path of the file.
        path: String,
    },
    /// Load a kernel module whose dependencies are loaded.
    Insert {
        /// Path of the module's file.
        path: String,
        /// Parameters `name=value`, separated by spaces.
        parameters: String,
    },
    /// Unload a kernel module.
    Remove {
        /// Name of the module.
        module: String,
    },
    /// Open flows of bulk data or of blocks on request.
    Send(Vec<Order>),
    /// Return the events of the connections since the last request `Events` or `Sample`.
    Events,
    /// Return the state of every flow, in the orders' order.
    Sample,
    /// Return the counters of the guest's TCP since it booted, and those of its PVTCP module.
    Counters,
}

/// The settings of a guest: its address, its interface and its stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetUp {
    /// Sysctls, in the order in which they are to be written.
    pub sysctls: Vec<(String, String)>,
    /// Lines for `ip -batch`.
    pub lines: Vec<String>,
    /// Whether the interface segments and coalesces.
    pub offload: bool,
    /// Congestion controls that the guest's flows will select.
    pub congestion_controls: Vec<String>,
}

/// One bulk flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Address and port of the guest's end.
    pub from: SocketAddr,
    /// Address and port of the server's end.
    pub to: SocketAddr,
    /// Congestion control, by its name in the experiment.
    pub congestion_control: String,
    /// Delay before the connection is opened, in microseconds.
    pub wait_us: u64,
    /// Bytes to send for each request; `None`: as much as TCP takes.
    pub block_bytes: Option<u32>,
}

/// An answer of a guest's agent to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The agent is up.
    Ready {
        /// Version of the running kernel.
        kernel: String,
    },
    /// The request is done.
    Done,
    /// A program has ended.
    Ran(Ran),
    /// The content of a file; see [`Request::Read`].
    Text(String),
    /// The events of the connections; see [`Request::Events`].
    Events(Vec<FlowEvent>),
    /// The state of every flow; see [`Request::Sample`].
    Samples {
        /// States, one for each flow.
        sightings: Vec<Sighting>,
        /// Events that [`Request::Events`] would have returned.
        events: Vec<FlowEvent>,
    },
    /// The counters of the guest's TCP; see [`Request::Counters`].
    Counters(BTreeMap<String, u64>),
    /// The request failed, for this reason.
    Failed(String),
}

/// The result of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Exit status; `None` when a signal ended the program, as the time limit does.
    pub status: Option<i32>,
    /// Standard output of the program.
    pub stdout: String,
    /// Standard error of the program.
    pub stderr: String,
}

/// An event of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowEvent {
    /// The connection is established.
    Connected {
        /// Number of times that the connection's SYN was retransmitted.
        retransmits: u32,
    },
    /// The connection failed, for this reason.
    Failed(String),
}

/// One flow as its sender sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// State of TCP. The host fills in the times and the receiver's numbers.
    pub sample: FlowSample,
    /// Whether ECN was negotiated.
    pub negotiated_ecn: bool,
}

//! The guest's bulk flows: the lab's senders on the guest's own TCP.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use uc_experiment::FlowSample;

use super::stack;
use crate::event::Event;
use crate::pattern::Pattern;
use crate::sender::Bulk;
use crate::tcp_info::TcpInfo;
use crate::vm::message::{Done, FlowEvent, Order, SetUp, Sighting};
use crate::{CongestionControls, sampler, socket};

/// Name of this guest in messages; the host prefixes the name that it knows.
const GUEST: &str = "this guest";

/// The flows, and the congestion controls that they need.
pub struct Flows {
    sockets: Vec<TcpStream>,
    congestion: CongestionControls,
    pattern: Arc<Pattern>,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl Default for Flows {
    fn default() -> Self {
        let (sender, events) = mpsc::channel();
        Self {
            sockets: Vec::new(),
            congestion: CongestionControls::default(),
            pattern: Arc::default(),
            sender,
            events,
        }
    }
}

impl Flows {
    /// Applies the guest's settings.
    pub fn set_up(&mut self, set_up: &SetUp) -> Done<()> {
        self.congestion = stack::set_up(set_up)?;
        Ok(())
    }

    /// Opens the sockets and starts a sender for each.
    pub fn open(&mut self, orders: &[Order]) -> Done<()> {
        for order in orders {
            let control = self.congestion.kernel_name(&order.congestion_control);
            let socket = socket::sender(GUEST, order.from, control);
            let socket = socket.map_err(|error| error.to_string())?;
            let bulk = Bulk {
                wait: Duration::from_micros(order.wait_us),
                last: None,
                block_bytes: order.block_bytes,
                socket: socket.try_clone().map_err(|error| error.to_string())?,
                server: order.to,
                guest: GUEST.into(),
                pattern: Arc::clone(&self.pattern),
                // They end with the VM.
                stop: Arc::new(AtomicBool::new(false)),
            };
            let events = self.sender.clone();
            thread::Builder::new()
                .name("uc-sender".into())
                .spawn(move || bulk.run(&events))
                .map_err(|error| error.to_string())?;
            self.sockets.push(socket);
        }
        Ok(())
    }

    /// Returns the events since the last call.
    pub fn events(&self) -> Vec<FlowEvent> {
        let told = self.events.try_iter().map(|event| match event {
            Event::Connected { retransmits } => FlowEvent::Connected { retransmits },
            Event::Failed(error) => FlowEvent::Failed(error.to_string()),
        });
        told.collect()
    }

    /// Returns the state of every flow.
    pub fn sample(&self) -> Done<Vec<Sighting>> {
        let of_socket = |socket: &TcpStream| -> std::io::Result<Sighting> {
            let info = TcpInfo::read(socket.as_fd())?;
            let dctcp = self.congestion.dctcp_state(socket.as_fd())?;
            let sample: FlowSample = sampler::of_sender(&info, dctcp);
            Ok(Sighting {
                sample,
                negotiated_ecn: info.negotiated_ecn(),
            })
        };
        let states: std::io::Result<_> = self.sockets.iter().map(of_socket).collect();
        states.map_err(|error| format!("reading TCP_INFO: {error}"))
    }
}

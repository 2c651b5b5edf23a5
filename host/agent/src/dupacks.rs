//! The ports at which `uc dupack` sends the host's duplicate ACKs. If its process ends, guests get no duplicate ACKs,
//! and wait for their retransmission timers, until it runs again.

use std::time::Duration;

use uc_hold::dupack::PortSetup;
use uc_words::units::Nanos;

use crate::at_ports::AtPort;
use crate::desired::Wanted;

impl AtPort for PortSetup {
    const LACK: &'static str = "its guest gets no duplicate ACKs";

    fn of(ifindex: u32, port: &Wanted) -> Option<Self> {
        let dupack = port.dupack?;
        let time = |time: Nanos| Duration::from_nanos(time.0);
        let (least, short_tails) = (time(dupack.least), dupack.short_tails.map(time));
        Some(PortSetup::new(&port.name, ifindex, least, short_tails))
    }
}

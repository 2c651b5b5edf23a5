//! The ports at which `uc hold` holds packets. If its process ends, packets pass until it runs again.

use std::time::Duration;

use uc_hold::PortSetup;

use crate::at_ports::AtPort;
use crate::desired::Wanted;

impl AtPort for PortSetup {
    const LACK: &'static str = "its guest's packets are not held";

    fn of(ifindex: u32, port: &Wanted) -> Option<Self> {
        let hold = port.hold?;
        let rto_min = hold.rto_min.map(|time| Duration::from_nanos(time.0));
        let memory_bytes = hold.memory.0.into();
        let Wanted { name, .. } = port;
        Some(PortSetup::new(
            name,
            ifindex,
            hold.pace,
            rto_min,
            memory_bytes,
        ))
    }
}

//! The settings of a port, as the core takes them.

use uc_hold_core::{Buffer, Settings};
use uc_service::commands::hold::PortSetup;

/// Converts the settings of a port to those of `uc_hold_core`.
pub fn settings(port: &PortSetup) -> Settings {
    let buffer = |us: u64| Buffer {
        least_timeout_ns: us.saturating_mul(1000).max(1),
    };
    Settings {
        pace: port.pace,
        buffer: port.rto_min_us.map(buffer),
        bytes_max: usize::try_from(port.memory_bytes).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settings_have_the_times_in_nanoseconds() {
        let rto_min = Some(Duration::from_millis(20));
        let port = PortSetup::new("tap0", 3, true, rto_min, 1 << 20);
        let settings = settings(&port);
        assert_eq!(settings.buffer.unwrap().least_timeout_ns, 20_000_000);
        assert_eq!((settings.pace, settings.bytes_max), (true, 1 << 20));
    }
}

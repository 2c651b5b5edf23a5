//! Speeds up changes of many links. For each added or removed link the kernel waits for an RCU
//! grace period (no CPU uses the old state any more), under a lock of all interfaces: about 12 ms,
//! so 25 s for a thousand ports. With `rcu_expedited` it interrupts all CPUs instead, which takes 1
//! ms.

use std::fs;

/// Number of ports from which grace periods are expedited: for fewer it isn't worth interrupting
/// every CPU.
const PORTS_MANY: usize = 32;

const SWITCH: &str = "/sys/kernel/rcu_expedited";

/// Expedites the kernel's grace periods while this value exists, if the process may and they aren't expedited already.
/// A process that is killed leaves them expedited, which only costs interrupts.
pub(crate) struct Expedited {
    asked: bool,
}

impl Expedited {
    pub(crate) fn for_ports(ports: usize) -> Expedited {
        let is_off = || fs::read_to_string(SWITCH).is_ok_and(|text| text.trim() == "0");
        let asked = ports >= PORTS_MANY && is_off() && fs::write(SWITCH, "1").is_ok();
        Expedited { asked }
    }
}

impl Drop for Expedited {
    fn drop(&mut self) {
        if self.asked {
            let _cant_be_helped = fs::write(SWITCH, "0");
        }
    }
}

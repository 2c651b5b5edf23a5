//! Many links at once. For each that comes or goes the kernel waits until no CPU uses what was there
//! before (an RCU grace period), under a lock of all interfaces: some 12 ms, so 25 s for a thousand
//! ports. It can be asked to have all CPUs say so at once, which takes 1 ms.

use std::fs;

/// From how many ports on the kernel is asked: for a few it isn't worth disturbing every CPU.
const PORTS_MANY: usize = 32;

const SWITCH: &str = "/sys/kernel/rcu_expedited";

/// While this lives, the kernel's grace periods are short; if the process may ask for that, and
/// nobody has already. A process that is killed leaves it so, which costs interrupts and no more.
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

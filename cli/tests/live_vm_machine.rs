//! A single VM: it boots, executes requests, and ends with the process that created it.

use std::time::Duration;

use uc_lab::vm::message::Request;
use uc_lab::vm::{Links, Template, VmError};

use crate::common::live_vm;
use crate::common::uc::inside;

/// Programs inside a guest, and the program that runs them.
/// Timeout of a command in the guest: more than any takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn live_vm_guests_of_debians_kernels_boot_and_run_this_very_program() {
    if !live_vm(&["6.1", "6.12"]) {
        return;
    }
    for series in ["6.1", "6.12"] {
        let template = Template::boot(series, &inside(), false).unwrap();
        println!("{series}: {}", template.accel().name());
        let mut machine = template.machine("a guest", Links::default()).unwrap();
        let version = machine.run(&["/bin/uc", "--version"], LIMIT).unwrap();
        assert_eq!(version.status, Some(0), "{version:?}");
        assert!(version.stdout.starts_with("uc "), "{version:?}");
        let none = machine.run(&["/bin/uc", "no-such-command"], LIMIT).unwrap();
        assert_eq!(none.status, Some(2), "{none:?}");
        let link = machine.run(&["/bin/ip", "-brief", "link"], LIMIT).unwrap();
        assert!(link.stdout.contains("eth0"), "{link:?}");
        let console = machine.console();
        assert!(!console.contains("Kernel panic"), "{console}");
        machine.check_unharmed().unwrap();
        // Priority 4 is that of the kernel's own warnings.
        let mut warned = template.machine("a guest", Links::default()).unwrap();
        warned
            .order(&Request::Store {
                path: "/dev/kmsg".into(),
                bytes: b"<4>WARNING: a test's\n".into(),
            })
            .unwrap();
        let harmed = warned.check_unharmed().unwrap_err().to_string();
        assert!(harmed.ends_with("] WARNING: a test's"), "{harmed}");
        // Text that the kernel itself prints when it warns.
        machine
            .order(&Request::Store {
                path: "/proc/sys/kernel/tainted".into(),
                bytes: b"512".into(),
            })
            .unwrap();
        let harmed = machine.check_unharmed();
        assert!(
            matches!(&harmed, Err(VmError::Harmed { node, .. }) if node == "a guest"),
            "{harmed:?}"
        );
    }
}

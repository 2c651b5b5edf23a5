//! The watch programs on older kernels than this machine's: their verifiers accept them.

use std::time::Duration;

use uc_lab::vm::{Links, Template};

use crate::common::live_vm;
use crate::common::uc::inside;

/// Programs inside a guest, and the program that runs them.
/// Timeout of a command in the guest: more than any takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Time after which the watch is stopped, since it does not end by itself.
const WATCHED: Duration = Duration::from_secs(20);

#[test]
fn live_vm_the_watch_programs_load_in_5_10_and_6_1() {
    let kernels = ["5.10", "6.1"];
    if !live_vm(&kernels) {
        return;
    }
    for series in kernels {
        let template = Template::boot(series, &inside(), false).unwrap();
        let mut machine = template.machine("a guest", Links::default()).unwrap();
        let made = ["/bin/uc", "watch", "--make-key", "/tmp/key"];
        let made = machine.run(&made, LIMIT).unwrap();
        assert_eq!(made.status, Some(0), "{series}: {made:?}");
        let watch = ["/bin/uc", "watch", "lo", "--peer", "10.0.0.0/8"];
        let with = ["--key-file", "/tmp/key", "--pace", "1Gbit"];
        let watch = machine.run(&[&watch[..], &with].concat(), WATCHED).unwrap();
        println!("{series}: {watch:?}");
        // Programs are loaded before any is attached, which a guest without the clsact modules
        // can't do.
        let attached = watch.stdout == "lo: watched\n";
        let loaded = watch.stderr.contains("could not attach") && watch.stderr.contains("clsact");
        assert!(attached || loaded, "{series}: {watch:?}");
        let console = machine.console();
        assert!(!console.contains("Kernel panic"), "{console}");
    }
}

//! What `packaging/virsh-migrate` asks of `virsh`, and when it does not let the guest go on at the new host.
//! `live_vm_migrate.rs` runs it for a machine.

use std::process::Command;

use crate::common::uc::{Outcome, outcome};
use crate::common::virsh::{SCRIPT, Virsh};

/// Runs the script with these arguments, and what runs a command on the new host.
fn run(virsh: &Virsh, arguments: &[&str]) -> Outcome {
    let mut script = Command::new(SCRIPT);
    let path = virsh.path();
    script
        .args(arguments)
        .env("PATH", path)
        .env("UC_KEY_FILE", "/no/key")
        .env("UC_REMOTE", "env");
    outcome(script)
}

#[test]
fn a_guest_goes_on_even_if_its_flows_were_not_written() {
    let virsh = Virsh::new();
    ["paused", "arrived", "ended"]
        .iter()
        .for_each(|what| virsh.tell(what));
    let told = run(&virsh, &["guest", "new", "--persistent"]);
    assert_eq!(told.status, Some(0), "{told:?}");
    let missing = "virsh-migrate: no flows of 02:75:63:ff:ff:ff were written";
    assert!(told.stderr.contains(missing), "{told:?}");
    assert!(virsh.was("resumed"));
    let asked = "migrate --live --suspend --persistent guest qemu+ssh://new/system\n";
    assert_eq!(virsh.asked(), asked);
}

#[test]
fn after_a_migration_that_failed_no_guest_is_resumed() {
    let virsh = Virsh::new();
    ["paused", "failed", "ended"]
        .iter()
        .for_each(|what| virsh.tell(what));
    let told = run(&virsh, &["guest", "new"]);
    assert_eq!(told.status, Some(1), "{told:?}");
    assert!(!virsh.was("resumed"));
}

#[test]
fn a_guest_that_does_not_run_is_not_migrated() {
    let virsh = Virsh::new();
    virsh.tell("off");
    for arguments in [&["guest"][..], &["guest", "new"]] {
        let told = run(&virsh, arguments);
        assert_eq!(told.status, Some(2), "{told:?}");
        assert_eq!(virsh.asked(), "");
    }
}

//! `uc guest`: a congestion control is loaded, chosen and unloaded, and nothing of it is left.

mod common;

use common::by_hand::{SHARED, one_guest};
use common::live;
use common::sandbox::Sandbox;
use common::uc::{refusal, success};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use uc_guest::{Dctcp, GuestError};

/// Whether a socket can choose it.
fn can_be_chosen(name: &str) -> bool {
    let fd = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    setsockopt(&fd, sockopt::TcpCongestion, &name.into()).is_ok()
}

#[test]
fn live_a_congestion_control_that_is_loaded_stays_until_it_is_unloaded() {
    if !live() {
        return;
    }
    if let Err(error @ GuestError::NoKernelSupport { .. }) = Dctcp::register_private() {
        println!("SKIP(live): {error}");
        return;
    }
    let (_plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    // The names are the machine's: one that no other test takes.
    let name = format!("uc_cli.{}", std::process::id());
    let uc = |words: &[&str]| sandbox.uc(&lab.wiring.hosts, &[&["guest"], words].concat());
    assert_eq!(success(uc(&["list"])), "nothing is loaded\n");
    refusal(
        uc(&["load", "dctcp", "--name", "not/a/name"]),
        &["not/a/name", "15 letters"],
    );
    refusal(uc(&["unload", &name]), &[&name, "uc guest list"]);

    success(uc(&["load", "dctcp", "--name", &name]));
    assert!(can_be_chosen(&name));
    assert_eq!(success(uc(&["list"])), format!("{name}\n"));
    let listing: serde_json::Value =
        serde_json::from_str(&success(uc(&["list", "--json"]))).unwrap();
    assert_eq!(listing["congestion_controls"][0], name.as_str());
    refusal(uc(&["load", "dctcp", "--name", &name]), &[&name, "already"]);
    assert!(can_be_chosen(&name), "the refusal has changed nothing");

    success(uc(&["unload", "--all"]));
    assert!(!can_be_chosen(&name));
    assert_eq!(success(uc(&["list"])), "nothing is loaded\n");
    assert!(sandbox.is_clean());
}

#[test]
fn live_without_a_place_for_pins_nothing_is_loaded() {
    if !live() {
        return;
    }
    let (_plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::without_bpffs();
    let name = format!("uc_none.{}", std::process::id());
    let words = ["guest", "load", "dctcp", "--name", &name];
    refusal(
        sandbox.uc(&lab.wiring.hosts, &words),
        &["/sys/fs/bpf", "mount -t bpf"],
    );
    assert!(!can_be_chosen(&name));
}

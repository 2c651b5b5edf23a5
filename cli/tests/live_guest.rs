//! `uc guest`: a congestion control is loaded, chosen and unloaded without a trace.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use crate::common::by_hand::{SHARED, one_guest};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{refusal, success};
use crate::common::{live, live_with_controls};

/// Returns `true` if a socket can choose the congestion control `name`.
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
fn live_a_loaded_congestion_control_stays_until_it_is_unloaded() {
    if !live_with_controls() {
        return;
    }
    let (_plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    // The names belong to the whole machine: no other test uses this one.
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
fn live_without_a_bpffs_nothing_is_loaded() {
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

#[test]
fn live_coupled_congestion_controls_come_in_pairs_with_groups_and_priorities() {
    if !live_with_controls() {
        return;
    }
    let (_plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    // At most ten characters, up to five of them the process id.
    let name = format!("uc.{}", std::process::id() % 100_000);
    let names = [format!("{name}tcp"), format!("{name}cubic")];
    let uc = |words: &[&str]| sandbox.uc(&lab.wiring.hosts, &[&["guest"], words].concat());
    let long = ["load", "ctrltcp", "--name", "eleven_more"];
    refusal(uc(&long), &["eleven_more", "1 to 10 letters"]);
    refusal(
        uc(&["priority", "2", "--name", &name]),
        &[&name, "uc guest list"],
    );

    success(uc(&["load", "ctrltcp", "--name", &name, "--prefix4", "0"]));
    assert!(names.iter().all(|name| can_be_chosen(name)));
    let listener = std::net::TcpListener::bind("127.0.0.31:0").unwrap();
    let sender = coupled_to(listener.local_addr().unwrap(), &names[0]);
    let listing = || -> serde_json::Value {
        serde_json::from_str(&success(uc(&["list", "--json"]))).unwrap()
    };
    let seen = listing();
    assert_eq!(
        seen["congestion_controls"],
        serde_json::json!([names[1], names[0]])
    );
    let group = &seen["couplings"][0]["groups"][0];
    assert_eq!(group["remote"], "0.0.0.0", "{seen}");
    assert_eq!(group["guests"][0]["connections"], 1, "{seen}");
    let text = success(uc(&["list"]));
    assert!(text.contains("to 0.0.0.0, window"), "{text}");

    let netns = format!("/proc/{}/ns/net", std::process::id());
    success(uc(&["priority", "5", "--name", &name, "--netns", &netns]));
    success(uc(&["priority", "9", "--name", &name, "--port", "443"]));
    std::io::Write::write_all(&mut &sender, &[1; 1000]).unwrap();
    let weight = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let seen = listing();
        let weight = seen["couplings"][0]["groups"][0]["guests"][0]["weight"].as_u64();
        weight.filter(|&weight| weight == 5)
    });
    assert_eq!(weight, Some(5));
    success(uc(&["unload", &names[0]]));
    assert_eq!(listing()["couplings"][0]["name"], name.as_str());
    success(uc(&["unload", "--all"]));
    assert_eq!(success(uc(&["list"])), "nothing is loaded\n");
    assert!(sandbox.is_clean());
}

/// Opens a connection of this process with this congestion control.
fn coupled_to(address: std::net::SocketAddr, control: &str) -> std::net::TcpStream {
    use nix::sys::socket::{SockaddrStorage, connect};
    let family = nix::sys::socket::AddressFamily::Inet;
    let kind = nix::sys::socket::SockType::Stream;
    let flags = nix::sys::socket::SockFlag::SOCK_CLOEXEC;
    let fd = nix::sys::socket::socket(family, kind, flags, None).unwrap();
    setsockopt(&fd, sockopt::TcpCongestion, &control.into()).unwrap();
    connect(
        std::os::fd::AsRawFd::as_raw_fd(&fd),
        &SockaddrStorage::from(address),
    )
    .unwrap();
    std::net::TcpStream::from(fd)
}

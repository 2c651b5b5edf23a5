//! `uc split` refuses in words where it can't work, and leaves nothing then.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::common::ends::{listen, open, receive, send};
use crate::common::live_with;
use crate::common::process::Process;
use crate::common::routed::{Routed, ip};
use crate::common::uc::{AS_NOBODY, for_everybody, refusal, success};

const NOBODY: u32 = 65_534;

/// Checks that no table and no rule of routing is left.
fn is_clean(net: &Routed) {
    let mut list = net.host.command("nft");
    list.args(["list", "ruleset"]);
    assert_eq!(success(list), "");
    assert!(!ip(&net.host, "rule").contains("29545"));
    assert!(!ip(&net.host, "-6 rule").contains("29545"));
}

#[test]
fn live_a_split_that_cannot_work_is_refused_with_its_reason() {
    if !live_with(&["ip", "nft", "setpriv"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let refused = |arguments: &[&str], parts: &[&str]| {
        let all: Vec<&str> = ["split"].iter().chain(arguments).copied().collect();
        refusal(net.uc(&all), parts);
        is_clean(&net);
    };
    refused(&["nosuch"], &["'nosuch' does not exist", "ip link"]);
    refused(&["port0", "a\"b"], &["has a character"]);
    refused(
        &["port0", "--congestion-control", "nosuch"],
        &["'nosuch'; it has ", "reno", "load its module"],
    );
    refused(&["--status"], &["no `uc split` runs", "uc split PORT"]);
    ip(&net.host, "link add br0 type bridge");
    ip(&net.host, "link add v1 type veth peer name v2");
    ip(&net.host, "link set v1 master br0");
    refused(&["v1"], &["port of bridge 'br0'", "name 'br0'"]);
    net.host
        .set_sysctls(&[("net.mptcp.enabled", "0".into())])
        .unwrap();
    refused(
        &["port0", "--mptcp"],
        &["turned off", "net.mptcp.enabled to 1"],
    );

    let mut nobody = net.host.command(AS_NOBODY[0]);
    nobody
        .args(&AS_NOBODY[1..])
        .arg(for_everybody())
        .args(["split", "port0"]);
    refusal(nobody, &["CAP_NET_ADMIN is missing", "root"]);

    // A kernel without TPROXY: nft repeats the kernel's answer.
    let folder = tempfile::tempdir().unwrap();
    let nft = folder.path().join("nft");
    let script = "#!/bin/sh\nread -r first\ncase $first in table*) \
                  echo '/dev/stdin:4:1-9: Error: Could not process rule: No such file or directory' >&2;; \
                  esac\nexit 1\n";
    std::fs::write(&nft, script).unwrap();
    std::fs::set_permissions(&nft, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut without = net.uc(&["split", "port0"]);
    without.env(
        "PATH",
        format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.path().display()),
    );
    refusal(
        without,
        &["refuses the table", "No such file", "CONFIG_NFT_TPROXY"],
    );
    is_clean(&net);

    let split = net.split(&[]);
    refusal(
        net.uc(&["split", "port0"]),
        &["(process ", "already", "end it first"],
    );
    refusal(
        net.uc(&["split", "--clean"]),
        &["(process ", "end that process first"],
    );
    let told = success(net.uc(&["split", "--status"]));
    assert!(
        told.contains(
            "port0: connections of guests, all TCP ports; TCP with the host's congestion control"
        ),
        "{told}"
    );
    split.end();
    is_clean(&net);
}

/// Starts `uc split br0`, and waits until it splits.
fn split_bridge(net: &Routed) -> Process {
    let mut process = Process::start(net.uc(&["split", "br0"]));
    process.says("caution: ");
    process
}

#[test]
fn live_bridge_with_the_gateways_address_is_split_unless_a_filter_takes_its_packets() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let filter = "net.bridge.bridge-nf-call-iptables";
    let has_filter = net
        .host
        .enter(|| std::path::Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists());
    let has_filter = has_filter.unwrap();
    let set = |value: &str| {
        if has_filter {
            let names = [filter, "net.bridge.bridge-nf-call-ip6tables"];
            let settings = names.map(|name| (name, value.to_owned()));
            net.host.set_sysctls(&settings).unwrap();
        }
    };
    for change in [
        "link add br0 type bridge",
        "link set br0 up",
        "address flush dev port0",
        "link set port0 master br0",
        "address add 10.1.0.1/24 dev br0",
    ] {
        ip(&net.host, change);
    }
    set("0");
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let split = split_bridge(&net);
    let (guest, server) = open(&net.guest, &listener);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&guest, 1_000_000));
        assert_eq!(receive(&server), 1_000_000);
    });
    assert_eq!(net.total("split"), 1);
    split.end();
    if has_filter {
        set("1");
        refusal(net.uc(&["split", "br0"]), &["bridge 'br0'", filter, "to 0"]);
        is_clean(&net);
    }
}

#[test]
fn live_user_without_rights_neither_takes_nor_reaches_the_place_of_a_process() {
    if !live_with(&["ip", "nft", "setpriv"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&[]);
    let sockets = net.host.enter(|| uc_files::socket_path("split").unwrap());
    let path = sockets.unwrap();
    assert!(path.exists());
    let as_nobody = move || {
        // SAFETY: the system call changes the user of the calling thread only, which ends after it.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(done, 0);
        let free = path.with_extension("free");
        [
            UnixListener::bind(free).err(),
            UnixStream::connect(&path).err(),
            std::fs::remove_file(&path).err(),
        ]
    };
    for error in std::thread::spawn(as_nobody).join().unwrap() {
        assert_eq!(error.unwrap().kind(), ErrorKind::PermissionDenied);
    }
    split.end();
    // The socket's file stays, and keeps no other process from the place.
    refusal(net.uc(&["split", "--status"]), &["no `uc split` runs"]);
    net.split(&[]).end();
}

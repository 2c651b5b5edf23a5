//! `uc guest`: loads a congestion control if the kernel supports it; otherwise refuses with a
//! message. `uc tune`, and what `uc flows --truth` reads of a container.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::site::{Site, port};
use super::{kernel, timed, uc};
use crate::common::truth::{assert_truth, info, rested};
use crate::common::tuned::{self, Group};
use crate::common::uc::{refusal, success};
use uc_lab::vm::image::MODULES;

/// First kernel in which a congestion control can be a pinned link.
const FIRST: (u32, u32) = (6, 4);

fn can_be_chosen(name: &str) -> bool {
    let kind = (AddressFamily::Inet, SockType::Stream);
    let fd = socket(kind.0, kind.1, SockFlag::empty(), None).unwrap();
    setsockopt(&fd, sockopt::TcpCongestion, &name.into()).is_ok()
}

/// Loads a congestion control, and unloads it.
pub fn load() {
    let load = ["guest", "load", "dctcp"];
    if kernel() < FIRST {
        for control in ["dctcp", "ctrltcp"] {
            refusal(uc(&["guest", "load", control]), &["kernel", "6.4"]);
        }
        assert_eq!(success(uc(&["guest", "list"])), "nothing is loaded\n");
        return;
    }
    timed("guest load dctcp", || success(uc(&load)));
    assert!(can_be_chosen("uc_dctcp"));
    assert_eq!(success(uc(&["guest", "list"])), "uc_dctcp\n");
    success(uc(&["guest", "unload", "--all"]));
    assert!(!can_be_chosen("uc_dctcp"));
}

/// Tunes the connections of a control group.
pub fn tune() {
    if !tuned::can_be_tuned() {
        return;
    }
    let Some(group) = Group::make("tune") else {
        return;
    };
    let uc = |words: &[&str]| uc(&[&["tune"], words].concat());
    let pins = Path::new("/sys/fs/bpf/undercurrent-tune");
    timed("tune", || {
        tuned::assert_tuning_holds(&tuned::namespace(), group, uc, pins);
    });
}

/// Compares what `uc flows --truth` tells of a tenant's socket with the socket's own TCP_INFO.
pub fn tell_the_truth(site: &Site) {
    for module in ["inet_diag", "tcp_diag"] {
        uc_lab::vm::modules::load(Path::new(MODULES), module).unwrap();
    }
    // the name by which the namespace is found, as `ip netns` makes it
    std::fs::create_dir_all("/run/netns").unwrap();
    let name = "/run/netns/tenant";
    std::fs::File::create(name).unwrap();
    let path = site.tenant(0).path();
    let none = None::<&str>;
    mount(Some(&path), name, none, MsFlags::MS_BIND, none).unwrap();
    success(uc(&["attach", &port(0)]));
    let ends = rested(site.tenant(0), site.server(), site.service(9));
    let told = success(uc(&["flows", "--truth", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["truth"]["flows"], 1, "{}", told["truth"]);
    let own = ends[0].local_addr().unwrap().to_string();
    let flows = told["flows"].as_array().unwrap();
    let flow = flows.iter().find(|flow| flow["guest"] == own);
    assert_truth(flow.unwrap(), &info(&ends[0]));
    success(uc(&["detach", "--all", "--now"]));
}

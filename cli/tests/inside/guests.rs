//! `uc guest`: loads a congestion control if the kernel supports it; otherwise refuses with a
//! message.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::{kernel, timed, uc};
use crate::common::uc::{refusal, success};

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

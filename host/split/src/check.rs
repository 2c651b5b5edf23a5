//! The preconditions on this host, checked before anything is changed.

use std::fs;

use crate::error::SplitError;
use crate::{interfaces, programs, rules, sockets};
use uc_service::commands::split::Setup;

/// Checks whether this host can split connections as `setup` says. Returns whether the host has IPv6.
///
/// # Errors
/// The first precondition that does not hold.
pub fn check(setup: &Setup) -> Result<bool, SplitError> {
    sockets::check_transparent()?;
    programs::find("nft", "nftables")?;
    let refused = interfaces::refused(&setup.interfaces)?;
    match refused.into_values().next() {
        Some(error) => Err(error),
        None => check_host(setup),
    }
}

/// Checks the preconditions that concern no single interface. Returns whether the host has IPv6.
///
/// # Errors
/// The first precondition that does not hold.
pub fn check_host(setup: &Setup) -> Result<bool, SplitError> {
    sockets::check_transparent()?;
    if let Some(name) = &setup.congestion_control {
        sockets::check_congestion_control(name)?;
    }
    if setup.mptcp {
        sockets::check_mptcp()?;
    }
    rules::check(setup)?;
    let off = fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    Ok(off.is_ok_and(|off| off.trim() == "0"))
}

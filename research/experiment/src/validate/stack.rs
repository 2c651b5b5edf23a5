//! Checks of stacks.

use super::fault::{Check, ensure};
use crate::stack::Stack;
use crate::units::Nanos;

/// Upper limit of an ACK's delay, excluded (RFC 5681 §4.2).
const DELAYED_ACK_END: Nanos = Nanos(500_000_000);

/// Debian's kernel series that guests can boot.
const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "newest"];

/// Minimum RTO of a stack that sets none, as in Linux.
const RTO_MIN: Nanos = Nanos(200_000_000);
/// Maximum RTO of a stack that sets none, as in Linux.
const RTO_MAX: Nanos = Nanos(120_000_000_000);

pub(super) fn check_stack(key: &str, stack: &Stack) -> Check {
    let name = &stack.congestion_control;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    // TCP_CA_NAME_MAX is 16 with the closing zero.
    let named = !name.is_empty() && name.len() < 16 && name.chars().all(good);
    ensure(named, &format!("{key}.congestion_control"), || {
        format!("`{name}` is not a name that a kernel accepts; give for example reno")
    })?;
    ensure(stack.wscale <= 14, &format!("{key}.wscale"), || {
        format!("{} is above 14, the largest (RFC 7323 §2.3)", stack.wscale)
    })?;
    ensure(
        stack.rto_min.is_none_or(|rto| rto.0 > 0),
        &format!("{key}.rto_min"),
        || "is 0; leave it out for the kernel's own".into(),
    )?;
    check_timeouts(key, stack)?;
    let kernel = stack.kernel.as_deref();
    ensure(
        kernel.is_none_or(|kernel| KERNELS.contains(&kernel)),
        &format!("{key}.kernel"),
        || {
            let (kernel, known) = (kernel.unwrap_or_default(), KERNELS.join(", "));
            format!("there is no kernel series `{kernel}`; give one of {known}")
        },
    )?;
    let window = stack.initial_window.unwrap_or(1);
    ensure(
        (1..=20).contains(&window),
        &format!("{key}.initial_window"),
        || format!("{window} segments; give 1 to 20"),
    )?;
    ensure(
        stack.delayed_ack.unwrap_or_default() < DELAYED_ACK_END,
        &format!("{key}.delayed_ack"),
        || "an ACK waits less than 500ms (RFC 5681 §4.2); give for example 40ms".into(),
    )?;
    // With less than a full segment the sender would send tiny segments or nothing.
    let buffer = stack.receive_buffer.map_or(u32::MAX, |buffer| buffer.0);
    ensure(buffer >= 1514, &format!("{key}.receive_buffer"), || {
        "holds not even one full segment; give at least 1514B".into()
    })
}

fn check_timeouts(key: &str, stack: &Stack) -> Check {
    let (least, most) = (
        stack.rto_min.unwrap_or(RTO_MIN),
        stack.rto_max.unwrap_or(RTO_MAX),
    );
    ensure(least <= most, &format!("{key}.rto_max"), || {
        format!("{most} is below rto_min, which is {least}")
    })?;
    let grain = stack.rto_granularity;
    ensure(
        grain.is_none_or(|grain| grain.0 > 0),
        &format!("{key}.rto_granularity"),
        || "is 0; give for example 1us".into(),
    )
}

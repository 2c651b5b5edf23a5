//! Names of congestion controls.

use crate::fault::Faults;

/// Maximum length of a congestion control's name: TCP_CA_NAME_MAX of linux/tcp.h, less its end mark.
const NAME_MAX_BYTES: usize = 15;

/// Checks that a name can be a congestion control's; whether a host has it, only the host knows.
pub(crate) fn check(key: &str, name: &str, faults: &mut Faults<'_>) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.chars().all(allowed) {
        let message = format!(
            "`{name}` is not the name of a congestion control; give one that `sysctl \
             net.ipv4.tcp_available_congestion_control` prints"
        );
        faults.add(key, message);
    }
}

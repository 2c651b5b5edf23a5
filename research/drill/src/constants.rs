//! The constants that scripts name, by Linux's numbers.

const NAMES: [(&str, i64); 55] = [
    ("EPERM", 1),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("EWOULDBLOCK", 11),
    ("EINVAL", 22),
    ("EPIPE", 32),
    ("ENOPROTOOPT", 92),
    ("EOPNOTSUPP", 95),
    ("EADDRINUSE", 98),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ECONNABORTED", 103),
    ("ECONNRESET", 104),
    ("ENOBUFS", 105),
    ("EISCONN", 106),
    ("ENOTCONN", 107),
    ("ETIMEDOUT", 110),
    ("ECONNREFUSED", 111),
    ("EHOSTUNREACH", 113),
    ("EALREADY", 114),
    ("EINPROGRESS", 115),
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0o4000),
    ("MSG_PEEK", 2),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_NOSIGNAL", 0x4000),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("IPTOS_DSCP_CS1", 0x20),
    ("IPTOS_DSCP_CS7", 0xe0),
    ("IPTOS_LOWDELAY", 0x10),
    ("TCPI_ESTABLISHED", 1),
    ("TCPI_SYN_SENT", 2),
    ("TCPI_SYN_RECEIVED", 3),
    ("TCPI_FIN_WAIT_1", 4),
    ("TCPI_FIN_WAIT_2", 5),
    ("TCPI_TIME_WAIT", 6),
    ("TCPI_CLOSED", 7),
    ("TCPI_CLOSE_WAIT", 8),
    ("TCPI_LAST_ACK", 9),
    ("TCPI_LISTEN", 10),
    ("TCPI_CLOSING", 11),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
];

/// Returns the number of a constant.
pub(crate) fn constant(name: &str) -> Option<i64> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

/// Returns the number of a constant that the table has.
pub(crate) fn known(name: &str) -> i64 {
    constant(name).unwrap_or_else(|| unreachable!("the table of constants lacks {name}"))
}

/// Returns the name of an error, or its number.
pub(crate) fn errno_name(errno: i64) -> String {
    let errors = NAMES.iter().filter(|(name, _)| name.starts_with('E'));
    match errors.rev().find(|(_, number)| *number == errno) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("error {errno}"),
    }
}

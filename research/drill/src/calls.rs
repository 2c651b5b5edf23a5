//! System calls as targets make them, from calls as scripts write them.

use crate::constants::{constant, known};
use crate::syntax::{Call, Expression};
use crate::target::{SocketOption, SystemCall};
use crate::verdict::Stop;

/// Returns the number of an expression.
pub(crate) fn number(expression: &Expression) -> Result<i64, Stop> {
    match expression {
        Expression::Number(number) => Ok(*number),
        Expression::Name(name) => constant(name)
            .ok_or_else(|| Stop::Lacks(format!("the constant {name} is not supported"))),
        Expression::Or(parts) => {
            let mut all = 0;
            for part in parts {
                all |= number(part)?;
            }
            Ok(all)
        }
        Expression::List(items) if items.len() == 1 => number(&items[0]),
        other => Err(Stop::Lacks(format!(
            "the argument {other} is not supported"
        ))),
    }
}

/// Returns the argument at `index`, counted from 0; fails if the call has fewer arguments.
fn argument(call: &Call, index: usize) -> Result<&Expression, Stop> {
    let missing = || Stop::Differs(format!("{} has no argument {}", call.name, index + 1));
    call.arguments.get(index).ok_or_else(missing)
}

/// Returns whether an argument is the pointer `NULL`, which only a kernel judges.
fn is_null(expression: &Expression) -> bool {
    name(expression) == "NULL"
}

/// Returns whether an argument is the address family `AF_UNSPEC`: `connect` with it dissolves a connection.
pub(crate) fn is_no_address(expression: &Expression) -> bool {
    name(expression) == "AF_UNSPEC"
}

fn name(expression: &Expression) -> &str {
    match expression {
        Expression::Name(name) => name,
        _ => "",
    }
}

/// Translates a call; `fd` maps a script's file descriptor to the target's.
pub(crate) fn translate(
    call: &Call,
    fd: impl Fn(i64) -> Result<i64, Stop>,
) -> Result<SystemCall, Stop> {
    let number_at = |index| number(argument(call, index)?);
    let size_at = |index| {
        u32::try_from(number_at(index)?)
            .map_err(|_| Stop::Differs(format!("{}: a size in bytes is out of range", call.name)))
    };
    if call.name == "socket" {
        let written = argument(call, 1)?;
        let kind = number(written)
            .map_err(|_| Stop::Lacks(format!("sockets of type {written} are not supported")))?;
        let nonblocking = known("SOCK_NONBLOCK");
        if kind & !(nonblocking | known("SOCK_CLOEXEC")) != known("SOCK_STREAM") {
            return Err(Stop::Lacks(format!(
                "sockets of type {written} are not supported"
            )));
        }
        return Ok(SystemCall::Socket(kind & nonblocking != 0));
    }
    if call.arguments.iter().any(is_null) {
        return Err(Stop::Lacks(
            "a system call with the argument NULL is not supported".to_owned(),
        ));
    }
    let first = || fd(number_at(0)?);
    Ok(match call.name.as_str() {
        "bind" => SystemCall::Bind(first()?),
        "listen" => SystemCall::Listen(first()?),
        "accept" => SystemCall::Accept(first()?),
        "connect" if is_no_address(argument(call, 1)?) => {
            return Err(Stop::Lacks(
                "connect with AF_UNSPEC is not supported".to_owned(),
            ));
        }
        "connect" => SystemCall::Connect(first()?),
        "close" => SystemCall::Close(first()?),
        "read" | "recv" => {
            let flags = if call.name == "recv" {
                number_at(3)?
            } else {
                0
            };
            SystemCall::Receive {
                fd: first()?,
                bytes: size_at(2)?,
                peek: peeks(flags)?,
            }
        }
        "write" => SystemCall::Send {
            fd: first()?,
            bytes: size_at(2)?,
        },
        "send" | "sendto" => {
            let flags = argument(call, 3)?;
            if number(flags)? & !known("MSG_NOSIGNAL") != 0 {
                return Err(Stop::Lacks(format!(
                    "{} with the flags {flags} is not supported",
                    call.name
                )));
            }
            SystemCall::Send {
                fd: first()?,
                bytes: size_at(2)?,
            }
        }
        "shutdown" => match number_at(1)? {
            1 => SystemCall::Shutdown(first()?, false),
            2 => SystemCall::Shutdown(first()?, true),
            _ => {
                return Err(Stop::Lacks(
                    "shutdown of the receiving side alone is not supported".to_owned(),
                ));
            }
        },
        "fcntl" => match name(argument(call, 1)?) {
            "F_GETFL" => SystemCall::Flags(first()?),
            "F_SETFL" => {
                let nonblocking = number_at(2)? & known("O_NONBLOCK") != 0;
                SystemCall::SetFlags(first()?, nonblocking)
            }
            _ => {
                let written = argument(call, 1)?;
                return Err(Stop::Lacks(format!(
                    "fcntl with {written} is not supported"
                )));
            }
        },
        "getsockopt" => SystemCall::GetOption(first()?, option(call)?),
        "setsockopt" => {
            let option = option(call)?;
            SystemCall::SetOption(first()?, option, number_at(3)?)
        }
        other => {
            return Err(Stop::Lacks(format!(
                "the system call {other} is not supported"
            )));
        }
    })
}

/// Returns whether the flags of `recv` are `MSG_PEEK` (true) or 0 (false); refuses any other flags.
fn peeks(flags: i64) -> Result<bool, Stop> {
    match flags {
        0 => Ok(false),
        flags if flags == known("MSG_PEEK") => Ok(true),
        _ => Err(Stop::Lacks(
            "recv with flags other than MSG_PEEK is not supported".to_owned(),
        )),
    }
}

fn option(call: &Call) -> Result<SocketOption, Stop> {
    let written = argument(call, 2)?;
    Ok(match name(written) {
        "SO_ERROR" => SocketOption::Error,
        "SO_RCVBUF" => SocketOption::ReceiveBuffer,
        "SO_REUSEADDR" => SocketOption::ReuseAddress,
        "TCP_NODELAY" => SocketOption::NoDelay,
        "TCP_MAXSEG" => SocketOption::MaxSegment,
        "IP_TTL" | "IPV6_UNICAST_HOPS" => SocketOption::Hops,
        "IP_TOS" | "IPV6_TCLASS" => SocketOption::Class,
        "TCP_KEEPINIT" => SocketOption::SetupLimit,
        _ => {
            return Err(Stop::Lacks(format!(
                "the socket option {written} is not supported"
            )));
        }
    })
}

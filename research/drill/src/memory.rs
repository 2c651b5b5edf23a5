//! Lays out a script's call as a kernel takes it, with the layout of Linux's structures.
//!
//! The script's arguments become [`Argument`]s; what the kernel leaves in their memory is compared with
//! what the script writes there.

use crate::calls::{is_no_address, number};
use crate::constants::known;
use crate::kernel_call::{Argument, KernelCall, Memory, VALUE_BYTES};
use crate::syntax::{Call, Expression};
use crate::verdict::Stop;

/// Largest number of events that a call may take: they fit into `VALUE_BYTES`.
const EVENTS_MAX: i64 = 8;
/// Largest length of data in a call.
const DATA_BYTES_MAX: i64 = 1 << 26;
/// Number of bytes of the buffer for control messages.
const CONTROL_BYTES: usize = 512;
/// Length of the longest address, of IPv6.
const ADDRESS_BYTES: usize = 28;
/// Offsets in `struct msghdr`: of the flags, and of the length of control messages.
const MESSAGE_FLAGS: usize = 48;
const CONTROL_LENGTH: usize = 40;

/// Lays out a call; `fd` maps a script's file descriptor to the target's.
pub(crate) fn lay_out(
    call: &Call,
    blocks: bool,
    fd: impl Fn(i64) -> Result<i64, Stop>,
) -> Result<KernelCall, Stop> {
    let shape = match call.name.as_str() {
        "setsockopt" => "fnnvn",
        "getsockopt" => "fnnvl",
        "sendto" | "recvfrom" => "fbnnta",
        "write" | "read" => "fbn",
        "send" | "recv" => "fbnn",
        "sendmsg" | "recvmsg" => "fmn",
        "connect" => "fta",
        "shutdown" | "listen" => "fn",
        "poll" => "onn",
        "epoll_create" => "n",
        "epoll_ctl" => "fnfe",
        "epoll_wait" => "fenn",
        "ioctl" => "fnv",
        "pipe" => "p",
        "splice" => "fzfznn",
        other => {
            return Err(Stop::Lacks(format!(
                "the system call {other} is not supported"
            )));
        }
    };
    let lacks =
        |what: &Expression| Stop::Lacks(format!("{} with {what} is not supported", call.name));
    let bounded = |index: usize, most: i64| {
        let Some(written) = call.arguments.get(index) else {
            return Ok(0);
        };
        let bound = number(written)?;
        let holds = (0..=most).contains(&bound);
        holds.then_some(bound).ok_or_else(|| lacks(written))
    };
    // The kernel writes as many bytes as these lengths allow.
    match (call.name.as_str(), call.arguments.as_slice()) {
        ("setsockopt" | "getsockopt", _) => bounded(4, VALUE_BYTES as i64)?,
        ("poll", [Expression::List(items), ..]) => bounded(1, items.len() as i64)?,
        ("epoll_wait", _) => bounded(2, EVENTS_MAX)?,
        _ => 0,
    };
    let mut arguments = Vec::new();
    for (kind, written) in shape.chars().zip(&call.arguments) {
        arguments.push(match (kind, written) {
            (_, Expression::Name(null)) if null == "NULL" => Argument::Number(0),
            ('f', _) => Argument::Number(fd(number(written)?)?),
            ('b', _) => {
                let length = bounded(2, DATA_BYTES_MAX)?;
                Argument::Memory(Memory::zeros(length as usize))
            }
            ('v', _) => Argument::Memory(value(written)?.padded()),
            ('p', Expression::List(ends)) if ends.len() == 2 => Argument::Memory(Memory::zeros(8)),
            ('l', Expression::List(_)) => Argument::Memory(value(written)?),
            ('m', Expression::Fields(fields)) => Argument::Memory(message(&call.name, fields)?),
            ('e', Expression::Fields(fields)) => Argument::Memory(event(fields)?.padded()),
            ('o', Expression::List(items)) => {
                let mut all = Memory::default();
                for item in items {
                    let fields = fields(item)?;
                    all.push((fd(field(fields, "fd")?)? as i32).to_le_bytes());
                    all.push((field(fields, "events")? as i16).to_le_bytes());
                    all.push([0; 2]);
                }
                Argument::Memory(all)
            }
            ('t', _) if is_no_address(written) => Argument::Memory(Memory::zeros(ADDRESS_BYTES)),
            ('t', _) => Argument::Peer,
            ('a', _) => Argument::AddressLength,
            ('n', _) => Argument::Number(number(written)?),
            // A number here would be an address that the script makes up.
            _ => return Err(lacks(written)),
        });
    }
    Ok(KernelCall {
        name: call.name.clone(),
        arguments,
        blocks,
    })
}

/// Compares what a call left in its memory with what the script expects there.
pub(crate) fn compare(call: &Call, after: &[Argument]) -> Result<(), Stop> {
    let differs = |what: &str, wanted: i64, seen: i64| {
        if wanted == seen {
            return Ok(());
        }
        let name = &call.name;
        let why = format!("expected {what} {wanted} from {name}, seen {seen}");
        Err(Stop::Differs(why))
    };
    let memory = |index: usize| match after.get(index) {
        Some(Argument::Memory(memory)) => memory.clone(),
        _ => Memory::default(),
    };
    match (call.name.as_str(), call.arguments.as_slice()) {
        ("getsockopt", [.., written, _]) => {
            let wanted = value(written)?;
            differs("the value", wanted.at::<4>(0), memory(3).at::<4>(0))
        }
        ("ioctl", [.., written]) => {
            let wanted = value(written)?;
            differs("the value", wanted.at::<4>(0), memory(2).at::<4>(0))
        }
        ("poll", [Expression::List(items), ..]) => {
            items.iter().enumerate().try_for_each(|(index, item)| {
                let wanted = field(fields(item)?, "revents")?;
                differs("revents", wanted, memory(0).at::<2>(8 * index + 6))
            })
        }
        ("epoll_wait", [_, Expression::Fields(fields), ..]) => {
            let (wanted, seen) = (event(fields)?, memory(1));
            differs("events", wanted.at::<4>(0), seen.at::<4>(0))
        }
        ("recvmsg", [_, Expression::Fields(fields), ..]) => {
            let seen = memory(1);
            let flags = field(fields, "msg_flags")?;
            differs("msg_flags", flags, seen.at::<4>(MESSAGE_FLAGS))?;
            control(fields, &seen, &differs)
        }
        _ => Ok(()),
    }
}

/// Compares the control messages of `recvmsg`. The times in them are the host's own.
fn control(
    wanted: &[Expression],
    seen: &Memory,
    differs: &dyn Fn(&str, i64, i64) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(Expression::List(wanted)) = entry(wanted, "msg_control") else {
        return Ok(());
    };
    let length = seen.at::<8>(CONTROL_LENGTH);
    let control = match seen.pointers.last() {
        Some((_, Argument::Memory(control))) => control.clone(),
        _ => Memory::default(),
    };
    let mut at = 0;
    for item in wanted {
        let item = fields(item)?;
        let has_one = i64::from((at as i64) < length);
        differs("control messages", 1, has_one)?;
        let message_bytes = control.at::<8>(at) as usize;
        for (name, offset) in [("cmsg_level", 8), ("cmsg_type", 12)] {
            differs(name, field(item, name)?, control.at::<4>(at + offset))?;
        }
        let data = at + 16;
        match entry(item, "cmsg_data") {
            Some(Expression::Fields(error)) if entry(error, "ee_origin").is_some() => {
                for (name, seen) in [
                    ("ee_errno", control.at::<4>(data)),
                    ("ee_origin", control.at::<1>(data + 4)),
                    ("ee_type", control.at::<1>(data + 5)),
                    ("ee_code", control.at::<1>(data + 6)),
                    ("ee_info", control.at::<4>(data + 8)),
                    ("ee_data", control.at::<4>(data + 12)),
                ] {
                    differs(name, field(error, name)?, seen)?;
                }
            }
            Some(Expression::Fields(_)) | None => {}
            Some(written) => differs("cmsg_data", number(written)?, control.at::<4>(data))?,
        }
        at += message_bytes.next_multiple_of(8).max(16);
    }
    Ok(())
}

/// Lays out the value of an option: numbers of four bytes, or text.
fn value(written: &Expression) -> Result<Memory, Stop> {
    let mut memory = Memory::default();
    match written {
        Expression::Any => {}
        Expression::Text(text) => memory.bytes = bytes_of(text),
        Expression::List(items) | Expression::Fields(items) => {
            for item in items {
                let item = match item {
                    Expression::Field(_, value) => value,
                    item => item,
                };
                memory.push((number(item)? as i32).to_le_bytes());
            }
        }
        other => memory.push((number(other)? as i32).to_le_bytes()),
    }
    Ok(memory)
}

/// Returns the bytes of a text with escapes such as `\x41`.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        bytes.push(u8::from_str_radix(digits, 16).unwrap_or(0));
        bytes.extend(rest.as_bytes());
    }
    bytes
}

/// Lays out `struct epoll_event`, which has no padding on x86.
fn event(fields: &[Expression]) -> Result<Memory, Stop> {
    let mut memory = Memory::default();
    memory.push((field(fields, "events")? as u32).to_le_bytes());
    if !cfg!(target_arch = "x86_64") {
        memory.push([0; 4]);
    }
    let data = entry(fields, "fd").or(entry(fields, "ptr"));
    memory.push(data.map_or(Ok(0), number)?.to_le_bytes());
    Ok(memory)
}

/// Lays out a `struct msghdr` in memory, from the fields in the script.
fn message(name: &str, fields: &[Expression]) -> Result<Memory, Stop> {
    let receives = name == "recvmsg";
    if !receives && entry(fields, "msg_control").is_some() {
        return Err(Stop::Lacks(
            "control messages in sendmsg are not supported".to_owned(),
        ));
    }
    let mut vectors = Memory::default();
    let mut count: u64 = 0;
    if let Some(Expression::List(items)) = entry(fields, "msg_iov") {
        for item in items {
            let length = match item {
                Expression::Fields(parts) if parts.len() == 2 => number(&parts[1])?,
                _ => {
                    return Err(Stop::Lacks(
                        "an element of msg_iov that is not {pointer, length} is not supported"
                            .to_owned(),
                    ));
                }
            };
            if !(0..=DATA_BYTES_MAX).contains(&length) {
                return Err(Stop::Lacks(format!(
                    "a buffer of {length} bytes is not supported"
                )));
            }
            vectors.pointer(Argument::Memory(Memory::zeros(length as usize)));
            vectors.push(length.to_le_bytes());
            count += 1;
        }
    }
    let mut memory = Memory::default();
    if !receives && entry(fields, "msg_name") == Some(&Expression::Any) {
        memory.pointer(Argument::Peer);
        memory.push((ADDRESS_BYTES as u64).to_le_bytes());
    } else {
        memory.push([0; 16]);
    }
    memory.pointer(Argument::Memory(vectors));
    memory.push(count.to_le_bytes());
    let control_bytes = if receives { CONTROL_BYTES } else { 0 };
    memory.pointer(Argument::Memory(Memory::zeros(control_bytes)));
    memory.push((control_bytes as u64).to_le_bytes());
    memory.push([0; 8]);
    Ok(memory)
}

fn fields(written: &Expression) -> Result<&[Expression], Stop> {
    match written {
        Expression::Fields(fields) => Ok(fields),
        other => Err(Stop::Lacks(format!(
            "the argument {other} is not supported"
        ))),
    }
}

/// Returns the value of a field, if it is written.
fn entry<'a>(fields: &'a [Expression], name: &str) -> Option<&'a Expression> {
    fields.iter().find_map(|field| match field {
        Expression::Field(known, value) if known == name => Some(&**value),
        _ => None,
    })
}

/// Returns the number in a field; 0 if it is not written.
fn field(fields: &[Expression], name: &str) -> Result<i64, Stop> {
    entry(fields, name).map_or(Ok(0), number)
}

/// Returns whether a call may open a connection.
pub(crate) fn connects(call: &Call) -> bool {
    let opens = |argument: &Expression| {
        number(argument).is_ok_and(|flags| flags & known("MSG_FASTOPEN") != 0)
    };
    call.name == "connect"
        || (call.name.starts_with("send") && call.arguments.iter().skip(2).any(opens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Act;

    fn laid_out(line: &str) -> Result<KernelCall, Stop> {
        let script = crate::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Act::Calls(call) = &script.events[0].act else {
            panic!("{line} is no call");
        };
        lay_out(call, false, Ok)
    }

    #[test]
    fn the_kernel_writes_into_no_call_more_than_its_memory_holds() {
        for line in [
            "0 getsockopt(3, SOL_TCP, 99, [1], [4]) = 0",
            "0 poll([{fd=3, events=POLLIN}], 1, 0) = 0",
            "0 epoll_wait(5, {events=EPOLLIN, fd=4}, 8, 0) = 0",
            "0 read(3, ..., 1000) = 0",
            "0 pipe([5, 6]) = 0",
        ] {
            assert!(laid_out(line).is_ok(), "{line}");
        }
        for line in [
            "0 getsockopt(3, SOL_TCP, 99, [1], [129]) = 0",
            "0 getsockopt(3, SOL_TCP, 99, [1], 4) = 0",
            "0 setsockopt(3, SOL_TCP, 99, [1], -1) = 0",
            "0 poll([{fd=3, events=POLLIN}], 2, 0) = 0",
            "0 poll(4096, 1, 0) = 0",
            "0 epoll_wait(5, {events=EPOLLIN, fd=4}, 9, 0) = 0",
            "0 read(3, ..., -1) = 0",
            "0 pipe([5]) = 0",
            "0 splice(3, 4096, 4, NULL, 10, 0) = 0",
        ] {
            let refused = laid_out(line);
            assert!(
                matches!(refused, Err(Stop::Lacks(_))),
                "{line}: {refused:?}"
            );
        }
    }
}

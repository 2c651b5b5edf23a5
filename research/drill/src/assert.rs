//! Assertions about a connection: `assert tcpi_state == TCPI_ESTABLISHED`.
//!
//! Packetdrill runs such code as Python. This reads the part of Python that scripts use: `assert`,
//! one comparison, `|`, `+`, `-`, numbers, constants and the fields of `tcp_info`.

use crate::constants::constant;
use crate::cursor::Cursor;
use crate::syntax::Error;
use crate::target::TcpInfo;
use crate::verdict::Stop;

/// Checks every assertion of a piece of code.
pub(crate) fn check(code: &str, info: &TcpInfo) -> Result<(), Stop> {
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let lacks = |_| Stop::Lacks(format!("the Python `{line}`"));
        let mut cursor = Cursor::new(line);
        let (left, relation, right) = comparison(&mut cursor, info).map_err(lacks)?;
        let holds = match relation {
            "==" => left == right,
            "!=" => left != right,
            "<=" => left <= right,
            ">=" => left >= right,
            "<" => left < right,
            _ => left > right,
        };
        if !holds {
            let why = format!("expected {line}, seen {left} and {right}");
            return Err(Stop::Differs(why));
        }
    }
    Ok(())
}

fn comparison(cursor: &mut Cursor<'_>, info: &TcpInfo) -> Result<(i64, &'static str, i64), Error> {
    cursor.expect("assert")?;
    let left = sum(cursor, info)?;
    let relations = ["==", "!=", "<=", ">=", "<", ">"];
    let Some(relation) = relations.into_iter().find(|sign| cursor.take(sign)) else {
        return Err(cursor.error("a comparison"));
    };
    let right = sum(cursor, info)?;
    // A message may follow.
    if !cursor.at_end() && !cursor.sees(",") {
        return Err(cursor.error("the end of the assertion"));
    }
    Ok((left, relation, right))
}

fn sum(cursor: &mut Cursor<'_>, info: &TcpInfo) -> Result<i64, Error> {
    let mut value = term(cursor, info)?;
    loop {
        if cursor.take("|") {
            value |= term(cursor, info)?;
        } else if cursor.take("+") {
            value += term(cursor, info)?;
        } else if cursor.take("-") {
            value -= term(cursor, info)?;
        } else {
            return Ok(value);
        }
    }
}

fn term(cursor: &mut Cursor<'_>, info: &TcpInfo) -> Result<i64, Error> {
    if cursor.take("(") {
        let value = sum(cursor, info)?;
        cursor.expect(")")?;
        return Ok(value);
    }
    let Some(name) = cursor.word() else {
        return cursor.number();
    };
    match name {
        "tcpi_state" => Ok(info.state),
        "tcpi_snd_cwnd" => Ok(info.snd_cwnd),
        "tcpi_snd_ssthresh" => Ok(info.snd_ssthresh),
        other => constant(other).ok_or_else(|| cursor.error("a field of tcp_info or a constant")),
    }
}

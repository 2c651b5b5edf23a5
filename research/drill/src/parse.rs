//! Scripts: flags at the head, then events with their times.

mod call;
mod packet;

use uc_net::Nanos;

use crate::cursor::Cursor;
use crate::syntax::{Act, Error, Event, Flag, Moment, Script, When};

/// Reads a script; each word that `defines` names is replaced by its value.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_with(text: &str, defines: &[(String, String)]) -> Result<Script, Error> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut replaced = String::new();
    for part in text.split_inclusive(|c| !is_word(c)) {
        let (word, end) = part.split_at(part.trim_end_matches(|c| !is_word(c)).len());
        let found = defines.iter().find(|(name, _)| name == word);
        replaced.push_str(found.map_or(word, |(_, value)| value));
        replaced.push_str(end);
    }
    parse(&replaced)
}

/// Reads a script.
///
/// # Errors
///
/// The first violation of the grammar, with its line and column.
pub fn parse(text: &str) -> Result<Script, Error> {
    let mut cursor = Cursor::new(text);
    let mut script = Script::default();
    while cursor.sees("--") {
        script.flags.push(flag(&mut cursor)?);
    }
    let mut conditions = Vec::new();
    while !cursor.at_end() {
        if cursor.take("#") {
            directive(&mut cursor, &mut conditions)?;
            continue;
        }
        let place = cursor.place();
        // Commands before the first event, and after the last, have no time.
        let when = if cursor.sees("`") {
            When::At(Moment {
                relative: true,
                time: Nanos::ZERO,
            })
        } else {
            when(&mut cursor)?
        };
        script.events.push(Event {
            place,
            conditions: conditions.clone(),
            when,
            act: act(&mut cursor)?,
        });
    }
    match conditions.pop() {
        Some((symbol, _)) => Err(cursor.error(&format!("expected `#endif` for `{symbol}`"))),
        None => Ok(script),
    }
}

fn flag(cursor: &mut Cursor<'_>) -> Result<Flag, Error> {
    let place = cursor.place();
    cursor.expect("--")?;
    let Some(name) = cursor.word() else {
        return Err(cursor.error("expected the name of an option"));
    };
    let value = if cursor.take("=") {
        cursor.take_while(|c| !c.is_whitespace())
    } else {
        ""
    };
    Ok(Flag {
        place,
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// Takes a directive after its `#`, and updates `conditions`: the open symbols, each with whether it must be defined.
fn directive(cursor: &mut Cursor<'_>, conditions: &mut Vec<(String, bool)>) -> Result<(), Error> {
    let name = cursor.word().unwrap_or("");
    match name {
        "ifdef" | "ifndef" => {
            let Some(symbol) = cursor.word() else {
                return Err(cursor.error("expected the name of a symbol after #ifdef or #ifndef"));
            };
            conditions.push((symbol.to_owned(), name == "ifdef"));
        }
        "else" if !conditions.is_empty() => {
            let last = conditions.len() - 1;
            conditions[last].1 = !conditions[last].1;
        }
        "endif" if !conditions.is_empty() => {
            conditions.pop();
        }
        _ => {
            return Err(
                cursor.error("expected `ifdef`, `ifndef`, or after one of them `else` or `endif`")
            );
        }
    }
    Ok(())
}

/// Takes the time of an event.
fn when(cursor: &mut Cursor<'_>) -> Result<When, Error> {
    if cursor.take("*") {
        return Ok(When::Any);
    }
    let from = moment(cursor)?;
    if cursor.take("~") {
        return Ok(When::Between(from, moment(cursor)?));
    }
    if cursor.take("...") {
        let mut until = moment(cursor)?;
        until.relative = from.relative;
        return Ok(When::Blocking(from, until));
    }
    Ok(When::At(from))
}

/// Takes a time in seconds, with up to nine decimals.
fn moment(cursor: &mut Cursor<'_>) -> Result<Moment, Error> {
    let relative = cursor.take("+");
    let digits = |c: char| c.is_ascii_digit();
    let whole = cursor.take_while(digits);
    let mut decimals = "";
    if !cursor.sees("...") && cursor.take(".") {
        decimals = cursor.take_while(digits);
    }
    if (whole.is_empty() && decimals.is_empty()) || decimals.len() > 9 {
        return Err(cursor.error("expected a time in seconds"));
    }
    let whole: u64 = format!("0{whole}").parse().unwrap_or(u64::MAX);
    let below: u64 = format!("{decimals:0<9}").parse().unwrap_or(0);
    let nanos = whole.checked_mul(1_000_000_000);
    match nanos.and_then(|nanos| nanos.checked_add(below)) {
        Some(nanos) => Ok(Moment {
            relative,
            time: Nanos(nanos),
        }),
        None => Err(cursor.error("expected a time below 500 years")),
    }
}

fn act(cursor: &mut Cursor<'_>) -> Result<Act, Error> {
    if cursor.take("`") {
        // A line that ends in a backslash goes on in the next.
        let command = cursor.take_until("`")?.replace("\\\n", " ");
        return Ok(Act::Command(command.trim().to_owned()));
    }
    if cursor.take("%{") {
        let code = cursor.take_until("}%")?.replace("\\\n", " ");
        return Ok(Act::Code(code.trim().to_owned()));
    }
    if cursor.take("<") {
        return Ok(Act::Arrives(packet::packet(cursor)?));
    }
    if cursor.take(">") {
        return Ok(Act::Sends(packet::packet(cursor)?));
    }
    Ok(Act::Calls(call::call(cursor)?))
}

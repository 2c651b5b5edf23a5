//! Overrides, such as `--set network.rate=100Mbit`, which replace one key of an experiment under
//! the same schema.

use toml::Value;
use uc_words::place::{parts, quote};

use crate::error::Error;
use crate::schema::Experiment;
use crate::wording::{suggest, tidy};

/// Returns the experiment with the override `text` applied, and the path of the changed key, in which members of lists
/// have numbers.
pub(crate) fn apply(experiment: &Experiment, text: &str) -> Result<(Experiment, String), Error> {
    let fail = |message: String| Error::Set {
        text: text.into(),
        message,
    };
    let Some((key, value)) = text.split_once('=') else {
        return Err(fail(
            "no value; write KEY=VALUE, for example network.rate=10Mbit".into(),
        ));
    };
    replace_key(experiment, key.trim(), parse_value(value.trim())).map_err(fail)
}

/// Returns the experiment with one key replaced, and the path of the key, in which members of lists have numbers; or
/// the problem.
pub(crate) fn replace_key(
    experiment: &Experiment,
    key: &str,
    value: Value,
) -> Result<(Experiment, String), String> {
    let mut document = Value::try_from(experiment).map_err(|error| tidy(&error.to_string()))?;
    show_parameters(&mut document);
    let key = replace(&mut document, key, value)?;
    let changed = document.try_into();
    let changed = changed.map_err(|error: toml::de::Error| tidy(error.message()))?;
    Ok((changed, key))
}

/// Adds the tables `parameters` and `watch` to every group without them, so that overrides find them: the schema does
/// not write empty tables.
fn show_parameters(document: &mut Value) {
    for case in members_mut(document.get_mut("case")) {
        for guests in members_mut(case.get_mut("guests")) {
            if let Value::Table(guests) = guests {
                let none = || Value::Table(toml::Table::new());
                guests.entry("parameters").or_insert_with(none);
                guests.entry("watch").or_insert_with(none);
            }
        }
    }
}

fn members_mut(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Parses a TOML value, or else takes the text itself: `5ms` needs no quotes.
fn parse_value(text: &str) -> Value {
    let document = format!("value = {text}").parse::<toml::Table>();
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.into()))
}

/// Sets `key` to `value` and returns the path of the key. The schema decides later whether the last part is a key at
/// all.
fn replace(document: &mut Value, key: &str, value: Value) -> Result<String, String> {
    let parts = parts(key);
    let mut path: Vec<String> = Vec::new();
    let mut here = document;
    for part in &parts[..parts.len() - 1] {
        let (next, name) = step(here, part, &path.join("."))?;
        here = next;
        path.push(name);
    }
    let last = parts[parts.len() - 1];
    if let Value::Table(table) = here {
        table.insert(last.into(), value);
        path.push(quote(last));
    } else {
        let (slot, name) = step(here, last, &path.join("."))?;
        *slot = value;
        path.push(name);
    }
    Ok(path.join("."))
}

/// Returns the member `part` of `here` (a table's key, or a list's member by name or number), and the member's exact
/// key or number.
fn step<'a>(
    here: &'a mut Value,
    part: &str,
    path: &str,
) -> Result<(&'a mut Value, String), String> {
    let known = members(here);
    let place = if path.is_empty() {
        "an experiment"
    } else {
        path
    };
    let unknown = || {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        format!("no `{part}` in {place}; {}", suggest(part, &known))
    };
    match here {
        Value::Table(table) => table
            .get_mut(part)
            .map(|next| (next, quote(part)))
            .ok_or_else(unknown),
        Value::Array(list) => {
            let by_name = list.iter().position(|item| name_of(item) == Some(part));
            let index = by_name.or_else(|| part.parse().ok()).ok_or_else(&unknown)?;
            let next = list.get_mut(index).ok_or_else(&unknown)?;
            Ok((next, index.to_string()))
        }
        _ => Err(format!(
            "{place} is a single value, which has no key `{part}`; remove `.{part}`"
        )),
    }
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Returns the parts that may follow after this value in a path.
fn members(here: &Value) -> Vec<String> {
    match here {
        Value::Table(table) => table.keys().cloned().collect(),
        Value::Array(list) => {
            let name = |(i, item): (usize, &Value)| {
                name_of(item).map_or_else(|| i.to_string(), str::to_owned)
            };
            list.iter().enumerate().map(name).collect()
        }
        _ => Vec::new(),
    }
}

//! Lists of flows as simulators keep them: flow.txt of HPCC, and the connection matrices (.cm) of htsim.

use crate::units::{Bytes, Nanos};

/// The number of a line, from 1, and its text.
type Line<'a> = (usize, &'a str);

/// Returns the flows of a list as a value of TOML: `[[0, 1, "10kB", "2us"], …]`.
///
/// HPCC: the first line is the number of flows n, and each of the n lines behind it has source, target,
/// priority group, perhaps a port, bytes, and the start in seconds. htsim: lines `Nodes n` and
/// `Connections n`, then `0->1 id 1 start 0 size 2000000`, with the start in picoseconds.
///
/// # Errors
/// The number of the first line that is wrong, from 1, and the problem with its remedy.
pub(super) fn flows(text: &str) -> Result<String, (usize, String)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (number, first) = lines.next().unwrap_or((1, ""));
    let flows: Vec<String> = if first.starts_with("Nodes") {
        let behind = lines.filter(|(_, line)| !line.starts_with("Connections"));
        behind.map(connection).collect::<Result<_, _>>()?
    } else {
        let count: usize = first.parse().map_err(|_| {
            let message = format!(
                "`{first}` begins no list of flows; let it be their number (HPCC), or `Nodes` and the \
                 number of hosts (htsim)"
            );
            (number, message)
        })?;
        let flows: Vec<String> = lines.take(count).map(flow).collect::<Result<_, _>>()?;
        if flows.len() < count {
            let message = format!("{count} flows are announced, and {} follow", flows.len());
            return Err((number, format!("{message}; correct the number")));
        }
        flows
    };
    Ok(format!("[{}]", flows.join(", ")))
}

/// Reads a line of HPCC.
fn flow((number, line): Line) -> Result<String, (usize, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let read = || match fields[..] {
        [source, target, _, size, start] | [source, target, _, _, size, start] => {
            let seconds: f64 = start.parse().ok()?;
            let start_ns = (seconds * 1e9).round();
            let fits = (0.0..1e18).contains(&start_ns);
            entry(source, target, size, fits.then_some(start_ns as u64)?)
        }
        _ => None,
    };
    read().ok_or_else(|| {
        let example = "write for example 0 1 3 100 10000 0.001";
        (
            number,
            format!("`{line}` is not source, target, group, port, bytes and seconds; {example}"),
        )
    })
}

/// Reads a line of htsim.
fn connection((number, line): Line) -> Result<String, (usize, String)> {
    if line.to_lowercase().contains("trigger") {
        let message = "flows that start when others end are not simulated; give each a `start`";
        return Err((number, message.into()));
    }
    let mut fields = line.split_whitespace();
    let ends = fields.next().unwrap_or_default();
    let pairs: Vec<&str> = fields.collect();
    let value = |key: &str| {
        pairs
            .chunks_exact(2)
            .find(|pair| pair[0] == key)
            .map(|pair| pair[1])
    };
    let read = || {
        let (source, target) = ends.split_once("->")?;
        let start_ps: u64 = value("start")?.parse().ok()?;
        entry(source, target, value("size")?, start_ps / 1000)
    };
    read().ok_or_else(|| {
        let example = "write for example 0->1 id 1 start 0 size 10000";
        (
            number,
            format!(
                "`{line}` is not two hosts, a start in picoseconds and a size in bytes; {example}"
            ),
        )
    })
}

/// Returns a flow as a value of TOML; `None` if source, target or size is not a number.
fn entry(source: &str, target: &str, size: &str, start_ns: u64) -> Option<String> {
    let (source, target): (u32, u32) = (source.parse().ok()?, target.parse().ok()?);
    let size = Bytes(size.parse().ok()?);
    Some(format!(
        "[{source}, {target}, \"{size}\", \"{}\"]",
        Nanos(start_ns)
    ))
}

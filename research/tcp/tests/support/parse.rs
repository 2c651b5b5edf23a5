//! The parser of scripts.

use uc_net::{Ecn, Nanos};
use uc_tcp::flags;

/// A command with its line number and its time.
#[derive(Debug)]
pub struct Line {
    pub number: usize,
    pub time: Option<Time>,
    pub command: Command,
}

#[derive(Debug, Clone, Copy)]
pub enum Time {
    At(Nanos),
    After(Nanos),
}

/// A setting: `key=value`, or a word without a value.
pub type Setting = (String, String);

#[derive(Debug)]
pub enum Command {
    Config(Vec<Setting>),
    Handshake(Vec<Setting>),
    Open,
    Listen,
    Write(u64),
    Finish,
    Reading(bool),
    /// A segment from the peer (`<`).
    Arrives(Pattern),
    /// A segment that must be sent (`>`).
    Sends(Pattern),
    Quiet,
    Serve(Vec<Setting>),
    Expect(Vec<Bound>),
}

/// The fields of a segment that a line specifies.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    pub flags: u8,
    /// First byte, end, and the payload of each segment where the line means several.
    pub range: Option<(u32, u32, u32)>,
    /// First, last and step of a series of ACK numbers.
    pub ack: Option<(u32, u32, u32)>,
    pub times: u32,
    pub window: Option<u16>,
    pub timestamps: Option<Option<(u32, u32)>>,
    pub sack: Option<Vec<(u32, u32)>>,
    pub mss: Option<u16>,
    pub wscale: Option<Option<u8>>,
    pub sack_permitted: Option<bool>,
    pub ecn: Option<Ecn>,
}

/// A measure of the endpoint and its required value.
#[derive(Debug)]
pub struct Bound {
    pub name: String,
    /// Relation: `=`, `<` (at most), `>` (at least).
    pub relation: char,
    pub value: u64,
}

/// Parses a script; an error has the line number and the problem.
pub fn parse(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line
            .split('#')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        if !words.is_empty() {
            lines.push(parse_line(index + 1, &words).map_err(|why| (index + 1, why))?);
        }
    }
    Ok(lines)
}

fn parse_line(number: usize, words: &[&str]) -> Result<Line, String> {
    let (time, words) = match words[0].strip_prefix('+') {
        Some(span) => (Some(Time::After(duration(span)?)), &words[1..]),
        None if words[0].starts_with(|c: char| c.is_ascii_digit()) => {
            (Some(Time::At(duration(words[0])?)), &words[1..])
        }
        None => (None, words),
    };
    let (verb, rest) = words.split_first().ok_or("a time without a command")?;
    let command = match *verb {
        "config" => Command::Config(settings(rest)),
        "handshake" => Command::Handshake(settings(rest)),
        "serve" => Command::Serve(settings(rest)),
        "open" => Command::Open,
        "listen" => Command::Listen,
        "finish" => Command::Finish,
        "quiet" => Command::Quiet,
        "write" => Command::Write(number_in(rest.first().ok_or("write how many bytes?")?)?),
        "reading" => Command::Reading(yes_or_no(rest.first().ok_or("reading yes or no?")?)?),
        "<" => Command::Arrives(pattern(rest)?),
        ">" => Command::Sends(pattern(rest)?),
        "expect" => Command::Expect(
            rest.iter()
                .map(|word| bound(word))
                .collect::<Result<_, _>>()?,
        ),
        other => return Err(format!("no command `{other}`")),
    };
    Ok(Line {
        number,
        time,
        command,
    })
}

fn settings(words: &[&str]) -> Vec<Setting> {
    words
        .iter()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn pattern(words: &[&str]) -> Result<Pattern, String> {
    let mut pattern = Pattern {
        flags: flags::ACK,
        times: 1,
        ..Pattern::default()
    };
    for (index, word) in words.iter().enumerate() {
        if let Some((key, value)) = word.split_once('=') {
            pattern_field(&mut pattern, key, value)?;
        } else if word.contains(':') {
            let (range, size) = word.split_once('/').unwrap_or((word, "0"));
            let (from, to) = pair(range)?;
            pattern.range = Some((from, to, number_in(size)?));
        } else if let Some(times) = word.strip_prefix('x') {
            pattern.times = number_in(times)?;
        } else if let Some(ecn) = ecn_word(word) {
            pattern.ecn = Some(ecn);
        } else if index == 0 {
            pattern.flags = flags_from(word)?;
        } else {
            return Err(format!("`{word}` says nothing of a segment"));
        }
    }
    Ok(pattern)
}

fn pattern_field(pattern: &mut Pattern, key: &str, value: &str) -> Result<(), String> {
    let none = value == "none";
    match key {
        "ack" => pattern.ack = Some(series(value)?),
        "win" => pattern.window = Some(number_in(value)?),
        "mss" => pattern.mss = Some(number_in(value)?),
        "ts" => pattern.timestamps = Some(if none { None } else { Some(pair(value)?) }),
        "wscale" => pattern.wscale = Some(if none { None } else { Some(number_in(value)?) }),
        "sackok" => pattern.sack_permitted = Some(yes_or_no(value)?),
        "sack" if none => pattern.sack = Some(Vec::new()),
        "sack" => pattern.sack = Some(value.split(',').map(pair).collect::<Result<_, _>>()?),
        other => return Err(format!("a segment has no `{other}`")),
    }
    Ok(())
}

/// Parses `1001`, or `1001..9001/1000`.
fn series(value: &str) -> Result<(u32, u32, u32), String> {
    let Some((first, rest)) = value.split_once("..") else {
        let only = number_in(value)?;
        return Ok((only, only, 1));
    };
    let (last, step) = rest
        .split_once('/')
        .ok_or("a series needs a step: 1..9/2")?;
    Ok((
        number_in(first)?,
        number_in(last)?,
        number_in::<u32>(step)?.max(1),
    ))
}

fn bound(word: &str) -> Result<Bound, String> {
    let at = word
        .find(['<', '>', '='])
        .ok_or("expect name=value, name<=value, name>=value")?;
    let (name, rest) = word.split_at(at);
    let (relation, value) = match rest.split_at(1) {
        ("=", value) => ('=', value),
        ("<", value) => ('<', value.trim_start_matches('=')),
        (_, value) => ('>', value.trim_start_matches('=')),
    };
    let value = match value {
        "yes" => 1,
        "no" => 0,
        value if value.ends_with('s') => duration(value)?.0,
        value => number_in(value)?,
    };
    Ok(Bound {
        name: name.to_owned(),
        relation,
        value,
    })
}

/// Parses a number with its unit: `250us`, `1.5s`.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale: u64 = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return Err(format!("`{text}` is no time: a number and s, ms, us or ns")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut nanos = number_in::<u64>(whole)? * scale;
    let mut digit_ns = scale;
    for digit in fraction.chars() {
        digit_ns /= 10;
        nanos += digit_ns * u64::from(digit.to_digit(10).ok_or("digits after the point")?);
    }
    Ok(Nanos(nanos))
}

pub fn number_in<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` is no number, or too large"))
}

pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "on" => Ok(true),
        "no" | "off" => Ok(false),
        other => Err(format!("`{other}` is neither yes nor no")),
    }
}

fn pair(text: &str) -> Result<(u32, u32), String> {
    let (from, to) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is no pair a:b"))?;
    Ok((number_in(from)?, number_in(to)?))
}

fn ecn_word(word: &str) -> Option<Ecn> {
    match word {
        "ect0" => Some(Ecn::Ect0),
        "ect1" => Some(Ecn::Ect1),
        "ce" => Some(Ecn::Ce),
        _ => None,
    }
}

const FLAGS: [(u8, char); 7] = [
    (flags::SYN, 'S'),
    (flags::FIN, 'F'),
    (flags::RST, 'R'),
    (flags::PSH, 'P'),
    (flags::CWR, 'W'),
    (flags::ECE, 'E'),
    (flags::ACK, '.'),
];

fn flags_from(word: &str) -> Result<u8, String> {
    word.chars().try_fold(0, |all, letter| {
        let flag = FLAGS.iter().find(|(_, known)| *known == letter);
        flag.map(|(bit, _)| all | bit)
            .ok_or_else(|| format!("no flag `{letter}` in `{word}`"))
    })
}

/// Formats flags in tcpdump's letters.
pub fn flag_letters(bits: u8) -> String {
    let set = FLAGS.iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, letter)| letter).collect()
}

//! Numbers in documents that are quoted from kept records.
//!
//! A comment behind a number names its source; readers of the rendered page do not see it:
//!
//! ```text
//! 0.991 ± 0.006<!-- sim vcc/fig11: translated flow over the ECN mean -->
//! 0.149<!-- sim vcc/fig6: the last legacy flow's share {set=RED1; rate=10 Mb/s} -->
//! n = 100<!-- n of sim vcc/fig11: translated flow over the ECN mean -->
//! 1.44 (1.41 to 1.47)<!-- rows bench: ratio {name=data; base=parsed, looked up} -->
//! ```
//!
//! The number keeps its format: its digits after the point, whether it has a standard error or extremes,
//! and whether it is in percent.

use crate::numbers::with_decimals;

/// The source of a number: a quantity of an expectation's verdict in a kept record, or of a column of
/// rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// Field of the verdict that is quoted.
    pub field: Field,
    /// Name of the backend, or [`ROWS`].
    pub arm: String,
    /// Name of the record that is quoted.
    pub id: String,
    /// Name of the expectation, or of the column.
    pub name: String,
    /// Axes and labels that select the point, the step of a trend, or the rows.
    pub at: Vec<(String, String)>,
    /// Factor by which the number is multiplied, such as 1000 for milliseconds.
    pub factor: f64,
}

/// Name in place of a backend's, for a record of rows with columns that belongs to no experiment.
pub const ROWS: &str = "rows";

/// The quantity of a verdict, or of a column of rows, that a document can quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Mean over the repetitions, with its standard error if the text has one.
    Mean,
    /// Number of repetitions in the record.
    N,
    /// Number that the paper gives.
    Paper,
    /// Minimum of the repetitions in the record.
    Least,
    /// Maximum of the repetitions in the record.
    Most,
}

/// The prefixes by which a comment names a field; without one it quotes the mean.
const FIELDS: [(&str, Field); 4] = [
    ("n of ", Field::N),
    ("paper of ", Field::Paper),
    ("least of ", Field::Least),
    ("most of ", Field::Most),
];

/// A quoted number: its value, and its standard error if there is one.
pub type Quoted = (f64, Option<f64>);

/// A document with its numbers as the records have them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filled {
    /// Text of the document, with the quoted numbers filled in.
    pub text: String,
    /// Number of quotations in the document.
    pub quotes: usize,
    /// Each quote that could not be filled: its line, and why.
    pub problems: Vec<String>,
}

pub(crate) const OPEN: &str = "<!-- ";
const CLOSE: &str = " -->";

/// Replaces each quoted number in a document by what `look_up` finds. A quote that can't be filled stays, and adds a
/// problem.
pub fn fill(text: &str, look_up: impl Fn(&Quote) -> Result<Quoted, String>) -> Filled {
    let mut filled = Filled::default();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        let (before, from) = rest.split_at(start);
        let end = from.find(CLOSE).map_or(from.len(), |at| at + CLOSE.len());
        let (comment, after) = from.split_at(end);
        filled.text.push_str(before);
        let inside = comment.trim_start_matches(OPEN).trim_end_matches(CLOSE);
        let quote = parse(inside).filter(|_| !ends_in_code(&filled.text));
        if let Some(quote) = quote {
            filled.quotes += 1;
            let number = written(&filled.text, &quote, &look_up);
            match number {
                Ok((at, number)) => {
                    filled.text.truncate(at);
                    filled.text.push_str(&number);
                }
                Err(why) => {
                    let line = filled.text.lines().count();
                    filled
                        .problems
                        .push(format!("line {line}: {inside}: {why}"));
                }
            }
        }
        filled.text.push_str(comment);
        rest = after;
    }
    filled.text.push_str(rest);
    filled
}

/// Returns whether the text ends inside a fenced block of code.
fn ends_in_code(text: &str) -> bool {
    let fences = text.lines().filter(|line| is_fence(line));
    fences.count() % 2 == 1
}

pub(crate) fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Reads a comment; `None` if it names no record.
fn parse(comment: &str) -> Option<Quote> {
    let named = FIELDS.iter().find_map(|(word, field)| {
        let rest = comment.strip_prefix(word)?;
        Some((*field, rest))
    });
    let (field, rest) = named.unwrap_or((Field::Mean, comment));
    let (arm, rest) = rest.split_once(' ')?;
    if !["sim", "live", "vm", ROWS].contains(&arm) {
        return None;
    }
    let (id, mut name) = rest.split_once(": ")?;
    let mut factor = 1.0;
    if let Some((first, number)) = name.rsplit_once(" × ")
        && let Ok(number) = number.parse()
    {
        (name, factor) = (first, number);
    }
    let (name, at) = labels(name)?;
    Some(Quote {
        field,
        arm: arm.to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
        at,
        factor,
    })
}

/// Divides `NAME {AXIS=LABEL; …}` into the name and the labels, of which there may be none; `None` if the brace is not
/// closed.
pub(crate) fn labels(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let Some((name, labels)) = text.split_once(" {") else {
        return Some((text, Vec::new()));
    };
    let labels = labels.strip_suffix('}')?.split("; ");
    let pairs = labels.filter_map(|label| label.split_once('='));
    let own = |(axis, label): (&str, &str)| (axis.to_owned(), label.to_owned());
    Some((name, pairs.map(own).collect()))
}

/// Finds the number with which `text` ends. Returns the number's place, and the number of the record in the same form,
/// with extremes if `text` has them.
fn written(
    text: &str,
    quote: &Quote,
    look_up: &impl Fn(&Quote) -> Result<Quoted, String>,
) -> Result<(usize, String), String> {
    let found = look_up(quote)?;
    let Some((start, low, high)) = extremes_at_end(text) else {
        return mean_written(text, quote, found);
    };
    let (at, mean) = mean_written(&text[..start], quote, found)?;
    let factor = quote.factor * if mean.ends_with('%') { 100.0 } else { 1.0 };
    let extreme = |field, text| {
        let quote = Quote {
            field,
            ..quote.clone()
        };
        let (number, _) = look_up(&quote)?;
        Ok::<_, String>(with_decimals(number * factor, decimals(text)))
    };
    let (low, high) = (extreme(Field::Least, low)?, extreme(Field::Most, high)?);
    Ok((at, format!("{mean} ({low} to {high})")))
}

/// Finds ` (LOW to HIGH)` at the end of the text. Returns where it begins, and the two numbers; `None` if the text does
/// not end so.
fn extremes_at_end(text: &str) -> Option<(usize, &str, &str)> {
    let (before, high) = split_number(text.strip_suffix(')')?)?;
    let (before, low) = split_number(before.strip_suffix(" to ")?)?;
    Some((before.strip_suffix(" (")?.len(), low, high))
}

fn split_number(text: &str) -> Option<(&str, &str)> {
    number_at_end(text).map(|at| text.split_at(at))
}

/// Finds the number with which `text` ends, as [`written`] does, but without extremes.
fn mean_written(text: &str, quote: &Quote, found: Quoted) -> Result<(usize, String), String> {
    let suffix = |text: &str, known: &[&'static str]| -> &'static str {
        let found = known.iter().find(|suffix| text.ends_with(**suffix));
        found.copied().unwrap_or_default()
    };
    let bold = suffix(text, &["**"]);
    let body = &text[..text.len() - bold.len()];
    let percent = suffix(body, &[" %", "%"]);
    let body = &body[..body.len() - percent.len()];
    let factor = quote.factor * if percent.is_empty() { 1.0 } else { 100.0 };
    let last = number_at_end(body)
        .ok_or("no number stands before the comment that quotes the record; write one")?;
    let (before, last_text) = body.split_at(last);
    let Some(mean_end) = before.strip_suffix(" ± ") else {
        let number = with_decimals(found.0 * factor, decimals(last_text));
        return Ok((last, format!("{number}{percent}{bold}")));
    };
    let error = found.1.ok_or(
        "the record has no standard error for this value; remove ± and the number after it",
    )?;
    let mean_at = number_at_end(mean_end)
        .ok_or("no number stands before ± in the quotation; write the mean there")?;
    let mean = with_decimals(found.0 * factor, decimals(&mean_end[mean_at..]));
    let error = with_decimals(error * factor.abs(), decimals(last_text));
    Ok((mean_at, format!("{mean} ± {error}{percent}{bold}")))
}

/// Returns where the number begins with which the text ends; `None` if it ends with none.
fn number_at_end(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_number = text[digits.len()..].starts_with(|c: char| c.is_ascii_digit());
    let negative = digits.ends_with('-') && !digits.ends_with("--");
    is_number.then(|| digits.len() - usize::from(negative))
}

fn decimals(number: &str) -> usize {
    number.split_once('.').map_or(0, |(_, digits)| digits.len())
}

/// Words after which a number is a name, not a result: of a release, a section, or a statement of a paper.
const NAMES: [&str; 13] = [
    "§",
    "Linux ",
    "Rust ",
    "RFC ",
    "version ",
    "Debian ",
    "Python ",
    "QEMU ",
    "glibc ",
    "theorem ",
    "theorems ",
    "lemma ",
    "corollary ",
];
/// Words between a number that is a name and the next one of a list, as in "Linux 5.10 to 6.18".
const JOINS: [&str; 3] = [" and ", " or ", " to "];

/// Counts the numbers of a document's prose that look like results and have no source: those with a fraction or a
/// standard error, outside code, comments and links. A mean with its error counts once.
pub fn unsourced(text: &str) -> usize {
    let prose = prose(text).replace('\n', " ");
    let mut count = 0;
    let mut at = 0;
    let mut name_end = None;
    while let Some(start) = prose[at..].find(|c: char| c.is_ascii_digit()) {
        let start = at + start;
        let token = &prose[start..];
        let length = token.find(|c: char| !c.is_ascii_digit() && c != '.');
        let number = token[..length.unwrap_or(token.len())].trim_end_matches('.');
        let (before, after) = (&prose[..start], &token[number.len()..]);
        at = start + number.len();
        let is_part = before.ends_with(|c: char| c.is_alphanumeric() || "_.".contains(c));
        let is_name = is_name(before, name_end);
        name_end = is_name.then_some(at);
        let is_error = before.ends_with("± ");
        let has_error = after.starts_with(" ± ");
        let has_fraction = number.matches('.').count() == 1;
        let is_result = (has_fraction && !is_name || has_error) && !is_part && !is_error;
        count += usize::from(is_result && !has_source(after, has_error));
    }
    count
}

/// Returns whether the number behind `before` is a name: after a word of [`NAMES`], after a word and a hyphen
/// ("Apache-2.0"), or next in a list to a name that ended at `name_end`.
fn is_name(before: &str, name_end: Option<usize>) -> bool {
    let word = before.strip_suffix('-');
    let is_compound = word.is_some_and(|word| word.ends_with(char::is_alphabetic));
    let is_next = name_end.is_some_and(|end| JOINS.contains(&&before[end..]));
    is_compound || is_next || NAMES.iter().any(|name| before.ends_with(name))
}

/// Returns whether a source follows, after the number's own error and unit.
fn has_source(after: &str, has_error: bool) -> bool {
    let mut rest = after;
    if has_error {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        rest = rest.trim_start_matches(" ± ").trim_start_matches(digits);
    }
    for unit in [" %", "%", "**"] {
        rest = rest.strip_prefix(unit).unwrap_or(rest);
    }
    rest.starts_with(SOURCE)
}

/// What stands for a quote's comment in the text that is searched for numbers.
const SOURCE: &str = "\u{1}";

/// Returns the text without code, comments and the targets of links; a quote becomes [`SOURCE`].
fn prose(text: &str) -> String {
    let mut lines = String::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= is_fence(line);
        if !fenced && !is_fence(line) {
            lines.push_str(line);
        }
        lines.push('\n');
    }
    let mut prose = String::new();
    let mut rest = lines.as_str();
    while let Some(start) = rest.find(['`', '<', ']']) {
        prose.push_str(&rest[..start]);
        rest = &rest[start..];
        let (length, stand_in) = if rest.starts_with(OPEN) {
            let end = rest.find(CLOSE).map_or(rest.len(), |at| at + CLOSE.len());
            let inside = rest[..end].trim_start_matches(OPEN).trim_end_matches(CLOSE);
            let source = parse(inside).map_or("", |_| SOURCE);
            let extremes = extremes_at_end(&prose).filter(|_| !source.is_empty());
            if let Some(start) = extremes.map(|(start, ..)| start) {
                prose.truncate(start);
            }
            (end, source)
        } else if rest.starts_with("](") {
            (rest.find(')').map_or(rest.len(), |at| at + 1), "] ")
        } else if let Some(code) = rest.strip_prefix('`') {
            (code.find('`').map_or(rest.len(), |at| at + 2), "code")
        } else {
            (1, " ")
        };
        prose.push_str(stand_in);
        rest = &rest[length..];
    }
    prose + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Filled {
        fill(text, |quote| {
            if quote.name != "share" {
                return Err("there is no expectation of this name".to_owned());
            }
            match quote.field {
                Field::N => Ok((12.0, None)),
                Field::Least => Ok((0.5, None)),
                Field::Most => Ok((1.5, None)),
                Field::Mean if !quote.at.is_empty() => Ok((-0.25, None)),
                _ => Ok((0.98765, Some(0.01234))),
            }
        })
    }

    #[test]
    fn a_number_keeps_its_form_and_gets_the_records_value() {
        for (before, after) in [
            (
                "is 0.9<!-- sim a/b: share -->",
                "is 1.0<!-- sim a/b: share -->",
            ),
            (
                "**1.00 ± 0.1**<!-- sim a/b: share -->",
                "**0.99 ± 0.0**<!-- sim a/b: share -->",
            ),
            (
                "7.0 ± 1.0 %<!-- sim a/b: share -->",
                "98.8 ± 1.2 %<!-- sim a/b: share -->",
            ),
            (
                "3 ms<!-- other -->, 3<!-- sim a: share × 1000 -->",
                "3 ms<!-- other -->, 988<!-- sim a: share × 1000 -->",
            ),
            (
                "9.00 (7 to 8.0)<!-- rows a: share -->, 1 % (2 to 3)<!-- rows a: share -->",
                "0.99 (0 to 1.5)<!-- rows a: share -->, 99 % (50 to 150)<!-- rows a: share -->",
            ),
            (
                "n = 1<!-- n of live a: share -->",
                "n = 12<!-- n of live a: share -->",
            ),
            (
                "9.00<!-- sim a: share {x=1 Mb/s; y=2} -->",
                "-0.25<!-- sim a: share {x=1 Mb/s; y=2} -->",
            ),
        ] {
            let found = filled(before);
            assert_eq!(found.text, after);
            assert_eq!(found.problems, Vec::<String>::new());
            let quotes = before.matches(": share").count();
            assert_eq!(found.quotes, quotes);
            assert_eq!(filled(after).text, after, "twice is as once");
        }
    }

    #[test]
    fn a_quote_without_number_or_record_is_a_problem_with_its_line() {
        let text =
            "```\n7<!-- sim a: share -->\n```\nmany<!-- sim a: share -->\n0.5<!-- sim a: other -->";
        let found = filled(text);
        assert_eq!(found.text, text);
        assert_eq!(
            found.problems,
            [
                "line 4: sim a: share: no number stands before the comment that quotes the \
                 record; write one",
                "line 5: sim a: other: there is no expectation of this name"
            ]
        );
    }

    #[test]
    fn numbers_that_look_like_results_are_counted_unless_they_have_a_source() {
        for (text, count) in [
            ("0.991 ± 0.006 and 123 ± 2 at 10 Mb/s", 2),
            (
                "0.991 ± 0.006<!-- sim a: b -->, **0.5 %**<!-- live a: b -->",
                0,
            ),
            ("1.4 (1.3 to 1.5)<!-- rows a: b -->, 1.4 (1.3 to 1.5)", 3),
            ("0.991<!-- a remark -->", 1),
            ("Linux 6.18, §4.1, v1.2, 1.2.3, `0.5`, [0.4](x0.3.md)", 1),
            (
                "Linux 5.10 to\n6.12 and 7.3, theorems 4.1 and 4.2, Apache-2.0",
                0,
            ),
            ("Linux 5.10, 0.97, -0.5, and Linux 6.12 has 1.2 and 1.3", 4),
            ("Linux 6.12 and 1.2 ± 0.1, 3 and 1.5", 2),
            ("```\n0.5\n```\n1.5", 1),
        ] {
            assert_eq!(unsourced(text), count, "{text}");
        }
    }
}

//! Distributions of flow sizes as simulators and traffic generators keep them: in each line a size, and
//! the part of all flows that have that size or less.
//!
//! Read are the files of HPCC (percent), HKUST's TrafficGenerator and ns-3 (fractions), ns-2 (three
//! columns, `RandomVariable/Empirical`) and HomaSimulation (the mean in the first line).

use crate::units::Bytes;

/// Returns the points of a distribution in units of `unit`, as a value of TOML: `[["0B", 0.0], …]`.
///
/// Columns are divided by white space, commas or semicolons; the first is the size, the last the
/// cumulative probability. The last line gives its unit: 1 for fractions, 100 for percent. `#` and `//`
/// begin comments. A first line of words (a header) or of one number (a mean) is skipped.
///
/// # Errors
/// The number of the first line that is wrong, from 1, and the problem with its remedy.
pub(super) fn points(text: &str, unit: Bytes) -> Result<String, (usize, String)> {
    let mut points: Vec<(usize, f64, f64)> = Vec::new();
    let mut is_first = true;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let bare = line.split('#').next().unwrap_or_default();
        let bare = bare.split("//").next().unwrap_or_default();
        let divides = |c: char| c.is_whitespace() || c == ',' || c == ';';
        let fields: Vec<&str> = bare
            .split(divides)
            .filter(|field| !field.is_empty())
            .collect();
        if fields.is_empty() {
            continue;
        }
        let numbers: Option<Vec<f64>> = fields.iter().map(|field| finite(field)).collect();
        let begins = std::mem::take(&mut is_first);
        let (size, part) = match numbers.as_deref() {
            Some([size, part] | [size, _, part]) => (size * f64::from(unit.0), *part),
            None | Some([_]) if begins => continue,
            _ => {
                let message = format!(
                    "`{}` is not a size and a cumulative probability; write for example 10000 0.15",
                    line.trim()
                );
                return Err((number, message));
            }
        };
        let (_, size_before, part_before) = points.last().copied().unwrap_or_default();
        if !(size_before..=f64::from(u32::MAX)).contains(&size) {
            let most = u32::MAX;
            return Err((
                number,
                format!(
                    "size {size} bytes is not from {size_before} to {most}; let the sizes rise"
                ),
            ));
        }
        if part < part_before {
            return Err((
                number,
                format!(
                    "{part} is below the {part_before} before it; let the last column be cumulative"
                ),
            ));
        }
        if size == 0.0 && part > 0.0 {
            return Err((
                number,
                "flows of 0 bytes; give size 0 the probability 0".into(),
            ));
        }
        points.push((number, size, part));
    }
    let (number, _, whole) = points.last().copied().unwrap_or((1, 0.0, 0.0));
    if whole != 1.0 && whole != 100.0 {
        let message = format!(
            "the last cumulative probability is {whole}; let it be 1 (fractions) or 100 (percent)"
        );
        return Err((number, message));
    }
    let point = |(_, size, part): &(usize, f64, f64)| {
        // At most `u32::MAX`, as checked above.
        format!("[\"{}\", {:?}]", Bytes(size.round() as u32), part / whole)
    };
    let points: Vec<String> = points.iter().map(point).collect();
    Ok(format!("[{}]", points.join(", ")))
}

/// Parses a number; `None` if it is infinite or the text is no number.
fn finite(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

//! A struct's shape as text, by which a file says what its bytes are.
//!
//! ```text
//! uc_flow 192
//! seen_ns 0 8 unsigned
//! reno.cwnd 60 4 unsigned
//! policy.parameters 176 12 bytes
//! ```

use std::fmt::Write;

use super::shape::{Field, Kind, Shape};

/// Maximum size of a struct in bytes, and maximum number of its fields.
const BYTES_MAX: usize = 4096;
const FIELDS_MAX: usize = 1024;

impl Kind {
    const ALL: [(Kind, &str); 3] = [
        (Kind::Unsigned, "unsigned"),
        (Kind::Signed, "signed"),
        (Kind::Bytes, "bytes"),
    ];

    fn name(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, name)| name)
    }

    fn of(name: &str) -> Option<Kind> {
        let found = Kind::ALL.iter().find(|(_, other)| *other == name);
        found.map(|(kind, _)| *kind)
    }
}

impl Shape {
    /// Returns the description of a struct with this name and shape: lines, one for each field.
    pub(crate) fn describe(&self, name: &str) -> String {
        let mut text = format!("{name} {}\n", self.bytes);
        for field in &self.fields {
            let Field {
                name, at, bytes, ..
            } = field;
            let kind = field.kind.name();
            let _never_fails = writeln!(text, "{name} {at} {bytes} {kind}");
        }
        text
    }

    /// Reads the description of the struct with this name from lines, which may go on with that of another struct.
    /// Returns `None` if there is none, if it is invalid, or if a field does not lie within the struct.
    pub(crate) fn of_description(name: &str, lines: &[&str]) -> Option<Shape> {
        let begin = lines
            .iter()
            .position(|line| first_line(line).is_some_and(|(found, _)| found == name))?;
        let bytes = first_line(lines[begin])?.1.parse().ok()?;
        let fields = lines[begin + 1..].iter();
        let fields = fields.take_while(|line| first_line(line).is_none());
        let fields: Option<Vec<Field>> = fields.map(|line| field(line, bytes)).collect();
        let fields = fields.filter(|fields| fields.len() <= FIELDS_MAX)?;
        (bytes <= BYTES_MAX).then_some(Shape { bytes, fields })
    }
}

/// Splits the first line of a description into the struct's name and size; `None` if the line is not a first one.
fn first_line(line: &str) -> Option<(&str, &str)> {
    let (name, bytes) = line.split_once(' ')?;
    (!bytes.contains(' ')).then_some((name, bytes))
}

/// Reads a line of a field in a struct of this size; `None` if the line is invalid or the field does not lie in the
/// struct.
fn field(line: &str, struct_bytes: usize) -> Option<Field> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    let (name, at, bytes, kind) = (word()?, word()?, word()?, word()?);
    let field = Field {
        name: name.to_owned(),
        at: at.parse().ok()?,
        bytes: bytes.parse().ok()?,
        kind: Kind::of(kind)?,
    };
    let is_number = field.kind == Kind::Bytes || field.bytes <= 8;
    let is_inside = field.at.checked_add(field.bytes)? <= struct_bytes;
    (field.bytes > 0 && is_number && is_inside && words.next().is_none()).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_back() {
        let field = |name: &str, at, bytes, kind| Field {
            name: name.to_owned(),
            at,
            bytes,
            kind,
        };
        let one = Shape {
            bytes: 16,
            fields: vec![
                field("a.b[0]", 0, 8, Kind::Signed),
                field("c", 12, 4, Kind::Bytes),
            ],
        };
        let two = Shape {
            bytes: 4,
            fields: vec![field("d", 0, 4, Kind::Unsigned)],
        };
        let text = one.describe("uc_one") + &two.describe("uc_two");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(Shape::of_description("uc_one", &lines), Some(one));
        assert_eq!(Shape::of_description("uc_two", &lines), Some(two));
        assert_eq!(Shape::of_description("uc_three", &lines), None);
    }

    #[test]
    fn a_field_beyond_its_struct_is_no_description() {
        for (line, is_one) in [
            ("a 0 4 unsigned", true),
            ("a 5 4 unsigned", false),
            ("a 18446744073709551615 4 unsigned", false),
            ("a 0 0 unsigned", false),
            ("a 0 8 float", false),
            ("a 0 4 unsigned more", false),
            ("a 0 4", false),
        ] {
            let read = Shape::of_description("uc_one", &["uc_one 8", line]);
            assert_eq!(read.is_some(), is_one, "{line}");
        }
        for first in ["uc_one 5000", "uc_one", "uc_one -1", "uc_two 8"] {
            assert_eq!(Shape::of_description("uc_one", &[first]), None, "{first}");
        }
    }
}

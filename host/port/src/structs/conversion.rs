//! Converts a struct's values from one layout to another: finds each field by its name, and writes it at the offset
//! and with the size that the field has in the new layout.

use crate::structs::shape::{Field, Kind, Shape};

/// The conversion of a struct's values. A field that only the new layout has becomes 0.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    bytes: usize,
    /// Pieces that are copied as they are: fields of the same size and kind in both layouts.
    runs: Vec<Run>,
    /// Fields of which the new layout has another size or sign: the old field, then the new one.
    resized: Vec<(Field, Field)>,
    /// Fields that only the old layout has.
    dropped: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    from: usize,
    to: usize,
    bytes: usize,
}

impl Conversion {
    pub(crate) fn new(from: &Shape, to: &Shape) -> Conversion {
        let mut conversion = Conversion {
            bytes: to.bytes,
            runs: Vec::new(),
            resized: Vec::new(),
            dropped: Vec::new(),
        };
        for field in &from.fields {
            let is_same = |other: &&Field| {
                other.name == field.name
                    && (other.kind == Kind::Bytes) == (field.kind == Kind::Bytes)
            };
            match to.fields.iter().find(is_same) {
                Some(other) if other.bytes == field.bytes && other.kind == field.kind => {
                    conversion.add(field.at, other.at, field.bytes);
                }
                Some(other) => conversion.resized.push((field.clone(), other.clone())),
                None => conversion.dropped.push(field.name.clone()),
            }
        }
        conversion
    }

    /// Adds bytes to the last run if they follow it in both layouts; otherwise begins a new run.
    fn add(&mut self, from: usize, to: usize, bytes: usize) {
        match self.runs.last_mut() {
            Some(run) if run.from + run.bytes == from && run.to + run.bytes == to => {
                run.bytes += bytes;
            }
            _ => self.runs.push(Run { from, to, bytes }),
        }
    }

    /// Returns the names of fields that are dropped.
    pub(crate) fn dropped(&self) -> &[String] {
        &self.dropped
    }

    /// Converts a value of the old struct. Also returns the name of the first field whose value does not fit into the
    /// new field and is cut off; `None` if all values fit.
    pub(crate) fn convert(&self, value: &[u8]) -> (Vec<u8>, Option<&str>) {
        let mut converted = vec![0; self.bytes];
        for run in &self.runs {
            let from = &value[run.from..run.from + run.bytes];
            converted[run.to..run.to + run.bytes].copy_from_slice(from);
        }
        let mut too_large = None;
        for (from, to) in &self.resized {
            let old = &value[from.at..from.at + from.bytes];
            let new = &mut converted[to.at..to.at + to.bytes];
            if !resize(from.kind, old, to.kind, new) {
                too_large = too_large.or(Some(from.name.as_str()));
            }
        }
        (converted, too_large)
    }
}

/// Copies a field into one of another size or sign. Returns whether the new field has the same value.
fn resize(from: Kind, old: &[u8], to: Kind, new: &mut [u8]) -> bool {
    // a number that grows keeps its sign
    let is_below = from == Kind::Signed && is_negative(old);
    let filler = if is_below { 255 } else { 0 };
    let common = old.len().min(new.len());
    new[..common].copy_from_slice(&old[..common]);
    new[common..].fill(filler);
    let is_whole = old[common..].iter().all(|byte| *byte == filler);
    is_whole
        && match to {
            Kind::Signed => is_below == is_negative(new),
            Kind::Unsigned => !is_below,
            Kind::Bytes => true,
        }
}

fn is_negative(number: &[u8]) -> bool {
    number.last().is_some_and(|byte| *byte > 127)
}

const _: () = assert!(cfg!(target_endian = "little"));

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a shape of fields, each by name, place, size and kind.
    fn shape(bytes: usize, fields: &[(&str, usize, usize, Kind)]) -> Shape {
        let fields = fields.iter().map(|&(name, at, bytes, kind)| Field {
            name: name.to_owned(),
            at,
            bytes,
            kind,
        });
        Shape {
            bytes,
            fields: fields.collect(),
        }
    }

    fn old() -> Shape {
        shape(
            16,
            &[
                ("count", 0, 4, Kind::Unsigned),
                ("owed", 4, 4, Kind::Signed),
                ("gone", 8, 2, Kind::Unsigned),
                ("raw", 10, 4, Kind::Bytes),
                ("small", 14, 2, Kind::Unsigned),
            ],
        )
    }

    /// Fields in other places, one added, one wider, one narrower, one gone.
    fn new() -> Shape {
        shape(
            24,
            &[
                ("owed", 0, 8, Kind::Signed),
                ("added", 8, 4, Kind::Unsigned),
                ("raw", 12, 6, Kind::Bytes),
                ("small", 18, 1, Kind::Unsigned),
                ("count", 20, 4, Kind::Unsigned),
            ],
        )
    }

    fn converted(conversion: &Conversion, value: &[u8]) -> Vec<u8> {
        let (converted, too_large) = conversion.convert(value);
        assert_eq!(too_large, None);
        converted
    }

    fn value(count: u32, owed: i32, gone: u16, raw: [u8; 4], small: u16) -> Vec<u8> {
        let mut value = count.to_le_bytes().to_vec();
        value.extend(owed.to_le_bytes());
        value.extend(gone.to_le_bytes());
        value.extend(raw);
        value.extend(small.to_le_bytes());
        value
    }

    #[test]
    fn fields_move_and_change_their_sizes_by_name() {
        let there = Conversion::new(&old(), &new());
        assert_eq!(there.dropped(), ["gone"]);
        let before = value(7, -3, 0, [1, 2, 3, 4], 255);
        let after = converted(&there, &before);
        assert_eq!(after[..8], (-3i64).to_le_bytes());
        assert_eq!(after[8..20], [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 255, 0]);
        assert_eq!(after[20..], 7u32.to_le_bytes());
        let back = Conversion::new(&new(), &old());
        assert_eq!(back.dropped(), ["added"]);
        assert_eq!(converted(&back, &after), before);
    }

    #[test]
    fn a_value_without_room_is_refused_by_the_name_of_its_field() {
        let there = Conversion::new(&old(), &new());
        let before = value(7, -3, 0, [0; 4], 256);
        assert_eq!(there.convert(&before).1, Some("small"));
        let back = Conversion::new(&new(), &old());
        for owed in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1, i64::MAX] {
            let mut value = vec![0; 24];
            value[..8].copy_from_slice(&owed.to_le_bytes());
            assert_eq!(back.convert(&value).1, Some("owed"), "{owed}");
        }
        for owed in [i32::MAX, i32::MIN] {
            let mut value = vec![0; 24];
            value[..8].copy_from_slice(&i64::from(owed).to_le_bytes());
            assert_eq!(back.convert(&value).1, None, "{owed}");
        }
        let mut value = vec![0; 24];
        value[16] = 1;
        assert_eq!(back.convert(&value).1, Some("raw"));
    }

    /// A number that becomes bytes means something else.
    #[test]
    fn a_field_of_another_kind_is_another_field() {
        let number = shape(4, &[("x", 0, 4, Kind::Unsigned)]);
        let bytes = shape(4, &[("x", 0, 4, Kind::Bytes)]);
        let there = Conversion::new(&number, &bytes);
        assert_eq!(there.dropped(), ["x"]);
        assert_eq!(converted(&there, &[1; 4]), [0; 4]);
    }
}

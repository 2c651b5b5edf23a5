//! Keys that a schema requires.

use schemars::Schema;

/// Marks these keys as required in a schema. The Rust types take them as optional, so that a file without them is read
/// to its end and all its faults are found.
pub(crate) fn needs(schema: &mut Schema, keys: &[&str]) {
    schema.insert("required".to_owned(), keys.into());
}

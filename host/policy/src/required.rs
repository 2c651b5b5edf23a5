//! Keys that a schema requires.

use schemars::Schema;

/// Marks these keys as required in a schema, although reading goes on without them.
pub(crate) fn needs(schema: &mut Schema, keys: &[&str]) {
    schema.insert("required".to_owned(), keys.into());
}

//! Limits on the number of a policy's values, checked before any is copied or interpreted.

use toml::de::{DeTable, DeValue};

use crate::effort::{MEMBERS_MAX, VALUES_MAX};
use crate::fault::Faults;
use crate::read::join;

/// Adds a fault for each list or table that is too long, and one if the policy has too many values in total. Returns
/// true if there is no fault.
pub(crate) fn check(table: &DeTable<'_>, faults: &mut Faults<'_>) -> bool {
    let mut values = 0;
    count_table(table, "", &mut values, faults);
    if values > VALUES_MAX {
        let message =
            format!("{values} keys and members of lists; a policy has at most {VALUES_MAX}");
        faults.add("", message);
    }
    faults.is_empty()
}

fn count_table(table: &DeTable<'_>, path: &str, values: &mut usize, faults: &mut Faults<'_>) {
    *values += table.len();
    if table.len() > MEMBERS_MAX {
        let message = format!("{} keys; a table has at most {MEMBERS_MAX}", table.len());
        faults.add(path, message);
        return;
    }
    for (key, value) in table {
        count(
            value.get_ref(),
            &|| join(path, key.get_ref()),
            values,
            faults,
        );
    }
}

/// Counts the values within `value`. Only tables and faults need its path, so `path` computes it when called.
fn count(
    value: &DeValue<'_>,
    path: &dyn Fn() -> String,
    values: &mut usize,
    faults: &mut Faults<'_>,
) {
    match value {
        DeValue::Table(table) => count_table(table, &path(), values, faults),
        DeValue::Array(list) => {
            *values += list.len();
            if list.len() > MEMBERS_MAX {
                let message = format!(
                    "{} members; a list has at most {MEMBERS_MAX}: use wider patterns, prefixes or \
                     ranges, or divide it",
                    list.len()
                );
                faults.add(&path(), message);
                return;
            }
            for (i, member) in list.iter().enumerate() {
                count(
                    member.get_ref(),
                    &|| join(&path(), &i.to_string()),
                    values,
                    faults,
                );
            }
        }
        _ => {}
    }
}

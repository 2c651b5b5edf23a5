//! Range checks of numbers.

use std::ops::RangeInclusive;

use crate::fault::Faults;

/// Returns the number if it is in the range. Returns `None` if it is absent, and adds a fault if it is out of range.
pub(crate) fn in_range(
    key: &str,
    number: Option<i64>,
    range: RangeInclusive<i64>,
    faults: &mut Faults<'_>,
) -> Option<i64> {
    let number = number?;
    if range.contains(&number) {
        return Some(number);
    }
    let (first, last) = range.into_inner();
    let mend = match (number, first) {
        (0, 1) => format!("give 1 to {last}, or remove the key"),
        _ => format!("give {first} to {last}"),
    };
    faults.add(key, format!("is {number}; {mend}"));
    None
}

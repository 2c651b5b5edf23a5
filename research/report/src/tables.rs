//! Tables in documents that are made from kept records.
//!
//! A comment on a line of its own names the table below it, which ends at the first line of another kind:
//!
//! ```text
//! <!-- table verify/lift -->
//! | assumption lifted | identical | …
//! ```

use crate::quotes::{Filled, OPEN, is_fence, labels};

/// The source of a table: rows of a kept record.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the record whose rows the table shows.
    pub id: String,
    /// Labels that the table's rows must have.
    pub at: Vec<(String, String)>,
}

/// Reads a line that names a table; `None` for any other line.
fn parse(line: &str) -> Option<Table> {
    let inside = line.strip_prefix(OPEN)?.strip_prefix("table ")?;
    let (id, at) = labels(inside.trim_end().strip_suffix("-->")?.trim_end())?;
    let id = id.to_owned();
    Some(Table { id, at })
}

fn is_row(line: &str) -> bool {
    line.starts_with('|')
}

/// Replaces each named table in a document by what `look_up` finds.
pub fn fill(text: &str, look_up: impl Fn(&Table) -> Result<String, String>) -> Filled {
    let mut filled = Filled::default();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    let mut fenced = false;
    while let Some((number, line)) = lines.next() {
        filled.text.push_str(line);
        fenced ^= is_fence(line);
        let Some(table) = parse(line).filter(|_| !fenced) else {
            continue;
        };
        let mut old = String::new();
        while let Some((_, row)) = lines.next_if(|(_, line)| is_row(line)) {
            old.push_str(row);
        }
        filled.quotes += 1;
        match look_up(&table) {
            Ok(new) => filled.text.push_str(&new),
            Err(why) => {
                filled.text.push_str(&old);
                let problem = format!("line {}: table {}: {why}", number + 1, table.id);
                filled.problems.push(problem);
            }
        }
    }
    filled
}

/// Returns the document without the rows of named tables.
pub fn without(text: &str) -> String {
    let mut is_named = false;
    let others = text.split_inclusive('\n').filter(|line| {
        is_named = parse(line).is_some() || (is_named && is_row(line));
        !(is_named && is_row(line))
    });
    others.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "0.5\n<!-- table a/b {law=ecn; n=2} -->\n| old 0.5 |\n| 0.6 |\n\n| 0.7 |\n\
        ```\n<!-- table a/c -->\n```\n";

    #[test]
    fn a_named_table_is_replaced_and_others_stay() {
        let filled = fill(PAGE, |table| {
            assert_eq!(table.id, "a/b");
            let at = [("law", "ecn"), ("n", "2")];
            let at = at.map(|(axis, label)| (axis.to_owned(), label.to_owned()));
            assert_eq!(table.at, at);
            Ok("| new |\n".to_owned())
        });
        assert_eq!(filled.text, PAGE.replace("| old 0.5 |\n| 0.6 |", "| new |"));
        assert_eq!((filled.quotes, filled.problems.len()), (1, 0));
        let failed = fill(PAGE, |_| Err("no record".to_owned()));
        assert_eq!(failed.text, PAGE);
        assert_eq!(failed.problems, ["line 2: table a/b: no record"]);
    }

    #[test]
    fn rows_of_named_tables_alone_need_no_source() {
        let rest = without(PAGE);
        assert!(!rest.contains("old") && !rest.contains("0.6"), "{rest}");
        assert!(rest.contains("| 0.7 |"), "{rest}");
    }
}

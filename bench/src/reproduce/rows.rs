//! Kept records that are not of an experiment: rows with named columns, in `results/NAME.jsonl` or `NAME.json`.
//!
//! The first object is the head, which says where the rows come from. The other objects are the rows; in a `.json` file
//! they are the list `figures` in the head. Each row also has the fields of the head.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Deserializer, Map, Value};
use uc_report::quotes::{Field, Quote, Quoted};
use uc_report::tables::Table;
use uc_verify::record::PARTS;

use crate::records::RESULTS;

type Row = Map<String, Value>;

/// The rows of records. Each file is read only once.
pub(super) struct Records<'a> {
    root: &'a Path,
    read: RefCell<BTreeMap<String, Result<Vec<Row>, String>>>,
}

impl<'a> Records<'a> {
    pub fn new(root: &'a Path) -> Self {
        Self {
            root,
            read: RefCell::default(),
        }
    }

    /// Returns the rows of a record that have these labels, given as pairs of column and value.
    fn rows(&self, id: &str, at: &[(String, String)]) -> Result<Vec<Row>, String> {
        let mut read = self.read.borrow_mut();
        let rows = read
            .entry(id.to_owned())
            .or_insert_with(|| read_rows(self.root, id).map_err(|error| format!("{error:#}")));
        let rows = rows.as_ref().map_err(String::clone)?;
        let found = rows.iter().filter(|row| has_labels(row, at)).cloned();
        let found: Vec<Row> = found.collect();
        if found.is_empty() {
            return Err(
                "no row of the record has these labels; correct the quotation's labels".to_owned(),
            );
        }
        Ok(found)
    }

    /// Returns a quoted number: the mean of a column over the rows with its standard error, or another statistic that
    /// the quotation names.
    pub fn look_up(&self, quote: &Quote) -> Result<Quoted, String> {
        let rows = self.rows(&quote.id, &quote.at)?;
        if quote.field == Field::Mean
            && let Some(name) = ambiguous(&rows)
        {
            return Err(format!(
                "these labels match rows with different `{name}`; add a label for `{name}`"
            ));
        }
        let column = match quote.field {
            // the interval of a ratio that was measured in pairs
            Field::Least if quote.name == "ratio" => "low",
            Field::Most if quote.name == "ratio" => "high",
            _ => quote.name.as_str(),
        };
        let numbers = rows.iter().map(|row| row.get(column)?.as_f64());
        let numbers: Option<Vec<f64>> = numbers.collect();
        let numbers = numbers.ok_or_else(|| {
            format!(
                "a row with these labels has no number in column `{column}`; quote another column"
            )
        })?;
        let n = numbers.len() as f64;
        Ok(match quote.field {
            Field::Mean => mean(&numbers),
            Field::N => (n, None),
            Field::Least => (numbers.iter().copied().fold(f64::INFINITY, f64::min), None),
            Field::Most => (
                numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                None,
            ),
            Field::Paper => {
                return Err(
                    "rows of a record hold no number of a paper; quote another field".to_owned(),
                );
            }
        })
    }

    /// Formats a table of the theorems' record as Markdown.
    pub fn table(&self, table: &Table) -> Result<String, String> {
        let part = PARTS.iter().find(|part| part.name == table.id);
        let part =
            part.ok_or("no theorem has this name, and only records of theorems have tables")?;
        let rows = self.rows(&table.id, &table.at)?;
        let rows: Vec<String> = rows
            .iter()
            .map(|row| Value::from(row.clone()).to_string())
            .collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let shown = part
            .table(&rows)
            .ok_or("the record of this theorem has no table; remove the quotation")?;
        shown.map_err(|error| error.to_string())
    }
}

/// Returns the path of a record: its `.json` file if there is one, otherwise its `.jsonl` file.
pub(super) fn path(root: &Path, id: &str) -> PathBuf {
    let path = |ending| root.join(RESULTS).join(format!("{id}.{ending}"));
    let object = path("json");
    if object.exists() {
        return object;
    }
    path("jsonl")
}

fn read_rows(root: &Path, id: &str) -> Result<Vec<Row>> {
    let path = path(root, id);
    if !path.exists() {
        bail!(
            "{}: this record does not exist; docs/results.md names the command that makes it",
            path.display()
        );
    }
    let read = || -> Result<Vec<Row>> {
        let text = fs::read_to_string(&path)?;
        let mut objects = Deserializer::from_str(&text).into_iter::<Row>();
        let mut head = objects.next().context(
            "the file is empty: it lacks the head, its first line; make the record again",
        )??;
        let rows: Vec<Row> = match head.remove("figures") {
            Some(figures) => serde_json::from_value(figures)?,
            None => objects.collect::<Result<_, _>>()?,
        };
        if rows.is_empty() {
            bail!("the record has a head but no rows; make it again");
        }
        let whole = |row: Row| -> Row { head.clone().into_iter().chain(row).collect() };
        Ok(rows.into_iter().map(whole).collect())
    };
    read().with_context(|| path.display().to_string())
}

fn has_labels(row: &Row, at: &[(String, String)]) -> bool {
    at.iter().all(|(name, label)| {
        let text = row.get(name).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        text.as_ref() == Some(label)
    })
}

/// Returns a column other than numbers in which the rows differ, so that the quotation needs another label; `None` if
/// there is none. Numbers, such as seeds, may differ.
fn ambiguous(rows: &[Row]) -> Option<&String> {
    let (first, others) = rows.split_first()?;
    let texts = first.iter().filter(|(_, value)| value.is_string());
    let mut names = texts.map(|(name, _)| name);
    names.find(|name| others.iter().any(|row| row.get(*name) != first.get(*name)))
}

/// Returns the mean, and of two or more numbers its standard error.
fn mean(numbers: &[f64]) -> Quoted {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares = numbers.iter().map(|number| (number - mean).powi(2));
    let error = (squares.sum::<f64>() / (n - 1.0) / n).sqrt();
    (mean, (n > 1.0).then_some(error))
}

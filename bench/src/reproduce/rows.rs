//! Kept records that are no experiment's: rows with columns, in `results/NAME.jsonl` or `NAME.json`.
//!
//! The first object is the head: where the rows come from. The others are the rows; in a `.json` file they are the
//! head's list `figures`. Whatever the head has, each row has as well.

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

/// The rows of records, each read once.
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

    /// Finds the rows of a record that have these labels.
    fn rows(&self, id: &str, at: &[(String, String)]) -> Result<Vec<Row>, String> {
        let mut read = self.read.borrow_mut();
        let rows = read
            .entry(id.to_owned())
            .or_insert_with(|| read_rows(self.root, id).map_err(|error| format!("{error:#}")));
        let rows = rows.as_ref().map_err(String::clone)?;
        let found = rows.iter().filter(|row| has_labels(row, at)).cloned();
        let found: Vec<Row> = found.collect();
        if found.is_empty() {
            return Err("the record has no row with these labels".to_owned());
        }
        Ok(found)
    }

    /// Finds a number: the mean of a column over the rows, with its standard error, or another field.
    pub fn look_up(&self, quote: &Quote) -> Result<Quoted, String> {
        let rows = self.rows(&quote.id, &quote.at)?;
        if quote.field == Field::Mean
            && let Some(name) = ambiguous(&rows)
        {
            return Err(format!(
                "rows of several `{name}` have these labels; name one"
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
        let numbers = numbers.ok_or_else(|| format!("a row has no number `{column}`"))?;
        let n = numbers.len() as f64;
        Ok(match quote.field {
            Field::Mean => mean(&numbers),
            Field::N => (n, None),
            Field::Least => (numbers.iter().copied().fold(f64::INFINITY, f64::min), None),
            Field::Most => (
                numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                None,
            ),
            Field::Paper => return Err("rows have no number of a paper".to_owned()),
        })
    }

    /// Formats a table of the theorems' record.
    pub fn table(&self, table: &Table) -> Result<String, String> {
        let part = PARTS.iter().find(|part| part.name == table.id);
        let part = part.ok_or("no record of this name has a table")?;
        let rows = self.rows(&table.id, &table.at)?;
        let rows: Vec<String> = rows
            .iter()
            .map(|row| Value::from(row.clone()).to_string())
            .collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let shown = part.table(&rows).ok_or("the record has no table")?;
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
            "{}: no such record; docs/results.md says what makes it",
            path.display()
        );
    }
    let read = || -> Result<Vec<Row>> {
        let text = fs::read_to_string(&path)?;
        let mut objects = Deserializer::from_str(&text).into_iter::<Row>();
        let mut head = objects
            .next()
            .context("the first line, the head, is missing")??;
        let rows: Vec<Row> = match head.remove("figures") {
            Some(figures) => serde_json::from_value(figures)?,
            None => objects.collect::<Result<_, _>>()?,
        };
        if rows.is_empty() {
            bail!("no rows");
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

/// Returns a label in which the rows differ. They may differ in numbers: a seed is one.
fn ambiguous(rows: &[Row]) -> Option<&String> {
    let (first, others) = rows.split_first()?;
    let texts = first.iter().filter(|(_, value)| value.is_string());
    let mut names = texts.map(|(name, _)| name);
    names.find(|name| others.iter().any(|row| row.get(*name) != first.get(*name)))
}

/// Returns the mean and, of two numbers and more, its standard error.
fn mean(numbers: &[f64]) -> Quoted {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares = numbers.iter().map(|number| (number - mean).powi(2));
    let error = (squares.sum::<f64>() / (n - 1.0) / n).sqrt();
    (mean, (n > 1.0).then_some(error))
}

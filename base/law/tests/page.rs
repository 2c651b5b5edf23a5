//! `docs/laws.md` has the core's tables as they are.

use uc_core::Policy;
use uc_core::watch::StartPolicy;
use uc_law::{Kind, Law, Row, StartSettings, Table, Trait, Value};

fn laws() -> String {
    let mut text = "| law | description | without ECN at the peer |\n|---|---|---|\n".to_owned();
    for law in Law::all() {
        let without = if law.has(Trait::NEEDS_ECN) {
            "flows pass unmodified"
        } else if law.has(Trait::WANTS_ECN) {
            "works by losses alone"
        } else {
            "no difference"
        };
        text += &format!("| `{}` | {} | {without} |\n", law.name(), law.what());
    }
    text
}

/// Writes the rows as a table; `usual`: what the fields have if nothing is chosen.
fn rows<Of: Table>(usual: &Of, has_laws: bool) -> String {
    let (title, line) = match has_laws {
        true => ("| laws ", "|---"),
        false => ("", ""),
    };
    let mut text =
        format!("| key {title}| values | usual | description |\n|---{line}|---|---|---|\n");
    for row in Of::rows() {
        let laws: Vec<String> = row.laws().map(|law| format!("`{}`", law.name())).collect();
        let laws = match has_laws {
            true if row.is_of_any_law() => "| all but `pass` ".to_owned(),
            true => format!("| {} ", laws.join(", ")),
            false => String::new(),
        };
        // laws may share a field of the policy
        let own = row.usual.filter(|_| has_laws);
        let number = own.unwrap_or_else(|| row.get(usual));
        let usual = if row.usual.is_none() {
            "none: give one".to_owned()
        } else if row.range.contains(&number) {
            format!("`{}`", written(row, number))
        } else {
            "off".to_owned()
        };
        let (key, what) = (row.key, row.what);
        text += &format!("| `{key}` {laws}| {} | {usual} | {what} |\n", values(row));
    }
    text
}

/// Writes a field's number as files do.
fn written<Of: Table>(row: &Row<Of>, number: u64) -> String {
    let text = Value::of_field(row, number).text(row);
    match row.kind {
        Kind::Fraction | Kind::Number | Kind::Segments | Kind::Flag => text,
        _ => format!("\"{text}\""),
    }
}

fn values<Of: Table>(row: &Row<Of>) -> String {
    let (least, most) = (*row.range.start(), *row.range.end());
    let words = || {
        row.words
            .iter()
            .map(|word| format!("`\"{}\"`: {}", word.word, word.what))
    };
    match row.kind {
        Kind::Word => words().collect::<Vec<_>>().join("; "),
        Kind::Flag => "`true`, `false`".to_owned(),
        _ if most >= u32::MAX.into() => format!("`{}` or more", written(row, least)),
        _ => format!("`{}` to `{}`", written(row, least), written(row, most)),
    }
}

#[test]
fn the_page_has_every_law_parameter_and_setting() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/laws.md");
    let page = std::fs::read_to_string(page).unwrap();
    let policy = Policy::new(0, 0);
    let start = StartSettings::default().policy;
    for table in [
        laws(),
        rows(&policy, true),
        rows::<StartPolicy>(&start, false),
    ] {
        assert!(
            page.contains(&table),
            "docs/laws.md lacks this table:\n\n{table}"
        );
    }
}

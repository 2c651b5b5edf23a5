//! docs/experiments.md, guests.md, measures.md and laws.md compared with the schema: their examples are
//! valid, and their tables name exactly the schema's keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::{GOOD, SWEPT};
use uc_experiment::Experiment;

/// A name that is similar to no name of the schema.
const NOTHING: &str = "qqqqqqqqqqqqqqqqqqqqqqqq";

fn document() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = |name| std::fs::read_to_string(docs.join(name)).expect("the page is there");
    ["experiments.md", "guests.md", "measures.md", "laws.md"]
        .map(page)
        .concat()
}

/// Returns the rows of the tables under each heading, cell by cell.
fn tables(document: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut found: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut heading = String::new();
    let mut rows = 0;
    for line in document.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').replace('`', "").trim().into();
            rows = 0;
        } else if line.starts_with('|') {
            rows += 1;
            // The first two are the header and the rule.
            if rows > 2 {
                let cells = line.trim_matches('|').split('|');
                let cells = cells.map(|cell| cell.trim().to_owned()).collect();
                found.entry(heading.clone()).or_default().push(cells);
            }
        }
    }
    found
}

/// Returns the texts in the backquotes of a cell.
fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the names that the schema knows at the place where `from` is replaced by `to`.
fn known(file: &str, from: &str, to: &str) -> BTreeSet<String> {
    assert!(file.contains(from), "{from:?} is not in the file");
    let text = file.replacen(from, &to.replace("NOTHING", NOTHING), 1);
    let error = Experiment::from_str("t.toml", &text)
        .expect_err("unknown")
        .to_string();
    let (_, list) = error
        .split_once("known here: ")
        .unwrap_or_else(|| panic!("{error}"));
    list.split(", ").map(str::to_owned).collect()
}

/// Each row: a heading, a file, and a replacement whose error lists the keys of the heading's
/// table.
const TABLES: [(&str, &str, &str, &str); 17] = [
    ("The file", GOOD, "settle = \"2s\"", "NOTHING = 1"),
    ("[network]", GOOD, "delay = \"250us\"", "NOTHING = 1"),
    ("[stack.NAME]", GOOD, "sack = false", "NOTHING = 1"),
    ("[[case]]", GOOD, "name = \"mixed\"", "NOTHING = 1"),
    ("[[case.guests]]", GOOD, "count = 9", "NOTHING = 1"),
    (
        "Parameters of laws",
        GOOD,
        "count = 9",
        "parameters = { NOTHING = 1 }",
    ),
    (
        "Settings of the start watch",
        GOOD,
        "count = 9",
        "watch = { NOTHING = 1 }",
    ),
    ("Dupack", GOOD, "count = 9", "dupack = { NOTHING = 1 }"),
    ("Hold", GOOD, "count = 9", "hold = { NOTHING = 1 }"),
    (
        "hold.buffer",
        GOOD,
        "count = 9",
        "hold = { buffer = { NOTHING = 1 } }",
    ),
    (
        "Hypervisor",
        GOOD,
        "count = 9",
        "hypervisor = { NOTHING = 1 }",
    ),
    ("PVTCP", GOOD, "sack = false", "pvtcp = { NOTHING = 1 }"),
    ("[[sweep]]", SWEPT, "labels = ", "NOTHING = "),
    ("[[expect]]", GOOD, "within = ", "NOTHING = "),
    (
        "droptail",
        SWEPT,
        "\"droptail\", limit",
        "\"droptail\", NOTHING",
    ),
    (
        "threshold",
        SWEPT,
        "\"droptail\", limit",
        "\"threshold\", NOTHING",
    ),
    ("red", GOOD, "burst = 55", "NOTHING = 1"),
];

#[test]
fn the_tables_name_exactly_the_keys_of_the_schema() {
    let document = document();
    let tables = tables(&document);
    for (heading, file, from, to) in TABLES {
        let rows = tables
            .get(heading)
            .unwrap_or_else(|| panic!("no table under {heading}"));
        let named: BTreeSet<String> = rows
            .iter()
            .map(|row| spans(&row[0])[0].to_owned())
            .collect();
        assert_eq!(named.len(), rows.len(), "{heading}: a key twice");
        assert_eq!(named, known(file, from, to), "{heading}");
    }
}

#[test]
fn the_tables_name_every_topology_application_queue_and_measure() {
    let document = document();
    let tables = tables(&document);
    let first_words = |heading: &str| -> BTreeSet<String> {
        let word = |row: &Vec<String>| {
            let text = spans(&row[0])[0].trim_start_matches(['{', ' ', '"']);
            let end = text.find([' ', '"']).unwrap_or(text.len());
            text[..end].to_owned()
        };
        tables[heading].iter().map(word).collect()
    };
    let topology = "{ leaf-spine = { leaves = 3, spines = 2 } }";
    assert_eq!(
        first_words("Topologies"),
        known(SWEPT, topology, "\"NOTHING\"")
    );
    assert_eq!(
        first_words("Applications"),
        known(SWEPT, "{ web =", "{ NOTHING =")
    );
    assert_eq!(
        first_words("Patterns"),
        known(GOOD, "count = 9", "pattern = \"NOTHING\"")
    );
    let measure = "kind = \"share\"";
    assert_eq!(
        first_words("Measures"),
        known(GOOD, measure, "kind = \"NOTHING\"")
    );
    for queue in known(GOOD, "kind = \"red\"", "kind = \"NOTHING\"") {
        assert!(tables.contains_key(&queue), "no table of {queue}");
    }
}

#[test]
fn every_measure_has_the_keys_that_its_row_names() {
    let document = document();
    for row in &tables(&document)["Measures"] {
        let kind = spans(&row[0])[0];
        let from = "kind = \"share\", case = \"mixed\", of = \"legacy\", to = \"ecn\"";
        let to = format!("kind = \"{kind}\", NOTHING = 1");
        let named: BTreeSet<String> = spans(&row[1]).into_iter().map(str::to_owned).collect();
        if let [only] = &Vec::from_iter(&named)[..] {
            // For a single key the parser's message has another form.
            let text = GOOD.replacen(from, &to.replace("NOTHING", only), 1);
            assert!(Experiment::from_str("t", &text).is_err(), "{kind}");
        } else {
            assert_eq!(named, known(GOOD, from, &to), "{kind}");
        }
    }
}

#[test]
fn setting_a_documented_default_changes_nothing() {
    let document = document();
    let mut checked = 0;
    // Each row: a heading, and a place where a line can be added to its table.
    let places = [
        ("The file", "settle = \"2s\"\ntail = \"1s\"\n", ""),
        ("[network]", "[network]\n", "[network]\n"),
        (
            "[stack.NAME]",
            "[stack.legacy]\nsack = false\n",
            "[stack.legacy]\n",
        ),
        ("[[case.guests]]", "count = 9\n", ""),
        ("[[expect]]", "[[expect]]\n", "[[expect]]\n"),
    ];
    for (heading, from, to) in places {
        let without = GOOD.replacen(from, to, 1);
        let plain = Experiment::from_str("t", &without).expect("reads");
        for row in &tables(&document)[heading] {
            let (key, default) = (spans(&row[0])[0], spans(&row[2]));
            let table = ["[]", "{}"].contains(default.first().unwrap_or(&""));
            if row[2].starts_with('`') && !table {
                let line = format!("{to}{key} = {}\n", default[0]);
                let text = GOOD.replacen(from, &line, 1);
                let set = Experiment::from_str("t", &text).expect("reads");
                assert_eq!(written(&set), written(&plain), "{heading}: {key}");
                checked += 1;
            }
        }
    }
    assert!(
        checked >= 20,
        "only {checked} defaults: has the form of the tables changed?"
    );
}

/// Formats the experiment without the text that it was read from.
fn written(experiment: &Experiment) -> String {
    toml::to_string(experiment).expect("can be written")
}

#[test]
fn every_example_is_a_valid_experiment() {
    let document = document();
    let blocks: Vec<&str> = document.split("```").skip(1).step_by(2).collect();
    assert_eq!(blocks.len(), 2);
    let [whole, sweep] =
        [blocks[0], blocks[1]].map(|block| block.strip_prefix("toml\n").expect("a block of TOML"));
    for text in [whole.to_owned(), format!("{whole}{sweep}")] {
        let experiment = Experiment::from_str("docs/experiments.md", &text);
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        experiment
            .validate()
            .unwrap_or_else(|error| panic!("{error}"));
    }
    // Values in the tables of topologies, patterns and applications.
    let tables = tables(&document);
    let rows = |heading: &str| {
        tables[heading]
            .iter()
            .map(|row| spans(&row[0])[0].to_owned())
    };
    let laid = |topology: &str| {
        let network = format!("[network]\ntopology = {topology}\n");
        GOOD.replacen("[network]\n", &network, 1)
    };
    let mut switch = String::new();
    for topology in rows("Topologies") {
        let mut text = laid(&topology);
        if topology.contains("switch") || topology.contains("fat-tree") {
            let pattern = "pattern = { fan-in = { to = 0 } }";
            text = text.replace("stack = \"", &format!("{pattern}\nstack = \""));
        }
        if topology.contains("switch") {
            switch.clone_from(&text);
        }
        let experiment = Experiment::from_str("t", &text).expect("reads");
        experiment
            .validate()
            .unwrap_or_else(|error| panic!("{topology}: {error}"));
    }
    let transfer = "application = { transfer = { size = \"1MB\" } }";
    let web = "application = { web = { rate = 50, sizes = \"10kB\" } }";
    for pattern in rows("Patterns") {
        let application = if pattern.contains("random") {
            web
        } else {
            transfer
        };
        let count = if pattern.contains("fan-in") { 16 } else { 17 };
        let group = format!("count = {count}\n{application}\npattern = {pattern}");
        let text = switch.replacen("count = 9\npattern = { fan-in = { to = 0 } }", &group, 1);
        let experiment = Experiment::from_str("t", &text).expect("reads");
        experiment
            .validate()
            .unwrap_or_else(|error| panic!("{pattern}: {error}"));
    }
    for application in rows("Applications") {
        let text = if application.contains("list") {
            let group = format!("count = 17\napplication = {application}");
            let pattern = "count = 9\npattern = { fan-in = { to = 0 } }";
            switch.replacen(pattern, &group, 1)
        } else {
            GOOD.replacen("count = 9", &format!("application = {application}"), 1)
        };
        let experiment = Experiment::from_str("t", &text).expect("reads");
        experiment
            .validate()
            .unwrap_or_else(|error| panic!("{application}: {error}"));
    }
}

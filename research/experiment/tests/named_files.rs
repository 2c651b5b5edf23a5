//! Files that an experiment names: what their lines mean, and what is wrong with them.

use std::path::{Path, PathBuf};

use crate::common::SWEPT;
use uc_experiment::{Application, Arm, Bytes, Error, Experiment, Sizes};

const PLAIN: &str = "sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]]";

/// Writes an experiment whose sizes are `named`, and `content` as `sizes.txt`, into a folder of the test.
fn written(test: &str, named: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sizes.txt"), content).unwrap();
    assert!(SWEPT.contains(PLAIN));
    std::fs::write(folder.join("t.toml"), SWEPT.replacen(PLAIN, named, 1)).unwrap();
    folder.join("t.toml")
}

fn sizes(experiment: &Experiment) -> Sizes {
    match &experiment.cases[0].guests[1].application {
        Application::Web { sizes, .. } => sizes.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the points that are read of a file with this content.
fn points(test: &str, content: &str) -> Vec<(u32, f64)> {
    let path = written(test, "sizes = { file = \"sizes.txt\" }", content);
    let experiment = Experiment::load(path).unwrap_or_else(|error| panic!("{error}"));
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    match sizes(&experiment) {
        Sizes::Points(points) => points.iter().map(|(size, part)| (size.0, *part)).collect(),
        Sizes::Fixed(size) => panic!("{size} for all"),
    }
}

#[test]
fn sizes_of_every_known_format_are_the_same_points() {
    let wanted = [(0, 0.0), (700, 0.25), (3000, 0.75), (90_000, 1.0)];
    for (name, content) in [
        ("percent", "0 0\n700 25\n3000 75\n90000 100\n"),
        ("fractions", "0     0\n700 0.25 \n3000 0.75\n90000 1\n\n"),
        (
            "carriage returns",
            "0 0\r\n700 0.25\r\n3000 0.75\r\n90000 1.00\r\n",
        ),
        (
            "mean",
            "17.5\n0 0.0\n700     0.250000\n3000    0.750000\n90000   1.000000\n",
        ),
        (
            "three columns",
            "0 1 0\n700 1 0.25\n3000 1 0.75\n90000 1 1\n",
        ),
        (
            "header",
            "size,cdf\n0,0\n700,25.0\n3000,75.0\n90000,100.0\n",
        ),
        (
            "comments",
            "# sizes in bytes\n0 0 // none is smaller\n700 .25\n3e3 .75 # most\n90000 1",
        ),
    ] {
        assert_eq!(points(&format!("format {name}"), content), wanted, "{name}");
    }
}

#[test]
fn sizes_between_points_are_interpolated_from_the_line_at_0_bytes() {
    let path = written(
        "zero",
        "sizes = { file = \"sizes.txt\" }",
        "0 0\n1000 50\n9000 100\n",
    );
    let drawn = sizes(&Experiment::load(path).unwrap());
    let quantile = |q: f64| drawn.quantile((q * 2f64.powi(32)) as u32).0;
    assert_eq!(
        [0.0, 0.125, 0.25, 0.5, 0.75].map(quantile),
        [1, 250, 500, 1000, 5000]
    );
    assert_eq!(drawn.mean_bytes(), 0.5 * 500.0 + 0.5 * 5000.0);
    // Without such a line, the first size is a step; as is a size with two lines.
    let steps = "1000 50\n4000 50\n4000 90\n9000 100\n";
    let drawn = sizes(
        &Experiment::load(written("steps", "sizes = { file = \"sizes.txt\" }", steps)).unwrap(),
    );
    let quantile = |q: f64| drawn.quantile((q * 2f64.powi(32)) as u32).0;
    assert_eq!(
        [0.0, 0.1, 0.49, 0.51, 0.89, 0.95].map(quantile),
        [1000, 1000, 1000, 4000, 4000, 6500]
    );
    assert_eq!(
        drawn.mean_bytes(),
        0.5 * 1000.0 + 0.4 * 4000.0 + 0.1 * 6500.0
    );
}

#[test]
fn sizes_in_units_of_packets_are_multiplied() {
    let named = "sizes = { file = \"sizes.txt\", unit = \"1460B\" }";
    let experiment = Experiment::load(written("unit", named, "1 0.5\n20 1\n")).unwrap();
    let wanted = Sizes::Points(vec![(Bytes(1460), 0.5), (Bytes(29_200), 1.0)]);
    assert_eq!(sizes(&experiment), wanted);
}

#[test]
fn other_content_of_a_named_file_is_another_setup_and_a_sweep_may_name_files() {
    let load = |content| {
        let path = written("setup", "sizes = { file = \"sizes.txt\" }", content);
        Experiment::load(path).unwrap()
    };
    let (first, again, other) = (load("0 0\n9 1\n"), load("0 0\n9 1\n"), load("0 0\n8 1\n"));
    assert_eq!(first.setup_hash(Arm::Sim), again.setup_hash(Arm::Sim));
    assert_ne!(first.setup_hash(Arm::Sim), other.setup_hash(Arm::Sim));

    let path = written("sweep", PLAIN, "0 0\n9 1\n");
    let text = std::fs::read_to_string(&path).unwrap();
    let key = "case.mixed.guests.short.application.web.sizes";
    let axis = format!(
        "\n[[sweep]]\nname = \"sizes\"\nlabels = [\"ours\", \"all\"]\n\
                        set = {{ \"{key}\" = [{{ file = \"sizes.txt\" }}, \"10kB\"] }}\n"
    );
    std::fs::write(&path, text + &axis).unwrap();
    let points = Experiment::load(&path)
        .unwrap()
        .points()
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sizes(&points[0].experiment).quantile(u32::MAX), Bytes(8));
    assert_eq!(sizes(&points[1].experiment), Sizes::Fixed(Bytes(10_000)));
}

#[test]
fn errors_name_the_line_of_the_file_and_the_remedy() {
    for (content, error) in [
        (
            "0 0\n10 five\n",
            "sizes.txt:2: `10 five` is not a size and a cumulative probability; write for example 10000 0.15",
        ),
        (
            "0 0\n\n10 0.5 1 2\n",
            "sizes.txt:3: `10 0.5 1 2` is not a size and a cumulative probability; write for example 10000 0.15",
        ),
        (
            "0 0\n10 nan\n",
            "sizes.txt:2: `10 nan` is not a size and a cumulative probability; write for example 10000 0.15",
        ),
        (
            "mean\n17\n9 1\n",
            "sizes.txt:2: `17` is not a size and a cumulative probability; write for example 10000 0.15",
        ),
        (
            "0 0\n20 15\n10 100\n",
            "sizes.txt:3: size 10 bytes is not from 20 to 4294967295; let the sizes rise",
        ),
        (
            "0 0\n5e9 100\n",
            "sizes.txt:2: size 5000000000 bytes is not from 0 to 4294967295; let the sizes rise",
        ),
        (
            "1 0.2\n2 0.1\n3 1\n",
            "sizes.txt:2: 0.1 is below the 0.2 before it; let the last column be cumulative",
        ),
        (
            "0 0.2\n3 1\n",
            "sizes.txt:1: flows of 0 bytes; give size 0 the probability 0",
        ),
        (
            "0 0\n10 0.47\n",
            "sizes.txt:2: the last cumulative probability is 0.47; let it be 1 (fractions) or 100 (percent)",
        ),
        (
            "# nothing\n",
            "sizes.txt:1: the last cumulative probability is 0; let it be 1 (fractions) or 100 (percent)",
        ),
    ] {
        let path = written("errors", "sizes = { file = \"sizes.txt\" }", content);
        let found = Experiment::load(&path).expect_err(content).to_string();
        let folder = path.parent().unwrap().display();
        assert_eq!(found, format!("{folder}/{error}"));
    }
}

#[test]
fn errors_of_the_place_that_names_a_file_have_its_line_and_column() {
    for (named, error) in [
        (
            "sizes = { file = \"other.txt\" }",
            "No such file or directory (os error 2); name a file by its path from the experiment's folder",
        ),
        (
            "sizes = { file = 7 }",
            "`file` is not a text; put it in quotes",
        ),
        (
            "sizes = { file = \"sizes.txt\", unit = \"1 kB\", of = 3 }",
            "unknown `of`; known here: file, unit",
        ),
        (
            "sizes = { file = \"sizes.txt\", unit = 1460 }",
            "`unit` is not a text; put it in quotes",
        ),
    ] {
        let path = written("places", named, "0 0\n9 1\n");
        let found = Experiment::load(&path).expect_err(named);
        let Error::Parse { place, message } = &found else {
            panic!("{found}");
        };
        assert!(
            place.starts_with(&format!("{}:", path.display())) && place.ends_with(":44"),
            "{place}"
        );
        assert!(message.ends_with(error), "{message}");
    }
    // The command line names no file: its folder would not be the experiment's.
    let path = written("set", PLAIN, "0 0\n9 1\n");
    let mut experiment = Experiment::load(path).unwrap();
    let error =
        experiment.apply_set("case.0.guests.1.application.web.sizes={ file = \"sizes.txt\" }");
    let error = error.expect_err("a file").to_string();
    assert!(error.contains("expected a size (\"10kB\")"), "{error}");
}

#[test]
fn errors_of_a_list_name_its_line_and_the_remedy() {
    let no_flow = "is not source, target, group, port, bytes and seconds; write for example 0 1 3 100 10000 0.001";
    let no_connection = "is not two hosts, a start in picoseconds and a size in bytes; write for example 0->1 id 1 start 0 size 10000";
    for (content, error) in [
        ("", "1: `` begins no list of flows; let it be their number (HPCC), or `Nodes` and the number of hosts (htsim)".to_owned()),
        ("2\n0 1 3 100 7 0\n", "1: 2 flows are announced, and 1 follow; correct the number".into()),
        ("1\n\n0 1 7 0\n", format!("3: `0 1 7 0` {no_flow}")),
        ("1\n0 1 3 100 7 -1\n", format!("2: `0 1 3 100 7 -1` {no_flow}")),
        ("Nodes 2\n0->1 start 0\n", format!("2: `0->1 start 0` {no_connection}")),
        ("Nodes 2\n0->1 trigger 1 size 7\n", "2: flows that start when others end are not simulated; give each a `start`".into()),
    ] {
        let path = written("list", PLAIN, content);
        let web = format!("web = {{ rate = 50, {PLAIN} }}");
        assert!(SWEPT.contains(&web));
        std::fs::write(&path, SWEPT.replacen(&web, "list = { file = \"sizes.txt\" }", 1)).unwrap();
        let found = Experiment::load(&path).expect_err(content).to_string();
        let folder = path.parent().unwrap().display();
        assert_eq!(found, format!("{folder}/sizes.txt:{error}"));
    }
}

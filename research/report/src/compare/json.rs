//! The comparison as one JSON object for programs.

use serde::Serialize;
use uc_experiment::comparison::{Alone, Labels};
use uc_experiment::{Circumstances, Compared, Head, LeftOut, Measure};

use super::Sides;
use crate::{Error, words};

/// The JSON object; its keys are an interface.
#[derive(Serialize)]
struct Object<'a> {
    a: Origin<'a>,
    b: Origin<'a>,
    compared: Vec<Row<'a>>,
    differing: usize,
    left_out: &'a [LeftOut],
    alone: &'a [Alone],
}

#[derive(Serialize)]
struct Origin<'a> {
    result: &'a str,
    #[serde(flatten)]
    head: &'a Head,
    sittings: Vec<&'a Circumstances>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: String,
    at: &'a Labels,
    measure: &'a Measure,
    n: usize,
    mean_a: f64,
    mean_b: f64,
    difference: f64,
    interval: Option<[f64; 2]>,
    relative: Option<f64>,
    relative_interval: Option<[f64; 2]>,
    verdict: &'static str,
}

/// Formats `{a, b, compared, differing, left_out, alone}`, indented. `a` and `b` name the origin
/// of the results, with the keys of kept records. `compared` has an object for each measure:
/// `{name, at, measure, n, mean_a, mean_b, difference, interval, relative, relative_interval,
/// verdict}`. `difference` is the mean of B − A over the `n` pairs and `interval` its 95 %
/// confidence interval, null with one pair; `relative` and `relative_interval` are the same divided
/// by the size of `mean_a`, null if that is 0. `verdict` is `same`, `less`, `more`, `faster`,
/// `slower` or `can't say`, and `differing` the number of measures that are neither `same` nor
/// `can't say`. `left_out` has the runs without a partner, `alone` the measures that one result lacks.
///
/// # Errors
/// [`Error::Json`] if it can't be serialised.
pub fn json(sides: &Sides<'_>) -> Result<String, Error> {
    let comparison = sides.comparison;
    let origin = |side: usize| Origin {
        result: sides.names[side],
        head: &sides.records[side].head,
        sittings: sides.records[side]
            .sittings
            .iter()
            .map(|sitting| &sitting.circumstances)
            .collect(),
    };
    let object = Object {
        a: origin(0),
        b: origin(1),
        compared: comparison.compared.iter().map(row).collect(),
        differing: comparison.differing(),
        left_out: &comparison.left_out,
        alone: &comparison.alone,
    };
    Ok(serde_json::to_string_pretty(&object)?)
}

fn row(row: &Compared) -> Row<'_> {
    Row {
        name: words::measure(&row.measure),
        at: &row.at,
        measure: &row.measure,
        n: row.difference.n,
        mean_a: row.means[0],
        mean_b: row.means[1],
        difference: row.difference.mean,
        interval: row.difference.interval,
        relative: row.relative(),
        relative_interval: row.relative_interval(),
        verdict: row.change.words(&row.measure),
    }
}

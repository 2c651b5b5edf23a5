//! Goodput against queueing delay: a point for each run, and an ellipse of one standard deviation for
//! each side.

use std::collections::BTreeMap;

use uc_experiment::comparison::Labels;
use uc_experiment::{KeptMeasure, Measure, QueueUnit, Statistic};

use super::{Sides, labels};
use crate::Error;
use crate::axis::Axis;
use crate::chart::{Mark, Panel};
use crate::figures::Figure;
use crate::line_style::LineStyle;
use crate::panels::extent;
use crate::run_set::PANELS;
use crate::unit::{self, Unit};

/// Points of a run or an ellipse: seconds and bit/s.
type Points = Vec<(f64, f64)>;

/// Number of points of an ellipse.
const CORNERS: u32 = 64;
/// Free room around all points, as a fraction of their extent.
const ROOM: f64 = 0.15;

/// The runs of a group at a point, of both sides.
struct Scatter {
    title: String,
    sides: [Points; 2],
}

/// Draws a panel for each group of guests; `None` if the results have no queueing delays.
///
/// # Errors
/// [`Error::Figure`] if a panel can't be drawn.
pub(super) fn figure(sides: &Sides<'_>) -> Result<Option<Figure>, Error> {
    let scatters = scatters(sides);
    if scatters.is_empty() {
        return Ok(None);
    }
    let place = |panel: usize| match scatters.len() {
        few if few <= PANELS => panel,
        many => panel * (many - 1) / (PANELS - 1),
    };
    let shown: Vec<&Scatter> = (0..scatters.len().min(PANELS))
        .map(|panel| &scatters[place(panel)])
        .collect();
    let panels: Result<Vec<_>, Error> = shown.iter().map(|scatter| panel(scatter)).collect();
    let left_out = match scatters.len() {
        few if few <= PANELS => String::new(),
        many => format!(" Shown are {PANELS} of {many} panels, from the first to the last."),
    };
    Ok(Some(Figure {
        title: "Goodput and queueing delay".into(),
        caption: format!(
            "One mark for each run: mean goodput of a flow of the group against the mean time that \
             the bottleneck's queue takes to empty; better is up and to the left. Ellipses: one \
             standard deviation around the mean, from the covariance, with three runs or more. Axes \
             differ from panel to panel and do not begin at 0.{left_out}"
        ),
        panels: panels?,
        legend: vec![
            (LineStyle::line(0), "A (crosses)".into()),
            (LineStyle::line(1), "B (dots)".into()),
        ],
        events: Vec::new(),
    }))
}

/// Pairs each group's goodputs with the queueing delays of the same runs.
fn scatters(sides: &Sides<'_>) -> Vec<Scatter> {
    let mut found: Vec<(Labels, Measure, Scatter)> = Vec::new();
    for (side, record) in sides.records.into_iter().enumerate() {
        let rows = record.measures();
        for row in &rows {
            let Some((title, points)) = points(row, &rows) else {
                continue;
            };
            let same = |known: &&mut (Labels, Measure, Scatter)| {
                known.0 == row.at && known.1 == row.measure
            };
            match found.iter_mut().find(same) {
                Some((_, _, scatter)) => scatter.sides[side] = points,
                None => {
                    let mut both = [Points::new(), Points::new()];
                    both[side] = points;
                    let scatter = Scatter { title, sides: both };
                    found.push((row.at.clone(), row.measure.clone(), scatter));
                }
            }
        }
    }
    let has_both = |scatter: &Scatter| scatter.sides.iter().all(|points| !points.is_empty());
    let scatters = found.into_iter().map(|(_, _, scatter)| scatter);
    scatters.filter(has_both).collect()
}

/// Returns the title and the points of a row of goodputs; `None` for other rows, and without queueing delays of the
/// same runs.
fn points(row: &KeptMeasure, rows: &[KeptMeasure]) -> Option<(String, Points)> {
    let Measure::Goodput {
        case,
        of,
        during: None,
    } = &row.measure
    else {
        return None;
    };
    let delay = Measure::Queue {
        case: case.clone(),
        statistic: Statistic::Mean,
        unit: QueueUnit::Seconds,
        during: None,
    };
    let mut others = rows.iter();
    let delays = others.find(|other| other.at == row.at && other.measure == delay)?;
    let by_run: BTreeMap<u32, f64> = numbers(delays).collect();
    let point = |(run, goodput): (u32, f64)| Some((*by_run.get(&run)?, goodput));
    let points: Points = numbers(row).filter_map(point).collect();
    let mut title = format!("case {case}: {of}");
    if !row.at.is_empty() {
        title.push_str(&format!(" ({})", labels(&row.at)));
    }
    Some((title, points))
}

fn numbers(row: &KeptMeasure) -> impl Iterator<Item = (u32, f64)> {
    let runs = row.runs.iter();
    runs.filter_map(|(run, value)| Some((*run, *value.as_ref().ok()?)))
}

fn panel(scatter: &Scatter) -> Result<(String, String), Error> {
    let ellipses = scatter.sides.each_ref().map(|points| ellipse(points));
    let all = || scatter.sides.iter().chain(&ellipses).flatten();
    let (x_low, x_high) = extent(all().map(|point| point.0));
    let (y_low, y_high) = extent(all().map(|point| point.1));
    let time = unit::of_time(x_high);
    let rate = match y_high {
        fast if fast >= 2e9 => Unit {
            name: "Gbit/s",
            size: 1e9,
        },
        fast if fast >= 1e5 => Unit {
            name: "Mbit/s",
            size: 1e6,
        },
        _ => Unit {
            name: "kbit/s",
            size: 1e3,
        },
    };
    let scaled = |points: &Points| -> Points {
        let point = |(x, y): &(f64, f64)| (x / time.size, y / rate.size);
        points.iter().map(point).collect()
    };
    let x_label = format!("queueing delay, {}", time.name);
    let mut marks = Vec::new();
    for (side, (points, ellipse)) in scatter.sides.iter().zip(&ellipses).enumerate() {
        let style = LineStyle::line(side);
        let line = Mark::Line {
            points: scaled(ellipse),
            width: 2,
        };
        marks.push((style, line));
        let points = scaled(points);
        marks.push((
            style,
            match side {
                0 => Mark::Crosses { points },
                _ => Mark::Dots { points },
            },
        ));
    }
    let panel = Panel {
        title: scatter.title.clone(),
        x: Axis::linear(roomy(x_low / time.size, x_high / time.size), x_label),
        y: Axis::linear(roomy(y_low / rate.size, y_high / rate.size), rate.name),
        shaded: Vec::new(),
        marks,
    };
    let svg = panel.svg()?;
    Ok((panel.title, svg))
}

/// Widens a range on both sides, at least by a thousandth of its upper end.
fn roomy(low: f64, high: f64) -> std::ops::Range<f64> {
    let extent = high - low;
    let least = high.abs().max(1e-6) * 1e-3;
    let room = (extent * ROOM).max(least);
    low - room..high + room
}

/// Returns the ellipse of one standard deviation around the mean, closed; nothing for fewer than three
/// points.
///
/// A point of the unit circle is multiplied by the Cholesky factor of the sample covariance.
fn ellipse(points: &[(f64, f64)]) -> Points {
    if points.len() < 3 {
        return Points::new();
    }
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let moment = |value: &dyn Fn(f64, f64) -> f64| {
        let products = points.iter().map(|point| value(point.0 - x, point.1 - y));
        products.sum::<f64>() / (n - 1.0)
    };
    let (xx, xy, yy) = (
        moment(&|dx, _| dx * dx),
        moment(&|dx, dy| dx * dy),
        moment(&|_, dy| dy * dy),
    );
    let across = xx.sqrt();
    let along = if across > 0.0 { xy / across } else { 0.0 };
    let rest = (yy - along * along).max(0.0).sqrt();
    let corner = |number: u32| {
        let (sine, cosine) =
            (f64::from(number) / f64::from(CORNERS) * std::f64::consts::TAU).sin_cos();
        (x + across * cosine, y + along * cosine + rest * sine)
    };
    (0..=CORNERS).map(corner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_has_the_covariance_of_the_points() {
        // Means 2 and 20, variances 1 and 100, covariance 5.
        let points = [(1.0, 20.0), (2.0, 10.0), (3.0, 30.0)];
        let found = ellipse(&points);
        assert_eq!(found.len(), CORNERS as usize + 1);
        let (first, quarter) = (found[0], found[CORNERS as usize / 4]);
        // Cholesky factor: 1; 5 and √75.
        for (found, expected) in [(first, (3.0, 25.0)), (quarter, (2.0, 20.0 + 75f64.sqrt()))] {
            assert!((found.0 - expected.0).abs() < 1e-9, "{found:?}");
            assert!((found.1 - expected.1).abs() < 1e-9, "{found:?}");
        }
        let (low, high) = extent(found.iter().map(|point| point.1));
        // The widest extent along an axis is its standard deviation.
        assert!(
            (high - 30.0).abs() < 0.05 && (low - 10.0).abs() < 0.05,
            "{low} {high}"
        );
    }

    #[test]
    fn two_points_and_equal_points_make_no_error() {
        assert_eq!(ellipse(&[(1.0, 2.0), (3.0, 4.0)]), Points::new());
        let equal = ellipse(&[(1.0, 2.0); 3]);
        assert!(equal.iter().all(|point| *point == (1.0, 2.0)), "{equal:?}");
    }
}

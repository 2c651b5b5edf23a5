//! Figures of measures over the axes of a sweep: one axis along x, a line for every label of a
//! second one, a panel for every setting of the others.

use std::collections::BTreeSet;

use uc_experiment::{Measure, Point, Repetition, Sweep, ratio};

use super::figure::Figure;
use crate::axis::Axis;
use crate::chart::{Mark, Mean};
use crate::line_style::LineStyle;
use crate::panels::{Draft, panels};
use crate::words::{self, count, sentence_case};
use crate::{Error, Report};

/// Distance along x from one line to the next, in steps of the x axis, so that equal means and their error bars can be
/// told apart.
const ASIDE: f64 = 0.05;

/// Draws one figure for every measure with an expectation; none without a sweep.
pub(super) fn figures(report: &Report<'_>) -> Result<Vec<Figure>, Error> {
    let sweeps = report.experiment.sweeps.iter();
    let axes: Vec<&Sweep> = sweeps.filter(|sweep| sweep.settings() > 1).collect();
    if axes.is_empty() {
        return Ok(Vec::new());
    }
    let mut measures: Vec<&Measure> = Vec::new();
    for expect in &report.experiment.expects {
        if !measures.contains(&&expect.measure) {
            measures.push(&expect.measure);
        }
    }
    measures
        .into_iter()
        .map(|measure| Frame::new(report, measure, &axes).figure(report))
        .collect()
}

/// The roles of the sweep's axes in the figure of one measure.
struct Frame<'a> {
    measure: &'a Measure,
    x: &'a Sweep,
    lines: Option<&'a Sweep>,
    others: Vec<&'a Sweep>,
}

impl<'a> Frame<'a> {
    /// Assigns roles to the sweep's axes. The x axis is the one that an expectation on the measure names by `along`,
    /// otherwise the one with the most settings. Of the axis with the next most settings, each setting is a line.
    fn new(report: &Report<'a>, measure: &'a Measure, axes: &[&'a Sweep]) -> Self {
        let expects = report.experiment.expects.iter();
        let along = expects
            .filter(|expect| expect.measure == *measure)
            .find_map(|expect| expect.along.as_deref());
        let mut by_length = axes.to_vec();
        by_length.sort_by_key(|axis| std::cmp::Reverse(axis.settings()));
        by_length.sort_by_key(|axis| along != Some(axis.name.as_str()));
        let mut axes = by_length.into_iter();
        // Callers give at least one axis.
        let x = axes.next().unwrap_or(&report.experiment.sweeps[0]);
        Self {
            measure,
            x,
            lines: axes.next(),
            others: axes.collect(),
        }
    }

    fn figure(&self, report: &Report<'a>) -> Result<Figure, Error> {
        let labels = self.x.all_labels();
        let lines = self
            .lines
            .map_or_else(|| vec![String::new()], Sweep::all_labels);
        let draft = |setting: Vec<(&str, String)>| {
            let marks = lines.iter().enumerate().flat_map(|(number, line)| {
                let mut at = setting.clone();
                at.extend(self.lines.map(|axis| (axis.name.as_str(), line.clone())));
                let aside = (number as f64 - (lines.len() - 1) as f64 / 2.0) * ASIDE;
                self.line(report, &labels, &at, (LineStyle::line(number), aside))
            });
            let marks: Vec<(LineStyle, Mark)> = marks.collect();
            Draft::new(&self.panel_title(&setting), marks)
        };
        let drafts: Vec<Draft> = settings(&self.others).into_iter().map(draft).collect();
        let any_paper = drafts.iter().flat_map(|draft| &draft.marks);
        let any_paper = any_paper
            .clone()
            .any(|(_, mark)| matches!(mark, Mark::Crosses { .. }));
        let x = Axis::named(&labels, self.x.name.clone());
        let measure = sentence_case(&words::measure(self.measure));
        let panels = panels(drafts, &x, &words::measure_kind(self.measure))?;
        Ok(Figure {
            title: sentence_case(self.name(report).unwrap_or(&measure)),
            caption: format!("{measure}. {}", self.caption(report, any_paper)),
            panels,
            legend: self.legend(&lines),
            events: Vec::new(),
        })
    }

    /// Draws the means along x, and the paper's numbers, at one setting `at` of all other axes. `aside` shifts both
    /// along x.
    fn line(
        &self,
        report: &Report<'_>,
        labels: &[String],
        at: &[(&str, String)],
        (style, aside): (LineStyle, f64),
    ) -> Vec<(LineStyle, Mark)> {
        let (mut means, mut crosses) = (Vec::new(), Vec::new());
        for (place, label) in labels.iter().enumerate() {
            let here = |point: &&Point| {
                let fits = |(axis, label): &(&str, String)| point.label(axis) == Some(label);
                point.label(&self.x.name) == Some(label) && at.iter().all(fits)
            };
            let Some(point) = report.points.iter().find(here) else {
                continue;
            };
            let place = place as f64 + aside;
            means.extend(self.mean(report, point, place));
            crosses.extend(self.paper(report, point).map(|value| (place, value)));
        }
        let means = (style, Mark::Means { points: means });
        let crosses = (style, Mark::Crosses { points: crosses });
        let marks = [means, crosses].into_iter();
        marks.filter(|(_, mark)| !mark.is_empty()).collect()
    }

    /// Returns the mean at a point; `None` where the measure can't be computed.
    fn mean(&self, report: &Report<'_>, point: &Point, at: f64) -> Option<Mean> {
        let here = report
            .records
            .iter()
            .filter(|record| record.point == point.number);
        let runs: BTreeSet<u32> = here.map(|record| record.run).collect();
        let repetitions = runs
            .into_iter()
            .map(|run| Repetition::at(point, report.records, run));
        // Undecided expectations lead to further runs of some cases.
        let repetitions: Vec<Repetition<'_>> = repetitions
            .filter(|repetition| repetition.has_cases_of(self.measure))
            .collect();
        if repetitions.is_empty() {
            return None;
        }
        let side = |measure: &Measure| -> Result<Vec<f64>, ()> {
            let values = repetitions
                .iter()
                .map(|repetition| repetition.measure(measure));
            values.collect::<Result<_, _>>().map_err(drop)
        };
        let estimate = ratio::estimate(self.measure, &side, &|_| ()).ok()?;
        let [low, high] = estimate.interval.unwrap_or([estimate.mean; 2]);
        Some(Mean {
            at,
            value: estimate.mean,
            interval: low..high,
        })
    }

    /// Returns the paper's number at exactly this point, if it states one.
    fn paper(&self, report: &Report<'_>, point: &Point) -> Option<f64> {
        let verdicts = report.verdicts().iter();
        let same = |name: &str| {
            let expects = report.experiment.expects.iter();
            expects
                .filter(|expect| expect.name == name)
                .any(|expect| expect.measure == *self.measure)
        };
        verdicts
            .filter(|verdict| verdict.steps.is_empty() && verdict.at == point.labels)
            .filter(|verdict| same(&verdict.name))
            .find_map(|verdict| verdict.paper)
    }

    /// Returns the name that the file gives the measure; `None` if it gives none, or several.
    fn name(&self, report: &Report<'a>) -> Option<&'a str> {
        let expects = report.experiment.expects.iter();
        let mut names = expects
            .filter(|expect| expect.measure == *self.measure)
            .map(|expect| expect.name.as_str());
        let first = names.next()?;
        names.all(|other| other == first).then_some(first)
    }

    fn panel_title(&self, setting: &[(&str, String)]) -> String {
        if setting.is_empty() {
            return format!("Over {}", self.x.name);
        }
        let labels = setting
            .iter()
            .map(|(axis, label)| format!("{axis} {label}"));
        labels.collect::<Vec<_>>().join(", ")
    }

    fn caption(&self, report: &Report<'_>, any_paper: bool) -> String {
        let runs = report.meta.runs;
        let means = match runs {
            1 => "A single run of every point.".to_owned(),
            _ => format!(
                "Means of {} with their 95 % confidence intervals.",
                count(runs as usize, "run")
            ),
        };
        let crosses = if any_paper {
            " Crosses are the paper's."
        } else {
            ""
        };
        format!("{means}{crosses}")
    }

    fn legend(&self, lines: &[String]) -> Vec<(LineStyle, String)> {
        let Some(axis) = self.lines else {
            return Vec::new();
        };
        let entry =
            |(i, label): (usize, &String)| (LineStyle::line(i), format!("{} {label}", axis.name));
        lines.iter().enumerate().map(entry).collect()
    }
}

/// Returns every combination of the axes' settings; one empty combination without axes.
fn settings<'a>(axes: &[&'a Sweep]) -> Vec<Vec<(&'a str, String)>> {
    let mut settings = vec![Vec::new()];
    for axis in axes {
        let longer = |setting: Vec<(&'a str, String)>| {
            axis.all_labels().into_iter().map(move |label| {
                let mut longer = setting.clone();
                longer.push((axis.name.as_str(), label));
                longer
            })
        };
        settings = settings.into_iter().flat_map(longer).collect();
    }
    settings
}

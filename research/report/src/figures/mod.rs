//! The figures of an experiment. The experiment determines which are drawn: measures over the axes
//! of a sweep, goodput and windows over time, distributions where there are enough values,
//! transfers, round-trip times, gaps and α where they were recorded.

mod along;
mod cumulative;
mod figure;
mod gaps;
mod goodput;
mod round_trips;
mod time;
mod tracking;
mod transfers;
mod window;

use figure::Context;
pub(crate) use figure::Figure;

use crate::flow_styles::FlowStyles;
use crate::{Error, Report, run_set, unit};

/// Draws all figures that the records allow.
///
/// # Errors
/// [`Error::Figure`] if one can't be drawn.
pub(crate) fn figures(report: &Report<'_>) -> Result<Vec<Figure>, Error> {
    let sets = run_set::sets(report);
    let context = Context {
        all: &sets,
        shown: run_set::shown(&sets),
        styles: FlowStyles::of(&sets),
        rate: unit::of_rate(&sets),
        runs: report.meta.runs,
    };
    let mut figures = along::figures(report)?;
    figures.push(time::goodput(&context)?);
    figures.push(goodput::means(&context)?);
    figures.extend(goodput::distribution(&context)?);
    figures.push(transfers::cumulative(&context)?);
    figures.push(round_trips::cumulative(&context)?);
    figures.push(gaps::histogram(&context)?);
    figures.push(window::figure(&context)?);
    figures.push(tracking::windows(&context)?);
    figures.push(tracking::alphas(&context)?);
    figures.push(time::queue(&context)?);
    figures.retain(|figure| !figure.panels.is_empty());
    Ok(figures)
}

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

pub(crate) use figure::Figure;
use figure::Stage;

use crate::cast::Cast;
use crate::{Error, Report, scene, unit};

/// Draws all figures that the records allow.
///
/// # Errors
/// [`Error::Figure`] if one can't be drawn.
pub(crate) fn figures(report: &Report<'_>) -> Result<Vec<Figure>, Error> {
    let scenes = scene::scenes(report);
    let stage = Stage {
        all: &scenes,
        shown: scene::shown(&scenes),
        cast: Cast::of(&scenes),
        rate: unit::of_rate(&scenes),
        runs: report.meta.runs,
    };
    let mut figures = along::figures(report)?;
    figures.push(time::goodput(&stage)?);
    figures.push(goodput::means(&stage)?);
    figures.extend(goodput::distribution(&stage)?);
    figures.push(transfers::cumulative(&stage)?);
    figures.push(round_trips::cumulative(&stage)?);
    figures.push(gaps::histogram(&stage)?);
    figures.push(window::figure(&stage)?);
    figures.push(tracking::windows(&stage)?);
    figures.push(tracking::alphas(&stage)?);
    figures.push(time::queue(&stage)?);
    figures.retain(|figure| !figure.panels.is_empty());
    Ok(figures)
}

//! A cumulative distribution of times for each group, over a logarithmic axis.

use uc_experiment::Guests;

use super::figure::{Context, Figure};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::panels::{Draft, extent, on_axes};
use crate::run_set::RunSet;

/// Texts of a figure of a cumulative distribution.
pub(super) struct Words<'a> {
    pub title: &'a str,
    pub caption: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// Draws the distribution of each group from `points`: milliseconds, and the fraction that took no
/// longer. A group without points has no curve.
pub(super) fn figure(
    context: &Context<'_, '_>,
    words: &Words<'_>,
    points: impl Fn(&RunSet<'_>, &Guests) -> Vec<(f64, f64)>,
) -> Result<Figure, Error> {
    let draft = |set: &&RunSet<'_>| {
        let curve = |guests: &Guests| {
            let points = points(set, guests);
            let style = context.styles.style(set, &guests.name);
            (!points.is_empty()).then_some((style, Mark::Line { points, width: 2 }))
        };
        Draft::new(
            &set.title,
            set.case.guests.iter().filter_map(curve).collect(),
        )
    };
    let drafts: Vec<Draft> = context.shown.iter().map(draft).collect();
    let (least, most) = extent(drafts.iter().flat_map(Draft::line_xs));
    let least = least.max(1e-4);
    let x = Axis::logarithmic(least..most.max(least), words.x);
    let y = Axis::linear(0.0..1.04, words.y);
    Ok(context.figure(words.title, words.caption, on_axes(drafts, &x, &y)?))
}

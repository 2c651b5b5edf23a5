//! The port's shadow compared with the guest's own variables: windows of observed flows, and DCTCP's α.

use uc_experiment::{Alpha, FlowRecord, Nanos};

use super::figure::{Context, Figure};
use crate::Error;
use crate::axis::Axis;
use crate::chart::Mark;
use crate::curves::{self, Points};
use crate::flow_styles::flows;
use crate::line_style::LineStyle;
use crate::panels::{Draft, over_time, panels, time_unit};
use crate::run_set::RunSet;
use crate::unit;

/// Divisor: windows are drawn for this fraction of the measured part, so that the teeth of their curves can be told
/// apart.
const PART: u64 = 10;

/// The style and the description of each α.
const STYLES: [(Alpha, LineStyle, &str); 3] = [
    (Alpha::Guest, LineStyle::Native, "the guest's own"),
    (
        Alpha::Exact,
        LineStyle::Legacy,
        "of a sender that knows every mark",
    ),
    (Alpha::Shadow, LineStyle::Virtual, "the port's shadow's"),
];

pub(super) fn windows(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let length = |set: &&RunSet<'_>| {
        let measured_ns = set.experiment.measured_ns();
        (measured_ns.end - measured_ns.start) / PART
    };
    let longest = Nanos(context.shown.iter().map(length).max().unwrap_or(0));
    let time = unit::of_time(longest.as_secs_f64());
    let draft = |set: &&RunSet<'_>| {
        let from_ns = set.experiment.measured_ns().start;
        let part_ns = from_ns..from_ns.saturating_add(length(set));
        let after = |points: Points| {
            let from_s = Nanos(from_ns).as_secs_f64();
            let point = |(at_s, window)| ((at_s - from_s) / time.size, window);
            points.into_iter().map(point).collect()
        };
        let line = |points, width| Mark::Line {
            points: after(points),
            width,
        };
        let marks = observed(set).map_or_else(Vec::new, |flow| {
            vec![
                (LineStyle::Native, line(curves::cwnd(flow, &part_ns), 2)),
                (LineStyle::Virtual, line(curves::shadow(flow, &part_ns), 1)),
            ]
        });
        Draft::new(&set.title, marks)
    };
    let drafts = context.shown.iter().map(draft).collect();
    let end = longest.as_secs_f64() / time.size;
    let label = format!("{} of the measured part", time.name);
    let x = Axis::linear(0.0..end.max(f64::MIN_POSITIVE), label);
    let caption = "One flow of each case under a port that only observes, in the first run.";
    let panels = panels(drafts, &x, "segments")?;
    let mut figure = context.figure("The shadow's window beside the guest's", caption, panels);
    figure.legend = vec![
        (LineStyle::Native, "the guest's congestion window".into()),
        (LineStyle::Virtual, "the port's shadow's".into()),
    ];
    Ok(figure)
}

/// Returns the first flow whose port only observes and whose shadow was recorded; `None`: there is none.
fn observed<'a>(set: &RunSet<'a>) -> Option<&'a FlowRecord> {
    let mut flows = flows(set).into_iter();
    flows.find(|flow| {
        let mut samples = flow.samples.iter();
        let has_shadow = samples.any(|sample| sample.shadow_window_bytes.is_some());
        has_shadow && set.case.is_observed(&flow.group)
    })
}

pub(super) fn alphas(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&context.shown);
    let marks = |set: &RunSet<'_>| {
        let Some(flow) = estimating(set) else {
            return Vec::new();
        };
        let line = |(which, style, _): (Alpha, LineStyle, &str)| {
            let point = |(at_s, alpha)| (at_s / time.size, alpha);
            let points = curves::alpha(flow, which).into_iter().map(point).collect();
            (style, Mark::Line { points, width: 1 })
        };
        STYLES.map(line).to_vec()
    };
    let panels = over_time(&context.shown, "α", marks)?;
    let caption = "DCTCP's estimate of the part of the bytes that are marked, of one flow of each \
                   case in the first run.";
    let mut figure = context.figure("α over time", caption, panels);
    let drawn = |which: Alpha| {
        let mut flows = context.shown.iter().filter_map(|set| estimating(set));
        flows.any(|flow| !curves::alpha(flow, which).is_empty())
    };
    let styles = STYLES.into_iter().filter(|(which, ..)| drawn(*which));
    figure.legend = styles
        .map(|(_, style, words)| (style, words.into()))
        .collect();
    Ok(figure)
}

/// Returns the first flow with a recorded α; `None`: there is none.
fn estimating<'a>(set: &RunSet<'a>) -> Option<&'a FlowRecord> {
    let mut flows = flows(set).into_iter();
    flows.find(|flow| {
        let seen = |(which, ..): &(Alpha, LineStyle, &str)| !curves::alpha(flow, *which).is_empty();
        STYLES.iter().any(seen)
    })
}

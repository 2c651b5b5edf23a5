//! The port's shadow compared with its original: windows of observed flows, and DCTCP's α.

use uc_experiment::{Alpha, FlowRecord, Nanos};

use super::figure::{Figure, Stage};
use crate::Error;
use crate::axis::Axis;
use crate::cast::flows;
use crate::chart::Mark;
use crate::curves::{self, Points};
use crate::ink::Ink;
use crate::panels::{Draft, over_time, panels, time_unit};
use crate::scene::Scene;
use crate::unit;

/// Inverse of the fraction of the measured part for which windows are drawn, so that their teeth
/// can be told apart.
const PART: u64 = 10;

/// The ink and the description of each α.
const INKS: [(Alpha, Ink, &str); 3] = [
    (Alpha::Guest, Ink::Native, "the guest's own"),
    (
        Alpha::Exact,
        Ink::Legacy,
        "of a sender that knows every mark",
    ),
    (Alpha::Shadow, Ink::Virtual, "the port's shadow's"),
];

pub(super) fn windows(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let length = |scene: &&Scene<'_>| {
        let measured_ns = scene.experiment.measured_ns();
        (measured_ns.end - measured_ns.start) / PART
    };
    let longest = Nanos(stage.shown.iter().map(length).max().unwrap_or(0));
    let time = unit::of_time(longest.as_secs_f64());
    let draft = |scene: &&Scene<'_>| {
        let from_ns = scene.experiment.measured_ns().start;
        let part_ns = from_ns..from_ns.saturating_add(length(scene));
        let after = |points: Points| {
            let from_s = Nanos(from_ns).as_secs_f64();
            let point = |(at_s, window)| ((at_s - from_s) / time.size, window);
            points.into_iter().map(point).collect()
        };
        let line = |points, width| Mark::Line {
            points: after(points),
            width,
        };
        let marks = observed(scene).map_or_else(Vec::new, |flow| {
            vec![
                (Ink::Native, line(curves::cwnd(flow, &part_ns), 2)),
                (Ink::Virtual, line(curves::shadow(flow, &part_ns), 1)),
            ]
        });
        Draft::new(&scene.title, marks)
    };
    let drafts = stage.shown.iter().map(draft).collect();
    let end = longest.as_secs_f64() / time.size;
    let label = format!("{} of the measured part", time.name);
    let x = Axis::linear(0.0..end.max(f64::MIN_POSITIVE), label);
    let caption = "One flow of each case under a port that only observes, in the first run.";
    let panels = panels(drafts, &x, "segments")?;
    let mut figure = stage.figure("The shadow's window beside the guest's", caption, panels);
    figure.legend = vec![
        (Ink::Native, "the guest's congestion window".into()),
        (Ink::Virtual, "the port's shadow's".into()),
    ];
    Ok(figure)
}

/// Returns the first flow whose port only observes and whose shadow was recorded.
fn observed<'a>(scene: &Scene<'a>) -> Option<&'a FlowRecord> {
    let mut flows = flows(scene).into_iter();
    flows.find(|flow| {
        let mut samples = flow.samples.iter();
        let has_shadow = samples.any(|sample| sample.shadow_window_bytes.is_some());
        has_shadow && scene.case.is_observed(&flow.group)
    })
}

pub(super) fn alphas(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&stage.shown);
    let marks = |scene: &Scene<'_>| {
        let Some(flow) = estimating(scene) else {
            return Vec::new();
        };
        let line = |(which, ink, _): (Alpha, Ink, &str)| {
            let point = |(at_s, alpha)| (at_s / time.size, alpha);
            let points = curves::alpha(flow, which).into_iter().map(point).collect();
            (ink, Mark::Line { points, width: 1 })
        };
        INKS.map(line).to_vec()
    };
    let panels = over_time(&stage.shown, "α", marks)?;
    let caption = "DCTCP's estimate of the part of the bytes that are marked, of one flow of each \
                   case in the first run.";
    let mut figure = stage.figure("α over time", caption, panels);
    let drawn = |which: Alpha| {
        let mut flows = stage.shown.iter().filter_map(|scene| estimating(scene));
        flows.any(|flow| !curves::alpha(flow, which).is_empty())
    };
    let inks = INKS.into_iter().filter(|(which, ..)| drawn(*which));
    figure.legend = inks.map(|(_, ink, words)| (ink, words.into())).collect();
    Ok(figure)
}

/// Returns the first flow with a recorded α.
fn estimating<'a>(scene: &Scene<'a>) -> Option<&'a FlowRecord> {
    let mut flows = flows(scene).into_iter();
    flows.find(|flow| {
        let seen = |(which, ..): &(Alpha, Ink, &str)| !curves::alpha(flow, *which).is_empty();
        INKS.iter().any(seen)
    })
}

//! The send window over the time of a run, with the events of its law.

use super::figure::{Figure, Stage};
use super::time::in_unit;
use crate::Error;
use crate::cast::representative;
use crate::chart::Mark;
use crate::curves;
use crate::ink::Ink;
use crate::law_events::{Gathered, Listed, gather};
use crate::panels::{over_time, time_unit};
use crate::scene::Scene;

pub(super) fn figure(stage: &Stage<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&stage.shown);
    let marks = |scene: &Scene<'_>| {
        let Some(flow) = representative(scene) else {
            return Vec::new();
        };
        let line = |points, width| Mark::Line {
            points: in_unit(points, time),
            width,
        };
        let ink = stage.cast.ink(scene, &flow.group);
        let observed = scene.case.is_observed(&flow.group);
        let events = events(stage, scene);
        vec![
            (Ink::Faint, line(curves::cwnd(flow, &(0..u64::MAX)), 1)),
            (ink, line(curves::send_window(flow, observed), 2)),
            (ink, Mark::Events { events }),
        ]
    };
    let panels = over_time(&stage.shown, "segments", marks)?;
    let listed = |scene: &&Scene<'_>| Listed {
        panel: scene.title.clone(),
        unit: time.name,
        events: events(stage, scene),
    };
    let listed = stage.shown.iter().map(listed);
    let listed: Vec<Listed> = listed.filter(|listed| !listed.events.is_empty()).collect();
    let mut caption = String::from(
        "What one flow of each case may have in flight in the first run (the flow beside the group, \
         if there is one): the law's window where a law translates it, else the smaller of \
         congestion window and receive window.",
    );
    if !listed.is_empty() {
        caption.push_str(
            " A sign on the line is an event of the law, or several of a kind that lie too close \
             to tell apart; point at it for its time and windows.",
        );
    }
    let mut figure = stage.figure("Send window", &caption, panels);
    let own = (Ink::Faint, "the guest's own congestion window".into());
    figure.legend.push(own);
    figure.events = listed;
    Ok(figure)
}

/// Returns the events of the law that translates the flow whose window is drawn. A law that only
/// observes a flow does not move its window.
fn events(stage: &Stage<'_, '_>, scene: &Scene<'_>) -> Vec<Gathered> {
    let flow = representative(scene).filter(|flow| !scene.case.is_observed(&flow.group));
    let time = time_unit(&stage.shown);
    flow.map_or_else(Vec::new, |flow| {
        gather(flow, scene.experiment.duration, time)
    })
}

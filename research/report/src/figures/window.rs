//! The send window over the time of a run, with the events of its law.

use super::figure::{Context, Figure};
use super::time::in_unit;
use crate::Error;
use crate::chart::Mark;
use crate::curves;
use crate::flow_styles::representative;
use crate::law_events::{Gathered, Listed, gather};
use crate::line_style::LineStyle;
use crate::panels::{over_time, time_unit};
use crate::run_set::RunSet;

pub(super) fn figure(context: &Context<'_, '_>) -> Result<Figure, Error> {
    let time = time_unit(&context.shown);
    let marks = |set: &RunSet<'_>| {
        let Some(flow) = representative(set) else {
            return Vec::new();
        };
        let line = |points, width| Mark::Line {
            points: in_unit(points, time),
            width,
        };
        let style = context.styles.style(set, &flow.group);
        let observed = set.case.is_observed(&flow.group);
        let events = events(context, set);
        vec![
            (
                LineStyle::Faint,
                line(curves::cwnd(flow, &(0..u64::MAX)), 1),
            ),
            (style, line(curves::send_window(flow, observed), 2)),
            (style, Mark::Events { events }),
        ]
    };
    let panels = over_time(&context.shown, "segments", marks)?;
    let listed = |set: &&RunSet<'_>| Listed {
        panel: set.title.clone(),
        unit: time.name,
        events: events(context, set),
    };
    let listed = context.shown.iter().map(listed);
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
    let mut figure = context.figure("Send window", &caption, panels);
    let own = (LineStyle::Faint, "the guest's own congestion window".into());
    figure.legend.push(own);
    figure.events = listed;
    Ok(figure)
}

/// Returns the events of the law that translates the flow whose window is drawn. A law that only
/// observes a flow does not move its window.
fn events(context: &Context<'_, '_>, set: &RunSet<'_>) -> Vec<Gathered> {
    let flow = representative(set).filter(|flow| !set.case.is_observed(&flow.group));
    let time = time_unit(&context.shown);
    flow.map_or_else(Vec::new, |flow| gather(flow, set.experiment.duration, time))
}

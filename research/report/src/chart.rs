//! One panel of a figure as an inline SVG: axes, shaded spans, lines, areas, bars, means.

use std::ops::Range;

use plotters::prelude::{
    AreaSeries, Cartesian2d, ChartBuilder, ChartContext, Circle, Color, Cross, IntoDrawingArea,
    IntoFont, LineSeries, Rectangle, SVGBackend,
};

use crate::Error;
use crate::axis::Axis;
use crate::escape::escape;
use crate::law_events::Gathered;
use crate::line_style::LineStyle;

/// Size of a panel; the page scales it.
const SIZE: (u32, u32) = (560, 300);

/// Half the width of an error bar's ends, as a fraction of the x axis.
const CAP: f64 = 0.008;

/// A mean and the interval around it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mean {
    pub at: f64,
    pub value: f64,
    pub interval: Range<f64>,
}

/// An element of a panel's drawing.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A line through the points.
    Line { points: Vec<(f64, f64)>, width: u32 },
    /// A line, with the area below it lightly filled.
    Area { points: Vec<(f64, f64)> },
    /// A bar over `x`, with a whisker from the minimum to the maximum of several values.
    Bar {
        x: Range<f64>,
        height: f64,
        whisker: Range<f64>,
    },
    /// A line through means, each with its error bar.
    Means { points: Vec<Mean> },
    /// Single points, such as the paper's numbers.
    Crosses { points: Vec<(f64, f64)> },
    /// Single points as small discs.
    Dots { points: Vec<(f64, f64)> },
    /// Events of a law, on top of all lines.
    Events { events: Vec<Gathered> },
}

impl Mark {
    /// Returns whether the element has nothing to draw.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Mark::Line { points, .. }
            | Mark::Area { points }
            | Mark::Crosses { points }
            | Mark::Dots { points } => points.is_empty(),
            Mark::Means { points } => points.is_empty(),
            Mark::Events { events } => events.is_empty(),
            Mark::Bar { .. } => false,
        }
    }

    /// Returns the element's highest value; 0 if it has nothing to draw.
    pub(crate) fn top(&self) -> f64 {
        let highest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        match self {
            Mark::Line { points, .. }
            | Mark::Area { points }
            | Mark::Crosses { points }
            | Mark::Dots { points } => highest(&mut points.iter().map(|point| point.1)),
            Mark::Means { points } => {
                highest(&mut points.iter().map(|mean| mean.value.max(mean.interval.end)))
            }
            Mark::Events { events } => highest(&mut events.iter().map(|event| event.at.1)),
            Mark::Bar {
                height, whisker, ..
            } => height.max(whisker.end),
        }
    }
}

/// One panel of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Spans of x outside the measured part of the run.
    pub shaded: Vec<Range<f64>>,
    /// Elements in the order of drawing: the last is on top.
    pub marks: Vec<(LineStyle, Mark)>,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), String>;

impl Panel {
    /// Draws the panel as an `<svg>` element without namespace, for use inside a page.
    ///
    /// # Errors
    /// [`Error::Figure`] if it can't be drawn.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut text = String::new();
        let events = self.draw(&mut text).map_err(|why| Error::Figure {
            figure: self.title.clone(),
            why,
        })?;
        // Inside a page the element needs neither a namespace nor a size of its own.
        let body = text.split_once('>').map_or("", |(_, body)| body);
        let body = body.trim_end().trim_end_matches("</svg>");
        let label = escape(&self.title);
        let (width, height) = SIZE;
        Ok(format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}{events}</svg>\n"
        ))
    }

    /// Draws everything except the events of laws, which it returns as SVG elements.
    fn draw(&self, text: &mut String) -> Result<String, String> {
        let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(14)
            .x_label_area_size(if self.x.is_labelled() { 40 } else { 12 })
            .y_label_area_size(58)
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .map_err(why)?;
        self.shade(&mut chart)?;
        self.mesh(&mut chart)?;
        for (style, mark) in &self.marks {
            draw_mark(&mut chart, *style, mark)?;
        }
        let events = self.marks.iter().flat_map(|(_, mark)| match mark {
            Mark::Events { events } => events.as_slice(),
            _ => &[],
        });
        let events = events.map(|event| event.svg(chart.backend_coord(&event.at)));
        let events = events.collect();
        drop(chart);
        area.present().map_err(why)?;
        Ok(events)
    }

    fn shade(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let spans = self.shaded.iter().filter(|span| span.end > span.start);
        let (bottom, top) = (self.y.range.start, self.y.range.end);
        let corners = |span: &Range<f64>| [(span.start, bottom), (span.end, top)];
        let fill = LineStyle::Shade.colour().filled();
        chart
            .draw_series(spans.map(|span| Rectangle::new(corners(span), fill)))
            .map(|_| ())
            .map_err(why)
    }

    fn mesh(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let font = ("sans-serif", 14).into_font();
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh()
            .bold_line_style(LineStyle::Grid.stroke(1))
            .light_line_style(LineStyle::Grid.stroke(1))
            .axis_style(LineStyle::Axis.stroke(1))
            .label_style(font.clone())
            .axis_desc_style(font)
            .y_desc(self.y.label.as_str());
        if self.x.is_labelled() {
            mesh.x_desc(self.x.label.as_str());
        } else {
            mesh.disable_x_axis();
        }
        mesh.draw().map_err(why)
    }
}

fn draw_mark(chart: &mut Chart<'_, '_>, style: LineStyle, mark: &Mark) -> Drawn {
    match mark {
        Mark::Line { points, width } => line(chart, style, *width, points.iter().copied()),
        Mark::Area { points } => {
            let fill = style.colour().mix(0.18);
            let area = AreaSeries::new(points.iter().copied(), 0.0, fill);
            let area = area.border_style(style.stroke(2));
            chart.draw_series(area).map(|_| ()).map_err(why)
        }
        Mark::Bar { x, height, whisker } => {
            let bar = Rectangle::new([(x.start, 0.0), (x.end, *height)], style.colour().filled());
            chart.draw_series([bar]).map_err(why)?;
            let middle = (x.start + x.end) / 2.0;
            let ends = [(middle, whisker.start), (middle, whisker.end)];
            if whisker.is_empty() {
                return Ok(());
            }
            line(chart, LineStyle::Axis, 2, ends)
        }
        Mark::Means { points } => means(chart, style, points),
        Mark::Crosses { points } => {
            let crosses = points
                .iter()
                .map(|point| Cross::new(*point, 6, style.stroke(2)));
            chart.draw_series(crosses).map(|_| ()).map_err(why)
        }
        Mark::Dots { points } => {
            let fill = style.colour().filled();
            let dots = points.iter().map(|point| Circle::new(*point, 4, fill));
            chart.draw_series(dots).map(|_| ()).map_err(why)
        }
        Mark::Events { .. } => Ok(()),
    }
}

fn means(chart: &mut Chart<'_, '_>, style: LineStyle, points: &[Mean]) -> Drawn {
    line(
        chart,
        style,
        2,
        points.iter().map(|mean| (mean.at, mean.value)),
    )?;
    let range = &chart.x_range();
    let cap = (range.end - range.start) * CAP;
    for Mean { at, interval, .. } in points {
        if interval.is_empty() {
            continue;
        }
        line(
            chart,
            style,
            1,
            [(*at, interval.start), (*at, interval.end)],
        )?;
        for end in [interval.start, interval.end] {
            line(chart, style, 1, [(at - cap, end), (at + cap, end)])?;
        }
    }
    let dots = points
        .iter()
        .map(|mean| Circle::new((mean.at, mean.value), 4, style.colour().filled()));
    chart.draw_series(dots).map(|_| ()).map_err(why)
}

fn line(
    chart: &mut Chart<'_, '_>,
    style: LineStyle,
    width: u32,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Drawn {
    let line = LineSeries::new(points, style.stroke(width));
    chart.draw_series(line).map(|_| ()).map_err(why)
}

fn why(error: impl std::fmt::Display) -> String {
    error.to_string()
}

//! One panel of a figure as an inline SVG: axes, shaded spans, lines, areas and bars.
//!
//! Colours are names here: each ink is a colour of its own in the drawing, which the page's style
//! sheet replaces by one for a light or a dark ground. So the SVG is no file to be used alone.

use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    AreaSeries, Cartesian2d, ChartBuilder, ChartContext, Color, IntoDrawingArea, IntoFont,
    LineSeries, RGBColor, Rectangle, SVGBackend, ShapeStyle,
};

use crate::Error;

/// The panel's own size; the page scales it.
const SIZE: (u32, u32) = (560, 300);

/// What a stroke stands for. `style.css` has one rule per ink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// A flow with ECN of its own.
    Native,
    /// A flow without ECN.
    Legacy,
    /// A flow that a law translates.
    Virtual,
    /// Something of less weight beside them.
    Faint,
    Axis,
    Grid,
    Shade,
}

impl Ink {
    fn colour(self) -> RGBColor {
        match self {
            Ink::Native => RGBColor(0x10, 0x00, 0x01),
            Ink::Legacy => RGBColor(0x10, 0x00, 0x02),
            Ink::Virtual => RGBColor(0x10, 0x00, 0x03),
            Ink::Faint => RGBColor(0x10, 0x00, 0x04),
            Ink::Axis => RGBColor(0x10, 0x00, 0x05),
            Ink::Grid => RGBColor(0x10, 0x00, 0x06),
            Ink::Shade => RGBColor(0x10, 0x00, 0x07),
        }
    }

    /// The style sheet's class for the same ink outside of drawings.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Ink::Native => "native",
            Ink::Legacy => "legacy",
            Ink::Virtual => "virtual",
            Ink::Faint => "faint",
            Ink::Axis | Ink::Grid | Ink::Shade => "axis",
        }
    }

    fn stroke(self, width: u32) -> ShapeStyle {
        self.colour().stroke_width(width)
    }
}

/// One thing that is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A line through the points.
    Line { points: Vec<(f64, f64)>, width: u32 },
    /// A line, and the area below it lightly filled.
    Area { points: Vec<(f64, f64)> },
    /// A bar over `x`, with a whisker from the least to the most.
    Bar {
        x: Range<f64>,
        height: f64,
        whisker: Range<f64>,
    },
}

/// One panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub title: String,
    pub x: Range<f64>,
    pub y: Range<f64>,
    pub x_label: &'static str,
    pub y_label: &'static str,
    /// Whether the x axis has numbers.
    pub x_numbers: bool,
    /// Spans of x that are not measured.
    pub shaded: Vec<Range<f64>>,
    /// In the order of drawing: the last lies on top.
    pub marks: Vec<(Ink, Mark)>,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), String>;

impl Panel {
    /// The panel as an `<svg>` element without namespace, to stand inside a page.
    ///
    /// # Errors
    /// [`Error::Figure`] if it can't be drawn.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut text = String::new();
        self.draw(&mut text).map_err(|why| Error::Figure {
            figure: self.title.clone(),
            why,
        })?;
        // Inside a page the element needs neither a namespace nor a size of its own.
        let body = text.split_once('>').map_or("", |(_, body)| body);
        let label = crate::html::escape(&self.title);
        let (width, height) = SIZE;
        Ok(format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}"
        ))
    }

    fn draw(&self, text: &mut String) -> Drawn {
        let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(14)
            .x_label_area_size(if self.x_numbers { 40 } else { 12 })
            .y_label_area_size(54)
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .map_err(why)?;
        self.shade(&mut chart)?;
        self.mesh(&mut chart)?;
        for (ink, mark) in &self.marks {
            draw_mark(&mut chart, *ink, mark)?;
        }
        drop(chart);
        area.present().map_err(why)
    }

    fn shade(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let spans = self.shaded.iter().filter(|span| span.end > span.start);
        let corners = |span: &Range<f64>| [(span.start, self.y.start), (span.end, self.y.end)];
        let fill = Ink::Shade.colour().filled();
        chart
            .draw_series(spans.map(|span| Rectangle::new(corners(span), fill)))
            .map(|_| ())
            .map_err(why)
    }

    fn mesh(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let font = ("sans-serif", 14).into_font();
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh()
            .max_light_lines(0)
            .bold_line_style(Ink::Grid.stroke(1))
            .axis_style(Ink::Axis.stroke(1))
            .label_style(font.clone())
            .axis_desc_style(font)
            .x_labels(8)
            .y_labels(5)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .y_desc(self.y_label);
        if self.x_numbers {
            mesh.x_desc(self.x_label);
        } else {
            mesh.disable_x_axis();
        }
        mesh.draw().map_err(why)
    }
}

fn draw_mark(chart: &mut Chart<'_, '_>, ink: Ink, mark: &Mark) -> Drawn {
    match mark {
        Mark::Line { points, width } => {
            let line = LineSeries::new(points.iter().copied(), ink.stroke(*width));
            chart.draw_series(line).map(|_| ()).map_err(why)
        }
        Mark::Area { points } => {
            let fill = ink.colour().mix(0.18);
            let area = AreaSeries::new(points.iter().copied(), 0.0, fill);
            let area = area.border_style(ink.stroke(2));
            chart.draw_series(area).map(|_| ()).map_err(why)
        }
        Mark::Bar { x, height, whisker } => {
            let bar = Rectangle::new([(x.start, 0.0), (x.end, *height)], ink.colour().filled());
            chart.draw_series([bar]).map_err(why)?;
            let middle = (x.start + x.end) / 2.0;
            let ends = [(middle, whisker.start), (middle, whisker.end)];
            let line = LineSeries::new(ends, Ink::Axis.stroke(2));
            chart.draw_series(line).map(|_| ()).map_err(why)
        }
    }
}

fn why(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A number on an axis, without trailing zeros.
fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

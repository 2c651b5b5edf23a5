//! The chart of differences: a strip for each measure, with its relative difference and interval on
//! one scale.

use uc_experiment::{Change, Compared};

use super::{difference, interval, name};
use crate::escape::escape;
use crate::line_style::LineStyle;

/// Maximum number of strips. Of more measures, it draws those that differ most.
const STRIPS: usize = 40;
/// Largest difference that the scale shows, as a fraction of A's mean; a larger one ends in an arrow.
const SCALE_MAX: f64 = 1.0;
/// Width and height of a strip's drawing; the page scales it.
const SIZE: (f64, f64) = (400.0, 24.0);
/// Length of an arrow, in units of the drawing.
const ARROW: f64 = 7.0;

/// A measure that has a relative difference and its interval.
struct Strip<'a> {
    row: &'a Compared,
    middle: f64,
    ends: [f64; 2],
}

/// Returns the section of the chart; empty if all measures with an interval are the same in both results.
pub(super) fn section(compared: &[Compared]) -> String {
    let strip = |row| {
        let row: &Compared = row;
        Some(Strip {
            row,
            middle: row.relative()?,
            ends: row.relative_interval()?,
        })
    };
    let mut strips: Vec<Strip<'_>> = compared.iter().filter_map(strip).collect();
    let all = strips.len();
    if strips.iter().all(|strip| strip.row.change == Change::Same) {
        return String::new();
    }
    if all > STRIPS {
        strips.sort_by(|one, other| other.middle.abs().total_cmp(&one.middle.abs()));
        strips.truncate(STRIPS);
    }
    let reach = strips.iter().flat_map(|strip| strip.ends).map(f64::abs);
    let scale = round_up(reach.fold(0.0, f64::max)).min(SCALE_MAX);
    let percent = (scale * 1e4).round() / 100.0;
    let mut text = String::from("<section>\n<h2>Differences and their intervals</h2>\n");
    text.push_str(&format!(
        "<p class=\"strip scale\" aria-hidden=\"true\"><span></span>\
         <span><i>−{percent} %</i><i>as A</i><i>+{percent} %</i></span></p>\n<ul class=\"strips\">\n"
    ));
    for strip in &strips {
        text.push_str(&format!(
            "<li class=\"strip\"><span>{}</span>{}</li>\n",
            escape(&name(&strip.row.measure, &strip.row.at)),
            drawing(strip, scale)
        ));
    }
    let of_more = if all > STRIPS {
        format!(" Shown are the {STRIPS} of {all} measures that differ most.")
    } else {
        String::new()
    };
    text.push_str(&format!(
        "</ul>\n<p class=\"caption\">Dot: mean of B − A over the pairs of runs, relative to the mean of \
         A. Line: its 95 % interval; an interval off the middle line is a difference. An arrow goes on \
         beyond the scale.{of_more}</p>\n</section>\n"
    ));
    text
}

/// Draws the strip as an `<svg>` element.
fn drawing(strip: &Strip<'_>, scale: f64) -> String {
    let (width, height) = SIZE;
    let room = width / 2.0 - ARROW - 4.0;
    let x = |value: f64| width / 2.0 + room * (value / scale).clamp(-1.0, 1.0);
    let y = height / 2.0;
    let style = match strip.row.change {
        Change::More | Change::Less => LineStyle::line(1),
        Change::Same | Change::Unknown => LineStyle::Faint,
    };
    let [low, high] = strip.ends;
    let (colour, grid) = (style.hex(), LineStyle::Grid.hex());
    let label = format!(
        "{}, 95 % interval {}: {}",
        difference(strip.row),
        interval(strip.row),
        strip.row.change.words(&strip.row.measure)
    );
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title>\
         <path d=\"M{0} -3V{1}\" stroke=\"{grid}\" stroke-width=\"2\"/>\
         <path d=\"M{2:.1} {y}H{3:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>",
        width / 2.0,
        height + 3.0,
        x(low),
        x(high),
        label = escape(&label),
    );
    for (end, sign) in [(low, -1.0), (high, 1.0)] {
        if end * sign > scale {
            let tip = x(end) + sign * ARROW;
            text.push_str(&format!(
                "<path d=\"M{tip:.1} {y}L{0:.1} {1}V{2}Z\" fill=\"{colour}\"/>",
                x(end),
                y - ARROW / 1.5,
                y + ARROW / 1.5
            ));
        }
    }
    if strip.middle.abs() <= scale {
        text.push_str(&format!(
            "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"/>",
            x(strip.middle)
        ));
    }
    text.push_str("</svg>");
    text
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not below the value.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.01;
    }
    let power = 10f64.powf(value.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= value);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use uc_experiment::{Comparison, KeptRecord};

    use super::*;

    fn record(values: &str) -> KeptRecord {
        let text = format!(
            "{}\n{}\n{}{values}{}",
            r#"{"record":{"experiment":"t.toml","arm":"sim","seed":1,"setup":"0"}}"#,
            r#"{"sitting":{"commit":"c","core":"d"}}"#,
            r#"{"row":{"measure":{"kind":"goodput","case":"c","of":"<g>"},"values":["#,
            "]}}"
        );
        KeptRecord::read(&text).expect("reads")
    }

    fn chart(b: &str) -> String {
        section(&Comparison::of(&record("100,100,100"), &record(b)).compared)
    }

    #[test]
    fn a_strip_has_its_interval_on_a_scale_of_round_numbers() {
        // 2 % ± 4.3027 · 1 % / √3 = 2.4841 %: from −0.4841 to 4.4841 %, on a scale to 5 %.
        let text = chart("101,102,103");
        assert!(text.contains("<i>+5 %</i>"), "{text}");
        assert!(text.contains("M181.7 12H369.5"), "{text}");
        assert!(text.contains("cx=\"275.6\""), "{text}");
        assert!(text.contains("goodput of &lt;g&gt;, case c"), "{text}");
        assert!(!text.contains("Z\""), "no arrow: {text}");
    }

    #[test]
    fn an_interval_beyond_the_scale_ends_in_an_arrow() {
        let text = chart("301,302,303");
        assert!(text.contains("<i>+100 %</i>"), "{text}");
        assert!(text.contains("Z\""), "{text}");
        assert!(!text.contains("<circle"), "the mean is beyond, too: {text}");
    }

    #[test]
    fn equal_results_have_no_chart() {
        assert_eq!(chart("100,100,100"), "");
    }
}

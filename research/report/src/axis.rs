//! An axis of a panel: its range and its labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Maximum number of letters in all labels of an axis together.
const LETTERS: usize = 58;

/// One of a panel's two axes.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub range: Range<f64>,
    pub label: String,
    ticks: Vec<(f64, String)>,
    logarithmic: bool,
}

impl Axis {
    /// Creates an axis with labels at round numbers.
    pub(crate) fn linear(range: Range<f64>, label: impl Into<String>) -> Self {
        let step = round_step((range.end - range.start) / 6.0);
        let (first, last) = (range.start / step, range.end / step);
        // An end within a millionth of a step counts as reached.
        let places = ((first - 1e-6).ceil() as i64)..=((last + 1e-6).floor() as i64);
        let ticks = places.map(|place| (place as f64 * step, decimal(place as f64 * step)));
        Self {
            ticks: ticks.collect(),
            range,
            label: label.into(),
            logarithmic: false,
        }
    }

    /// Creates a logarithmic axis with labels at powers of ten; `range` is above 0, and is widened
    /// to whole powers.
    pub(crate) fn logarithmic(range: Range<f64>, label: impl Into<String>) -> Self {
        let low = range.start.log10().floor() as i32;
        let high = (range.end.log10().ceil() as i32).max(low + 1);
        let every = (high - low + 6) / 7;
        let powers = (low..=high).filter(|power| (power - low) % every == 0);
        Self {
            ticks: powers
                .map(|power| (10f64.powi(power), decimal(10f64.powi(power))))
                .collect(),
            range: 10f64.powi(low)..10f64.powi(high),
            label: label.into(),
            logarithmic: true,
        }
    }

    /// Creates an axis with these names at 0, 1, 2 …; if they are too long to be read side by side, it shows only every
    /// second or third, and so on.
    pub(crate) fn named(names: &[String], label: impl Into<String>) -> Self {
        let longest = names
            .iter()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0)
            + 2;
        let every = (longest * names.len()).div_ceil(LETTERS).max(1);
        let ticks = names.iter().enumerate().step_by(every);
        Self {
            ticks: ticks
                .map(|(place, name)| (place as f64, name.clone()))
                .collect(),
            range: -0.5..names.len() as f64 - 0.5,
            label: label.into(),
            logarithmic: false,
        }
    }

    /// Creates an axis with the given labels.
    pub(crate) fn at(
        range: Range<f64>,
        label: impl Into<String>,
        ticks: Vec<(f64, String)>,
    ) -> Self {
        Self {
            range,
            label: label.into(),
            ticks,
            logarithmic: false,
        }
    }

    /// Creates an axis without labels.
    pub(crate) fn bare(range: Range<f64>) -> Self {
        Self::at(range, "", Vec::new())
    }

    /// Returns whether the axis has labels.
    pub(crate) fn is_labelled(&self) -> bool {
        !self.ticks.is_empty()
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            // Values that have no logarithm lie at the low end.
            value.max(self.range.start).log10()
        } else {
            value
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (low, high) = (self.place(self.range.start), self.place(self.range.end));
        let part = ((self.place(*value) - low) / (high - low)).clamp(-1.0, 2.0);
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let found = self.ticks.iter().find(|tick| tick.0 == *value);
        found.map_or_else(String::new, |tick| tick.1.clone())
    }
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors
        .into_iter()
        .find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Formats a number on an axis, without trailing zeros, and with k, M or G for large ones.
fn decimal(value: f64) -> String {
    let (value, letter) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, "G"),
        large if large >= 1e6 => (value / 1e6, "M"),
        large if large >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    #[test]
    fn linear_axes_are_labelled_at_round_numbers() {
        let labels_of = |range| labels(&Axis::linear(range, "")).join(" ");
        assert_eq!(labels_of(0.0..37.0), "0 10 20 30");
        assert_eq!(labels_of(0.0..1.0), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(labels_of(0.0..0.0002), "0 0.00005 0.0001 0.00015 0.0002");
        assert_eq!(labels_of(0.0..120_000.0), "0 20k 40k 60k 80k 100k 120k");
        assert_eq!(labels_of(-0.3..0.3), "-0.3 -0.2 -0.1 0 0.1 0.2 0.3");
    }

    #[test]
    fn logarithmic_axes_place_equal_factors_at_equal_distances() {
        let axis = Axis::logarithmic(0.3..420.0, "");
        assert_eq!(labels(&axis).join(" "), "0.1 1 10 100 1000");
        let places: Vec<i32> = [0.1, 1.0, 10.0, 100.0, 1000.0]
            .iter()
            .map(|v| axis.map(v, (0, 400)))
            .collect();
        assert_eq!(places, [0, 100, 200, 300, 400]);
        assert_eq!(axis.map(&0.0, (0, 400)), 0, "nothing lies at the bottom");
    }

    #[test]
    fn names_that_would_overlap_are_omitted() {
        let names: Vec<String> = (0..40).map(|i| format!("name {i}")).collect();
        let axis = Axis::named(&names, "");
        let shown = labels(&axis);
        assert!(shown.len() < 9 && shown[0] == "name 0", "{shown:?}");
        assert_eq!(labels(&Axis::named(&names[..3], "")).len(), 3);
    }
}

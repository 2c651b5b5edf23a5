//! Styles: the meaning of a stroke's colour. `style.css` has a rule for every style.
//!
//! Each style is a distinct colour in the drawing. The page's style sheet replaces it by a colour for a light or a dark
//! background, so the SVG is not usable without the page.

use plotters::prelude::{Color, RGBColor, ShapeStyle};

/// Number of lines that can be told apart.
const LINES: usize = 7;

/// A colour of a stroke, named by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// A flow that negotiates ECN itself.
    Native,
    /// The line of a flow without ECN.
    Legacy,
    /// A flow that a law translates.
    Virtual,
    /// An element of less weight.
    Faint,
    Axis,
    Grid,
    Shade,
    /// A line that is identified by its name only; see [`LineStyle::line`].
    Line(u8),
}

impl LineStyle {
    /// Returns the style of the line with this number; styles repeat after the last.
    pub(crate) fn line(number: usize) -> Self {
        LineStyle::Line((number % LINES) as u8)
    }

    pub(crate) fn colour(self) -> RGBColor {
        RGBColor(0x10, 0x00, self.number())
    }

    /// Returns the style's colour as `#RRGGBB`, for SVG that is written without the drawing library.
    pub(crate) fn hex(self) -> String {
        let RGBColor(red, green, blue) = self.colour();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }

    fn number(self) -> u8 {
        match self {
            LineStyle::Native => 1,
            LineStyle::Legacy => 2,
            LineStyle::Virtual => 3,
            LineStyle::Faint => 4,
            LineStyle::Axis => 5,
            LineStyle::Grid => 6,
            LineStyle::Shade => 7,
            LineStyle::Line(number) => 0x10 + number,
        }
    }

    /// Returns the style sheet's class of the same style outside of drawings.
    pub(crate) fn class(self) -> String {
        match self {
            LineStyle::Native => "native".into(),
            LineStyle::Legacy => "legacy".into(),
            LineStyle::Virtual => "virtual".into(),
            LineStyle::Faint => "faint".into(),
            LineStyle::Axis | LineStyle::Grid | LineStyle::Shade => "axis".into(),
            LineStyle::Line(number) => format!("line{number}"),
        }
    }

    pub(crate) fn stroke(self, width: u32) -> ShapeStyle {
        self.colour().stroke_width(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_has_a_rule_for_every_ink() {
        let sheet = include_str!("style.css");
        let mut styles = vec![
            LineStyle::Native,
            LineStyle::Legacy,
            LineStyle::Virtual,
            LineStyle::Faint,
        ];
        styles.extend((0..LINES).map(LineStyle::line));
        for style in styles {
            let RGBColor(red, green, blue) = style.colour();
            for property in ["stroke", "fill"] {
                let rule = format!("svg [{property}=\"#{red:02X}{green:02X}{blue:02X}\"]");
                let colour = format!("{{ {property}: var(--{}); }}", style.class());
                assert!(
                    sheet.contains(&format!("{rule} {colour}")),
                    "{style:?}: {rule}"
                );
            }
            let legend = format!(".legend .{0} {{ background: var(--{0}); }}", style.class());
            assert!(sheet.contains(&legend), "{style:?}: {legend}");
        }
    }
}

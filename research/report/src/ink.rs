//! What a stroke stands for. `style.css` has a rule for every ink.
//!
//! Each ink is a colour of its own in the drawing, which the page's style sheet replaces by one for
//! a light or a dark ground. So the SVG is no file to be used alone.

use plotters::prelude::{Color, RGBColor, ShapeStyle};

/// How many lines can be told apart.
const LINES: usize = 7;

/// The colour of a stroke, by its meaning.
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
    /// One of several that have nothing but a name; see [`Ink::line`].
    Line(u8),
}

impl Ink {
    /// The ink of the line with this number; after the last they begin again.
    pub(crate) fn line(number: usize) -> Self {
        Ink::Line((number % LINES) as u8)
    }

    pub(crate) fn colour(self) -> RGBColor {
        RGBColor(0x10, 0x00, self.number())
    }

    fn number(self) -> u8 {
        match self {
            Ink::Native => 1,
            Ink::Legacy => 2,
            Ink::Virtual => 3,
            Ink::Faint => 4,
            Ink::Axis => 5,
            Ink::Grid => 6,
            Ink::Shade => 7,
            Ink::Line(number) => 0x10 + number,
        }
    }

    /// The style sheet's class for the same ink outside of drawings.
    pub(crate) fn class(self) -> String {
        match self {
            Ink::Native => "native".into(),
            Ink::Legacy => "legacy".into(),
            Ink::Virtual => "virtual".into(),
            Ink::Faint => "faint".into(),
            Ink::Axis | Ink::Grid | Ink::Shade => "axis".into(),
            Ink::Line(number) => format!("line{number}"),
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
        let style = include_str!("style.css");
        let mut inks = vec![Ink::Native, Ink::Legacy, Ink::Virtual, Ink::Faint];
        inks.extend((0..LINES).map(Ink::line));
        for ink in inks {
            let RGBColor(red, green, blue) = ink.colour();
            for property in ["stroke", "fill"] {
                let rule = format!("svg [{property}=\"#{red:02X}{green:02X}{blue:02X}\"]");
                let colour = format!("{{ {property}: var(--{}); }}", ink.class());
                assert!(
                    style.contains(&format!("{rule} {colour}")),
                    "{ink:?}: {rule}"
                );
            }
            let legend = format!(".legend .{0} {{ background: var(--{0}); }}", ink.class());
            assert!(style.contains(&legend), "{ink:?}: {legend}");
        }
    }
}

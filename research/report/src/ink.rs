//! Inks: the meaning of a stroke's colour. `style.css` has a rule for every ink.
//!
//! Each ink is a distinct colour in the drawing, which the page's style sheet replaces by a colour
//! for a light or a dark background. So the SVG is not usable without the page.

use plotters::prelude::{Color, RGBColor, ShapeStyle};

/// Number of lines that can be told apart.
const LINES: usize = 7;

/// A colour of a stroke, named by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// A flow that negotiates ECN itself.
    Native,
    /// A flow without ECN.
    Legacy,
    /// A flow that a law translates.
    Virtual,
    /// An element of less weight.
    Faint,
    Axis,
    Grid,
    Shade,
    /// A line that is identified by its name only; see [`Ink::line`].
    Line(u8),
}

impl Ink {
    /// Returns the ink of the line with this number; inks repeat after the last.
    pub(crate) fn line(number: usize) -> Self {
        Ink::Line((number % LINES) as u8)
    }

    pub(crate) fn colour(self) -> RGBColor {
        RGBColor(0x10, 0x00, self.number())
    }

    /// Returns the colour as an attribute of a drawing that is written by hand.
    pub(crate) fn hex(self) -> String {
        let RGBColor(red, green, blue) = self.colour();
        format!("#{red:02X}{green:02X}{blue:02X}")
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

    /// Returns the style sheet's class of the same ink outside of drawings.
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

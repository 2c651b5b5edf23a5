//! What every figure is, and what the figures of cases are drawn from.

use crate::cast::Cast;
use crate::ink::Ink;
use crate::law_events::Listed;
use crate::panels::Drawn;
use crate::scene::{self, Scene};
use crate::unit::Unit;

/// A figure: its panels as SVG, and the description of its inks.
pub(crate) struct Figure {
    pub title: String,
    pub caption: String,
    pub panels: Vec<Drawn>,
    pub legend: Vec<(Ink, String)>,
    /// Events of a law that are marked in the panels.
    pub events: Vec<Listed>,
}

/// The input of all figures of cases.
pub(super) struct Stage<'b, 'a> {
    /// All cases at all points.
    pub all: &'b [Scene<'a>],
    /// Scenes that get a panel.
    pub shown: Vec<&'b Scene<'a>>,
    pub cast: Cast,
    pub rate: Unit,
    pub runs: u32,
}

impl Stage<'_, '_> {
    pub fn figure(&self, title: &str, caption: &str, panels: Vec<Drawn>) -> Figure {
        Figure {
            title: title.into(),
            caption: format!("{caption}{}", scene::left_out(self.all)),
            panels,
            legend: self.cast.legend(self.all),
            events: Vec::new(),
        }
    }
}

//! What every figure is, and what the figures of cases are drawn from.

use crate::flow_styles::FlowStyles;
use crate::law_events::Listed;
use crate::line_style::LineStyle;
use crate::panels::Drawn;
use crate::run_set::{self, RunSet};
use crate::unit::Unit;

/// A figure: its panels as SVG, and the description of its styles.
pub(crate) struct Figure {
    pub title: String,
    pub caption: String,
    pub panels: Vec<Drawn>,
    pub legend: Vec<(LineStyle, String)>,
    /// Events of a law that are marked in the panels.
    pub events: Vec<Listed>,
}

/// The input of all figures of cases.
pub(super) struct Context<'b, 'a> {
    /// The runs of all cases at all points.
    pub all: &'b [RunSet<'a>],
    /// Sets of runs that get a panel.
    pub shown: Vec<&'b RunSet<'a>>,
    pub styles: FlowStyles,
    pub rate: Unit,
    pub runs: u32,
}

impl Context<'_, '_> {
    pub fn figure(&self, title: &str, caption: &str, panels: Vec<Drawn>) -> Figure {
        Figure {
            title: title.into(),
            caption: format!("{caption}{}", run_set::left_out(self.all)),
            panels,
            legend: self.styles.legend(self.all),
            events: Vec::new(),
        }
    }
}

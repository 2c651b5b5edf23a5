//! The contents of `uc top`, and how keys change them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uc_client::AgentState;

use crate::host::seen::{FlowRow, Order, Seen};

/// The contents of the screen.
pub struct View {
    pub(super) seen: Seen,
    pub(super) agent: Option<AgentState>,
    pub(super) order: Order,
    /// Index of the chosen flow.
    pub(super) chosen: usize,
    /// The history of the chosen flow, if it is shown.
    pub(super) story: Option<String>,
    ends: bool,
}

/// Number of flows that a page key skips.
const PAGE: usize = 10;

impl View {
    /// Creates a view without any sample.
    pub fn new(order: Order) -> View {
        View {
            seen: Seen::default(),
            agent: None,
            order,
            chosen: 0,
            story: None,
            ends: false,
        }
    }

    /// Returns whether the program must end.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// Shows a new sample. The chosen flow stays chosen, wherever it is sorted now.
    pub fn show(&mut self, seen: Seen, agent: Option<AgentState>) {
        let chosen = self.chosen().map(|flow| flow.name.clone());
        self.seen = seen;
        self.agent = agent;
        self.sort(chosen);
    }

    fn sort(&mut self, chosen: Option<String>) {
        let flows = &mut self.seen.flows;
        self.order.sort(flows);
        let found = chosen.and_then(|name| flows.iter().position(|flow| flow.name == name));
        let last = flows.len().saturating_sub(1);
        self.chosen = found.unwrap_or(self.chosen.min(last));
    }

    /// Returns the chosen flow.
    pub fn chosen(&self) -> Option<&FlowRow> {
        self.seen.flows.get(self.chosen)
    }

    /// Returns the flow whose history is to be shown.
    pub fn wanted(&self) -> Option<FlowRow> {
        self.story.as_ref().and_then(|_| self.chosen().cloned())
    }

    /// Sets the history of the chosen flow.
    pub fn tell(&mut self, story: String) {
        self.story = Some(story);
    }

    /// Processes a key.
    pub fn press(&mut self, key: KeyEvent) {
        let last = self.seen.flows.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => self.ends = true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.ends = true;
            }
            KeyCode::Char('s') => {
                let chosen = self.chosen().map(|flow| flow.name.clone());
                self.order = self.order.next();
                self.sort(chosen);
            }
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(PAGE),
            KeyCode::PageDown => self.chosen = (self.chosen + PAGE).min(last),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = last,
            KeyCode::Enter => {
                self.story = match self.story {
                    Some(_) => None,
                    None => Some(String::new()),
                }
            }
            KeyCode::Esc => self.story = None,
            _ => {}
        }
    }
}

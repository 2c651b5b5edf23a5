//! What `uc top` shows, and what keys make of it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uc_client::AgentState;

use crate::host::seen::{FlowRow, Order, Seen};

/// See the head of this file.
pub struct View {
    pub(super) seen: Seen,
    pub(super) agent: Option<AgentState>,
    pub(super) order: Order,
    /// Among the flows.
    pub(super) chosen: usize,
    /// The story of the one that is chosen, where it is shown.
    pub(super) story: Option<String>,
    ends: bool,
}

/// Flows that a page key goes over.
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

    /// Was it told to end?
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

    /// The flow that is chosen.
    pub fn chosen(&self) -> Option<&FlowRow> {
        self.seen.flows.get(self.chosen)
    }

    /// The flow whose story is to be shown.
    pub fn wanted(&self) -> Option<FlowRow> {
        self.story.as_ref().and_then(|_| self.chosen().cloned())
    }

    /// This is it.
    pub fn tell(&mut self, story: String) {
        self.story = Some(story);
    }

    /// A key was pressed.
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

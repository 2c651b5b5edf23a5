//! The contents of `uc top`, and how keys change them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uc_client::AgentState;

use super::past::{Past, tenant};
use super::source::Sample;
use crate::seen::{FlowRow, Order, Seen};

/// What the screen of `uc top` shows, and where the cursor is.
pub struct View {
    pub(super) seen: Seen,
    pub(super) agent: Option<AgentState>,
    pub(super) past: Past,
    pub(super) order: Order,
    /// Indices of the flows that match the typed words, in the order in which they are shown.
    shown: Vec<usize>,
    /// Index of the chosen flow in `shown`.
    pub(super) chosen: usize,
    /// The history of the chosen flow; `None` unless the user opened it.
    pub(super) story: Option<String>,
    /// Text that a flow's row must contain to be shown.
    pub(super) words: String,
    /// Whether the user types the filter's text.
    pub(super) is_typing: bool,
    /// Whether the list of keys is shown.
    pub(super) has_help: bool,
    /// Whether tenants are shown instead of ports.
    pub(super) is_by_tenant: bool,
    ends: bool,
}

/// Number of flows by which a page key moves the cursor.
const PAGE: usize = 10;

impl View {
    /// Creates a view that has no sample yet.
    pub fn new(order: Order) -> View {
        View {
            seen: Seen::default(),
            agent: None,
            past: Past::default(),
            order,
            shown: Vec::new(),
            chosen: 0,
            story: None,
            words: String::new(),
            is_typing: false,
            has_help: false,
            is_by_tenant: false,
            ends: false,
        }
    }

    /// Returns whether the user asked to end the program.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// Shows a new sample. The chosen flow stays chosen, even if it moves to another row.
    pub fn show(&mut self, sample: Sample) {
        let chosen = self.chosen().map(|flow| flow.name.clone());
        self.past.add(&sample);
        self.seen = sample.seen;
        self.agent = sample.agent;
        self.sort(chosen);
    }

    fn sort(&mut self, chosen: Option<String>) {
        self.order.sort(&mut self.seen.flows);
        let words = self.words.to_lowercase();
        let flows = self.seen.flows.iter().enumerate();
        let shown = flows.filter(|(_, flow)| words.is_empty() || self.has(flow, &words));
        self.shown = shown.map(|(at, _)| at).collect();
        let found = chosen.and_then(|name| self.flows().position(|flow| flow.name == name));
        let last = self.shown.len().saturating_sub(1);
        self.chosen = found.unwrap_or(self.chosen.min(last));
    }

    /// Returns whether a flow's row contains `words`, which are lower-case.
    fn has(&self, flow: &FlowRow, words: &str) -> bool {
        let tenant = tenant(self.agent.as_ref(), flow.ifindex);
        let line = format!("{} {} {} {tenant}", flow.name, flow.law, flow.limit.label());
        line.to_lowercase().contains(words)
    }

    /// Returns the flows that are shown, in their order.
    pub fn flows(&self) -> impl Iterator<Item = &FlowRow> {
        let flow = |at: &usize| self.seen.flows.get(*at);
        self.shown.iter().filter_map(flow)
    }

    /// Returns the number of flows that are shown.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    /// Returns the flow that is chosen; `None` if none is.
    pub fn chosen(&self) -> Option<&FlowRow> {
        self.flows().nth(self.chosen)
    }

    /// Returns the flow whose history the user opened; `None` if no history is open.
    pub fn wanted(&self) -> Option<FlowRow> {
        self.story.as_ref().and_then(|_| self.chosen().cloned())
    }

    /// Sets the history of the chosen flow.
    pub fn tell(&mut self, story: String) {
        self.story = Some(story);
    }

    /// Handles a key that the user pressed.
    pub fn press(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => self.ends = true,
            code if self.is_typing => self.type_in(code),
            code => self.choose(code),
        }
    }

    /// Processes a key of the filter's line.
    fn type_in(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.words.push(letter),
            KeyCode::Backspace => {
                self.words.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => self.clear(),
            _ => return,
        }
        self.sort_again();
    }

    fn clear(&mut self) {
        self.words.clear();
        self.is_typing = false;
    }

    fn sort_again(&mut self) {
        let chosen = self.chosen().map(|flow| flow.name.clone());
        self.sort(chosen);
    }

    fn order_by(&mut self, order: Order) {
        self.order = order;
        self.sort_again();
    }

    /// Processes a key outside of the filter's line.
    fn choose(&mut self, code: KeyCode) {
        let last = self.count().saturating_sub(1);
        match code {
            KeyCode::Char('q') => self.ends = true,
            KeyCode::Char('?') => self.has_help = !self.has_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('t') => self.is_by_tenant = !self.is_by_tenant,
            KeyCode::Char('s') => self.order_by(self.order.next()),
            KeyCode::Char(digit @ '1'..='9') => {
                if let Some(order) = Order::of_digit(digit) {
                    self.order_by(order);
                }
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
            // what was opened last is closed first
            KeyCode::Esc if self.has_help => self.has_help = false,
            KeyCode::Esc if self.story.is_some() => self.story = None,
            KeyCode::Esc => {
                self.clear();
                self.sort_again();
            }
            _ => {}
        }
    }
}

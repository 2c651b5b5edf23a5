//! What the engine's thread and the others have in common: its state, to read, and its ear.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Event;
use crate::state::AgentState;

/// Cheap to copy; every copy is the same.
#[derive(Clone, Debug)]
pub struct Shared {
    state: Arc<Mutex<AgentState>>,
    events: Sender<Event>,
}

impl Shared {
    /// An engine that listens at the other end of `events` and knows nothing yet.
    pub fn new(events: Sender<Event>) -> Self {
        Self {
            state: Arc::default(),
            events,
        }
    }

    /// The state as it was published last.
    pub fn state(&self) -> AgentState {
        let state = self.state.lock();
        // It is replaced whole: nobody can have left half of one.
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this is the state.
    pub fn publish(&self, state: &AgentState) {
        let mut shared = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone_from(state);
    }

    /// Tells the engine; false when it has ended.
    pub fn tell(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }
}

//! What the engine's thread and the others have in common: its state, to read, and its ear.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use uc_client::AgentState;

use crate::engine::Event;
use crate::links::Link;

/// Cheap to copy; every copy is the same.
#[derive(Clone, Debug)]
pub struct Shared {
    state: Arc<Mutex<AgentState>>,
    events: Sender<Event>,
    /// The newest list of interfaces, until the engine takes it.
    links: Arc<Mutex<Option<Vec<Link>>>>,
}

impl Shared {
    /// An engine that listens at the other end of `events` and knows nothing yet.
    pub fn new(events: Sender<Event>) -> Self {
        Self {
            state: Arc::default(),
            events,
            links: Arc::default(),
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

    /// Tells it all interfaces; false when it has ended. One that is busy for a while finds the
    /// newest list, and no others in a queue: each may be long.
    pub fn tell_links(&self, links: Vec<Link>) -> bool {
        let mut newest = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        newest.replace(links).is_some() || self.tell(Event::Links)
    }

    /// The newest list of interfaces, once.
    pub fn take_links(&self) -> Option<Vec<Link>> {
        let mut newest = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        newest.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn of_many_lists_the_newest_is_found_and_the_bell_rings_once_for_it() {
        let (events, heard) = mpsc::channel();
        let shared = Shared::new(events);
        let list = |ifindex| {
            let link = Link {
                ifindex,
                ..Link::default()
            };
            vec![link]
        };
        for round in 0..2 {
            for ifindex in 1..=1000 {
                assert!(shared.tell_links(list(round + ifindex)));
            }
            assert!(matches!(heard.try_recv(), Ok(Event::Links)));
            assert!(heard.try_recv().is_err(), "one for all");
            assert_eq!(shared.take_links(), Some(list(round + 1000)));
            assert_eq!(shared.take_links(), None);
        }
        drop(heard);
        assert!(!shared.tell_links(list(1)), "nobody listens");
    }
}

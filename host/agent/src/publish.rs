//! State that the engine's thread shares with other threads: its published state, and its queue of events.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uc_client::AgentState;

use crate::event::Event;
use crate::links::Link;

/// Handle to the shared state. Clones are cheap and share the state.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The published state, and the time at which it was published.
    state: Arc<Mutex<(AgentState, Instant)>>,
    events: Sender<Event>,
    /// The newest list of interfaces; `None` once the engine has taken it.
    links: Arc<Mutex<Option<Vec<Link>>>>,
}

impl Shared {
    /// Creates a handle, with an empty state, for the engine that receives the events sent through `events`.
    pub fn new(events: Sender<Event>) -> Self {
        Self {
            state: Arc::new(Mutex::new((AgentState::default(), Instant::now()))),
            events,
            links: Arc::default(),
        }
    }

    /// Returns the agent's state as it was published last.
    pub fn state(&self) -> AgentState {
        let state = self.state.lock();
        // It is replaced as a whole, so a panic can't leave half of one.
        state.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns how long ago the engine published its state last. A working engine publishes at least every minute,
    /// unless it attaches or detaches many ports.
    pub fn silence(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.elapsed()
    }

    /// Publishes a new state of the agent, for those that answer requests.
    pub fn publish(&self, state: &AgentState) {
        let mut shared = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0.clone_from(state);
        shared.1 = Instant::now();
    }

    /// Sends the engine an event; returns false if the engine has ended.
    pub fn tell(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// Passes all interfaces to the engine; returns false if the engine has ended. A busy engine finds only the newest
    /// list, not a queue of long ones.
    pub fn tell_links(&self, links: Vec<Link>) -> bool {
        let mut newest = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        newest.replace(links).is_some() || self.tell(Event::Links)
    }

    /// Takes the newest list of interfaces; `None` if it was taken already.
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
    fn only_the_newest_of_many_lists_is_kept_with_one_event_for_all() {
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

//! Events that a provider raises while nobody asks it: kept until the manager that leads takes them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_core::{Node, ProviderEvent, Regarding};
use tokio::sync::Notify;

/// Events that wait to be taken; beyond, the oldest go.
const MOST: usize = 64;

/// The events of one cloud that nobody took yet.
#[derive(Debug)]
pub struct EventOutbox {
    most: usize,
    state: Mutex<State>,
    arrived: Notify,
}

impl Default for EventOutbox {
    fn default() -> Self {
        Self::keeping(MOST)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Whether anybody ever asked: who leads does.
    wanted: bool,
    waiting: VecDeque<ProviderEvent>,
}

impl EventOutbox {
    /// One that keeps no more than so many.
    pub fn keeping(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Whether anybody takes events.
    pub fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// Something to look at.
    pub fn warn(&self, regarding: Regarding, reason: &'static str, message: impl Into<String>) {
        self.put(ProviderEvent::warning(regarding, reason, message));
    }

    /// Something to look at, about a node.
    pub fn warn_on(&self, node: &Node, reason: &'static str, message: impl Into<String>) {
        self.warn(Regarding::node(node), reason, message);
    }

    /// Something good.
    pub fn tell(&self, regarding: Regarding, reason: &'static str, message: impl Into<String>) {
        self.put(ProviderEvent::normal(regarding, reason, message));
    }

    /// Any event.
    pub fn put(&self, event: ProviderEvent) {
        let mut state = self.state();
        if state.waiting.len() >= self.most {
            state.waiting.pop_front();
        }
        state.waiting.push_back(event);
        drop(state);
        self.arrived.notify_one();
    }

    /// The next of them, as soon as there is one.
    pub async fn next(&self) -> ProviderEvent {
        loop {
            {
                let mut state = self.state();
                state.wanted = true;
                if let Some(event) = state.waiting.pop_front() {
                    // Another one who waits may take what is left.
                    if !state.waiting.is_empty() {
                        self.arrived.notify_one();
                    }
                    return event;
                }
            }
            self.arrived.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_taken_once_and_too_many_lose_the_oldest() {
        let desk = EventOutbox::default();
        assert!(!desk.is_wanted());
        for number in 0..=MOST {
            desk.warn(Regarding::manager(), "Many", number.to_string());
        }
        let (a, b) = tokio::join!(desk.next(), desk.next());
        assert_eq!((a.message.as_str(), b.message.as_str()), ("1", "2"));
        assert!(desk.is_wanted() && a.is_warning);
        for _ in 3..=MOST {
            desk.next().await;
        }
        let reported = async { desk.tell(Regarding::manager(), "One", "last") };
        let (news, ()) = tokio::join!(desk.next(), reported);
        assert!(news.message == "last" && !news.is_warning);
    }
}

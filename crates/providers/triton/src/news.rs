//! What people should hear of while nobody asks: kept until the manager that leads takes it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_core::{News, Node, Regarding};
use tokio::sync::Notify;

/// News that wait to be taken; beyond, the oldest go.
const MOST: usize = 64;

/// The news of one cloud.
#[derive(Debug, Default)]
pub(crate) struct EventOutbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether anybody ever asked: who leads does.
    wanted: bool,
    waiting: VecDeque<News>,
}

impl EventOutbox {
    /// Whether anybody takes news.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// Something to look at.
    pub(crate) fn warn(
        &self,
        regarding: Regarding,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.put(regarding, true, reason, message.into());
    }

    /// Something to look at, about a node.
    pub(crate) fn warn_on(&self, node: &Node, reason: &'static str, message: impl Into<String>) {
        self.warn(Regarding::node(node), reason, message);
    }

    /// Something good.
    pub(crate) fn tell(
        &self,
        regarding: Regarding,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.put(regarding, false, reason, message.into());
    }

    fn put(&self, regarding: Regarding, is_warning: bool, reason: &'static str, message: String) {
        let mut state = self.state();
        if state.waiting.len() >= MOST {
            state.waiting.pop_front();
        }
        state.waiting.push_back(News {
            regarding,
            is_warning,
            reason,
            message,
        });
        drop(state);
        self.arrived.notify_one();
    }

    /// The next of them, as soon as there is one.
    pub(crate) async fn next(&self) -> News {
        loop {
            {
                let mut state = self.state();
                state.wanted = true;
                if let Some(news) = state.waiting.pop_front() {
                    // Another one who waits may take what is left.
                    if !state.waiting.is_empty() {
                        self.arrived.notify_one();
                    }
                    return news;
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
        let told = async { desk.tell(Regarding::manager(), "One", "last") };
        let (news, ()) = tokio::join!(desk.next(), told);
        assert!(news.message == "last" && !news.is_warning);
    }
}

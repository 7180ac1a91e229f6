//! What people should hear of while nobody asks: kept until the manager that leads takes it.

use bowline_core::{News, Regarding};
use tokio::sync::{Mutex, mpsc};

/// News that wait to be taken; beyond, further ones are dropped.
const MOST: usize = 64;

/// The news of one cloud.
pub(crate) struct Outbox {
    sender: mpsc::Sender<News>,
    receiver: Mutex<mpsc::Receiver<News>>,
}

impl Default for Outbox {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(MOST);
        Self {
            sender,
            receiver: Mutex::new(receiver),
        }
    }
}

impl Outbox {
    /// Something to look at, about the manager as a whole.
    pub(crate) fn warn(&self, reason: &'static str, message: String) {
        let news = News {
            regarding: Regarding::manager(),
            is_warning: true,
            reason,
            message,
        };
        // Who is not heard for so long has nobody who listens.
        drop(self.sender.try_send(news));
    }

    /// The next of them, as soon as there is one.
    pub(crate) async fn next(&self) -> News {
        let received = self.receiver.lock().await.recv().await;
        match received {
            Some(news) => news,
            // The sender lives as long as `self`.
            None => std::future::pending().await,
        }
    }
}

//! The signal to stop: given once, seen by everybody.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::watch;

/// Gives the signal. Dropping it gives it too.
#[derive(Debug)]
pub struct StopHandle(watch::Sender<bool>);

/// Sees the signal. Clones see the same one.
#[derive(Clone, Debug)]
pub struct Stop {
    own: watch::Receiver<bool>,
    /// The signal to something larger, which this is part of.
    outer: Option<Arc<Stop>>,
}

/// A signal that has not been given yet.
pub fn stop_signal() -> (StopHandle, Stop) {
    let (sender, receiver) = watch::channel(false);
    let stop = Stop {
        own: receiver,
        outer: None,
    };
    (StopHandle(sender), stop)
}

impl StopHandle {
    /// Gives the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// A signal of its own for a part of what this one stops: it is given with this one, or before.
    #[must_use]
    pub fn part(&self) -> (StopHandle, Self) {
        let (handle, mut part) = stop_signal();
        part.outer = Some(Arc::new(self.clone()));
        (handle, part)
    }

    /// Whether the signal was given.
    pub fn is_given(&self) -> bool {
        // A handle that is gone is the signal too.
        *self.own.borrow()
            || self.own.has_changed().is_err()
            || self.outer.as_ref().is_some_and(|outer| outer.is_given())
    }

    /// Waits for the signal.
    pub fn given(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut own = self.own.clone();
            // An error means that the handle is gone, which is the signal too.
            let own = own.wait_for(|given| *given);
            match &self.outer {
                None => {
                    let _ = own.await;
                }
                Some(outer) => {
                    tokio::select! {
                        biased;
                        () = outer.given() => {}
                        _ = own => {}
                    }
                }
            }
        })
    }

    /// Runs `work` until it ends or the signal is given; none in the latter case.
    pub async fn unless_given<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.given() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_signal_reaches_every_clone_and_ends_work() {
        let (handle, stop) = stop_signal();
        let other = stop.clone();
        assert!(!stop.is_given());
        assert_eq!(stop.unless_given(async { 7 }).await, Some(7));
        handle.stop();
        other.given().await;
        assert_eq!(other.unless_given(std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn a_dropped_handle_is_the_signal() {
        let (handle, stop) = stop_signal();
        drop(handle);
        stop.given().await;
        assert!(stop.is_given());
    }

    #[tokio::test]
    async fn a_part_stops_with_the_whole_or_before() {
        let (whole, stop) = stop_signal();
        let (early, first) = stop.part();
        let (_late, second) = stop.part();
        early.stop();
        first.given().await;
        assert!(first.is_given() && !second.is_given() && !stop.is_given());
        whole.stop();
        second.given().await;
        assert!(second.is_given());
    }
}

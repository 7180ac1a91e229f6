//! The signal to stop: given once, seen by everybody.

use tokio::sync::watch;

/// Gives the signal. Dropping it gives it too.
#[derive(Debug)]
pub struct StopHandle(watch::Sender<bool>);

/// Sees the signal. Clones see the same one.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A signal that has not been given yet.
pub fn stop_signal() -> (StopHandle, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopHandle(sender), Stop(receiver))
}

impl StopHandle {
    /// Gives the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether the signal was given.
    pub fn is_given(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the signal.
    pub async fn given(&self) {
        let mut receiver = self.0.clone();
        // An error means that the handle is gone, which is the signal too.
        let _ = receiver.wait_for(|given| *given).await;
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
    }
}

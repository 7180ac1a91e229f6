//! In-memory connections by name: the simulated half of the network seam.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Bytes that may wait in one direction of a pipe before the writer has to.
const PIPE_BUFFER: usize = 64 * 1024;
/// Connections that may wait to be accepted; a further one is refused, like a full TCP backlog.
const BACKLOG: usize = 1024;

/// A private network of named listeners (`host:port`), shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct Pipes(Arc<Mutex<BTreeMap<String, mpsc::Sender<DuplexStream>>>>);

/// Accepts the connections made to one name.
#[derive(Debug)]
pub struct PipeListener(mpsc::Receiver<DuplexStream>);

impl Pipes {
    /// Opens a listener under `authority`. A later one of the same name takes its place.
    pub fn listen(&self, authority: &str) -> PipeListener {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        self.lock().insert(authority.to_owned(), sender);
        PipeListener(receiver)
    }

    /// Connects to the listener of that name; refused if there is none.
    pub fn connect(&self, authority: &str) -> io::Result<DuplexStream> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let sender = self.lock().get(authority).cloned().ok_or_else(refused)?;
        let (near, far) = tokio::io::duplex(PIPE_BUFFER);
        sender.try_send(far).map_err(|_| refused())?;
        Ok(near)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, mpsc::Sender<DuplexStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PipeListener {
    /// The next connection; none when the network is gone.
    pub async fn accept(&mut self) -> Option<DuplexStream> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_connection_reaches_the_listener_of_its_name() {
        let pipes = Pipes::default();
        let mut listener = pipes.listen("cloud:80");
        let mut near = pipes.connect("cloud:80").unwrap();
        let mut far = listener.accept().await.unwrap();
        near.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }

    #[tokio::test]
    async fn nobody_listening_means_refused() {
        let pipes = Pipes::default();
        assert_eq!(
            pipes.connect("nobody:1").unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        drop(pipes.listen("gone:1"));
        assert!(pipes.connect("gone:1").is_err());
    }
}

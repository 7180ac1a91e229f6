//! Small files that somebody else writes, such as mounted secrets, and tasks that follow them.

use std::future::Future;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio::task::JoinHandle;

/// A file of limited size. It is opened by its name each time, so that a link that was turned to
/// another file is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallFile {
    path: PathBuf,
    limit: usize,
}

impl SmallFile {
    /// The file at `path`, of which no more than `limit` bytes are read.
    pub fn new(path: impl Into<PathBuf>, limit: usize) -> Self {
        let path = path.into();
        Self { path, limit }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of it, blocking. Longer than the limit is [`io::ErrorKind::FileTooLarge`].
    pub fn read_now(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&self.path)?;
        // One byte more than allowed, to see that it is too long.
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX);
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// The same as text. What is none is [`io::ErrorKind::InvalidData`].
    pub fn text(&self) -> io::Result<String> {
        String::from_utf8(self.read_now()?).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// A task that ends when this is dropped. It is outside the fence of the lease, so it may only read.
#[derive(Debug)]
pub struct Background(JoinHandle<()>);

impl Background {
    /// Begins it; that needs a tokio runtime.
    pub fn start(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "four").unwrap();
        std::fs::write(&new, "fives").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let file = SmallFile::new(&link, 4);
        assert_eq!(file.read_now().unwrap(), b"four");
        assert_eq!(file.text().unwrap(), "four");
        let next = folder.path().join("next");
        std::os::unix::fs::symlink(&new, &next).unwrap();
        std::fs::rename(&next, file.path()).unwrap();
        let too_long = io::ErrorKind::FileTooLarge;
        assert_eq!(file.read_now().unwrap_err().kind(), too_long);
        std::fs::write(&new, [0xff]).unwrap();
        let no_text = io::ErrorKind::InvalidData;
        assert_eq!(file.text().unwrap_err().kind(), no_text);
        std::fs::remove_file(&new).unwrap();
        let missing = io::ErrorKind::NotFound;
        assert_eq!(file.read_now().unwrap_err().kind(), missing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_ends_with_its_holder() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let task = Background::start(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(task);
        assert!(receiver.await.is_err());
    }
}

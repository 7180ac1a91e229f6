//! The folder of a control plane: certificates, kubeconfigs, logs, data.
//!
//! A temporary one is locked as long as its launcher lives, and removed at its end. A launcher that was
//! killed cannot do that: the next one removes folders that nobody holds any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How temporary folders are called, before a random end.
const PREFIX: &str = "control-plane-";
/// The file in a temporary folder that its launcher holds locked.
const LOCK: &str = "lock";

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("making the folder {}", path.display())]
    NotMade { path: PathBuf, source: io::Error },
    #[error("the folder {} is not empty", .0.display())]
    NotEmpty(PathBuf),
}

/// A folder, and what becomes of it at the end.
#[derive(Debug)]
pub(crate) enum Folder {
    /// Stays.
    Kept(PathBuf),
    /// Is removed when this value is dropped; after that, or with the process, the lock goes.
    Temporary { folder: TempDir, _lock: File },
}

impl Folder {
    /// The folder of that path, which must be new or empty; or a temporary one.
    pub(crate) fn new(wanted: Option<&Path>) -> Result<Self, FolderError> {
        match wanted {
            Some(path) => kept(path).map(Self::Kept),
            None => temporary(&std::env::temp_dir()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary { folder, .. } => folder.path(),
        }
    }
}

fn kept(path: &Path) -> Result<PathBuf, FolderError> {
    let not_made = |source| FolderError::NotMade {
        path: path.to_owned(),
        source,
    };
    let path = std::path::absolute(path).map_err(not_made)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .map_err(not_made)?;
    let mut entries = fs::read_dir(&path).map_err(not_made)?;
    if entries.next().is_some() {
        return Err(FolderError::NotEmpty(path));
    }
    Ok(path)
}

fn temporary(parent: &Path) -> Result<Folder, FolderError> {
    remove_abandoned(parent);
    let not_made = |source| FolderError::NotMade {
        path: parent.join(PREFIX),
        source,
    };
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(not_made)?;
    let lock = lock(folder.path()).map_err(not_made)?;
    Ok(Folder::Temporary {
        folder,
        _lock: lock,
    })
}

/// Locks a folder. The lock gets its name when it is held, so that nobody ever finds it free before.
fn lock(folder: &Path) -> io::Result<File> {
    let unnamed = folder.join("lock.new");
    let file = File::create_new(&unnamed)?;
    file.lock()?;
    fs::rename(&unnamed, folder.join(LOCK))?;
    Ok(file)
}

/// Removes the folders whose lock nobody holds. What cannot be removed stays, for whoever may.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_launcher_that_is_gone_is_removed_by_the_next_one() {
        let parent = tempfile::tempdir().unwrap();
        // What a killed launcher leaves: its folder, and a lock that nobody holds.
        let abandoned = parent.path().join("control-plane-dead");
        fs::create_dir_all(abandoned.join("etcd/member")).unwrap();
        File::create(abandoned.join(LOCK)).unwrap();
        // Foreign ones: without a lock, and of another name.
        let foreign = ["control-plane-mine", "else"].map(|name| parent.path().join(name));
        for path in &foreign {
            fs::create_dir(path).unwrap();
        }
        File::create(foreign[1].join(LOCK)).unwrap();

        let first = temporary(parent.path()).unwrap();
        let mode = fs::metadata(first.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(!abandoned.exists());
        assert!(foreign.iter().all(|path| path.exists()));
        let second = temporary(parent.path()).unwrap();
        assert!(first.path().exists() && second.path() != first.path());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn a_wanted_folder_must_be_empty_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let folder = Folder::new(Some(&path)).unwrap();
        assert_eq!(folder.path(), path);
        drop(folder);
        assert!(path.exists());
        fs::write(path.join("x"), "").unwrap();
        let error = Folder::new(Some(&path)).unwrap_err().to_string();
        assert!(error.ends_with("a/b is not empty"), "{error}");
    }
}

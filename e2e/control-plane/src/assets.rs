//! The folder with the servers' programs, in the shape that `KUBEBUILDER_ASSETS` names.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::server::Server;

/// The variable by which the field names a folder with etcd and kube-apiserver.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// Why there are no programs to run.
#[derive(Debug, thiserror::Error)]
pub enum AssetsError {
    #[error(
        "no folder with the servers is named: set {ASSETS_VARIABLE}, or give --assets, to one with etcd, \
         kube-apiserver and kube-controller-manager; e2e/control-plane/build builds one, with Go, and prints it"
    )]
    Unnamed,
    #[error(
        "{} is missing: put it there, or use the folder that e2e/control-plane/build builds and prints",
        .0.display()
    )]
    Missing(PathBuf),
}

/// A folder with the servers' programs.
#[derive(Clone, Debug)]
pub struct Assets(PathBuf);

impl Assets {
    /// The programs in that folder. Etcd and kube-apiserver must be there; kube-controller-manager is
    /// looked for when it is started, since the field's folders lack it.
    pub fn in_folder(folder: &Path) -> Result<Self, AssetsError> {
        // The servers run in another folder.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let assets = Self(folder);
        assets.program(Server::Etcd)?;
        assets.program(Server::ApiServer)?;
        Ok(assets)
    }

    /// The programs in the folder that `KUBEBUILDER_ASSETS` names.
    pub fn from_environment() -> Result<Self, AssetsError> {
        match std::env::var_os(ASSETS_VARIABLE) {
            Some(folder) if !folder.is_empty() => Self::in_folder(Path::new(&folder)),
            _ => Err(AssetsError::Unnamed),
        }
    }

    /// The path of a server's program.
    pub fn program(&self, server: Server) -> Result<PathBuf, AssetsError> {
        let path = self.0.join(server.name());
        let runnable = std::fs::metadata(&path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if runnable {
            Ok(path)
        } else {
            Err(AssetsError::Missing(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, mode: u32) {
        let path = folder.join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_a_folder_lacks_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let missing = |name: &str| {
            let error = Assets::in_folder(folder.path()).unwrap_err().to_string();
            let path = folder.path().join(name);
            assert!(
                error.starts_with(&format!("{} is missing", path.display())),
                "{error}"
            );
            assert!(error.contains("e2e/control-plane/build"), "{error}");
        };
        missing("etcd");
        put(folder.path(), "etcd", 0o755);
        missing("kube-apiserver");
        put(folder.path(), "kube-apiserver", 0o644);
        missing("kube-apiserver");
        put(folder.path(), "kube-apiserver", 0o755);
        let assets = Assets::in_folder(folder.path()).unwrap();
        assert!(assets.program(Server::ControllerManager).is_err());
        put(folder.path(), "kube-controller-manager", 0o755);
        let path = assets.program(Server::ControllerManager).unwrap();
        assert!(path.is_absolute() && path.ends_with("kube-controller-manager"));
    }
}

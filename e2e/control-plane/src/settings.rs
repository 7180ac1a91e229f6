//! What a control plane is to be like.

use std::path::PathBuf;

use crate::assets::Assets;

/// What a control plane is to be like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers' programs.
    pub assets: Assets,
    /// Where everything is kept: a new or empty folder, which stays. Without one, a temporary folder,
    /// which is removed at the end.
    pub folder: Option<PathBuf>,
    /// Whether every request's metadata is logged.
    pub audit: bool,
    /// Whether kube-controller-manager runs from the beginning.
    pub controller_manager: bool,
}

impl Settings {
    /// Etcd and kube-apiserver of these programs, in a temporary folder.
    pub fn new(assets: Assets) -> Self {
        Self {
            assets,
            folder: None,
            audit: false,
            controller_manager: false,
        }
    }
}

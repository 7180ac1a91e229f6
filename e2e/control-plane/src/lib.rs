//! A real Kubernetes control plane on loopback, for tests: etcd, kube-apiserver and, on request,
//! kube-controller-manager.
//!
//! ```text
//!  Settings ─▶ Folder, Ports, Keyring ─▶ arguments ─▶ Starter ─▶ Process ─▶ ready ─▶ ControlPlane
//!  (Assets)    certificates, kubeconfigs  (pure)      dies with   log file            user, account,
//!                                                     its launcher                    restart, compact …
//! ```
//!
//! The servers' programs are not in here: they are those of a folder, as `KUBEBUILDER_ASSETS` names
//! one, or as `e2e/control-plane/build` builds one. There are no nodes, no kubelets, no scheduler.
//!
//! ```no_run
//! # async fn example() -> Result<(), bowline_control_plane::ControlPlaneError> {
//! use bowline_control_plane::{Assets, ControlPlane, Server, Settings};
//!
//! let plane = ControlPlane::start(Settings::new(Assets::from_environment()?)).await?;
//! let bowline = plane.account("kube-system", "bowline").await?;
//! plane.restart(Server::ApiServer, &[]).await?;
//! plane.shutdown().await;
//! # Ok(()) }
//! ```

mod accounts;
mod arguments;
mod assets;
mod credentials;
mod error;
mod etcd;
mod folder;
mod https;
mod plane;
mod ports;
mod process;
mod ready;
mod server;
mod settings;

pub use assets::{ASSETS_VARIABLE, Assets, AssetsError};
pub use credentials::CredentialsError;
pub use error::ControlPlaneError;
pub use folder::FolderError;
pub use https::RequestError;
pub use plane::{ControlPlane, Failure};
pub use ports::NoPort;
pub use server::{Server, UnknownServer};
pub use settings::Settings;

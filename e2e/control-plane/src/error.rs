//! What can go wrong with a control plane.

use std::path::PathBuf;
use std::time::Duration;

use crate::assets::AssetsError;
use crate::credentials::CredentialsError;
use crate::folder::FolderError;
use crate::https::RequestError;
use crate::plane::Failure;
use crate::ports::NoPort;
use crate::server::Server;

/// What can go wrong with a control plane.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// There are no programs to run.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// There is no place for the files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There are no ports.
    #[error(transparent)]
    Ports(#[from] NoPort),
    /// Certificates, keys or kubeconfigs could not be made.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A server did not answer as it should.
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("making the thread that starts processes")]
    NoThread(#[source] std::io::Error),
    #[error("starting {}", program.display())]
    NotStarted {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("{0} runs already")]
    RunsAlready(Server),
    #[error("{0} does not run")]
    NotRunning(Server),
    #[error("{server} ended before it was ready; the end of its log:\n{log}")]
    EndedEarly { server: Server, log: String },
    #[error(
        "{server} was not ready within {within:?}; the end of its log:\n{log}\nThe last look at it"
    )]
    NotReady {
        server: Server,
        /// How long it was given.
        within: Duration,
        log: String,
        source: Box<RequestError>,
    },
    /// A server ended by itself.
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("the object for {0} has no apiVersion or no kind: the API server could not read it")]
    NoKind(String),
}

//! The servers of a control plane.

use std::fmt;
use std::str::FromStr;

/// A server of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// Where everything is kept.
    Etcd,
    ApiServer,
    /// The cluster's own controllers; runs only on request.
    ControllerManager,
}

impl Server {
    /// All of them, in the order in which they are started.
    pub const ALL: [Self; 3] = [Self::Etcd, Self::ApiServer, Self::ControllerManager];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// That is no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no server {0}; there are etcd, kube-apiserver and kube-controller-manager")]
pub struct UnknownServer(String);

impl FromStr for Server {
    type Err = UnknownServer;

    fn from_str(name: &str) -> Result<Self, UnknownServer> {
        Self::ALL
            .into_iter()
            .find(|server| server.name() == name)
            .ok_or_else(|| UnknownServer(name.to_owned()))
    }
}

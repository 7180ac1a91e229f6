//! The API server: a real one in processes of its own, or the simulated one in this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_control_plane::{Assets, ControlPlane, Server, Settings};
use bowline_simulator::World;
use bowline_simulator::sandbox::SimulatorKind;
use bowline_simulator_kubernetes::cluster::Cluster;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams, TypeMeta};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;

use crate::clouds::LOOPBACK;
use crate::counts::{Counts, Tally};
use crate::nodes::NODES;
use crate::{changes, requests};

/// Etcd's own limit of 2 GB is reached with 15,000 Nodes that are written six times.
const ETCD_QUOTA: &str = "--quota-backend-bytes=8589934592";
/// How long the server's authorizer may take to see a new binding.
const AUTHORIZER: Duration = Duration::from_secs(30);

/// Which API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Real,
    Memory,
}

impl Where {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Memory => "memory",
        }
    }
}

pub(crate) struct Plane {
    pub(crate) world: World,
    pub(crate) admin: Client,
    /// Kubernetes' version, or that it is simulated.
    pub(crate) version: String,
    tally: Tally,
    server: ApiServer,
    folder: tempfile::TempDir,
}

enum ApiServer {
    Real(Box<ControlPlane>),
    Memory(Box<Cluster>),
}

impl Plane {
    pub(crate) async fn start(place: Where) -> Result<Self> {
        let world = World::real();
        let folder = tempfile::tempdir()?;
        let (server, kubeconfig, version) = match place {
            Where::Real => {
                let plane =
                    ControlPlane::prepare(Settings::new(Assets::from_environment()?)).await?;
                let quota = [ETCD_QUOTA.to_owned()];
                plane.start_server(Server::Etcd, &quota).await?;
                plane.start_server(Server::ApiServer, &[]).await?;
                let (path, version) = (plane.kubeconfig(), plane.version().await?);
                (ApiServer::Real(Box::new(plane)), path, version)
            }
            Where::Memory => {
                let cluster = Cluster::on_socket(&world, LOOPBACK).await?;
                let path = folder.path().join("admin.kubeconfig");
                std::fs::write(&path, cluster.admin_kubeconfig()?)?;
                let version = "simulated".to_owned();
                (ApiServer::Memory(Box::new(cluster)), path, version)
            }
        };
        Ok(Self {
            admin: client(&kubeconfig).await?,
            tally: Tally::of(&world),
            world,
            version,
            server,
            folder,
        })
    }

    /// The kubeconfig of a cloud's controller manager, with the permissions of its original.
    pub(crate) async fn account(&self, kind: &SimulatorKind) -> Result<PathBuf> {
        let (namespace, name) = kind.account;
        let objects = (kind.manifest)();
        let path = match &self.server {
            ApiServer::Real(plane) => {
                for object in objects {
                    self.create(object).await?;
                }
                plane.account(namespace, name).await?
            }
            ApiServer::Memory(cluster) => {
                cluster.install(objects)?;
                let path = self.folder.path().join(format!("{name}.kubeconfig"));
                std::fs::write(&path, cluster.account_kubeconfig(namespace, name)?)?;
                path
            }
        };
        let client = client(&path).await?;
        let allowed = async {
            while changes::version(&client, NODES).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waiting = tokio::time::timeout(AUTHORIZER, allowed);
        waiting.await.context("its role may not list nodes")?;
        Ok(path)
    }

    async fn create(&self, object: serde_json::Value) -> Result<()> {
        let types: TypeMeta = serde_json::from_value(object.clone())?;
        let kind = GroupVersionKind::try_from(&types)?;
        let resource = ApiResource::from_gvk(&kind);
        let object: DynamicObject = serde_json::from_value(object)?;
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        };
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            answer => Ok(answer.map(|_| ())?),
        }
    }

    /// The requests so far: to this server by everybody, and to clouds.
    pub(crate) async fn counts(&self) -> Result<Counts> {
        let tallied = self.tally.counts();
        match &self.server {
            ApiServer::Memory(_) => Ok(tallied),
            ApiServer::Real(_) => {
                let page = requests::get(&self.admin, "/metrics").await?;
                Ok(Counts {
                    cloud_calls: tallied.cloud_calls,
                    ..Counts::of_metrics(&page)
                })
            }
        }
    }

    /// Forgets what is deleted, so that the store does not grow from run to run.
    pub(crate) async fn compact(&self) -> Result<()> {
        match &self.server {
            ApiServer::Real(plane) => {
                plane.compact().await?;
            }
            ApiServer::Memory(cluster) => cluster.api().compact(),
        }
        Ok(())
    }

    pub(crate) async fn shutdown(self) {
        match self.server {
            ApiServer::Real(plane) => plane.shutdown().await,
            ApiServer::Memory(cluster) => cluster.shutdown().await,
        }
    }
}

/// A client with that kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await?;
    Ok(Client::try_from(config)?)
}

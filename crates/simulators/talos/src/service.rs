//! The services as one machine answers them.

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::serve::Connection;
use bowline_talos_api::machine::machine_service_server::MachineService;
use bowline_talos_api::machine::{
    FeaturesInfo, PlatformInfo, Version, VersionInfo, VersionResponse,
};
use bowline_talos_api::resource::state_server::State;
use bowline_talos_api::resource::{
    CreateRequest, CreateResponse, DestroyRequest, DestroyResponse, GetRequest, GetResponse,
    ListRequest, ListResponse, Resource, TeardownAndDestroyRequest, TeardownAndDestroyResponse,
    TeardownRequest, TeardownResponse, UpdateRequest, UpdateResponse, WatchRequest, WatchResponse,
};
use bowline_talos_api::{common, google};
use futures::StreamExt;
use futures::stream::BoxStream;
use tonic::{Request, Response, Status};

use super::definitions::{META, about, definition, is_namespace};
use super::model::Stored;
use super::{Talos, VERSION, watch};

/// The role that may see everything.
const ADMIN: &str = "os:admin";
/// Roles that may read.
const READERS: [&str; 3] = [super::READER, "os:operator", ADMIN];
/// How long the first part of a list has to arrive before its connection is cut.
const CUT_PAUSE: Duration = Duration::from_millis(50);

/// What a machine says to somebody.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) talos: Arc<Talos>,
    pub(super) machine: String,
    /// The header by which the machine was named; empty if it was not.
    pub(super) node: String,
    pub(super) roles: Vec<String>,
    pub(super) connection: Connection,
}

fn no_writes<T>() -> Result<Response<T>, Status> {
    Err(Status::permission_denied("write access is not allowed"))
}

impl Asked {
    /// Whether the caller may read at all.
    fn may_read(&self) -> Result<(), Status> {
        let may = self
            .roles
            .iter()
            .any(|role| READERS.contains(&role.as_str()));
        if may {
            Ok(())
        } else {
            Err(Status::permission_denied("not authorized"))
        }
    }

    /// Whether the caller may see resources of that type there.
    fn may_see(&self, namespace: &str, kind: &str) -> Result<(), Status> {
        self.may_read()?;
        if namespace == META {
            return Ok(());
        }
        let Some(known) = definition(kind) else {
            let text = format!("resource type {kind:?} is not supported");
            return Err(Status::permission_denied(text));
        };
        if !is_namespace(namespace) {
            let text = format!("namespace {namespace:?} is not supported");
            return Err(Status::permission_denied(text));
        }
        if known.sensitive && !self.roles.iter().any(|role| role == ADMIN) {
            return Err(Status::permission_denied("not authorized"));
        }
        Ok(())
    }

    /// Whether the machine still answers.
    pub(super) fn answers(&self) -> bool {
        self.talos.with(|cluster| {
            let machine = cluster.machines.get(&self.machine);
            machine.is_some_and(|machine| machine.stage.answers())
        })
    }

    pub(super) fn resources(&self, namespace: &str, kind: &str) -> Vec<Stored> {
        if namespace == META {
            return about(kind, self.talos.now());
        }
        let talos = &self.talos;
        talos.with(|cluster| cluster.list(&self.machine, namespace, kind))
    }
}

#[tonic::async_trait]
impl State for Asked {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let wanted = request.into_inner();
        let (namespace, kind, id) = (&wanted.namespace, &wanted.r#type, &wanted.id);
        self.may_see(namespace, kind)?;
        let mut all = self.resources(namespace, kind).into_iter();
        let found = all.find(|one| &one.metadata.id == id);
        let resource: Resource = found.map(Into::into).ok_or_else(|| {
            Status::not_found(format!(
                "resource {kind}({namespace}/{id}@undefined) doesn't exist"
            ))
        })?;
        Ok(Response::new(GetResponse {
            resource: Some(resource),
        }))
    }

    type ListStream = BoxStream<'static, Result<ListResponse, Status>>;

    async fn list(
        &self,
        request: Request<ListRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        let wanted = request.into_inner();
        self.may_see(&wanted.namespace, &wanted.r#type)?;
        let options = wanted.options.unwrap_or_default();
        let query = options.id_query.unwrap_or_default();
        let labels = options.label_query.iter().any(|one| !one.terms.is_empty());
        if labels || !query.regexp.is_empty() {
            return Err(Status::unimplemented("queries are not simulated"));
        }
        let mut all = self.resources(&wanted.namespace, &wanted.r#type);
        let cut = self.talos.with(|cluster| {
            let machine = cluster.machines.get_mut(&self.machine)?;
            machine.cut_list_after.take()
        });
        all.truncate(cut.unwrap_or(all.len()));
        let listed = futures::stream::iter(all).map(|one| {
            Ok(ListResponse {
                resource: Some(one.into()),
            })
        });
        if cut.is_none() {
            return Ok(Response::new(listed.boxed()));
        }
        let connection = self.connection.clone();
        let end = futures::stream::once(async move {
            tokio::time::sleep(CUT_PAUSE).await;
            connection.cut();
            std::future::pending().await
        });
        Ok(Response::new(listed.chain(end).boxed()))
    }

    type WatchStream = BoxStream<'static, Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let wanted = request.into_inner();
        self.may_see(&wanted.namespace, &wanted.r#type)?;
        Ok(Response::new(watch::begin(self.clone(), wanted)?))
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        no_writes()
    }

    async fn update(&self, _: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        no_writes()
    }

    async fn destroy(
        &self,
        _: Request<DestroyRequest>,
    ) -> Result<Response<DestroyResponse>, Status> {
        no_writes()
    }

    async fn teardown(
        &self,
        _: Request<TeardownRequest>,
    ) -> Result<Response<TeardownResponse>, Status> {
        no_writes()
    }

    async fn teardown_and_destroy(
        &self,
        _: Request<TeardownAndDestroyRequest>,
    ) -> Result<Response<TeardownAndDestroyResponse>, Status> {
        no_writes()
    }
}

#[tonic::async_trait]
impl MachineService for Asked {
    async fn version(&self, _: Request<()>) -> Result<Response<VersionResponse>, Status> {
        self.may_read()?;
        let platform = self.talos.with(|cluster| {
            let machine = cluster.machines.get(&self.machine);
            machine.map(|machine| machine.platform.platform.clone())
        });
        let platform = platform.unwrap_or_default();
        let mode = if matches!(platform.as_str(), "metal" | "container") {
            platform.clone()
        } else {
            "cloud".to_owned()
        };
        let named = !self.node.is_empty();
        let message = Version {
            metadata: named.then(|| common::Metadata {
                hostname: self.node.clone(),
                error: String::new(),
                status: None::<google::rpc::Status>,
            }),
            version: Some(VersionInfo {
                tag: VERSION.to_owned(),
                sha: "51b0a7ed".to_owned(),
                os: "linux".to_owned(),
                arch: "amd64".to_owned(),
                ..VersionInfo::default()
            }),
            platform: Some(PlatformInfo {
                name: platform,
                mode,
            }),
            features: Some(FeaturesInfo { rbac: true }),
        };
        let messages = vec![message];
        Ok(Response::new(VersionResponse { messages }))
    }
}

//! Instances: the machines.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::Route;
use serde::Deserialize;
use uuid::Uuid;

use super::Api;
use super::resource::{Listing, address, or_default, reference, references};

pub(super) const INSTANCES: &str = "instance";
const INSTANCE: &str = "instance/:id";

/// An instance, as far as it is used. A list shows the same fields as a single read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Instance {
    pub(crate) id: Uuid,
    /// Not unique, and with upper case if a person wrote it so.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) state: InstanceState,
    /// IPv4.
    #[serde(default, deserialize_with = "address")]
    pub(crate) public_ip: Option<IpAddr>,
    #[serde(default, deserialize_with = "address")]
    pub(crate) ipv6_address: Option<IpAddr>,
    /// One entry for each, with its id if the answer has it.
    #[serde(default, deserialize_with = "references")]
    pub(crate) private_networks: Vec<Option<Uuid>>,
    #[serde(default)]
    pub(crate) manager: Option<Manager>,
    /// The id of its type; the answer shows no more of it.
    #[serde(default, deserialize_with = "reference")]
    #[expect(clippy::struct_field_names, reason = "the API's own word")]
    pub(crate) instance_type: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InstanceState {
    Starting,
    Running,
    Stopping,
    Stopped,
    Migrating,
    Error,
    Destroying,
    Destroyed,
    Expunging,
    /// Absent, or newer than this program.
    #[default]
    #[serde(other)]
    Other,
}

/// What manages an instance or a pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Manager {
    #[serde(default)]
    pub(crate) id: Option<Uuid>,
    /// `instance-pool` or `sks-nodepool`.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
}

impl Instance {
    /// The instance pool that made it.
    pub(crate) fn pool(&self) -> Option<Uuid> {
        let manager = self.manager.as_ref()?;
        (manager.kind == "instance-pool").then_some(manager.id)?
    }
}

impl Api {
    /// `GET /instance`: all of the zone, in one answer.
    pub(crate) async fn instances(&self) -> Result<Listing<Instance>, CloudError> {
        self.list(Route::new(INSTANCES), "instances").await
    }

    /// `GET /instance/<uuid>`. Not found is the zone's answer about this very instance.
    pub(crate) async fn instance(&self, id: Uuid) -> Result<Instance, CloudError> {
        let route = Route::new(INSTANCE).with("id", id.to_string());
        let instance: Instance = self.read(route).await?;
        if instance.id == id {
            return Ok(instance);
        }
        let message = format!("GET instance/{id} answered with instance {}", instance.id);
        Err(CloudError::new(CloudErrorKind::Unknown, message))
    }
}

//! Kubernetes objects, decoded into the fields that are used and no others.

mod certificate;
mod guard;
mod node;
pub(crate) mod protobuf;
mod service;
mod slice;
mod unread;

use bowline_core::StringMap;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

pub(crate) use certificate::CertificateObject;
pub(crate) use guard::DeserializeGuard;
pub(crate) use node::NodeObject;
pub(crate) use service::ServiceObject;
pub(crate) use slice::SliceObject;
pub(crate) use unread::decode;

/// What clients have to know about an object of version `v1`: its scope, kind, group and plural.
macro_rules! resource {
    ($object:ty, $scope:ty, $kind:literal, $group:literal, $plural:literal) => {
        impl kube::Resource for $object {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use resource;

/// The fields of `metadata` that are used; the rest (managed fields above all) is never held.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<StringMap>,
    annotations: Option<StringMap>,
    finalizers: Option<Vec<String>>,
}

fn used_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    Ok(Metadata::deserialize(from)?.with_maps())
}

impl Metadata {
    fn with_maps(mut self) -> ObjectMeta {
        let (labels, annotations) = (self.labels.take(), self.annotations.take());
        ObjectMeta {
            labels: labels.as_ref().map(StringMap::to_map),
            annotations: annotations.as_ref().map(StringMap::to_map),
            ..self.into()
        }
    }
}

impl From<Metadata> for ObjectMeta {
    /// Without labels and annotations.
    fn from(used: Metadata) -> Self {
        Self {
            name: used.name,
            namespace: used.namespace,
            uid: used.uid,
            resource_version: used.resource_version,
            creation_timestamp: used.creation_timestamp,
            deletion_timestamp: used.deletion_timestamp,
            finalizers: used.finalizers,
            ..Self::default()
        }
    }
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    let created = metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn null_is_empty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

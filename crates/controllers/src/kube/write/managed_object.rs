//! Writes objects that chores manage: Secrets and ConfigMaps of one namespace. We own each as a whole;
//! changes of others are overwritten. An observer logs what it would write.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bowline_core::{ClusterError, KEPT_BY_LABEL, Kept, ManagedObject, ManagedObjectKind, Secret};
use k8s_openapi::api::core::v1::{ConfigMap, Secret as SecretObject};
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::Resource;
use kube::api::{Api, Patch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::info;

use super::{WriteError, bounded, by_us};

/// Reads and writes what is kept.
#[derive(Clone)]
pub(crate) struct ManagedObjectWriter {
    client: kube::Client,
    namespace: String,
    is_observing: bool,
}

/// What there is of an object.
struct Present {
    uid: String,
    /// Whether it carries our label.
    is_ours: bool,
    data: BTreeMap<String, Secret>,
}

/// What has to be done about an object.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Nothing,
    Make,
    Change {
        /// Of that object and no other.
        uid: String,
        /// Keys that are not to be there.
        surplus: Vec<String>,
    },
    /// It is somebody else's.
    LeaveAlone,
}

impl ManagedObjectWriter {
    /// A writer of that namespace.
    pub(crate) fn new(client: kube::Client, namespace: &str, is_observing: bool) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            is_observing,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn is_observing(&self) -> bool {
        self.is_observing
    }

    /// What is in an object that is ours.
    pub(crate) async fn read(
        &self,
        kind: ManagedObjectKind,
        name: &str,
    ) -> Result<Option<BTreeMap<String, Secret>>, ClusterError> {
        match self.present(kind, name).await? {
            Some(present) if !present.is_ours => Err(ClusterError::Foreign {
                object: self.named(kind, name),
            }),
            present => Ok(present.map(|it| it.data)),
        }
    }

    /// Makes an object be as described.
    pub(crate) async fn keep(&self, wanted: &ManagedObject) -> Result<Kept, ClusterError> {
        let (kind, name) = (wanted.kind, wanted.name.as_str());
        let task = decide(self.present(kind, name).await?, &wanted.data);
        let object = || self.named(kind, name);
        // What is new is applied without force: where somebody else makes it at the same moment, that one stays.
        let patch = match &task {
            Task::Nothing => return Ok(Kept::Same),
            Task::LeaveAlone => return Err(ClusterError::Foreign { object: object() }),
            Task::Make => Patch::Apply(whole(wanted, &self.namespace)),
            Task::Change { uid, surplus } => Patch::Merge(change(wanted, uid, surplus)),
        };
        if self.is_observing {
            let keys: Vec<&String> = wanted.data.keys().collect();
            info!(object = object(), ?keys, "would be written");
            return Ok(Kept::Observed);
        }
        let written = match kind {
            ManagedObjectKind::Secret(_) => self.patch::<SecretObject>(name, &patch, object).await,
            ManagedObjectKind::ConfigMap => self.patch::<ConfigMap>(name, &patch, object).await,
        };
        written.map_err(|error| failed("writing", object(), error))?;
        Ok(Kept::Written)
    }

    async fn patch<K>(
        &self,
        name: &str,
        patch: &Patch<Value>,
        object: impl FnOnce() -> String,
    ) -> Result<(), WriteError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = by_us();
        bounded("a patch", object, api.patch(name, &params, patch)).await?;
        Ok(())
    }

    async fn present(
        &self,
        kind: ManagedObjectKind,
        name: &str,
    ) -> Result<Option<Present>, ClusterError> {
        let (client, namespace) = (self.client.clone(), &self.namespace);
        let object = || self.named(kind, name);
        let found = match kind {
            ManagedObjectKind::Secret(_) => {
                let api: Api<SecretObject> = Api::namespaced(client, namespace);
                let found = bounded("a read", object, api.get_opt(name)).await;
                found.map(|found| {
                    found.map(|it| {
                        let data = it.data.iter().flatten();
                        let data = data.map(|(key, value)| (key.clone(), text(&value.0)));
                        Present::of(&it, data.collect())
                    })
                })
            }
            ManagedObjectKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client, namespace);
                let found = bounded("a read", object, api.get_opt(name)).await;
                found.map(|found| {
                    found.map(|it| {
                        let data = it.data.iter().flatten();
                        let data = data.map(|(key, value)| (key.clone(), Secret::new(value)));
                        Present::of(&it, data.collect())
                    })
                })
            }
        };
        found.map_err(|error| failed("reading", object(), error))
    }

    fn named(&self, kind: ManagedObjectKind, name: &str) -> String {
        format!("{} {}/{name}", kind.as_str(), self.namespace)
    }
}

impl Present {
    fn of(object: &impl kube::ResourceExt, data: BTreeMap<String, Secret>) -> Self {
        let (key, value) = KEPT_BY_LABEL;
        Self {
            uid: object.uid().unwrap_or_default(),
            is_ours: object.labels().get(key).is_some_and(|it| it == value),
            data,
        }
    }
}

fn decide(present: Option<Present>, wanted: &BTreeMap<String, Secret>) -> Task {
    match present {
        None => Task::Make,
        Some(it) if !it.is_ours => Task::LeaveAlone,
        Some(it) if it.data == *wanted => Task::Nothing,
        Some(it) => {
            let surplus = it.data.into_keys().filter(|key| !wanted.contains_key(key));
            Task::Change {
                surplus: surplus.collect(),
                uid: it.uid,
            }
        }
    }
}

/// The whole object, as it is applied.
fn whole(wanted: &ManagedObject, namespace: &str) -> Value {
    let mut body = json!({
        "apiVersion": "v1",
        "kind": wanted.kind.as_str(),
        "metadata": {
            "name": wanted.name,
            "namespace": namespace,
            "labels": { KEPT_BY_LABEL.0: KEPT_BY_LABEL.1 },
        },
    });
    body["data"] = entries(wanted).collect();
    if let ManagedObjectKind::Secret(kind) = wanted.kind {
        body["type"] = kind.into();
    }
    body
}

/// What makes the object of that uid be as wanted.
fn change(wanted: &ManagedObject, uid: &str, surplus: &[String]) -> Value {
    let surplus = surplus.iter().map(|key| (key.clone(), Value::Null));
    let data: Value = entries(wanted).chain(surplus).collect();
    json!({ "metadata": { "uid": uid }, "data": data })
}

/// What is in it, as the API has it.
fn entries(wanted: &ManagedObject) -> impl Iterator<Item = (String, Value)> {
    let entry = |(key, value): (&String, &Secret)| {
        let value = match wanted.kind {
            ManagedObjectKind::Secret(_) => json!(ByteString(value.reveal().into())),
            ManagedObjectKind::ConfigMap => value.reveal().into(),
        };
        (key.clone(), value)
    };
    wanted.data.iter().map(entry)
}

/// Bytes that are no text are nothing that we have written.
fn text(bytes: &[u8]) -> Secret {
    Secret::new(String::from_utf8_lossy(bytes))
}

fn failed(what: &'static str, object: String, error: WriteError) -> ClusterError {
    let source: Box<dyn std::error::Error + Send + Sync> = match error {
        WriteError::Api { source, .. } => source,
        late @ WriteError::Late { .. } => Box::new(late),
    };
    ClusterError::Failed {
        what,
        object,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, Secret> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), Secret::new(*value)))
            .collect()
    }

    #[test]
    fn only_what_is_ours_and_differs_is_changed() {
        let wanted = data(&[("a", "1")]);
        let present = |is_ours, data| {
            Some(Present {
                uid: "u".to_owned(),
                is_ours,
                data,
            })
        };
        let change = |surplus: &[&str]| Task::Change {
            uid: "u".to_owned(),
            surplus: surplus.iter().map(|&key| key.to_owned()).collect(),
        };
        for (found, task) in [
            (None, Task::Make),
            (present(true, data(&[("a", "1")])), Task::Nothing),
            (present(true, data(&[("a", "2")])), change(&[])),
            (present(true, data(&[])), change(&[])),
            (
                present(true, data(&[("a", "1"), ("b", "")])),
                change(&["b"]),
            ),
            (present(false, data(&[("a", "1")])), Task::LeaveAlone),
            (present(false, data(&[("b", "1")])), Task::LeaveAlone),
        ] {
            assert_eq!(decide(found, &wanted), task);
        }
    }

    #[test]
    fn an_object_is_made_whole_with_our_label_and_changed_as_the_one_that_was_read() {
        let mut object = ManagedObject {
            kind: ManagedObjectKind::Secret("kubernetes.io/tls"),
            name: "s".to_owned(),
            data: data(&[("tls.crt", "c")]),
        };
        assert_eq!(
            whole(&object, "infra"),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "metadata": { "name": "s", "namespace": "infra",
                    "labels": { "app.kubernetes.io/managed-by": "bowline" } },
                "data": { "tls.crt": "Yw==" },
            })
        );
        assert_eq!(
            change(&object, "u", &["old".to_owned()]),
            json!({ "metadata": { "uid": "u" }, "data": { "tls.crt": "Yw==", "old": null } })
        );
        object.kind = ManagedObjectKind::ConfigMap;
        let made = whole(&object, "infra");
        assert_eq!(made["data"], json!({ "tls.crt": "c" }));
        assert!(made.get("type").is_none());
    }
}

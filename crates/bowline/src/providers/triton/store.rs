//! The Secret in the cluster, and the event that tells that its content is in use.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_controllers::clients::{Connection, load_config};
use bowline_core::Secret;
use bowline_http::ProxyRules;
use bowline_triton::{LOADED, SecretContent};
use k8s_openapi::api::core::v1::{Event, Secret as Object};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::credentials::Failure;

/// Who writes.
const FIELD_MANAGER: &str = "bowline-credentials";
/// How long a manager may take to see a changed Secret.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN: Duration = Duration::from_secs(2);
/// Events of one Secret.
const MOST_EVENTS: u32 = 500;

/// What is stored.
pub(super) type Content = BTreeMap<&'static str, Secret>;

/// The Secret as it is applied.
pub(super) fn manifest(namespace: &str, name: &str, content: &Content) -> Value {
    let data: BTreeMap<&str, &str> = content
        .iter()
        .map(|(key, it)| (*key, it.reveal()))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "bowline"},
        },
        "type": "Opaque",
        "stringData": data,
    })
}

fn failed(what: &str) -> impl Fn(kube::Error) -> Failure {
    move |error| Failure::Kubernetes(format!("{what}: {}", bowline_core::error_chain(&error)))
}

/// The cluster.
pub(super) struct Store {
    client: kube::Client,
    namespace: String,
    name: String,
}

impl Store {
    pub(super) async fn open(
        kubeconfig: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Self, Failure> {
        let config = load_config(kubeconfig, "").await;
        let config =
            config.map_err(|error| Failure::Kubernetes(bowline_core::error_chain(&error)))?;
        // As the library does: through the proxy that the kubeconfig names, if any.
        let connection = Connection::open(&config, ProxyRules::default()).map_err(|error| {
            let why = bowline_core::error_chain(&error);
            Failure::Kubernetes(format!("no client for the cluster: {why}"))
        })?;
        Ok(Self {
            client: connection.client().clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    fn secrets(&self) -> Api<Object> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} Secret {}/{}", self.namespace, self.name)
    }

    /// What it holds now; nothing if it does not exist.
    pub(super) async fn read(&self) -> Result<Option<SecretContent>, Failure> {
        let read = self.secrets().get_opt(&self.name).await;
        let secret = read.map_err(failed(&self.what("reading")))?;
        Ok(secret.map(|secret| {
            let data = secret.data.unwrap_or_default().into_iter();
            let text =
                data.filter_map(|(key, bytes)| Some((key, String::from_utf8(bytes.0).ok()?)));
            SecretContent::new(text)
        }))
    }

    /// Makes it what it should be.
    pub(super) async fn apply(&self, content: &Content) -> Result<(), Failure> {
        let manifest = manifest(&self.namespace, &self.name, content);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let (secrets, patch) = (self.secrets(), Patch::Apply(&manifest));
        let applied = secrets.patch(&self.name, &parameters, &patch).await;
        applied.map(|_| ()).map_err(failed(&self.what("applying")))
    }

    /// Waits until a manager says that it uses the key with that fingerprint; says whether one did.
    pub(super) async fn wait_until_loaded(&self, fingerprint: &str) -> Result<bool, Failure> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("involvedObject.name={},reason={LOADED}", self.name);
        let parameters = ListParams::default().fields(&fields).limit(MOST_EVENTS);
        let start = Instant::now();
        loop {
            let list = events.list(&parameters).await;
            let list = list.map_err(failed(&self.what("reading events of")))?;
            let tells = |event: &Event| {
                let about = event.involved_object.name.as_deref() == Some(self.name.as_str());
                let message = event.message.as_deref().unwrap_or_default();
                let reason = event.reason.as_deref() == Some(LOADED);
                about && reason && message.contains(fingerprint)
            };
            if list.items.iter().any(tells) {
                return Ok(true);
            }
            if start.elapsed() + BETWEEN > PATIENCE {
                return Ok(false);
            }
            sleep(BETWEEN).await;
        }
    }
}

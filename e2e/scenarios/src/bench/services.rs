//! Services, by their names.

use bowline_simulator::journal::Entry;
use serde_json::Value;

use super::Bench;
use crate::objects::entrances;

impl Bench {
    /// Creates a Service through the API, and its namespace if need be.
    pub async fn create_service(&self, service: Value) {
        self.cluster.create_service(service).await;
    }

    /// Changes a Service, and its status, as somebody else would.
    pub async fn change_service(&self, name: &str, change: impl FnMut(&mut Value)) {
        self.cluster.change_service(name, change).await;
    }

    /// Gives a Service that annotation, or takes it away.
    pub async fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        self.change_service(name, |service| {
            if service["metadata"]["annotations"].is_null() {
                service["metadata"]["annotations"] = serde_json::json!({});
            }
            let all = service["metadata"]["annotations"].as_object_mut().unwrap();
            match value {
                Some(value) => all.insert(key.to_owned(), value.into()),
                None => all.remove(key),
            };
        })
        .await;
    }

    /// Deletes a Service as somebody else would: it goes when its finalizers are gone.
    pub async fn delete_service(&self, name: &str) {
        self.cluster.delete_service(name).await;
    }

    /// The Service of that name.
    pub fn service(&self, name: &str) -> Value {
        self.find_service(name)
            .unwrap_or_else(|| panic!("there is no service {name}"))
    }

    /// The Service of that name, if there is one.
    pub fn find_service(&self, name: &str) -> Option<Value> {
        self.cluster.find_service(name)
    }

    /// The managers' writes of that Service and its status, also those that failed; who else wrote
    /// in memory is left out.
    pub fn service_writes(&self, name: &str) -> Vec<Entry> {
        let entries = self.entries().into_iter();
        let path = format!("/services/{name}");
        let status = format!("{path}/status");
        entries
            .filter(|it| it.is_mutating() && it.caller != "kubernetes-admin")
            .filter(|it| it.path.ends_with(&path) || it.path.ends_with(&status))
            .collect()
    }

    /// Waits until that holds of a Service, and returns it.
    pub async fn until_service(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("service {name}: {what}");
        self.until(&what, |it| {
            it.find_service(name).is_some_and(|it| done(&it))
        })
        .await;
        self.service(name)
    }

    /// Waits until a Service shows an address or a host name, and returns it.
    pub async fn until_published(&self, name: &str) -> Value {
        let shown = |service: &Value| !entrances(service).is_empty();
        self.until_service(name, "it shows an address", shown).await
    }

    /// Waits until there is no such Service.
    pub async fn until_service_gone(&self, name: &str) {
        self.until(&format!("service {name} is gone"), |it| {
            it.find_service(name).is_none()
        })
        .await;
    }
}

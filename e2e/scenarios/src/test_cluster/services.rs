//! Services, by their names.

use bowline_simulator::journal::Entry;
use serde_json::Value;

use super::TestCluster;
use crate::cloud::ScriptedBalancers;
use crate::objects::{entrances, finalizers, service};

/// The condition that tells how a Service's load balancer is.
const CONDITION: &str = "bowline.dev/LoadBalancerReady";

impl TestCluster {
    /// The load balancers of the only scripted cloud.
    pub fn balancers(&self) -> &ScriptedBalancers {
        self.cloud().balancers()
    }

    /// Creates a Service, and waits until it has its load balancer and that is reported.
    pub async fn ensured(&self, name: &str) {
        self.create_service(service(name)).await;
        self.until_event(name, "EnsuredLoadBalancer").await;
    }

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

    /// Changes a Service by a merge patch, as a person would.
    pub async fn patch_service(&self, name: &str, patch: Value) {
        self.cluster.patch_service(name, &patch).await;
    }

    /// Deletes a Service as somebody else would: it goes when its finalizers are gone.
    pub async fn delete_service(&self, name: &str) {
        self.cluster.delete_service(name).await;
    }

    pub fn service(&self, name: &str) -> Value {
        self.find_service(name)
            .unwrap_or_else(|| panic!("there is no service {name}"))
    }

    /// The Service of that name, if there is one.
    pub fn find_service(&self, name: &str) -> Option<Value> {
        self.cluster.find_service(name)
    }

    pub fn finalizers(&self, name: &str) -> Vec<String> {
        finalizers(&self.service(name))
    }

    /// What its status shows: `203.0.113.5 Proxy`.
    pub fn entrances(&self, name: &str) -> Vec<String> {
        entrances(&self.service(name))
    }

    /// The condition of its load balancer as `Status Reason: message`; empty if there is none.
    pub fn condition(&self, name: &str) -> String {
        let service = self.service(name);
        let all = service["status"]["conditions"].as_array();
        let mut all = all.into_iter().flatten();
        let Some(ours) = all.find(|it| it["type"] == CONDITION) else {
            return String::new();
        };
        let text = |field: &str| ours[field].as_str().unwrap_or_default();
        let shown = format!("{} {}: {}", text("status"), text("reason"), text("message"));
        shown.trim_end_matches(": ").to_owned()
    }

    /// What the controller of Services told about a Service or a lease, oldest first:
    /// `Normal EnsuredLoadBalancer: Ensured load balancer`.
    pub fn news(&self, name: &str) -> Vec<String> {
        let mut events = self.cluster.events(name);
        // The names of events end with the time.
        let moment = |it: &Value| {
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            name.rsplit('.').next().unwrap_or_default().to_owned()
        };
        events.sort_by_key(moment);
        // A real API server tells of its own repairs of addresses and ports.
        events.retain(|it| it["source"]["component"] == "service-controller");
        let line = |it: Value| {
            let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", text("type"), text("reason"), text("message"))
        };
        events.into_iter().map(line).collect()
    }

    /// The reasons of those events.
    pub fn reasons(&self, name: &str) -> Vec<String> {
        let reason = |it: String| it.split([' ', ':']).nth(1).unwrap().to_owned();
        self.news(name).into_iter().map(reason).collect()
    }

    /// The managers' writes of Services and their status, also those that failed; who else wrote in
    /// memory is left out.
    pub fn all_service_writes(&self) -> Vec<Entry> {
        let entries = self.entries().into_iter();
        entries
            .filter(|it| it.is_mutating() && it.caller != "kubernetes-admin")
            .filter(|it| it.path.contains("/services/"))
            .collect()
    }

    /// Those of that Service.
    pub fn service_writes(&self, name: &str) -> Vec<Entry> {
        let path = format!("/services/{name}");
        let status = format!("{path}/status");
        let all = self.all_service_writes().into_iter();
        all.filter(|it| it.path.ends_with(&path) || it.path.ends_with(&status))
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

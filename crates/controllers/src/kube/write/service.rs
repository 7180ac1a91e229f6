//! Writes Services: four small patches, each bound to the uid that was read. The originals' roles allow
//! no read of a single Service, and none is written as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{CLEANUP_FINALIZER, Condition, Ingress, IpMode, Service};
use jiff::Timestamp;
use kube::Api;
use kube::api::Patch;
use serde_json::{Map, Value, json};

use super::{WriteError, bounded, by_us};
use crate::kube::objects::ServiceObject;

/// Writes Service objects.
#[derive(Clone)]
pub struct ServiceWriter {
    client: kube::Client,
}

impl ServiceWriter {
    /// A writer with that client.
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Puts the cleanup finalizer at the end of the list.
    pub async fn add_finalizer(&self, service: &Service) -> Result<Arc<Service>, WriteError> {
        let body = finalizer_to_add(service);
        self.patch_status("adding the cleanup finalizer", service, &body)
            .await
    }

    /// Takes the cleanup finalizer away; others stay, also those that were added meanwhile.
    pub async fn remove_finalizer(&self, service: &Service) -> Result<Arc<Service>, WriteError> {
        let body = finalizer_to_remove(service);
        self.patch_status("removing the cleanup finalizer", service, &body)
            .await
    }

    /// Sets annotations; all others stay. Through the status, as the finalizer: that is the one right
    /// to write Services which every role of the originals gives.
    pub async fn set_annotations(
        &self,
        service: &Service,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Arc<Service>, WriteError> {
        self.patch_annotations(service, json!(annotations)).await
    }

    /// Removes annotations; all others stay.
    pub async fn remove_annotations(
        &self,
        service: &Service,
        annotations: &[String],
    ) -> Result<Arc<Service>, WriteError> {
        let nothing = annotations.iter().map(|key| (key.clone(), Value::Null));
        self.patch_annotations(service, nothing.collect()).await
    }

    async fn patch_annotations(
        &self,
        service: &Service,
        annotations: Value,
    ) -> Result<Arc<Service>, WriteError> {
        let body = json!({ "metadata": { "uid": service.uid, "annotations": annotations } });
        let (api, params) = (self.api(service), by_us());
        let name = &service.key.name;
        let patch = Patch::Merge(&body);
        let call = api.patch_status(name, &params, &patch);
        let object = bounded("writing the annotations", || named(service), call).await?;
        Ok(Arc::new(object.into()))
    }

    /// Writes the entrances (none: they stay as they are) and conditions; those of other types stay.
    pub async fn set_status(
        &self,
        service: &Service,
        ingress: Option<&[Ingress]>,
        conditions: &[Condition],
        now: Timestamp,
    ) -> Result<Arc<Service>, WriteError> {
        let mut status = Map::new();
        if let Some(ingress) = ingress {
            status.insert("loadBalancer".into(), json!({ "ingress": list(ingress) }));
        }
        if !conditions.is_empty() {
            let merged = conditions.iter();
            let merged = merged.map(|it| condition_object(service, it, now));
            status.insert("conditions".into(), merged.collect());
        }
        let body = json!({ "metadata": { "uid": service.uid }, "status": status });
        self.patch_status("writing the status", service, &body)
            .await
    }

    /// Takes conditions of these types away; all others stay.
    pub async fn remove_conditions(
        &self,
        service: &Service,
        kinds: &[String],
    ) -> Result<Arc<Service>, WriteError> {
        let gone = kinds.iter();
        let gone: Value = gone
            .map(|kind| json!({ "type": kind, "$patch": "delete" }))
            .collect();
        let body = json!({ "metadata": { "uid": service.uid }, "status": { "conditions": gone } });
        self.patch_status("removing conditions", service, &body)
            .await
    }

    async fn patch_status(
        &self,
        what: &'static str,
        service: &Service,
        body: &Value,
    ) -> Result<Arc<Service>, WriteError> {
        let (api, params, patch) = (self.api(service), by_us(), Patch::Strategic(body));
        let call = api.patch_status(&service.key.name, &params, &patch);
        let object = bounded(what, || named(service), call).await?;
        Ok(Arc::new(object.into()))
    }

    fn api(&self, service: &Service) -> Api<ServiceObject> {
        Api::namespaced(self.client.clone(), &service.key.namespace)
    }
}

fn named(service: &Service) -> String {
    format!("service {}", service.key)
}

fn finalizer_to_add(service: &Service) -> Value {
    let mut metadata = json!({ "uid": service.uid, "finalizers": [CLEANUP_FINALIZER] });
    if !service.finalizers.is_empty() {
        let order = service.finalizers.iter().map(String::as_str);
        let order: Vec<&str> = order.chain([CLEANUP_FINALIZER]).collect();
        metadata["$setElementOrder/finalizers"] = json!(order);
    }
    json!({ "metadata": metadata })
}

/// The one item is named, never the whole list set to null: that would take a finalizer along which
/// somebody adds at the same moment.
fn finalizer_to_remove(service: &Service) -> Value {
    let mut metadata = json!({
        "uid": service.uid,
        "$deleteFromPrimitiveList/finalizers": [CLEANUP_FINALIZER],
    });
    let others = service
        .finalizers
        .iter()
        .filter(|it| *it != CLEANUP_FINALIZER);
    let others: Vec<&String> = others.collect();
    if !others.is_empty() {
        metadata["$setElementOrder/finalizers"] = json!(others);
    }
    json!({ "metadata": metadata })
}

/// The list as the API has it; null, which removes the field, when it is empty.
fn list(ingress: &[Ingress]) -> Value {
    if ingress.is_empty() {
        return Value::Null;
    }
    let object = |entrance: &Ingress| {
        let mut object = Map::new();
        let mut set = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                object.insert(key.into(), value.into());
            }
        };
        set("ip", entrance.ip.as_deref());
        set("hostname", entrance.hostname.as_deref());
        set("ipMode", entrance.ip_mode.map(IpMode::as_str));
        Value::Object(object)
    };
    ingress.iter().map(object).collect()
}

/// The condition with its time, which is the moment when its status last changed: without that
/// field the stored one stays.
fn condition_object(service: &Service, condition: &Condition, now: Timestamp) -> Value {
    let mut object = json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    });
    let before = service
        .conditions
        .iter()
        .find(|it| it.kind == condition.kind);
    if before.is_none_or(|before| before.status != condition.status) {
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        object["lastTransitionTime"] = second.to_string().into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(finalizers: &[&str]) -> Service {
        let object = json!({ "metadata": {
            "namespace": "shop", "name": "web", "uid": "u", "finalizers": finalizers,
        } });
        serde_json::from_value::<ServiceObject>(object)
            .unwrap()
            .into()
    }

    #[test]
    fn framework_case_140_the_finalizer_is_added_and_removed_among_others() {
        let fin = CLEANUP_FINALIZER;
        let keep = "example.test/keep";
        assert_eq!(
            finalizer_to_add(&service(&[keep])),
            json!({ "metadata": {
                "uid": "u", "$setElementOrder/finalizers": [keep, fin], "finalizers": [fin],
            } })
        );
        assert_eq!(
            finalizer_to_remove(&service(&[keep, fin])),
            json!({ "metadata": {
                "uid": "u", "$deleteFromPrimitiveList/finalizers": [fin],
                "$setElementOrder/finalizers": [keep],
            } })
        );
        assert_eq!(
            finalizer_to_add(&service(&[])),
            json!({ "metadata": { "uid": "u", "finalizers": [fin] } })
        );
        assert_eq!(
            finalizer_to_remove(&service(&[fin])),
            json!({ "metadata": { "uid": "u", "$deleteFromPrimitiveList/finalizers": [fin] } })
        );
    }

    #[test]
    fn entrances_are_written_with_what_they_have() {
        let ip = Ingress {
            ip: Some("192.0.2.1".into()),
            hostname: None,
            ip_mode: Some(IpMode::Proxy),
        };
        let name = Ingress {
            hostname: Some("lb.example.test".into()),
            ..Ingress::default()
        };
        assert_eq!(list(&[]), Value::Null);
        assert_eq!(
            list(&[ip, name]),
            json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }, { "hostname": "lb.example.test" }])
        );
    }

    #[test]
    fn the_time_of_a_condition_moves_with_its_status_alone() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let condition = |status: &str, message: &str| Condition {
            kind: "t".into(),
            status: status.into(),
            reason: "R".into(),
            message: message.into(),
        };
        let mut service = service(&[]);
        let time = |service: &Service, next: &Condition| {
            condition_object(service, next, now)["lastTransitionTime"].clone()
        };
        assert_eq!(
            time(&service, &condition("False", "a")),
            "2026-01-02T03:04:05Z"
        );
        service.conditions = vec![condition("False", "a")];
        assert_eq!(time(&service, &condition("False", "b")), Value::Null);
        assert_eq!(
            time(&service, &condition("True", "")),
            "2026-01-02T03:04:05Z"
        );
    }
}

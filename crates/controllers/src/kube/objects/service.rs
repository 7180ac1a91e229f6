//! Services.

use bowline_core::{Condition, Ingress, IpMode, Service, ServiceKey, ServicePort, TrafficPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

use super::{created, null_is_empty, used_metadata};

/// A Service as it comes from the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceObject {
    #[serde(deserialize_with = "used_metadata")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    r#type: String,
    load_balancer_class: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    ports: Vec<PortObject>,
    session_affinity: String,
    session_affinity_config: Option<AffinityConfig>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: String,
    #[serde(rename = "externalIPs", deserialize_with = "null_is_empty")]
    external_ips: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    load_balancer_source_ranges: Vec<String>,
    external_traffic_policy: String,
    health_check_node_port: u16,
    #[serde(deserialize_with = "null_is_empty")]
    ip_families: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortObject {
    name: String,
    protocol: String,
    port: u16,
    node_port: u16,
    target_port: NumberOrName,
    app_protocol: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum NumberOrName {
    Number(i32),
    Name(String),
}

impl Default for NumberOrName {
    fn default() -> Self {
        Self::Name(String::new())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityConfig {
    #[serde(rename = "clientIP")]
    client_ip: Option<ClientAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientAffinity {
    timeout_seconds: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    load_balancer: BalancerStatus,
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<ConditionObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BalancerStatus {
    #[serde(deserialize_with = "null_is_empty")]
    ingress: Vec<IngressObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IngressObject {
    ip: Option<String>,
    hostname: Option<String>,
    ip_mode: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ConditionObject {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

super::resource!(
    ServiceObject,
    NamespaceResourceScope,
    "Service",
    "",
    "services"
);

impl From<ServiceObject> for Service {
    fn from(object: ServiceObject) -> Self {
        let ServiceObject {
            metadata,
            spec,
            status,
        } = object;
        Service {
            created: created(&metadata),
            key: ServiceKey {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
            },
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            annotations: metadata.annotations,
            finalizers: metadata.finalizers.unwrap_or_default(),
            is_load_balancer: spec.r#type == "LoadBalancer",
            type_name: spec.r#type.clone(),
            client_affinity: client_affinity(&spec),
            class: spec.load_balancer_class,
            ports: spec.ports.into_iter().map(ServicePort::from).collect(),
            requested_ip: Some(spec.load_balancer_ip).filter(|ip| !ip.is_empty()),
            external_ips: spec.external_ips,
            source_ranges: spec.load_balancer_source_ranges,
            traffic_policy: match spec.external_traffic_policy.as_str() {
                "Local" => TrafficPolicy::Local,
                _ => TrafficPolicy::Cluster,
            },
            health_check_node_port: Some(spec.health_check_node_port).filter(|port| *port != 0),
            ip_families: spec.ip_families,
            ingress: status
                .load_balancer
                .ingress
                .into_iter()
                .map(Ingress::from)
                .collect(),
            conditions: status.conditions.into_iter().map(Condition::from).collect(),
        }
    }
}

/// The API server fills in the time-out; an object from a file may lack it.
fn client_affinity(spec: &Spec) -> Option<u32> {
    const DEFAULT_SECONDS: u32 = 10_800;
    let config = spec.session_affinity_config.as_ref();
    let seconds = config.and_then(|it| it.client_ip.as_ref()?.timeout_seconds);
    (spec.session_affinity == "ClientIP").then(|| seconds.unwrap_or(DEFAULT_SECONDS))
}

impl From<PortObject> for ServicePort {
    fn from(port: PortObject) -> Self {
        ServicePort {
            name: port.name,
            protocol: port.protocol.as_str().into(),
            port: port.port,
            node_port: port.node_port,
            target_port: match port.target_port {
                NumberOrName::Number(number) => number.to_string(),
                NumberOrName::Name(name) => name,
            },
            application_protocol: port.app_protocol,
        }
    }
}

impl From<IngressObject> for Ingress {
    fn from(entrance: IngressObject) -> Self {
        Ingress {
            ip: entrance.ip.filter(|ip| !ip.is_empty()),
            hostname: entrance.hostname.filter(|name| !name.is_empty()),
            ip_mode: match entrance.ip_mode.as_deref() {
                Some("VIP") => Some(IpMode::Vip),
                Some("Proxy") => Some(IpMode::Proxy),
                _ => None,
            },
        }
    }
}

impl From<ConditionObject> for Condition {
    fn from(condition: ConditionObject) -> Self {
        Condition {
            kind: condition.r#type,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_core::{CLEANUP_FINALIZER, Protocol};
    use serde_json::json;

    #[test]
    fn a_service_is_decoded_into_what_is_used() {
        let object: ServiceObject = serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "deletionTimestamp": "2026-01-02T03:04:06Z",
                "annotations": { "a": "b" }, "finalizers": ["x.io/y", CLEANUP_FINALIZER],
                "managedFields": [{ "manager": "kubectl" }],
            },
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": "", "clusterIP": "10.96.0.7",
                "ports": [
                    { "name": "http", "protocol": "TCP", "port": 80, "nodePort": 31080,
                      "targetPort": 8080, "appProtocol": "http" },
                    { "protocol": "UDP", "port": 53, "targetPort": "dns" },
                ],
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
                "loadBalancerIP": "192.0.2.1", "externalIPs": ["192.0.2.2"],
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 32100,
                "ipFamilies": ["IPv4", "IPv6"],
            },
            "status": {
                "loadBalancer": { "ingress": [
                    { "ip": "192.0.2.1", "ipMode": "Proxy" }, { "hostname": "lb.example.test" },
                ] },
                "conditions": [{ "type": "t", "status": "True", "reason": "r", "message": "m" }],
            },
        }))
        .unwrap();
        assert!(object.metadata.managed_fields.is_none());
        let service = Service::from(object);
        assert_eq!(service.key.to_string(), "shop/web");
        assert!(service.deleting && service.has_finalizer() && service.is_load_balancer);
        assert_eq!(service.class.as_deref(), Some(""));
        assert_eq!(service.ports[0].target_port, "8080");
        assert_eq!(service.ports[1].target_port, "dns");
        assert_eq!(service.ports[1].protocol, Protocol::Udp);
        assert_eq!(service.ports[1].node_port, 0);
        assert_eq!(service.client_affinity, Some(60));
        assert_eq!(service.local_health_check_port(), Some(32_100));
        assert_eq!(service.ingress[0].to_string(), "192.0.2.1 (Proxy)");
        assert_eq!(service.ingress[1].to_string(), "lb.example.test");
        assert_eq!(service.conditions[0].message, "m");
    }

    #[test]
    fn missing_and_null_parts_are_absence() {
        for body in [
            json!({ "metadata": { "name": "web" } }),
            json!({ "metadata": { "name": "web", "annotations": null, "finalizers": null },
                    "spec": { "ports": null, "externalIPs": null, "ipFamilies": null },
                    "status": { "loadBalancer": { "ingress": null }, "conditions": null } }),
        ] {
            let service = Service::from(serde_json::from_value::<ServiceObject>(body).unwrap());
            assert!(!service.is_load_balancer && service.ports.is_empty());
            assert_eq!((service.class, service.annotations), (None, None));
            assert_eq!(service.client_affinity, None);
        }
    }
}

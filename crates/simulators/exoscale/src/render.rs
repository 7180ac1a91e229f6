//! Things as the API shows them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{
    Balancer, Cloud, Cluster, Healthcheck, Instance, Network, Nodepool, Pool, Service, Zone,
};

/// How much of an instance is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What a list tells.
    Listed,
    Whole,
}

/// What is needed to show things of one zone.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) cloud: &'a Cloud,
    pub(super) zone: &'a Zone,
    pub(super) now: Timestamp,
}

/// A moment, in UTC and without fractions.
fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn reference(id: &str) -> Value {
    json!({ "id": id })
}

fn references<'a>(ids: impl IntoIterator<Item = &'a str>) -> Value {
    ids.into_iter().map(reference).collect()
}

/// Adds labels where there are any.
fn label(shown: &mut Value, labels: &BTreeMap<String, String>) {
    if !labels.is_empty() {
        shown["labels"] = json!(labels);
    }
}

impl View<'_> {
    /// With the members that somebody gave it to see what callers make of them. `null` takes one away.
    fn finished(&self, id: &str, mut shown: Value) -> Value {
        if let (Some(members), Value::Object(object)) = (self.cloud.deformed.get(id), &mut shown) {
            for (name, value) in members {
                if value.is_null() {
                    object.remove(name);
                } else {
                    object.insert(name.clone(), value.clone());
                }
            }
        }
        shown
    }

    pub(super) fn instance(&self, instance: &Instance, detail: Detail) -> Value {
        let networks = instance.networks.iter();
        let networks = networks.map(|(id, mac)| json!({ "id": id, "mac-address": mac }));
        let mut shown = json!({
            "id": instance.id,
            "name": instance.name,
            "state": instance.state.as_str(),
            "instance-type": reference(&instance.kind),
            "template": reference(&instance.template),
            "public-ip-assignment": instance.assignment,
            "private-networks": networks.collect::<Vec<_>>(),
            "security-groups": [],
            "ssh-keys": [],
            "mac-address": instance.mac,
            "created-at": moment(instance.created_at),
        });
        if let Some(address) = instance.public_ip {
            shown["public-ip"] = json!(address);
        }
        if let Some(address) = instance.ipv6 {
            shown["ipv6-address"] = json!(address);
        }
        if let Some(pool) = &instance.pool {
            shown["manager"] = json!({ "id": pool, "type": "instance-pool" });
        }
        label(&mut shown, &instance.labels);
        if detail == Detail::Whole {
            shown["disk-size"] = json!(instance.disk);
            shown["anti-affinity-groups"] = json!([]);
            shown["elastic-ips"] = json!([]);
            shown["snapshots"] = json!([]);
            shown["secureboot-enabled"] = json!(false);
            shown["tpm-enabled"] = json!(false);
        }
        self.finished(&instance.id, shown)
    }

    pub(super) fn pool(&self, pool: &Pool) -> Value {
        let members = self.zone.members(&pool.id).map(|it| it.id.as_str());
        let mut shown = json!({
            "id": pool.id,
            "name": pool.name,
            "size": pool.size,
            "state": pool.state,
            "instance-prefix": pool.prefix,
            "instance-type": reference(&pool.kind),
            "template": reference(&pool.template),
            "public-ip-assignment": pool.assignment,
            "private-networks": references(pool.networks.iter().map(String::as_str)),
            "disk-size": pool.disk,
            "ipv6-enabled": pool.assignment == "dual",
            "instances": references(members),
        });
        if let Some(text) = &pool.description {
            shown["description"] = json!(text);
        }
        if let Some(nodepool) = &pool.nodepool {
            shown["manager"] = json!({ "id": nodepool, "type": "sks-nodepool" });
        }
        label(&mut shown, &pool.labels);
        self.finished(&pool.id, shown)
    }

    /// A load balancer, if it can be seen already.
    pub(super) fn balancer(&self, balancer: &Balancer) -> Option<Value> {
        if self.now < balancer.visible_from {
            return None;
        }
        let services = balancer.services.iter();
        let mut shown = json!({
            "id": balancer.id,
            "name": balancer.name,
            "state": balancer.state,
            "created-at": moment(balancer.created_at),
            "services": services.map(|one| self.service(one)).collect::<Vec<_>>(),
        });
        if balancer.address_from.is_some_and(|from| from <= self.now) {
            shown["ip"] = json!(balancer.ip);
        }
        if let Some(text) = &balancer.description {
            shown["description"] = json!(text);
        }
        label(&mut shown, &balancer.labels);
        Some(self.finished(&balancer.id, shown))
    }

    pub(super) fn service(&self, service: &Service) -> Value {
        let members = self.zone.members(&service.pool);
        let health = members.filter_map(|member| {
            let address = member.public_ip?;
            let said = |key: &str| self.cloud.health.get(key).copied();
            let good = said(&member.id).or_else(|| said(&address.to_string()));
            let good = good.unwrap_or(member.state.runs());
            let status = if good { "success" } else { "failure" };
            Some(json!({ "public-ip": address, "status": status }))
        });
        let mut shown = json!({
            "id": service.id,
            "name": service.name,
            "state": service.state,
            "protocol": service.protocol,
            "port": service.port,
            "target-port": service.target_port,
            "strategy": service.strategy,
            "instance-pool": reference(&service.pool),
            "healthcheck": healthcheck(&service.healthcheck),
            "healthcheck-status": health.collect::<Vec<_>>(),
        });
        if let Some(text) = &service.description {
            shown["description"] = json!(text);
        }
        self.finished(&service.id, shown)
    }

    pub(super) fn cluster(&self, cluster: &Cluster) -> Value {
        let nodepools = cluster.nodepools.iter();
        let shown = json!({
            "id": cluster.id,
            "name": cluster.name,
            "state": "running",
            "version": cluster.version,
            "level": "pro",
            "cni": "calico",
            "addons": ["exoscale-cloud-controller"],
            "endpoint": format!("https://{}.sks.example", cluster.id),
            "created-at": moment(cluster.created_at),
            "nodepools": nodepools.map(|one| self.nodepool(one, &cluster.version)).collect::<Vec<_>>(),
        });
        self.finished(&cluster.id, shown)
    }

    pub(super) fn nodepool(&self, nodepool: &Nodepool, version: &str) -> Value {
        let mut shown = json!({
            "id": nodepool.id,
            "name": nodepool.name,
            "state": "running",
            "version": version,
            "created-at": moment(nodepool.created_at),
            "instance-pool": reference(&nodepool.pool),
        });
        if let Some(pool) = self.zone.pools.get(&nodepool.pool) {
            shown["size"] = json!(pool.size);
            shown["state"] = json!(match pool.state {
                "scaling-up" | "scaling-down" | "running" | "creating" => pool.state,
                _ => "updating",
            });
            shown["instance-prefix"] = json!(pool.prefix);
            shown["instance-type"] = reference(&pool.kind);
            shown["disk-size"] = json!(pool.disk);
        }
        self.finished(&nodepool.id, shown)
    }

    pub(super) fn network(&self, network: &Network) -> Value {
        let leases = network.leases.iter();
        let leases = leases.map(|(ip, instance)| json!({ "ip": ip, "instance-id": instance }));
        let leases: Vec<Value> = leases.collect();
        let mut shown = json!({ "id": network.id, "name": network.name, "leases": leases });
        for (name, value) in [
            ("start-ip", network.start),
            ("end-ip", network.end),
            ("netmask", network.netmask),
        ] {
            if let Some(value) = value {
                shown[name] = json!(value);
            }
        }
        self.finished(&network.id, shown)
    }
}

fn healthcheck(check: &Healthcheck) -> Value {
    let mut shown = json!({
        "mode": check.mode,
        "port": check.port,
        "interval": check.interval,
        "timeout": check.timeout,
        "retries": check.retries,
    });
    if let Some(uri) = &check.uri {
        shown["uri"] = json!(uri);
    }
    if let Some(name) = &check.tls_sni {
        shown["tls-sni"] = json!(name);
    }
    shown
}

//! Things as the API shows them.

use serde_json::{Map, Value, json};

use super::model::{Account, Cloud, Image, Key, Machine, Network, Nic, Package, State, stamp};

/// A machine as lists show it, without its DNS names.
pub(super) fn machine(cloud: &Cloud, machine: &Machine) -> Value {
    let nics: Vec<&Nic> = machine.nics.iter().collect();
    let mut shown = json!({
        "id": machine.id,
        "name": machine.name,
        "type": machine.kind(),
        "brand": machine.brand,
        "state": machine.state.as_str(),
        "image": machine.image,
        "ips": nics.iter().map(|nic| &nic.ip).collect::<Vec<_>>(),
        "memory": machine.memory,
        "disk": machine.disk,
        "metadata": machine.metadata,
        "tags": machine.tags,
        "created": stamp(machine.created),
        "updated": stamp(machine.updated),
        "networks": nics.iter().map(|nic| &nic.network).collect::<Vec<_>>(),
        "firewall_enabled": machine.firewall,
        "deletion_protection": machine.protected,
        "compute_node": machine.compute_node,
        "package": machine.package,
    });
    if !cloud.quirks.no_nics {
        shown["nics"] = machine.nics.iter().map(nic).collect();
    }
    if let Some(primary) = machine.nics.iter().find(|nic| nic.primary) {
        shown["primaryIp"] = primary.ip.as_str().into();
    }
    if machine.docker {
        shown["docker"] = true.into();
    }
    if machine.state == State::Provisioning {
        remove(&mut shown, "compute_node");
    }
    shown
}

/// A machine as it is shown alone, with its DNS names if its account has any.
pub(super) fn whole_machine(cloud: &Cloud, one: &Machine, account: &Account) -> Value {
    let mut shown = machine(cloud, one);
    if account.names_enabled {
        let names = cloud.names.machines.get(&one.id);
        let names: Vec<&String> = names
            .map(|names| names.iter().collect())
            .unwrap_or_default();
        shown["dns_names"] = json!(names);
    }
    shown
}

fn remove(shown: &mut Value, member: &str) {
    if let Some(object) = shown.as_object_mut() {
        object.remove(member);
    }
}

pub(super) fn nic(nic: &Nic) -> Value {
    let mut shown = json!({
        "mac": nic.mac, "ip": nic.ip, "primary": nic.primary, "netmask": nic.netmask,
        "network": nic.network, "state": "running",
    });
    if let Some(gateway) = &nic.gateway {
        shown["gateway"] = gateway.as_str().into();
    }
    shown
}

pub(super) fn network(cloud: &Cloud, network: &Network, account: &Account) -> Value {
    let mut shown = json!({
        "id": network.id, "name": network.name, "public": network.public,
    });
    if let Some(description) = &network.description {
        shown["description"] = description.as_str().into();
    }
    if network.vlan.is_some()
        && let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), fabric(network))
    {
        shown.extend(more);
    }
    if account.names_enabled && !cloud.quirks.names_down {
        shown["suffixes"] = json!(cloud.suffixes(network, account));
    }
    shown
}

/// What only fabric networks show.
fn fabric(network: &Network) -> Value {
    let mut shown = json!({
        "fabric": true, "vlan_id": network.vlan, "subnet": network.subnet.to_string(),
        "provision_start_ip": network.start, "provision_end_ip": network.end,
        "resolvers": network.resolvers, "internet_nat": network.nat,
    });
    if let Some(gateway) = network.gateway {
        shown["gateway"] = gateway.to_string().into();
    }
    if !network.routes.is_empty() {
        shown["routes"] = json!(network.routes);
    }
    shown
}

pub(super) fn package(package: &Package) -> Value {
    let mut shown = json!({
        "id": package.id, "name": package.name, "memory": package.memory, "disk": package.disk,
        "swap": package.memory * 4, "vcpus": package.vcpus, "lwps": 4000, "version": "1.0.0",
        "group": package.group, "description": format!("{} MiB", package.memory),
    });
    if let Some(brand) = &package.brand {
        shown["brand"] = brand.as_str().into();
    }
    shown
}

pub(super) fn image(image: &Image) -> Value {
    json!({
        "id": image.id, "name": image.name, "version": image.version, "os": image.os,
        "type": image.kind, "state": image.state, "public": true, "requirements": {},
        "description": image.name, "owner": "930896af-bf8c-48d4-885c-6573a94b1853",
        "files": [{ "compression": "gzip", "sha1": "0".repeat(40), "size": 1_048_576 }],
        "published_at": stamp(image.published),
    })
}

pub(super) fn key(key: &Key) -> Value {
    let line = format!("{} {}", key.public.line, key.public.comment);
    json!({
        "name": key.name, "key": line.trim_end(), "fingerprint": key.public.fingerprint,
        "created": stamp(key.created),
    })
}

pub(super) fn account(account: &Account) -> Value {
    let mut shown: Map<String, Value> = account.details.clone();
    for (name, value) in [
        ("id", json!(account.id)),
        ("login", json!(account.login)),
        ("email", json!(account.email)),
        ("triton_cns_enabled", json!(account.names_enabled)),
        ("created", json!(stamp(account.created))),
        ("updated", json!(stamp(account.updated))),
    ] {
        shown.insert(name.to_owned(), value);
    }
    Value::Object(shown)
}

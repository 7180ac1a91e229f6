//! What the API shows of pools, hosts, VMs and connections.

use serde_json::{Map, Value, json};

use super::guest;
use super::model::{Cloud, Connection, Host, Kind, Pool, Vm};

impl Cloud {
    /// An object as the API shows it; none if it does not.
    pub(super) fn show(&self, kind: Kind, id: &str) -> Option<Value> {
        if !self.shows(kind, id) {
            return None;
        }
        let mut shown = match kind {
            Kind::Vm => show_vm(self.vms.get(id)?),
            Kind::Host => self.show_host(self.hosts.get(id)?),
            Kind::Pool => self.show_pool(self.pools.get(id)?),
        };
        if let Some((members, shown)) = self.deformed.get(id).zip(shown.as_object_mut()) {
            deform(shown, members);
        }
        Some(shown)
    }

    fn show_host(&self, host: &Host) -> Value {
        let missing = self
            .pools
            .get(&host.pool)
            .is_some_and(|pool| pool.records_missing);
        let mut residents: Vec<Value> = Vec::new();
        let vms = self
            .vms
            .all()
            .filter(|vm| vm.host.as_deref() == Some(&*host.id));
        residents.extend(
            vms.clone()
                .map(|vm| if missing { Value::Null } else { json!(vm.id) }),
        );
        residents.push(if missing {
            Value::Null
        } else {
            json!(host.control_domain)
        });
        let usage: u64 = vms.map(|vm| vm.memory).sum();
        let mut shown = json!({
            "type": "host",
            "id": host.id,
            "uuid": host.id,
            "name_label": host.name,
            "hostname": host.name,
            "address": host.address,
            "enabled": host.enabled,
            "power_state": host.power,
            "iscsiIqn": format!("iqn.2026-01.example.sim:{}", host.id),
            "cpus": { "cores": host.cores, "sockets": 1 },
            "memory": { "usage": usage, "size": host.memory },
            "startTime": host.started.as_second(),
            "agentStartTime": host.started.as_second(),
            "residentVms": residents,
            "tags": host.tags,
            "$pool": host.pool,
            "$poolId": host.pool,
            "_xapiRef": format!("OpaqueRef:{}", host.id),
        });
        add(&mut shown, usual_host(host.cores));
        if !missing {
            shown["controlDomain"] = json!(host.control_domain);
        }
        shown
    }

    fn show_pool(&self, pool: &Pool) -> Value {
        let master = pool.master.as_ref().and_then(|id| self.hosts.get(id));
        let name = if pool.name.is_empty() {
            master.map_or("", |host| &host.name)
        } else {
            &pool.name
        };
        let hosts = self.hosts.all().filter(|host| host.pool == pool.id);
        let (mut cores, mut sockets) = (0, 0);
        for host in hosts {
            cores += host.cores;
            sockets += 1;
        }
        let mut shown = json!({
            "type": "pool",
            "id": pool.id,
            "uuid": pool.id,
            "name_label": name,
            "name_description": "",
            "auto_poweron": false,
            "current_operations": {},
            "default_SR": pool.storage,
            "HA_enabled": false,
            "haSrs": [],
            "migrationCompression": false,
            "otherConfig": {},
            "cpus": { "cores": cores, "sockets": sockets },
            "zstdSupported": true,
            "vtpmSupported": true,
            "platform_version": "3.4.0",
            "tags": pool.tags,
            "$pool": pool.id,
            "$poolId": pool.id,
            "_xapiRef": format!("OpaqueRef:{}", pool.id),
        });
        if let Some(master) = master {
            shown["master"] = json!(master.id);
        }
        shown
    }
}

/// The connection to a pool, as `/servers` shows it.
pub(super) fn show_server(pool: &Pool) -> Value {
    let connected = pool.connection == Connection::Connected;
    let mut shown = json!({
        "type": "server",
        "id": pool.server,
        "host": pool.address,
        "label": pool.name,
        "username": "root",
        "enabled": pool.connection != Connection::Disconnected,
        "allowUnauthorized": true,
        "readOnly": false,
        "status": pool.connection.as_str(),
    });
    if connected {
        shown["poolId"] = json!(pool.id);
        shown["poolNameLabel"] = json!(pool.name);
        if let Some(master) = &pool.master {
            shown["master"] = json!(master);
        }
    }
    if pool.connection == Connection::Connecting {
        shown["error"] = json!({ "message": "connect ETIMEDOUT", "code": "ETIMEDOUT" });
    }
    shown
}

/// What all hosts say.
fn usual_host(cores: u32) -> Value {
    json!({
        "name_description": "",
        "powerOnMode": "",
        "hvmCapable": true,
        "multipathing": false,
        "zstdSupported": true,
        "rebootRequired": false,
        "build": "release/yangtze/master/58",
        "version": "8.3.0",
        "productBrand": "XCP-ng",
        "CPUs": {
            "cpu_count": cores.to_string(), "socket_count": "1", "threads_per_core": "1",
            "vendor": "GenuineIntel", "speed": "2400.000", "modelname": "Simulated CPU",
            "family": "6", "model": "85", "stepping": "7", "flags": "fpu de tsc",
        },
        "bios_strings": { "bios-vendor": "Simulated", "system-manufacturer": "Bowline" },
        "chipset_info": { "iommu": true },
        "license_params": { "sku_type": "free" },
        "license_server": { "address": "localhost", "port": "27000" },
        "license_expiry": null,
        "logging": {},
        "current_operations": {},
        "otherConfig": {},
        "certificates": [],
        "PIFs": [],
        "$PIFs": [],
        "PCIs": [],
        "PGPUs": [],
        "$PBDs": [],
        "patches": [],
        "supplementalPacks": [],
    })
}

/// What all VMs say.
fn usual_vm() -> Value {
    json!({
        "xenStoreData": {},
        "blockedOperations": {},
        "auto_poweron": false,
        "high_availability": "",
        "boot": { "firmware": "uefi", "order": "cdn" },
        "bios_strings": {},
        "virtualizationMode": "hvm",
        "startDelay": 0,
        "expNestedHvm": false,
        "videoram": 8,
        "vga": "std",
        "secureBoot": false,
        "hasVendorDevice": false,
        "needsVtpm": false,
        "snapshots": [],
        "VTPMs": [],
    })
}

/// Adds the members of one object to another.
fn add(shown: &mut Value, more: Value) {
    if let (Value::Object(shown), Value::Object(more)) = (shown, more) {
        shown.extend(more);
    }
}

fn show_vm(vm: &Vm) -> Value {
    let size = if vm.power.resides() {
        vm.memory
    } else {
        vm.dynamic.1
    };
    let mut memory = json!({
        "dynamic": [vm.dynamic.0, vm.dynamic.1],
        "static": [vm.fixed.0, vm.fixed.1],
        "size": size,
    });
    if vm.reported {
        memory["usage"] = json!(size / 2);
    }
    let mut shown = json!({
        "type": "VM",
        "id": vm.id,
        "uuid": vm.id,
        "name_label": vm.name,
        "name_description": vm.description,
        "power_state": vm.power.as_str(),
        "CPUs": { "max": vm.cpus_max, "number": vm.cpus },
        "memory": memory,
        "addresses": {},
        "tags": vm.tags,
        "other": vm.other,
        "current_operations": vm.operations,
        "managementAgentDetected": vm.reported,
        "pvDriversDetected": vm.reported,
        "VIFs": [vm.card],
        "$VBDs": [vm.disk],
        "$pool": vm.pool,
        "$poolId": vm.pool,
        "_xapiRef": vm.reference,
    });
    add(&mut shown, usual_vm());
    if vm.reported {
        shown["addresses"] = json!(guest::addresses(&vm.guest));
        if let Some(address) = guest::main_address(&vm.guest) {
            shown["mainIpAddress"] = json!(address);
        }
    }
    if !vm.nowhere {
        let place = vm
            .host
            .as_ref()
            .or(vm.local_disk.as_ref())
            .unwrap_or(&vm.pool);
        shown["$container"] = json!(place);
    }
    shown
}

/// Replaces members; `null` takes one away.
fn deform(shown: &mut Map<String, Value>, members: &Map<String, Value>) {
    for (name, value) in members {
        if value.is_null() {
            shown.remove(name);
        } else {
            shown.insert(name.clone(), value.clone());
        }
    }
}

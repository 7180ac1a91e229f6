//! What the API shows, as far as it is used. Everything but an id may be missing or odd: a field
//! that cannot be read counts as missing, so that one strange object never hides others.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Vm {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) name_label: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) power_state: Option<PowerState>,
    #[serde(rename = "CPUs", default, deserialize_with = "if_readable")]
    pub(crate) cpus: Option<Cpus>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) memory: Option<Memory>,
    #[serde(rename = "mainIpAddress", default, deserialize_with = "if_readable")]
    pub(crate) main_ip_address: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) addresses: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Vec<String>,
    #[serde(rename = "$container", default, deserialize_with = "uuid_if_any")]
    pub(crate) container: Option<Uuid>,
    #[serde(rename = "$pool", default, deserialize_with = "uuid_if_any")]
    pool: Option<Uuid>,
    /// The older name of the same, announced to go.
    #[serde(rename = "$poolId", default, deserialize_with = "uuid_if_any")]
    pool_id: Option<Uuid>,
}

impl Vm {
    pub(crate) const FIELDS: &str = "id,name_label,power_state,CPUs,memory,mainIpAddress,\
                                     addresses,tags,$container,$pool,$poolId";

    pub(crate) fn pool(&self) -> Option<Uuid> {
        self.pool.or(self.pool_id)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.power_state == Some(PowerState::Running)
    }

    #[cfg(test)]
    pub(crate) fn set_pool(&mut self, pool: Option<Uuid>) {
        self.pool = pool;
        self.pool_id = pool;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum PowerState {
    Running,
    Halted,
    Paused,
    Suspended,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Cpus {
    /// The configured maximum.
    pub(crate) max: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Memory {
    /// Bytes, which move with the balloon.
    pub(crate) size: u64,
    /// The smallest and the largest it may ever have.
    #[serde(rename = "static", default, deserialize_with = "or_default")]
    pub(crate) limits: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Host {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) name_label: Option<String>,
}

/// Whether the VMs of a host's pool are loaded, as the host shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct HostLoad {
    #[serde(rename = "controlDomain", default, deserialize_with = "if_readable")]
    control_domain: Option<String>,
    #[serde(rename = "residentVms", default, deserialize_with = "or_default")]
    resident_vms: Vec<Option<String>>,
    #[serde(rename = "$pool", default, deserialize_with = "uuid_if_any")]
    pub(crate) pool: Option<Uuid>,
}

impl HostLoad {
    /// Whether it shows a VM at all, be it the host's own.
    pub(crate) fn shows_vms(&self) -> bool {
        self.control_domain.is_some() || self.resident_vms.iter().any(Option::is_some)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Pool {
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) name_label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Connection {
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) host: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(crate) status: Option<String>,
    #[serde(rename = "poolId", default, deserialize_with = "uuid_if_any")]
    pub(crate) pool_id: Option<Uuid>,
}

fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// None if it is null or of another shape.
fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    readable(deserializer)
}

fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(readable(deserializer)?.unwrap_or_default())
}

fn uuid_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    let uuid: Option<Uuid> = readable(deserializer)?;
    Ok(uuid.filter(|uuid| !uuid.is_nil()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PA, VM1, vm1};
    use serde_json::json;

    #[test]
    fn a_vm_is_read_whatever_is_odd_about_it() {
        let vm = vm1();
        assert_eq!(vm.pool().unwrap().to_string(), PA);
        let bare: Vm = serde_json::from_value(json!({
            "id": VM1, "name_label": 7, "power_state": "Dreaming", "CPUs": [], "memory": null,
            "mainIpAddress": null, "addresses": [], "tags": null, "$container": "",
            "$pool": null, "$poolId": PA, "new": {}
        }))
        .unwrap();
        assert_eq!((bare.power_state, bare.cpus.clone()), (None, None));
        assert_eq!((bare.container, bare.pool()), (None, vm.pool()));
        assert!(serde_json::from_value::<Vm>(json!({"name_label": "x"})).is_err());
    }

    #[test]
    fn a_host_without_vm_records_shows_none() {
        for (host, wanted) in [
            (json!({"controlDomain": VM1, "residentVms": [null]}), true),
            (json!({"residentVms": [null, VM1]}), true),
            (json!({"residentVms": [null, null]}), false),
            (json!({"controlDomain": null, "residentVms": []}), false),
            (json!({}), false),
        ] {
            let load: HostLoad = serde_json::from_value(host.clone()).unwrap();
            assert_eq!(load.shows_vms(), wanted, "{host}");
        }
    }
}

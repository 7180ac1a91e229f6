//! When "no such VM" proves that a VM is gone.
//!
//! The server shows what is in its memory. A pool that is disconnected, or not loaded yet, is not
//! there with all it has, and a VM of it is a well-formed 404 although it runs. So a 404 counts
//! only while every pool that the VM can be in is there with its VMs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind, Node};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::api::{Api, Connection, HostLoad};
use crate::id::{VmId, uuid};
use crate::labels::POOL_ID;
use crate::server::Server;

/// The pools that the VM of a node can be in: the one of its provider id, and the one it was last
/// seen in. None: any.
pub(crate) fn pools_of(node: &Node) -> BTreeSet<Uuid> {
    let id = node.provider_id.as_deref().map(VmId::parse);
    let recorded = id.and_then(Result::ok).and_then(|id| id.pool);
    let seen = node.labels.get(POOL_ID).and_then(uuid);
    recorded.into_iter().chain(seen).collect()
}

/// Whether a pool is loaded, or why that is unknown.
type Loaded = Result<(), String>;

/// What was proven in one look, so that nothing is asked twice.
#[derive(Default)]
pub(crate) struct Proofs {
    known: Mutex<BTreeMap<(usize, Option<Uuid>), Loaded>>,
}

impl Proofs {
    /// Whether a VM that these servers do not have is gone: each of its pools is loaded at one of
    /// them. Where no pool is known, all servers must say so, with all their pools.
    pub(crate) async fn gone(
        &self,
        servers: &[Arc<Server>],
        missing_at: &[usize],
        pools: &BTreeSet<Uuid>,
    ) -> Result<(), CloudError> {
        if pools.is_empty() {
            if missing_at.len() < servers.len() {
                return Err(unproven("not every Xen Orchestra could be asked"));
            }
            for number in 0..servers.len() {
                let loaded = self.loaded(servers, number, None).await;
                loaded.map_err(|why| unproven(&why))?;
            }
            return Ok(());
        }
        for pool in pools {
            let mut why = format!("no Xen Orchestra that answers has pool {pool}");
            let mut found = false;
            for number in missing_at {
                match self.loaded(servers, *number, Some(*pool)).await {
                    Ok(()) => {
                        found = true;
                        break;
                    }
                    Err(error) => why = error,
                }
            }
            if !found {
                return Err(unproven(&why));
            }
        }
        Ok(())
    }

    async fn loaded(&self, servers: &[Arc<Server>], number: usize, pool: Option<Uuid>) -> Loaded {
        let mut known = self.known.lock().await;
        if let Some(known) = known.get(&(number, pool)) {
            return known.clone();
        }
        let Some(server) = servers.get(number) else {
            return Err("there is no such server".to_owned());
        };
        let loaded = match pool {
            Some(pool) => pool_loaded(server.api(), pool).await,
            None => all_loaded(server.api()).await,
        };
        let loaded = loaded.map_err(|error| error.chain());
        known.insert((number, pool), loaded.clone());
        loaded
    }
}

fn unproven(why: &str) -> CloudError {
    let text = format!("there is no such VM, which proves nothing: {why}");
    CloudError::new(CloudErrorKind::Unknown, text)
}

async fn pool_loaded(api: &Api, pool: Uuid) -> Result<(), CloudError> {
    if api.pool(pool).await?.is_none() {
        let text = format!("pool {pool} is not connected to Xen Orchestra, or not loaded yet");
        return Err(CloudError::new(CloudErrorKind::Unknown, text));
    }
    let hosts = api.loads(Some(pool)).await?.items;
    if hosts.iter().any(HostLoad::shows_vms) {
        return Ok(());
    }
    let text = format!("pool {pool} shows no VM at all: its VMs are not loaded, or not to be seen");
    Err(CloudError::new(CloudErrorKind::Unknown, text))
}

async fn all_loaded(api: &Api) -> Result<(), CloudError> {
    let pools = api.pools().await?;
    let ids: BTreeSet<Uuid> = pools.items.iter().map(|pool| pool.id).collect();
    let hosts = api.loads(None).await?.items;
    let connections = match api.connections().await {
        Ok(list) if list.unreadable == 0 => list.items,
        // Whether it may be read is a matter of rights; what is unreadable could be anything.
        Ok(_) => return Err(odd("an unreadable connection to a pool")),
        Err(error)
            if matches!(
                error.kind(),
                CloudErrorKind::Denied | CloudErrorKind::NotFound
            ) =>
        {
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    if pools.unreadable > 0 {
        return Err(odd("an unreadable pool"));
    }
    judge_all(&ids, &hosts, &connections)
        .map_err(|why| CloudError::new(CloudErrorKind::Unknown, why))
}

fn odd(what: &str) -> CloudError {
    CloudError::new(
        CloudErrorKind::Unknown,
        format!("Xen Orchestra shows {what}"),
    )
}

/// Whether all that a server should have is there. Pure.
fn judge_all(
    pools: &BTreeSet<Uuid>,
    hosts: &[HostLoad],
    connections: &[Connection],
) -> Result<(), String> {
    if pools.is_empty() {
        return Err("Xen Orchestra shows no pool at all".to_owned());
    }
    for pool in pools {
        let mut of_pool = hosts.iter().filter(|host| host.pool == Some(*pool));
        if !of_pool.any(HostLoad::shows_vms) {
            return Err(format!("the VMs of pool {pool} are not loaded"));
        }
    }
    // Also those that are switched off: what is behind them may run all the same.
    for connection in connections {
        let host = connection.host.as_deref().unwrap_or("without a name");
        let connected = connection.status.as_deref() == Some("connected");
        let listed = connection.pool_id.is_some_and(|pool| pools.contains(&pool));
        if !connected || !listed {
            return Err(format!(
                "the pool behind server {host} is not connected, or not loaded yet"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PA, PB, VM1, known};
    use serde_json::{Value, json};

    #[test]
    fn a_vm_may_be_in_the_pool_of_its_id_and_in_the_one_it_was_seen_in() {
        let ids = |texts: &[&str]| -> BTreeSet<Uuid> {
            texts.iter().map(|it| it.parse().unwrap()).collect()
        };
        for (pool, label, wanted) in [
            (PA, None, vec![PA]),
            (PA, Some(PA), vec![PA]),
            (PA, Some(PB), vec![PA, PB]),
            ("", Some(PB), vec![PB]),
            ("", Some("rubbish"), vec![]),
            ("", None, vec![]),
        ] {
            let mut node = known("w1", &format!("xenorchestra://{pool}/{VM1}"));
            if let Some(label) = label {
                node.labels.insert(POOL_ID.into(), label.into());
            }
            assert_eq!(pools_of(&node), ids(&wanted), "{pool} {label:?}");
        }
    }

    #[test]
    fn all_is_loaded_only_if_every_pool_and_every_connection_is() {
        let loaded = json!({"controlDomain": VM1, "$pool": PA});
        let empty = json!({"residentVms": [null], "$pool": PB});
        let up = json!({"enabled": true, "status": "connected", "poolId": PA});
        let elsewhere = json!({"enabled": true, "status": "connected", "poolId": PB});
        let down = json!({"enabled": true, "status": "disconnected", "host": "10.1.1.1"});
        let off = json!({"enabled": false, "status": "disconnected"});
        let judge = |pools: &[&str], hosts: &[&Value], connections: &[&Value]| {
            let pools = pools.iter().map(|it| it.parse().unwrap()).collect();
            let hosts: Vec<HostLoad> = hosts
                .iter()
                .map(|it| serde_json::from_value((*it).clone()).unwrap())
                .collect();
            let connections: Vec<Connection> = connections
                .iter()
                .map(|it| serde_json::from_value((*it).clone()).unwrap())
                .collect();
            judge_all(&pools, &hosts, &connections).is_ok()
        };
        assert!(judge(&[PA], &[&loaded], &[]));
        assert!(judge(&[PA], &[&loaded], &[&up]));
        assert!(!judge(&[PA], &[&loaded], &[&up, &off]), "switched off");
        assert!(!judge(&[], &[], &[]), "no pool");
        assert!(!judge(&[PA, PB], &[&loaded, &empty], &[&up]), "VMs missing");
        assert!(!judge(&[PA, PB], &[&loaded], &[&up]), "no host");
        assert!(!judge(&[PA], &[&loaded], &[&up, &down]), "disconnected");
        assert!(
            !judge(&[PA], &[&loaded], &[&up, &elsewhere]),
            "still loading"
        );
    }
}

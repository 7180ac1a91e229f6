//! One data center: its API, its cached machines, and caches of account and networks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{Cached, CachedRead, Freshness};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{Account, Api, FirewallRule, Machine, Network, Nic};
use crate::config::Config;
use crate::lock;
use crate::machine_cache::{LATER, Listing, MachineCache};

/// Age of cached account and networks; new ones are noticed after this long at the latest.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Services that are reconciled together share one list of firewall rules.
const RULES_AGE: Duration = Duration::from_secs(5);
/// Bound of `unlisted`; a node has a few such networks.
const MOST_UNLISTED: usize = 1024;

type Networks = Arc<BTreeMap<Uuid, Network>>;

#[derive(Debug)]
pub struct DataCenter {
    pub(crate) api: Arc<Api>,
    pub(crate) machines: Arc<MachineCache>,
    datacenter: OnceCell<String>,
    region: Option<String>,
    zone: Option<String>,
    account: CachedRead<Account>,
    networks: CachedRead<BTreeMap<Uuid, Network>>,
    firewall_rules: CachedRead<Vec<FirewallRule>>,
    /// Networks read one by one while they cannot be listed; none: not visible to us.
    unlisted: Mutex<BTreeMap<Uuid, Option<Network>>>,
}

impl DataCenter {
    pub(crate) fn new(config: &Config, api: Arc<Api>) -> Self {
        Self {
            machines: Arc::new(MachineCache::new(Arc::clone(&api))),
            api,
            datacenter: OnceCell::new_with(config.datacenter.clone()),
            region: config.region.clone(),
            zone: config.zone.clone(),
            account: CachedRead::default(),
            networks: CachedRead::default(),
            firewall_rules: CachedRead::default(),
            unlisted: Mutex::default(),
        }
    }

    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub fn machines(&self) -> &Arc<MachineCache> {
        &self.machines
    }

    /// Other credentials may see another account.
    pub(crate) fn forget(&self) {
        self.account.invalidate();
        self.networks.invalidate();
        self.firewall_rules.invalidate();
        lock(&self.unlisted).clear();
        self.machines.invalidate();
    }

    pub async fn region_and_zone(&self) -> Result<(String, String), CloudError> {
        if let (Some(region), Some(zone)) = (&self.region, &self.zone) {
            return Ok((region.clone(), zone.clone()));
        }
        let name = self.datacenter.get_or_try_init(|| self.find_name()).await?;
        let or_name = |it: &Option<String>| it.clone().unwrap_or_else(|| name.clone());
        Ok((or_name(&self.region), or_name(&self.zone)))
    }

    /// The name of the data center, from a ping or from the list of data centers.
    async fn find_name(&self) -> Result<String, CloudError> {
        if let Some(name) = self.api.ping().await?.datacenter {
            return Ok(name);
        }
        let all = self.api.datacenters().await?;
        let client = self.api.client();
        let ours = client.base().url().as_str().trim_end_matches('/');
        let mut same = all
            .iter()
            .filter(|(_, url)| url.trim_end_matches('/') == ours);
        let name = match (same.next(), all.len()) {
            (Some((name, _)), _) => Some(name),
            (None, 1) => all.keys().next(),
            (None, _) => None,
        };
        name.cloned().ok_or_else(|| {
            let text =
                "CloudAPI does not report the name of its data center: set triton-datacenter";
            CloudError::new(CloudErrorKind::Invalid, text)
        })
    }

    /// The account, at most [`REMEMBERED`] old.
    pub async fn account(&self) -> Result<Account, CloudError> {
        let oldest = Instant::now().checked_sub(REMEMBERED);
        self.account_since(oldest).await
    }

    /// The account, read after `moment`.
    pub(crate) async fn account_since(
        &self,
        moment: Option<Instant>,
    ) -> Result<Account, CloudError> {
        let read = |_| async { Ok(self.api.account().await?) };
        let account = self.account.get(later_than(moment), read).await?;
        Ok(Account::clone(&account.value))
    }

    /// Complete lists of machines, requested from now on, of an account that answers: a machine
    /// that is in none of them does not exist. Two lists if they have pages, because a machine can
    /// slip between pages.
    pub(crate) async fn proof(&self) -> Result<Vec<Arc<Listing>>, CloudError> {
        let now = Instant::now();
        let first = self.machines.since(now).await?;
        let mut lists = vec![first];
        if lists[0].pages > 1 {
            lists.push(self.machines.since(Instant::now()).await?);
        }
        self.account_since(Some(now)).await?;
        Ok(lists)
    }

    /// All networks and pools by id. While they cannot be listed, as while the name service is
    /// down: the last good list.
    pub async fn networks(&self) -> Result<Arc<BTreeMap<Uuid, Network>>, CloudError> {
        let fresh = later_than(Instant::now().checked_sub(REMEMBERED));
        match self
            .networks
            .get(fresh, |former| self.list_networks(former))
            .await
        {
            Ok(networks) => Ok(networks.value),
            Err(error) => self
                .networks
                .last()
                .await
                .map(|last| last.value)
                .ok_or(error),
        }
    }

    async fn list_networks(
        &self,
        former: Option<Cached<BTreeMap<Uuid, Network>>>,
    ) -> Result<BTreeMap<Uuid, Network>, CloudError> {
        let former = former.filter(|last| self.networks.is_current(last));
        let keep_suffixes = |mut network: Network| {
            if network.suffixes.is_none() {
                // Left out while the name service is down.
                let before = former.as_ref().and_then(|it| it.value.get(&network.id));
                network.suffixes = before.and_then(|it| it.suffixes.clone());
            }
            (network.id, network)
        };
        let list = self.api.networks().await?;
        Ok(list.into_iter().map(keep_suffixes).collect())
    }

    /// The networks that these machines are on: from the list, or, where that cannot be had, one by
    /// one.
    pub(crate) async fn networks_of(&self, machines: &[&Machine]) -> Result<Networks, CloudError> {
        let failed = match self.networks().await {
            Ok(networks) => return Ok(networks),
            Err(error) => error,
        };
        let nics = machines
            .iter()
            .flat_map(|machine| machine.nics.iter().flatten());
        let ids: std::collections::BTreeSet<Uuid> = nics.filter_map(|nic| nic.network).collect();
        let mut found = BTreeMap::new();
        for id in ids {
            let known = lock(&self.unlisted).get(&id).cloned();
            let network = match known {
                Some(network) => network,
                None => match self.api.network(id).await {
                    Ok(network) => {
                        let mut unlisted = lock(&self.unlisted);
                        if unlisted.len() < MOST_UNLISTED {
                            unlisted.insert(id, network.clone());
                        }
                        network
                    }
                    Err(_) => return Err(failed),
                },
            };
            found.extend(network.map(|network| (id, network)));
        }
        Ok(Arc::new(found))
    }

    pub(crate) async fn firewall_rules(&self) -> Result<Arc<Vec<FirewallRule>>, CloudError> {
        let read = async { Ok(self.api.firewall_rules().await?) };
        Ok(self.firewall_rules.recent(RULES_AGE, read).await?.value)
    }

    pub(crate) fn firewall_rules_changed(&self) {
        self.firewall_rules.invalidate();
    }

    /// The cards of a machine, from a server that does not show them with it.
    pub(crate) async fn with_nics(&self, machine: &Machine) -> Result<Machine, CloudError> {
        let mut machine = machine.clone();
        if machine.nics.is_none() {
            let nics: Vec<Nic> = self.api.nics(machine.id).await?;
            machine.nics = Some(nics);
        }
        Ok(machine)
    }
}

fn later_than(moment: Option<Instant>) -> Freshness {
    Freshness {
        since: moment.map(|moment| moment + LATER),
        generation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ENDPOINT, Harness, config, refusal, reply, with};
    use serde_json::json;

    fn data_center(test: &Harness, file: Option<&str>) -> DataCenter {
        DataCenter::new(&config(&[], file), test.api(&[]))
    }

    #[tokio::test(start_paused = true)]
    async fn triton_case_21_the_data_center_is_named_by_a_ping_or_by_the_list() {
        let pong = || reply(200, &json!({"ping": "pong"}));
        let test = Harness::new(move |_| with(pong(), "triton-datacenter-name", "eg-1"));
        let here = data_center(&test, None);
        assert_eq!(
            here.region_and_zone().await.unwrap(),
            ("eg-1".to_owned(), "eg-1".to_owned())
        );
        here.region_and_zone().await.unwrap();
        assert_eq!(test.lines(), ["GET /--ping"], "asked once");
        for (list, wanted) in [
            (
                json!({"eg-0": "https://x", "eg-1": format!("{ENDPOINT}/")}),
                Some("eg-1"),
            ),
            (json!({"eg-2": "https://x"}), Some("eg-2")),
            (json!({"eg-0": "https://x", "eg-2": "https://y"}), None),
        ] {
            let test = Harness::new(move |request| match request.uri().path() {
                "/--ping" => pong(),
                _ => reply(200, &list),
            });
            let found = data_center(&test, None).region_and_zone().await;
            assert_eq!(found.ok().map(|(region, _)| region).as_deref(), wanted);
        }
        let file = "[Global]\nregion = eu\nzone = z1\n";
        assert_eq!(
            data_center(&test, Some(file))
                .region_and_zone()
                .await
                .unwrap(),
            ("eu".to_owned(), "z1".to_owned())
        );
        let file = "[Global]\ntriton-datacenter = dc\nzone = z1\n";
        assert_eq!(
            data_center(&test, Some(file))
                .region_and_zone()
                .await
                .unwrap(),
            ("dc".to_owned(), "z1".to_owned())
        );
        assert_eq!(test.lines().len(), 1, "what is configured is not asked for");
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_name_service_is_down_networks_are_what_they_were() {
        let id = Uuid::from_u128(1);
        let mut answers = 0;
        let test = Harness::new(move |request| {
            answers += 1;
            if request.uri().path() != "/acme/networks" {
                return reply(200, &json!({"id": id, "public": true}));
            }
            match answers {
                3 => reply(
                    200,
                    &json!([{"id": id, "public": true, "suffixes": ["svc.a.z"]}]),
                ),
                4 => reply(200, &json!([{"id": id, "public": true}])),
                _ => refusal(500, "InternalError", "Unable to contact the Triton CNS API"),
            }
        });
        let data_center = data_center(&test, None);
        let mut machine = crate::testing::machine(Uuid::from_u128(9), "m");
        machine.nics = Some(vec![Nic {
            network: Some(id),
            ..Nic::default()
        }]);
        // Never listed yet: each is read by itself.
        let read = data_center.networks_of(&[&machine]).await.unwrap();
        assert!(read[&id].public && read[&id].suffixes.is_none());
        for _ in 0..3 {
            let networks = data_center.networks_of(&[&machine]).await.unwrap();
            assert_eq!(
                networks[&id].suffixes.as_deref(),
                Some(&["svc.a.z".to_owned()][..])
            );
            tokio::time::advance(REMEMBERED).await;
        }
        assert_eq!(test.lines().len(), 5);
    }
}

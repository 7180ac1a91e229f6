//! Loading a fixture. Nothing here takes time.

use bowline_simulator::control::{add_all, add_faults};
use bytes::Bytes;
use serde_json::json;

use super::balancer_fixture::{BalancerSpec, ServiceSpec};
use super::balancers::NewBalancer;
use super::catalog::{DEFAULT_TYPE, TEMPLATES, kind};
use super::config::Config;
use super::fields::Fields;
use super::fixture::{ClusterSpec, InstanceSpec, NetworkSpec, PoolSpec};
use super::instances::{ASSIGNMENTS, NewInstance};
use super::model::{Cloud, Cluster, Network, Nodepool, Pool, Sort, State, Zone};
use super::pools::MOST_MEMBERS;
use super::services::NEW;
use super::{ControlError, ControlResult, Exoscale};

impl Exoscale {
    /// A cloud with its zones and nothing else.
    pub(super) fn empty(config: &Config) -> Cloud {
        let zones = config.zones.iter();
        Cloud {
            keys: config.keys.clone(),
            timings: config.timings.clone(),
            quirks: config.quirks,
            zones: zones.map(|name| (name.clone(), Zone::default())).collect(),
            ..Cloud::default()
        }
    }

    pub(super) fn load(&self) -> ControlResult {
        add_all(&self.fixture.private_networks, |spec| {
            self.add_private_network(spec)
        })?;
        add_all(&self.fixture.instance_pools, |spec| self.add_pool(spec))?;
        add_all(&self.fixture.instances, |spec| self.add_instances(spec))?;
        add_all(&self.fixture.sks_clusters, |spec| self.add_cluster(spec))?;
        add_all(&self.fixture.load_balancers, |spec| self.add_balancer(spec))?;
        add_faults(&self.world, super::NAME, &self.fixture.faults)
    }

    /// The zone that is meant: the first if none is named.
    fn zone_named(&self, zone: Option<&String>) -> Result<String, String> {
        let zones = &self.config.zones;
        let named = zone.or(zones.first()).filter(|zone| zones.contains(zone));
        named.cloned().ok_or_else(|| {
            let wanted = zone.map(String::as_str).unwrap_or_default();
            format!("{wanted:?} is no zone; there are {}", zones.join(", "))
        })
    }

    /// Adds a private network, and returns its id.
    pub fn add_private_network(&self, spec: &NetworkSpec) -> ControlResult<String> {
        self.add("add the private network", &spec.name, |cloud| {
            let zone = self.zone_named(spec.zone.as_ref())?;
            let id = self.world.id_or(spec.id.as_ref());
            let network = Network {
                id: id.clone(),
                name: spec.name.clone(),
                start: spec.start_ip,
                end: spec.end_ip,
                netmask: spec.netmask,
                leases: Vec::new(),
            };
            let zone = cloud.zones.get_mut(&zone).ok_or("there is no such zone")?;
            zone.networks.insert(&id, network);
            Ok(id)
        })
    }

    /// Adds a pool with the members that it makes itself, and returns its id.
    pub fn add_pool(&self, spec: &PoolSpec) -> ControlResult<String> {
        self.add("add the instance pool", &spec.name, |cloud| {
            self.set_pool(cloud, spec, None)
        })
    }

    fn set_pool(
        &self,
        cloud: &mut Cloud,
        spec: &PoolSpec,
        nodepool: Option<String>,
    ) -> Result<String, String> {
        if spec.size > MOST_MEMBERS {
            return Err(format!("size must not be above {MOST_MEMBERS}"));
        }
        let zone = self.zone_named(spec.zone.as_ref())?;
        let pool = Pool {
            id: self.world.id_or(spec.id.as_ref()),
            name: spec.name.clone(),
            description: spec.description.clone(),
            prefix: spec
                .instance_prefix
                .clone()
                .unwrap_or_else(|| "pool".to_owned()),
            size: spec.size,
            state: "running",
            kind: type_id(spec.kind.as_deref())?,
            template: TEMPLATES[0].0.to_owned(),
            assignment: assignment(spec.public_ip_assignment.as_deref())?,
            networks: networks(cloud, &spec.private_networks)?,
            labels: spec.labels.clone(),
            disk: 50,
            nodepool,
        };
        let id = pool.id.clone();
        let here = cloud.zones.get_mut(&zone).ok_or("there is no such zone")?;
        if here.pools.get(&id).is_some() {
            return Err(format!("the id {id} exists already"));
        }
        here.pools.insert(&id, pool);
        let made = self.make_members(cloud, &zone, &id, spec.size, State::Running);
        made.map(|_| id).map_err(|refusal| refusal.text())
    }

    /// Adds an instance that is there at once, and returns its id; with `count`, the first one's.
    pub fn add_instance(&self, spec: &InstanceSpec) -> ControlResult<String> {
        let added = self.add_instances(spec)?;
        Ok(added.into_iter().next().unwrap_or_default())
    }

    /// Adds as many instances as the specification counts, and returns their ids.
    pub fn add_instances(&self, spec: &InstanceSpec) -> ControlResult<Vec<String>> {
        self.add("add the instance", &spec.name, |cloud| {
            let count = spec.count.unwrap_or(1);
            if count == 0 || u64::from(count) > MOST_MEMBERS {
                return Err(format!("count must be between 1 and {MOST_MEMBERS}"));
            }
            if count > 1 && (spec.id.is_some() || spec.public_ip.is_some()) {
                return Err("several instances cannot have one id or address".to_owned());
            }
            let (zone, new) = self.new_instance(cloud, spec)?;
            let mut added = Vec::new();
            for number in 1..=count {
                let mut new = new.clone();
                if spec.count.is_some() {
                    new.name = format!("{}-{number}", spec.name);
                }
                let pool = new.pool.clone();
                let made = self.make_instance(cloud, &zone, new);
                added.push(made.map_err(|refusal| refusal.text())?);
                let pools = cloud.zones.get_mut(&zone).map(|zone| &mut zone.pools);
                if let Some(pool) = pools.zip(pool).and_then(|(all, id)| all.get_mut(&id)) {
                    pool.size += 1;
                }
            }
            Ok(added)
        })
    }

    fn new_instance(
        &self,
        cloud: &Cloud,
        spec: &InstanceSpec,
    ) -> Result<(String, NewInstance), String> {
        let pool = match &spec.instance_pool {
            Some(pool) => Some(found(cloud, Sort::Pool, pool)?),
            None => None,
        };
        let zone = self.zone_named(spec.zone.as_ref().or(pool.as_ref().map(|(zone, _)| zone)))?;
        if pool.as_ref().is_some_and(|(other, _)| *other != zone) {
            return Err("its pool is in another zone".to_owned());
        }
        let kind = match (&spec.kind, &pool) {
            (None, Some((zone, id))) => {
                let pool = cloud.zones.get(zone).and_then(|zone| zone.pools.get(id));
                pool.map(|pool| pool.kind.clone()).unwrap_or_default()
            }
            (kind, _) => type_id(kind.as_deref())?,
        };
        let state = spec.state.as_deref().unwrap_or("running");
        let state = State::parse(state).ok_or_else(|| format!("{state:?} is no state"))?;
        let new = NewInstance {
            id: spec.id.clone(),
            kind,
            assignment: assignment(spec.public_ip_assignment.as_deref())?,
            public_ip: spec.public_ip,
            ipv6: spec.ipv6_address,
            networks: networks(cloud, &spec.private_networks)?,
            pool: pool.map(|(_, id)| id),
            labels: spec.labels.clone(),
            state,
            ..NewInstance::named(&spec.name)
        };
        Ok((zone, new))
    }

    /// Adds a cluster with its nodepools, and returns its id.
    pub fn add_cluster(&self, spec: &ClusterSpec) -> ControlResult<String> {
        self.add("add the cluster", &spec.name, |cloud| {
            let zone = self.zone_named(spec.zone.as_ref())?;
            let mut nodepools = Vec::new();
            for one in &spec.nodepools {
                let id = self.world.id_or(one.id.as_ref());
                let pool = if let Some(pool) = &one.instance_pool {
                    found(cloud, Sort::Pool, pool)?.1
                } else {
                    let mut pool = PoolSpec::named(&format!("nodepool-{}", one.name), one.size);
                    pool.zone = Some(zone.clone());
                    self.set_pool(cloud, &pool, Some(id.clone()))?
                };
                let here = cloud.zones.get_mut(&zone).ok_or("there is no such zone")?;
                let owned = here
                    .pools
                    .get_mut(&pool)
                    .ok_or("its pool is in another zone")?;
                owned.nodepool = Some(id.clone());
                nodepools.push(Nodepool {
                    id,
                    name: one.name.clone(),
                    pool,
                    created_at: self.now(),
                });
            }
            let cluster = Cluster {
                id: self.world.id_or(spec.id.as_ref()),
                name: spec.name.clone(),
                version: spec.version.clone().unwrap_or_else(|| "1.36.3".to_owned()),
                created_at: self.now(),
                nodepools,
            };
            let id = cluster.id.clone();
            let here = cloud.zones.get_mut(&zone).ok_or("there is no such zone")?;
            here.clusters.insert(&id, cluster);
            Ok(id)
        })
    }

    /// Adds a load balancer with its services that is there at once, and returns its id.
    pub fn add_balancer(&self, spec: &BalancerSpec) -> ControlResult<String> {
        self.add("add the load balancer", &spec.name, |cloud| {
            let zone = self.zone_named(spec.zone.as_ref())?;
            let new = NewBalancer {
                id: spec.id.clone(),
                name: spec.name.clone(),
                description: spec.description.clone(),
                labels: spec.labels.clone(),
                ip: spec.ip,
            };
            let made = self.make_balancer(cloud, &zone, new);
            let id = made.map_err(|refusal| refusal.text())?;
            for service in &spec.services {
                self.set_service(cloud, (&zone, &id), service)?;
            }
            Ok(id)
        })
    }

    /// Adds a service to a load balancer (by id or name) at once, and returns its id.
    pub fn add_service(&self, balancer: &str, spec: &ServiceSpec) -> ControlResult<String> {
        self.add("add the service", &spec.name, |cloud| {
            let (zone, id) = found(cloud, Sort::Balancer, balancer)?;
            self.set_service(cloud, (&zone, &id), spec)
        })
    }

    fn set_service(
        &self,
        cloud: &mut Cloud,
        place: (&str, &str),
        spec: &ServiceSpec,
    ) -> Result<String, String> {
        let pool = found(cloud, Sort::Pool, &spec.instance_pool)?.1;
        let mut check = json!(spec.healthcheck);
        if check.is_null() {
            check = json!({ "mode": "tcp", "port": spec.target_port });
        }
        let body = json!({
            "name": spec.name, "description": spec.description, "instance-pool": { "id": pool },
            "protocol": spec.protocol, "strategy": spec.strategy, "port": spec.port,
            "target-port": spec.target_port, "healthcheck": check,
        });
        let fields = Fields::parse(&Bytes::from(body.to_string()), NEW);
        let service = fields.and_then(|fields| self.new_service(cloud, place, &fields));
        let mut service = service.map_err(|refusal| refusal.text())?;
        if let Some(id) = &spec.id {
            service.id.clone_from(id);
        }
        let id = service.id.clone();
        let zone = cloud.zones.get_mut(place.0);
        let balancer = zone.and_then(|zone| zone.balancers.get_mut(place.1));
        balancer
            .ok_or("there is no such load balancer")?
            .services
            .push(service);
        Ok(id)
    }

    fn add<T>(
        &self,
        task: &'static str,
        object: &str,
        work: impl FnOnce(&mut Cloud) -> Result<T, String>,
    ) -> ControlResult<T> {
        self.with(work)
            .map_err(|reason| ControlError::new(task, object, reason))
    }
}

/// Zone and id of something that a specification names.
fn found(cloud: &Cloud, sort: Sort, name: &str) -> Result<(String, String), String> {
    let missing = || {
        let noun = sort.noun();
        format!("there is no {noun} of the id {name:?}, nor exactly one of that name")
    };
    cloud.find(name, sort).ok_or_else(missing)
}

fn networks(cloud: &Cloud, names: &[String]) -> Result<Vec<String>, String> {
    let ids = names
        .iter()
        .map(|name| found(cloud, Sort::Network, name).map(|(_, id)| id));
    ids.collect()
}

fn type_id(name: Option<&str>) -> Result<String, String> {
    let name = name.unwrap_or(DEFAULT_TYPE);
    let known = kind(name).map(|kind| kind.0.to_owned());
    known.ok_or_else(|| format!("there is no instance type {name:?}"))
}

fn assignment(word: Option<&str>) -> Result<&'static str, String> {
    let word = word.unwrap_or(ASSIGNMENTS[0]);
    let known = ASSIGNMENTS.into_iter().find(|known| *known == word);
    known.ok_or_else(|| format!("{word:?} is none of {}", ASSIGNMENTS.join(", ")))
}

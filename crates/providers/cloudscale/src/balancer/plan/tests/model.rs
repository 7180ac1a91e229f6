//! A cloud in memory that refuses what the real one refuses.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::StepId;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::*;
use crate::api::{FloatingIp, Listener, LoadBalancer, Member, Monitor, Pool};
use crate::balancer::desire::{WantedMonitor, WantedPool};

/// One load balancer, perhaps, and the project's floating IPs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) there: Option<Seen>,
    pub(super) floating_ips: Vec<FloatingIp>,
    made: BTreeMap<StepId, Uuid>,
    next: u128,
}

fn read<T: serde::de::DeserializeOwned>(body: &Map<String, Value>, extra: Value) -> T {
    let mut whole = body.clone();
    if let Value::Object(extra) = extra {
        whole.extend(extra);
    }
    for key in ["subnet"] {
        if let Some(uuid) = whole.get(key).filter(|it| it.is_string()).cloned() {
            whole.insert(key.to_owned(), json!({"uuid": uuid}));
        }
    }
    serde_json::from_value(Value::Object(whole)).unwrap()
}

impl Model {
    pub(super) fn pools_mut(&mut self) -> impl Iterator<Item = &mut SeenPool> {
        self.there.iter_mut().flat_map(|there| &mut there.pools)
    }

    fn id(&mut self) -> Uuid {
        self.next += 1;
        Uuid::from_u128(0xffff_0000_0000 + self.next)
    }

    fn seen(&mut self) -> &mut Seen {
        self.there.as_mut().expect("there is a load balancer")
    }

    fn pool(&mut self, pool: PoolRef) -> &mut SeenPool {
        let id = match pool {
            PoolRef::Seen(id) => id,
            PoolRef::Made(step) => self.made[&step],
        };
        let mut pools = self.seen().pools.iter_mut();
        pools
            .find(|it| it.pool.uuid == id)
            .expect("the pool exists")
    }

    pub(super) fn members_by_pool(&self) -> BTreeMap<Uuid, usize> {
        let pools = self.there.iter().flat_map(|there| &there.pools);
        pools.map(|it| (it.pool.uuid, it.members.len())).collect()
    }

    /// How many members are wanted in that pool, if it is one that stays.
    pub(super) fn wanted_members(&self, wanted: &Wanted, pool: Uuid) -> usize {
        let pools = self.there.iter().flat_map(|there| &there.pools);
        let chosen: Vec<&SeenPool> = pools.collect();
        let of_it = |it: &&WantedPool| {
            chosen.iter().any(|seen| {
                seen.pool.uuid == pool
                    && seen.pool.name == it.name
                    && seen.pool.algorithm == it.algorithm
                    && seen.pool.protocol == it.protocol
            })
        };
        wanted
            .pools
            .iter()
            .find(of_it)
            .map_or(0, |it| it.members.len())
    }

    /// Does it; the error is why the cloud would refuse it.
    pub(super) fn apply(&mut self, step: StepId, action: &Action) -> Option<String> {
        match action {
            Action::AwaitBalancer => {}
            Action::CreateBalancer(body) => {
                let zone = json!({"slug": body["zone"]});
                let flavor = json!({"slug": body["flavor"]});
                let mut plain = body.clone();
                plain.remove("vip_addresses");
                let extra = json!({"uuid": self.id(), "zone": zone, "flavor": flavor});
                let balancer: LoadBalancer = read(&plain, extra);
                self.there = Some(Seen {
                    balancer,
                    pools: Vec::new(),
                    loose: Vec::new(),
                });
            }
            Action::ChangeBalancer(body) => {
                let balancer = &mut self.seen().balancer;
                match one(body) {
                    ("name", name) => balancer.name = name.as_str().unwrap().to_owned(),
                    ("tags", tags) => balancer.tags = serde_json::from_value(tags.clone()).unwrap(),
                    other => return Some(format!("{other:?} cannot be changed")),
                }
            }
            Action::CreatePool(body) => {
                let uuid = self.id();
                self.made.insert(step, uuid);
                let pool: Pool = read(body, json!({"uuid": uuid}));
                self.seen().pools.push(SeenPool {
                    pool,
                    members: Vec::new(),
                    listeners: Vec::new(),
                    monitors: Vec::new(),
                });
            }
            Action::DeletePool(id) => {
                let known = self.seen().pools.len();
                self.seen().pools.retain(|it| it.pool.uuid != *id);
                if self.seen().pools.len() == known {
                    return Some("no such pool".to_owned());
                }
            }
            Action::MoveFloatingIp(address) => {
                let balancer = self.seen().balancer.uuid;
                let mut all = self.floating_ips.iter_mut();
                let Some(it) = all.find(|it| it.address() == Some(*address)) else {
                    return Some("no such floating IP".to_owned());
                };
                it.load_balancer = Some(balancer);
                it.server = None;
            }
            _ => return self.apply_to_child(action),
        }
        None
    }

    fn apply_to_child(&mut self, action: &Action) -> Option<String> {
        let uuid = self.id();
        match action {
            Action::CreateMember { pool, body, .. } => {
                let member: Member = read(body, json!({"uuid": uuid, "enabled": true}));
                let members = &mut self.pool(*pool).members;
                let same = |it: &Member| {
                    it.ip() == member.ip() && it.protocol_port == member.protocol_port
                };
                if members.iter().any(same) {
                    return Some("the member exists".to_owned());
                }
                members.push(member);
            }
            Action::ChangeMember { pool, id, body } => {
                let mut members = self.pool(PoolRef::Seen(*pool)).members.iter_mut();
                let member = members
                    .find(|it| it.uuid == *id)
                    .expect("the member exists");
                match one(body) {
                    ("name", name) => member.name = name.as_str().unwrap().to_owned(),
                    ("enabled", enabled) => member.enabled = enabled.as_bool(),
                    other => return Some(format!("{other:?} cannot be changed")),
                }
            }
            Action::DeleteMember { pool, id } => {
                self.pool(PoolRef::Seen(*pool))
                    .members
                    .retain(|it| it.uuid != *id);
            }
            Action::CreateListener { pool, body, .. } => {
                let listener: Listener = read(body, json!({"uuid": uuid}));
                let there = self.seen();
                let of_pools = there.pools.iter().flat_map(|it| &it.listeners);
                let mut all = of_pools.chain(&there.loose);
                let same = |it: &Listener| {
                    it.protocol == listener.protocol && it.protocol_port == listener.protocol_port
                };
                if all.any(same) {
                    return Some("the port is taken".to_owned());
                }
                self.pool(*pool).listeners.push(listener);
            }
            Action::ChangeListener { id, body } => {
                let mut all = self.pools_mut().flat_map(|it| &mut it.listeners);
                let listener = all.find(|it| it.uuid == *id).expect("the listener exists");
                let (key, value) = one(body);
                match key {
                    "name" => listener.name = value.as_str().unwrap().to_owned(),
                    "allowed_cidrs" => {
                        listener.allowed_cidrs = serde_json::from_value(value.clone()).unwrap();
                    }
                    "timeout_client_data_ms" => {
                        listener.timeout_client_data_ms = value.as_i64().unwrap();
                    }
                    "timeout_member_connect_ms" => {
                        listener.timeout_member_connect_ms = value.as_i64().unwrap();
                    }
                    "timeout_member_data_ms" => {
                        listener.timeout_member_data_ms = value.as_i64().unwrap();
                    }
                    other => return Some(format!("{other} cannot be changed")),
                }
            }
            Action::DeleteListener(id) => {
                self.seen().loose.retain(|it| it.uuid != *id);
                for pool in self.pools_mut() {
                    pool.listeners.retain(|it| it.uuid != *id);
                }
            }
            Action::CreateMonitor { pool, body, .. } => {
                let monitor: Monitor = read(body, json!({"uuid": uuid}));
                let monitors = &mut self.pool(*pool).monitors;
                if !monitors.is_empty() {
                    return Some("the pool has a monitor".to_owned());
                }
                monitors.push(monitor);
            }
            Action::ChangeMonitor { id, body } => {
                let mut all = self.pools_mut().flat_map(|it| &mut it.monitors);
                let monitor = all.find(|it| it.uuid == *id).expect("the monitor exists");
                return change_monitor(monitor, body);
            }
            Action::DeleteMonitor(id) => {
                for pool in self.pools_mut() {
                    pool.monitors.retain(|it| it.uuid != *id);
                }
            }
            other => return Some(format!("{other:?} does not belong here")),
        }
        None
    }

    /// Whether everything is as wanted, without asking the planner.
    #[track_caller]
    pub(super) fn check_equals(&self, wanted: &Wanted) {
        let there = self.there.as_ref().unwrap();
        assert_eq!(there.balancer.name, wanted.name);
        for (key, value) in &wanted.tags {
            assert_eq!(there.balancer.tags.get(key), Some(value));
        }
        let names = |pools: Vec<&str>| {
            pools
                .into_iter()
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(there.pools.len(), wanted.pools.len());
        assert_eq!(
            names(there.pools.iter().map(|it| &*it.pool.name).collect()),
            names(wanted.pools.iter().map(|it| &*it.name).collect())
        );
        for wanted in &wanted.pools {
            let there = there
                .pools
                .iter()
                .find(|it| it.pool.name == wanted.name)
                .unwrap();
            check_pool(wanted, there);
        }
        for address in &wanted.floating_ips {
            let it = self
                .floating_ips
                .iter()
                .find(|it| it.address() == Some(*address));
            assert_eq!(it.unwrap().load_balancer, Some(there.balancer.uuid));
        }
    }

    #[track_caller]
    pub(super) fn check_foreign(&self, wanted: &Wanted, before: &Self) {
        for (was, is) in before.floating_ips.iter().zip(&self.floating_ips) {
            if !wanted.floating_ips.contains(&was.address().unwrap()) {
                assert_eq!(was, is);
            }
        }
        let (Some(was), Some(is)) = (&before.there, &self.there) else {
            return;
        };
        assert_eq!(was.balancer.uuid, is.balancer.uuid);
        for (key, value) in &was.balancer.tags {
            if !wanted.tags.contains_key(key) {
                assert_eq!(is.balancer.tags.get(key), Some(value));
            }
        }
        for listener in &was.loose {
            let held = wanted.pools.iter().any(|it| {
                it.listener.protocol == listener.protocol
                    && it.listener.protocol_port == listener.protocol_port
            });
            assert_eq!(is.loose.contains(listener), !held);
        }
    }
}

#[track_caller]
fn check_pool(wanted: &WantedPool, there: &SeenPool) {
    assert_eq!(there.pool.algorithm, wanted.algorithm);
    assert_eq!(there.pool.protocol, wanted.protocol);
    let is: BTreeSet<_> = there
        .members
        .iter()
        .map(|it| {
            (
                it.name.clone(),
                it.ip(),
                it.protocol_port,
                it.monitor_port,
                it.subnet,
            )
        })
        .collect();
    let should: BTreeSet<_> = wanted
        .members
        .iter()
        .map(|it| {
            let (port, monitor) = (it.protocol_port, Some(it.monitor_port));
            (it.name.clone(), Some(it.ip), port, monitor, Some(it.subnet))
        })
        .collect();
    assert_eq!(is, should);
    assert_eq!(there.members.len(), wanted.members.len());
    assert!(there.members.iter().all(|it| it.enabled != Some(false)));
    let [listener] = there.listeners.as_slice() else {
        panic!("{:?}", there.listeners);
    };
    let asked = &wanted.listener;
    assert_eq!(
        (&listener.name, listener.protocol_port),
        (&asked.name, asked.protocol_port)
    );
    let is: BTreeSet<String> = listener.allowed_cidrs.iter().cloned().collect();
    assert_eq!(
        is,
        asked
            .allowed_cidrs
            .iter()
            .map(ToString::to_string)
            .collect()
    );
    assert_eq!(listener.timeout_client_data_ms, asked.timeout_client_data);
    let [monitor] = there.monitors.as_slice() else {
        panic!("{:?}", there.monitors);
    };
    check_monitor(&wanted.monitor, monitor);
}

#[track_caller]
fn check_monitor(wanted: &WantedMonitor, there: &Monitor) {
    assert_eq!(
        [
            there.delay_s,
            there.timeout_s,
            there.up_threshold,
            there.down_threshold
        ],
        [wanted.delay, wanted.timeout, wanted.up, wanted.down]
    );
    assert_eq!(there.kind, wanted.kind);
    if let Some(http) = &wanted.http {
        let is = there.http.as_ref().unwrap();
        assert_eq!((&is.method, &is.url_path), (&http.method, &http.url_path));
        assert_eq!(
            (&is.host, &is.expected_codes),
            (&http.host, &http.expected_codes)
        );
        assert_eq!(is.version.as_deref().unwrap_or("1.1"), http.version);
    }
}

/// The only attribute of a PATCH.
fn one(body: &Map<String, Value>) -> (&str, &Value) {
    assert_eq!(body.len(), 1, "only one attribute");
    let (key, value) = body.iter().next().unwrap();
    (key, value)
}

fn change_monitor(monitor: &mut Monitor, body: &Map<String, Value>) -> Option<String> {
    let (key, value) = one(body);
    match key {
        "delay_s" => monitor.delay_s = value.as_i64()?,
        "timeout_s" => monitor.timeout_s = value.as_i64()?,
        "up_threshold" => monitor.up_threshold = value.as_i64()?,
        "down_threshold" => monitor.down_threshold = value.as_i64()?,
        "http" => {
            let (key, value) = one(value.as_object()?);
            let http = monitor.http.get_or_insert_default();
            match key {
                "host" => http.host = value.as_str().map(str::to_owned),
                "url_path" => http.url_path = value.as_str()?.to_owned(),
                "method" => http.method = value.as_str()?.to_owned(),
                "expected_codes" => {
                    http.expected_codes = serde_json::from_value(value.clone()).ok()?;
                }
                other => return Some(format!("http.{other} cannot be changed")),
            }
        }
        other => return Some(format!("{other} cannot be changed")),
    }
    (monitor.timeout_s > monitor.delay_s).then(|| "a check longer than the pause".to_owned())
}

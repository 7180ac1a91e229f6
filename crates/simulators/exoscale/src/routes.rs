//! From a request to an answer: which zone, who asks, for what, and what comes back.

use bowline_simulator::serve::{Answer, Encrypted};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

use super::calls::call;
use super::catalog::{TEMPLATES, TYPES, show_kind, show_template, zone_id};
use super::model::State::{Running, Starting, Stopped, Stopping};
use super::model::{Cloud, Zone};
use super::operations::{About, Operation};
use super::refusals::{OrRefusal, Refusal, answer};
use super::render::{Detail, View};
use super::{Exoscale, signature};

/// One call, taken apart.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) zone: &'a str,
    pub(super) operation: &'static str,
    /// What stands for the braces of the path.
    pub(super) ids: &'a [&'a str],
    pub(super) query: &'a str,
    pub(super) body: &'a Bytes,
}

impl Asked<'_> {
    /// The id of what the call is about.
    pub(super) fn id(&self) -> &str {
        self.ids.first().copied().unwrap_or_default()
    }

    /// The id or field that follows it.
    pub(super) fn second(&self) -> &str {
        self.ids.get(1).copied().unwrap_or_default()
    }

    /// What a change of a thing of that kind is called.
    pub(super) fn about<'b>(&'b self, kind: &'static str, id: &'b str) -> About<'b> {
        About {
            zone: self.zone,
            operation: self.operation,
            kind,
            id,
        }
    }

    /// The first value of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let found = pairs.find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    }
}

impl Cloud {
    /// The zone that a call is about.
    pub(super) fn zone(&self, name: &str) -> OrRefusal<&Zone> {
        self.zones.get(name).ok_or_else(Refusal::not_found)
    }

    /// The same, to be changed.
    pub(super) fn zone_mut(&mut self, name: &str) -> OrRefusal<&mut Zone> {
        self.zones.get_mut(name).ok_or_else(Refusal::not_found)
    }
}

impl Exoscale {
    /// Answers a request, and says with which key it was made.
    pub(super) fn respond(&self, request: &Request<Bytes>) -> Answer {
        let mut caller = String::new();
        let result = self.with(|cloud| self.dispatch(cloud, request, &mut caller));
        let response = match result {
            Ok(value) => answer(StatusCode::OK, &value),
            Err(refusal) => refusal.response(),
        };
        Answer { response, caller }
    }

    fn dispatch(
        &self,
        cloud: &mut Cloud,
        request: &Request<Bytes>,
        caller: &mut String,
    ) -> OrRefusal<Value> {
        let found = self.place(request);
        let found = found.and_then(|(zone, path)| Some((zone, call(request.method(), path)?)));
        let open = matches!(&found, Some((_, ("list-zones", _))));
        if !open || signature::is_signed(request) {
            let (name, key) = signature::verify(request, &cloud.keys, self.now())?;
            name.clone_into(caller);
            if let Some((_, (operation, _))) = &found
                && !key.may(operation)
            {
                let text = format!("Operation {operation} is forbidden by the role of this key");
                return Err(Refusal::forbidden(text));
            }
        }
        let (zone, (operation, ids)) = found.ok_or_else(Refusal::not_found)?;
        if operation == "list-zones" {
            return Ok(self.zones(request));
        }
        let asked = Asked {
            zone,
            operation,
            ids: &ids,
            query: request.uri().query().unwrap_or_default(),
            body: request.body(),
        };
        if request.method() == Method::GET {
            self.read(cloud, &asked)
        } else {
            self.write(cloud, &asked)
        }
    }

    /// The id of the operation that a method and a path mean, whoever asks.
    pub(super) fn operation_of(&self, method: &Method, path: &str) -> Option<&'static str> {
        let (_, path) = self.split(path)?;
        call(method, path).map(|(operation, _)| operation)
    }

    /// The zone that a request is for, and the path in it.
    fn place<'a>(&'a self, request: &'a Request<Bytes>) -> Option<(&'a str, &'a str)> {
        let (zone, path) = self.split(request.uri().path())?;
        let named = zone.or_else(|| self.zone_of_host(host(request)));
        let zone = named.or_else(|| {
            let apart = self.config.quirks.every_zone_apart && path != "zone";
            let first = self.config.zones.first().map(String::as_str);
            first.filter(|_| !apart)
        });
        Some((zone?, path))
    }

    /// The zone that a path names, if it does, and what follows `/v2/`.
    fn split<'a>(&'a self, path: &'a str) -> Option<(Option<&'a str>, &'a str)> {
        if let Some(path) = path.strip_prefix("/v2/") {
            return Some((None, path));
        }
        let (zone, path) = path.strip_prefix("/z/")?.split_once('/')?;
        let known = self.config.zones.iter().find(|known| *known == zone)?;
        Some((Some(known), path.strip_prefix("v2/")?))
    }

    /// The zone of a host such as `api-ch-gva-2.exoscale.com`.
    fn zone_of_host(&self, host: &str) -> Option<&str> {
        let rest = host.strip_prefix("api-")?;
        let mut zones = self.config.zones.iter().map(String::as_str);
        zones.find(|zone| {
            rest.strip_prefix(*zone)
                .is_some_and(|rest| rest.starts_with('.'))
        })
    }

    fn zones(&self, request: &Request<Bytes>) -> Value {
        let zones = self.config.zones.iter().map(|zone| {
            json!({
                "name": zone,
                "id": zone_id(zone),
                "api-endpoint": self.endpoint(request, zone),
                "sos-endpoint": format!("https://sos-{zone}.exo.io"),
            })
        });
        json!({ "zones": zones.collect::<Vec<_>>() })
    }

    /// The address of a zone: as configured, or as the caller reached us.
    fn endpoint(&self, request: &Request<Bytes>, zone: &str) -> String {
        let secure = request.extensions().get::<Encrypted>().is_some();
        let scheme = if secure { "https" } else { "http" };
        let host = host(request);
        if self.config.public_url.is_none()
            && let Some(own) = self.zone_of_host(host)
        {
            let domain = host.trim_start_matches("api-").trim_start_matches(own);
            return format!("{scheme}://api-{zone}{domain}/v2");
        }
        let root = match &self.config.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{host}"),
        };
        let first = self.config.zones.first().is_some_and(|first| first == zone);
        if first && !self.config.quirks.every_zone_apart {
            format!("{root}/v2")
        } else {
            format!("{root}/z/{zone}/v2")
        }
    }

    fn read(&self, cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        let view = View {
            cloud,
            zone,
            now: self.now(),
        };
        let zones = &self.config.zones;
        let id = asked.id();
        let shown = match asked.operation {
            "get-operation" => zone.operations.get(id).map(Operation::show),
            "get-instance-type" => {
                let mut types = TYPES.iter().filter(|kind| kind.0 == id);
                types.next().map(|kind| show_kind(kind, zones))
            }
            "get-template" => {
                let mut templates = TEMPLATES.iter().filter(|template| template.0 == id);
                templates.next().map(|it| show_template(*it, zones))
            }
            "get-instance" => {
                let found = zone.instances.get(id);
                found.map(|it| view.instance(it, Detail::Whole))
            }
            "get-instance-pool" => zone.pools.get(id).map(|it| view.pool(it)),
            "get-private-network" => zone.networks.get(id).map(|it| view.network(it)),
            "get-load-balancer" => zone.balancers.get(id).and_then(|it| view.balancer(it)),
            "get-load-balancer-service" => {
                let balancer = super::balancers::find(zone, id, self.now())?;
                let mut services = balancer.services.iter();
                let found = services.find(|it| it.id == asked.second());
                found.map(|it| view.service(it))
            }
            "get-sks-cluster" => zone.clusters.get(id).map(|it| view.cluster(it)),
            "get-sks-nodepool" => zone.clusters.get(id).and_then(|cluster| {
                let mut all = cluster.nodepools.iter();
                let found = all.find(|it| it.id == asked.second());
                found.map(|it| view.nodepool(it, &cluster.version))
            }),
            "get-quota" => {
                let mut quotas = quotas(cloud, zone).into_iter();
                quotas.find(|quota| quota["resource"] == id)
            }
            _ => list(&view, zones, asked),
        };
        shown.ok_or_else(Refusal::not_found)
    }

    fn write(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        match asked.operation {
            "create-instance" => self.create_instance(cloud, asked),
            "update-instance" => self.update_instance(cloud, asked),
            "delete-instance" => self.delete_instance(cloud, asked),
            "start-instance" => self.power(cloud, asked, [Stopped, Starting, Running]),
            "stop-instance" => self.power(cloud, asked, [Running, Stopping, Stopped]),
            "reboot-instance" => self.power(cloud, asked, [Running, Starting, Running]),
            "create-instance-pool" => self.create_pool(cloud, asked),
            "update-instance-pool" => self.update_pool(cloud, asked),
            "scale-instance-pool" => self.scale_pool(cloud, asked),
            "evict-instance-pool-members" => self.evict_members(cloud, asked),
            "delete-instance-pool" => self.delete_pool(cloud, asked),
            "scale-sks-nodepool" | "evict-sks-nodepool-members" => {
                self.change_nodepool(cloud, asked)
            }
            "create-load-balancer" => self.create_balancer(cloud, asked),
            "update-load-balancer" => self.update_balancer(cloud, asked),
            "delete-load-balancer" => self.delete_balancer(cloud, asked),
            "reset-load-balancer-field" => self.reset_balancer(cloud, asked),
            "add-service-to-load-balancer" => self.add_service_of(cloud, asked),
            "update-load-balancer-service" => self.update_service(cloud, asked),
            "delete-load-balancer-service" => self.delete_service(cloud, asked),
            "reset-load-balancer-service-field" => self.reset_service(cloud, asked),
            _ => Err(Refusal::not_found()),
        }
    }
}

/// The host that a request was sent to.
fn host(request: &Request<Bytes>) -> &str {
    let header = request.headers().get(header::HOST);
    let header = header.and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    header.or(authority).unwrap_or("exoscale.invalid")
}

pub(super) fn instances(
    view: &View<'_>,
    wanted: impl Fn(&super::model::Instance) -> bool,
) -> Vec<Value> {
    let all = view.zone.instances.all().filter(|it| wanted(it));
    all.map(|it| view.instance(it, Detail::Listed)).collect()
}

/// A list with its key.
fn list(view: &View<'_>, zones: &[String], asked: &Asked<'_>) -> Option<Value> {
    let zone = view.zone;
    let (key, things): (&str, Vec<Value>) = match asked.operation {
        "list-quotas" => ("quotas", quotas(view.cloud, zone)),
        "list-instance-types" => {
            let all = TYPES.iter().map(|kind| show_kind(kind, zones));
            ("instance-types", all.collect())
        }
        "list-templates" => {
            let all = TEMPLATES.iter().map(|it| show_template(*it, zones));
            ("templates", all.collect())
        }
        "list-ssh-keys" => ("ssh-keys", Vec::new()),
        "list-security-groups" => ("security-groups", Vec::new()),
        "list-anti-affinity-groups" => ("anti-affinity-groups", Vec::new()),
        "list-elastic-ips" => ("elastic-ips", Vec::new()),
        "list-sks-cluster-versions" => ("sks-cluster-versions", vec![json!("1.36.3")]),
        "list-private-networks" => {
            let all = zone.networks.all().map(|it| view.network(it));
            ("private-networks", all.collect())
        }
        "list-instances" => {
            let filter = super::instances::Filter::of(asked);
            ("instances", instances(view, |it| filter.fits(it)))
        }
        "list-instance-pools" => {
            let all = zone.pools.all().map(|it| view.pool(it));
            ("instance-pools", all.collect())
        }
        "list-load-balancers" => {
            let all = zone.balancers.all().filter_map(|it| view.balancer(it));
            ("load-balancers", all.collect())
        }
        "list-sks-clusters" => {
            let all = zone.clusters.all().map(|it| view.cluster(it));
            ("sks-clusters", all.collect())
        }
        _ => return None,
    };
    Some(json!({ key: things }))
}

fn quotas(cloud: &Cloud, zone: &Zone) -> Vec<Value> {
    let row = |resource: &str, usage: usize, limit: Option<u64>| {
        let limit = limit.map_or(json!(-1), |limit| json!(limit));
        json!({ "resource": resource, "usage": usage, "limit": limit })
    };
    let quirks = &cloud.quirks;
    vec![
        row("instance", zone.instances.len(), quirks.most_instances),
        row(
            "network-load-balancer",
            zone.balancers.len(),
            quirks.most_load_balancers,
        ),
        row("sks-cluster", zone.clusters.len(), None),
    ]
}

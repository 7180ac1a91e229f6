//! Every call that is made, one function each.

use std::collections::BTreeMap;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{BadItem, Page, Reply, Route, pages};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use uuid::Uuid;

use super::{
    Account, AccountKey, Api, ApiError, FirewallRule, Image, Limit, MOST_PAGES, Machine,
    MachineAction, MachineQuery, MachineRead, Network, NewMachine, Nic, PAGE, Package, Ping,
    TagValue, WantedRule,
};

/// Parameters that mean the account or the machine itself, or an image or a package, wherever they
/// stand in a request: a tag of such a name would send the request elsewhere.
const RESERVED: [&str; 8] = [
    "account",
    "machine",
    "uuid",
    "owner_uuid",
    "context",
    "image",
    "dataset",
    "package",
];

const MACHINES: &str = ":login/machines";
const MACHINE: &str = ":login/machines/:machine";
const TAGS: &str = ":login/machines/:machine/tags";
const METADATA: &str = ":login/machines/:machine/metadata";

/// A list and what in it could not be read.
#[derive(Clone, Debug)]
pub struct List<T> {
    pub items: Vec<T>,
    pub bad: Vec<BadItem>,
    pub pages: usize,
}

/// Whether the configured roles are asked for: only where the server takes them. Elsewhere it would
/// make a tag of them, or refuse the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roles {
    Asked,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Now,
    /// It was not there.
    Before,
}

fn machine_route(template: &'static str, id: Uuid) -> Route {
    Route::new(template).with("machine", id.to_string())
}

/// The items of a list that has no pages; what cannot be read is left out.
fn items<T: DeserializeOwned>(reply: &Reply) -> Result<Vec<T>, ApiError> {
    let items = reply.items()?;
    let read = items.into_iter().filter_map(|item| match item {
        Ok(item) => Some(item),
        Err(bad) => {
            tracing::warn!(error = %bad, "leaving something out of a list of CloudAPI's");
            None
        }
    });
    Ok(read.collect())
}

fn refuse_reserved<'a>(keys: impl IntoIterator<Item = &'a String>) -> Result<(), ApiError> {
    for key in keys {
        if RESERVED.contains(&key.as_str()) || key == "as-role" {
            let why = format!(
                "a tag or metadata cannot be called {key}: the API means another thing by it"
            );
            return Err(ApiError::held(CloudErrorKind::Invalid, why, None));
        }
    }
    Ok(())
}

/// The kinds of calls.
impl Api {
    async fn get(&self, roles: Roles, route: Route) -> Result<Reply, ApiError> {
        self.read(|client| client.call(roles, Method::GET, route.clone()))
            .await
    }

    async fn object<T: DeserializeOwned>(&self, roles: Roles, route: Route) -> Result<T, ApiError> {
        Ok(self.get(roles, route).await?.json()?)
    }

    async fn list<T: DeserializeOwned>(
        &self,
        roles: Roles,
        route: Route,
    ) -> Result<Vec<T>, ApiError> {
        items(&self.get(roles, route).await?)
    }

    async fn find<T: DeserializeOwned>(&self, route: Route) -> Result<Option<T>, ApiError> {
        match self.object(Roles::Asked, route).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes something. Never tried again blindly.
    async fn create<T: DeserializeOwned>(
        &self,
        roles: Roles,
        route: Route,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let sent = self.write(|client| {
            let call = client.call(roles, Method::POST, route.clone());
            call.json(body)
        });
        Ok(sent.await?.json()?)
    }

    /// Makes something what the body says, however often it is sent.
    async fn set(
        &self,
        roles: Roles,
        method: Method,
        route: Route,
        body: &impl Serialize,
    ) -> Result<Reply, ApiError> {
        self.write(|client| {
            let call = client.call(roles, method.clone(), route.clone());
            call.json(body).repeatable()
        })
        .await
    }

    async fn post(
        &self,
        roles: Roles,
        route: Route,
        body: &impl Serialize,
    ) -> Result<(), ApiError> {
        self.set(roles, Method::POST, route, body).await.map(|_| ())
    }

    async fn delete(&self, roles: Roles, route: Route) -> Result<Deleted, ApiError> {
        let sent = self.write(|client| {
            let call = client.call(roles, Method::DELETE, route.clone());
            call.repeatable()
        });
        match sent.await {
            Ok(_) => Ok(Deleted::Now),
            // On a second attempt, because the first one was heard; or somebody else was faster.
            Err(error)
                if error.kind() == CloudErrorKind::NotFound || error.status() == Some(410) =>
            {
                Ok(Deleted::Before)
            }
            Err(error) => Err(error),
        }
    }
}

/// The account and the data center.
impl Api {
    /// Who answers, without credentials.
    pub async fn ping(&self) -> Result<Ping, ApiError> {
        #[derive(serde::Deserialize)]
        struct Body {
            #[serde(default)]
            cloudapi: Versions,
        }
        #[derive(Default, serde::Deserialize)]
        struct Versions {
            #[serde(default)]
            versions: Vec<String>,
        }
        let reply = self
            .read(|client| client.anonymous(Route::new("--ping")))
            .await?;
        let body: Body = reply.json()?;
        let name = reply.headers().get("triton-datacenter-name");
        let name = name.and_then(|name| name.to_str().ok()).map(str::trim);
        Ok(Ping {
            datacenter: name.filter(|name| !name.is_empty()).map(ToOwned::to_owned),
            versions: body.cloudapi.versions,
        })
    }

    /// All data centers by name, each with its URL.
    pub async fn datacenters(&self) -> Result<BTreeMap<String, String>, ApiError> {
        self.object(Roles::Asked, Route::new(":login/datacenters"))
            .await
    }

    /// The account. Also the proof that credentials hold.
    pub async fn account(&self) -> Result<Account, ApiError> {
        self.object(Roles::Asked, Route::new(":login")).await
    }

    pub async fn set_cns_enabled(&self, enabled: bool) -> Result<(), ApiError> {
        let body = json!({"triton_cns_enabled": enabled});
        self.post(Roles::Never, Route::new(":login"), &body).await
    }

    pub async fn limits(&self) -> Result<Vec<Limit>, ApiError> {
        self.list(Roles::Never, Route::new(":login/limits")).await
    }

    /// Other services by name, each with its URL.
    pub async fn services(&self) -> Result<BTreeMap<String, String>, ApiError> {
        self.object(Roles::Asked, Route::new(":login/services"))
            .await
    }
}

/// Machines.
impl Api {
    /// All live machines that fit, without those that appear twice. Not a snapshot: a machine that
    /// goes while pages are read can hide another one.
    pub async fn machines(&self, query: &MachineQuery) -> Result<List<Machine>, CloudError> {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let fetch = |offset: usize| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.page(query, offset)
        };
        let all = pages("machines", 0, MOST_PAGES, fetch).await?;
        let mut by_id = BTreeMap::new();
        let mut bad = Vec::new();
        for item in all {
            match item {
                Ok(machine) => {
                    let machine: Machine = machine;
                    by_id.insert(machine.id, machine);
                }
                Err(item) => bad.push(item),
            }
        }
        Ok(List {
            items: by_id.into_values().collect(),
            bad,
            pages: count.into_inner(),
        })
    }

    async fn page(
        &self,
        query: &MachineQuery,
        offset: usize,
    ) -> Result<Page<Result<Machine, BadItem>, usize>, CloudError> {
        let reply = self
            .read(|client| {
                let mut call = client
                    .call(Roles::Asked, Method::GET, Route::new(MACHINES))
                    .query("limit", PAGE.to_string())
                    .query("offset", offset.to_string());
                if let Some(name) = &query.name {
                    call = call.query("name", name);
                }
                if let Some((key, value)) = &query.tag {
                    call = call.query(format!("tag.{key}"), value);
                }
                call
            })
            .await?;
        let items = reply.items().map_err(ApiError::from)?;
        // The number on this page, whatever the header's name suggests.
        let count = reply.headers().get("x-resource-count");
        let count = count.and_then(|count| count.to_str().ok()?.parse().ok());
        let count: usize = count.unwrap_or(items.len());
        let next = (count >= PAGE).then_some(offset + PAGE);
        Ok(Page {
            items,
            next,
            bytes: reply.bytes().len(),
        })
    }

    pub async fn machine(&self, id: Uuid) -> Result<MachineRead, ApiError> {
        let read = self.object::<Machine>(Roles::Asked, machine_route(MACHINE, id));
        match read.await {
            Ok(machine) if machine.id == id => Ok(MachineRead::Shown(Box::new(machine))),
            Ok(machine) => {
                let why = format!("GET machine {id} answered with machine {}", machine.id);
                Err(ApiError::held(CloudErrorKind::Unknown, why, None))
            }
            Err(error) if error.status() == Some(410) => Ok(MachineRead::Destroyed),
            Err(error) if error.kind() == CloudErrorKind::NotFound => {
                Ok(MachineRead::Missing(error.message().to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// The network cards of a machine, for servers that do not show them with it.
    pub async fn nics(&self, id: Uuid) -> Result<Vec<Nic>, ApiError> {
        let route = machine_route(":login/machines/:machine/nics", id);
        self.list(Roles::Asked, route).await
    }

    /// Makes a machine. Whoever does not know what came of it looks for the machine's tags first.
    pub async fn create_machine(&self, new: &NewMachine) -> Result<Machine, ApiError> {
        self.create(Roles::Asked, Route::new(MACHINES), &new.body())
            .await
    }

    /// Does something with a machine; it is done some time later.
    pub async fn act(&self, id: Uuid, action: &MachineAction) -> Result<(), ApiError> {
        let route = machine_route(MACHINE, id);
        self.post(Roles::Never, route, &action.body()).await
    }

    /// Destroys a machine; it is gone some time later.
    pub async fn delete_machine(&self, id: Uuid) -> Result<Deleted, ApiError> {
        self.delete(Roles::Asked, machine_route(MACHINE, id)).await
    }
}

/// Tags and metadata. Changes of them are done some time later. Roles are never asked for here: the
/// server would make a tag of them.
impl Api {
    /// The tags of a machine. Says nothing about whether it exists: a destroyed one still shows
    /// them.
    pub async fn tags(&self, id: Uuid) -> Result<BTreeMap<String, TagValue>, ApiError> {
        self.object(Roles::Never, machine_route(TAGS, id)).await
    }

    /// Adds or overwrites tags; the others stay.
    pub async fn add_tags(
        &self,
        id: Uuid,
        tags: &BTreeMap<String, TagValue>,
    ) -> Result<(), ApiError> {
        refuse_reserved(tags.keys())?;
        self.post(Roles::Never, machine_route(TAGS, id), tags).await
    }

    pub async fn delete_tag(&self, id: Uuid, key: &str) -> Result<Deleted, ApiError> {
        let route = machine_route(":login/machines/:machine/tags/:key", id);
        self.delete(Roles::Never, route.with("key", key)).await
    }

    pub async fn metadata(&self, id: Uuid) -> Result<BTreeMap<String, TagValue>, ApiError> {
        self.object(Roles::Never, machine_route(METADATA, id)).await
    }

    /// Adds or overwrites metadata; the rest stays.
    pub async fn add_metadata(
        &self,
        id: Uuid,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        refuse_reserved(metadata.keys())?;
        let route = machine_route(METADATA, id);
        self.post(Roles::Never, route, metadata).await
    }

    pub async fn delete_metadata(&self, id: Uuid, key: &str) -> Result<Deleted, ApiError> {
        let route = machine_route(":login/machines/:machine/metadata/:key", id);
        self.delete(Roles::Never, route.with("key", key)).await
    }
}

/// Networks and fabrics. On fabrics roles are never asked for: the server refuses what it does not
/// know there.
impl Api {
    /// All networks and pools, in the order of their ids: the server's own order changes.
    pub async fn networks(&self) -> Result<Vec<Network>, ApiError> {
        let route = Route::new(":login/networks");
        let mut networks: Vec<Network> = self.list(Roles::Asked, route).await?;
        networks.sort_by_key(|network| network.id);
        Ok(networks)
    }

    /// One network; none if it cannot be seen, as members of pools.
    pub async fn network(&self, id: Uuid) -> Result<Option<Network>, ApiError> {
        let route = Route::new(":login/networks/:network");
        self.find(route.with("network", id.to_string())).await
    }

    pub async fn fabric_network(&self, vlan: u16, id: Uuid) -> Result<Network, ApiError> {
        self.object(Roles::Never, fabric_network_route(vlan, id))
            .await
    }

    /// Replaces all routes of a network. The last writer wins.
    pub async fn set_routes(
        &self,
        vlan: u16,
        id: Uuid,
        routes: &BTreeMap<String, String>,
    ) -> Result<Network, ApiError> {
        let (route, body) = (fabric_network_route(vlan, id), json!({"routes": routes}));
        let sent = self.set(Roles::Never, Method::PUT, route, &body);
        Ok(sent.await?.json()?)
    }
}

fn fabric_network_route(vlan: u16, id: Uuid) -> Route {
    Route::new(":login/fabrics/default/vlans/:vlan/networks/:network")
        .with("vlan", vlan.to_string())
        .with("network", id.to_string())
}

/// Firewall rules.
impl Api {
    /// All rules, the operator's too.
    pub async fn firewall_rules(&self) -> Result<Vec<FirewallRule>, ApiError> {
        self.list(Roles::Asked, Route::new(":login/fwrules")).await
    }

    pub async fn create_firewall_rule(&self, rule: &WantedRule) -> Result<FirewallRule, ApiError> {
        let route = Route::new(":login/fwrules");
        self.create(Roles::Asked, route, rule).await
    }

    /// Makes a rule what it should be.
    pub async fn update_firewall_rule(&self, id: Uuid, rule: &WantedRule) -> Result<(), ApiError> {
        self.post(Roles::Asked, firewall_rule_route(id), rule).await
    }

    pub async fn delete_firewall_rule(&self, id: Uuid) -> Result<Deleted, ApiError> {
        self.delete(Roles::Asked, firewall_rule_route(id)).await
    }
}

fn firewall_rule_route(id: Uuid) -> Route {
    Route::new(":login/fwrules/:rule").with("rule", id.to_string())
}

/// Images, packages and keys.
impl Api {
    /// The active images of exactly that name.
    pub async fn images(&self, name: &str) -> Result<Vec<Image>, ApiError> {
        let reply = self
            .read(|client| {
                let route = Route::new(":login/images");
                let call = client.call(Roles::Asked, Method::GET, route);
                call.query("name", name).query("state", "active")
            })
            .await?;
        let mut images: Vec<Image> = items(&reply)?;
        images.retain(|image| image.name == name);
        Ok(images)
    }

    /// An image by its id; none if there is no such image.
    pub async fn image(&self, id: Uuid) -> Result<Option<Image>, ApiError> {
        let route = Route::new(":login/images/:image");
        self.find(route.with("image", id.to_string())).await
    }

    /// A package by name or id; none if there is no such package.
    pub async fn package(&self, name: &str) -> Result<Option<Package>, ApiError> {
        let route = Route::new(":login/packages/:package");
        self.find(route.with("package", name)).await
    }

    /// The keys of the account, or of the sub-user whose key is in use.
    pub async fn keys(&self) -> Result<Vec<AccountKey>, ApiError> {
        self.list(Roles::Never, self.keys_route(None)).await
    }

    /// Adds a public key, in the form of a line of OpenSSH's.
    pub async fn add_key(&self, name: &str, line: &str) -> Result<AccountKey, ApiError> {
        let body = json!({"name": name, "key": line});
        self.create(Roles::Never, self.keys_route(None), &body)
            .await
    }

    pub async fn delete_key(&self, fingerprint: &str) -> Result<Deleted, ApiError> {
        let route = self.keys_route(Some(fingerprint));
        self.delete(Roles::Never, route).await
    }

    /// Keys belong to the account of the key in use, never to one that it acts as.
    fn keys_route(&self, fingerprint: Option<&str>) -> Route {
        let client = self.client();
        let owner = &client.connection().owner;
        let mut route = Route::new(match (&owner.user, fingerprint) {
            (None, None) => ":login/keys",
            (Some(_), None) => ":login/users/:user/keys",
            (None, Some(_)) => ":login/keys/:key",
            (Some(_), Some(_)) => ":login/users/:user/keys/:key",
        });
        if let Some(user) = &owner.user {
            route = route.with("user", user);
        }
        route = route.with("login", &owner.account);
        match fingerprint {
            Some(fingerprint) => route.with("key", fingerprint),
            None => route,
        }
    }
}

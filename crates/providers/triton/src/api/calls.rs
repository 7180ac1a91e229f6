//! Every call that is made, one function each.

use std::collections::BTreeMap;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{BadItem, Page, Reply, Route, pages};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Account, AccountKey, Api, ApiError, FirewallRule, Image, Limit, MOST_PAGES, Machine,
    MachineAction, MachineQuery, MachineRead, Network, NewMachine, Nic, PAGE, Package, Ping,
    TagValue, Vlan, WantedRule,
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

/// A list and what in it could not be read.
#[derive(Clone, Debug)]
pub struct List<T> {
    /// What could be read.
    pub items: Vec<T>,
    /// What could not.
    pub bad: Vec<BadItem>,
    /// The pages it came in.
    pub pages: usize,
}

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It goes now.
    Now,
    /// It was not there.
    Before,
}

fn machines_route() -> Route {
    Route::new(":login/machines")
}

fn machine_route(template: &'static str, id: Uuid) -> Route {
    Route::new(template).with("machine", id.to_string())
}

fn json_of<T: DeserializeOwned>(reply: &Reply) -> Result<T, ApiError> {
    Ok(reply.json()?)
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

fn deleted(sent: Result<Reply, ApiError>) -> Result<Deleted, ApiError> {
    match sent {
        Ok(_) => Ok(Deleted::Now),
        // On a second attempt, because the first one was heard; or somebody else was faster.
        Err(error) if error.kind() == CloudErrorKind::NotFound || error.status() == Some(410) => {
            Ok(Deleted::Before)
        }
        Err(error) => Err(error),
    }
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
        let body: Body = json_of(&reply)?;
        let name = reply.headers().get("triton-datacenter-name");
        let name = name.and_then(|name| name.to_str().ok()).map(str::trim);
        Ok(Ping {
            datacenter: name.filter(|name| !name.is_empty()).map(ToOwned::to_owned),
            versions: body.cloudapi.versions,
        })
    }

    /// All data centers by name, each with its URL.
    pub async fn datacenters(&self) -> Result<BTreeMap<String, String>, ApiError> {
        let route = || Route::new(":login/datacenters");
        let reply = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await?;
        json_of(&reply)
    }

    /// The account. Also the proof that credentials hold.
    pub async fn account(&self) -> Result<Account, ApiError> {
        let reply = self
            .read(|client| client.call_as_role(Method::GET, Route::new(":login")))
            .await?;
        json_of(&reply)
    }

    /// Switches the name service for the account on or off.
    pub async fn set_cns_enabled(&self, enabled: bool) -> Result<(), ApiError> {
        let body = json!({"triton_cns_enabled": enabled});
        let sent = self.write(|client| {
            let call = client.call(Method::POST, Route::new(":login"));
            call.json(&body).repeatable()
        });
        sent.await.map(|_| ())
    }

    /// The limits of the account.
    pub async fn limits(&self) -> Result<Vec<Limit>, ApiError> {
        let route = || Route::new(":login/limits");
        let reply = self
            .read(|client| client.call(Method::GET, route()))
            .await?;
        items(&reply)
    }

    /// Other services by name, each with its URL.
    pub async fn services(&self) -> Result<BTreeMap<String, String>, ApiError> {
        let route = || Route::new(":login/services");
        let reply = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await?;
        json_of(&reply)
    }
}

/// Machines.
impl Api {
    /// All live machines that fit, without those that appear twice. Not a snapshot: a machine that goes
    /// while pages are read can hide another one.
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
                    .call_as_role(Method::GET, machines_route())
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
        Ok(Page { items, next })
    }

    pub async fn machine(&self, id: Uuid) -> Result<MachineRead, ApiError> {
        let route = || machine_route(":login/machines/:machine", id);
        let sent = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await;
        match sent {
            Ok(reply) => {
                let machine: Machine = json_of(&reply)?;
                if machine.id == id {
                    return Ok(MachineRead::Shown(Box::new(machine)));
                }
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
        let route = || machine_route(":login/machines/:machine/nics", id);
        let reply = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await?;
        items(&reply)
    }

    /// Makes a machine. Never tried again blindly: whoever does not know what came of it looks for the
    /// machine's tags first.
    pub async fn create_machine(&self, new: &NewMachine) -> Result<Machine, ApiError> {
        let body = new.body();
        let reply = self
            .write(|client| {
                let call = client.call_as_role(Method::POST, machines_route());
                call.json(&body)
            })
            .await?;
        json_of(&reply)
    }

    /// Does something with a machine; it is done some time later.
    pub async fn act(&self, id: Uuid, action: &MachineAction) -> Result<(), ApiError> {
        let route = || machine_route(":login/machines/:machine", id);
        let body = action.body();
        let sent = self.write(|client| {
            let call = client.call(Method::POST, route());
            call.json(&body).repeatable()
        });
        sent.await.map(|_| ())
    }

    /// Destroys a machine; it is gone some time later.
    pub async fn delete_machine(&self, id: Uuid) -> Result<Deleted, ApiError> {
        let route = || machine_route(":login/machines/:machine", id);
        let sent = self.write(|client| {
            let call = client.call_as_role(Method::DELETE, route());
            call.repeatable()
        });
        deleted(sent.await)
    }
}

/// Tags and metadata. Changes of them are done some time later. Roles are never asked for here: the
/// server would make a tag of them.
impl Api {
    /// The tags of a machine. Says nothing about whether it exists: a destroyed one still shows them.
    pub async fn tags(&self, id: Uuid) -> Result<BTreeMap<String, TagValue>, ApiError> {
        let route = || machine_route(":login/machines/:machine/tags", id);
        let reply = self
            .read(|client| client.call(Method::GET, route()))
            .await?;
        json_of(&reply)
    }

    /// Adds or overwrites tags; the others stay.
    pub async fn add_tags(
        &self,
        id: Uuid,
        tags: &BTreeMap<String, TagValue>,
    ) -> Result<(), ApiError> {
        refuse_reserved(tags.keys())?;
        let route = || machine_route(":login/machines/:machine/tags", id);
        let sent = self.write(|client| {
            let call = client.call(Method::POST, route());
            call.json(tags).repeatable()
        });
        sent.await.map(|_| ())
    }

    /// Removes one tag.
    pub async fn delete_tag(&self, id: Uuid, key: &str) -> Result<Deleted, ApiError> {
        let route = || machine_route(":login/machines/:machine/tags/:key", id).with("key", key);
        let sent = self.write(|client| client.call(Method::DELETE, route()).repeatable());
        deleted(sent.await)
    }

    /// The metadata of a machine.
    pub async fn metadata(&self, id: Uuid) -> Result<BTreeMap<String, TagValue>, ApiError> {
        let route = || machine_route(":login/machines/:machine/metadata", id);
        let reply = self
            .read(|client| client.call(Method::GET, route()))
            .await?;
        json_of(&reply)
    }

    /// Adds or overwrites metadata; the rest stays.
    pub async fn add_metadata(
        &self,
        id: Uuid,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        refuse_reserved(metadata.keys())?;
        let route = || machine_route(":login/machines/:machine/metadata", id);
        let sent = self.write(|client| {
            let call = client.call(Method::POST, route());
            call.json(metadata).repeatable()
        });
        sent.await.map(|_| ())
    }

    /// Removes one piece of metadata.
    pub async fn delete_metadata(&self, id: Uuid, key: &str) -> Result<Deleted, ApiError> {
        let route = || machine_route(":login/machines/:machine/metadata/:key", id).with("key", key);
        let sent = self.write(|client| client.call(Method::DELETE, route()).repeatable());
        deleted(sent.await)
    }
}

/// Networks and fabrics. On fabrics roles are never asked for: the server refuses what it does not
/// know there.
impl Api {
    /// All networks and pools, in the order of their ids: the server's own order changes.
    pub async fn networks(&self) -> Result<Vec<Network>, ApiError> {
        let route = || Route::new(":login/networks");
        let reply = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await?;
        let mut networks: Vec<Network> = items(&reply)?;
        networks.sort_by_key(|network| network.id);
        Ok(networks)
    }

    /// One network; none if it cannot be seen, as members of pools.
    pub async fn network(&self, id: Uuid) -> Result<Option<Network>, ApiError> {
        let route = || Route::new(":login/networks/:network").with("network", id.to_string());
        match self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await
        {
            Ok(reply) => json_of(&reply).map(Some),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The VLANs of the fabric.
    pub async fn vlans(&self) -> Result<Vec<Vlan>, ApiError> {
        let route = || Route::new(":login/fabrics/default/vlans");
        let reply = self
            .read(|client| client.call(Method::GET, route()))
            .await?;
        items(&reply)
    }

    pub async fn fabric_networks(&self, vlan: u16) -> Result<Vec<Network>, ApiError> {
        let route = || {
            let route = Route::new(":login/fabrics/default/vlans/:vlan/networks");
            route.with("vlan", vlan.to_string())
        };
        let reply = self
            .read(|client| client.call(Method::GET, route()))
            .await?;
        items(&reply)
    }

    pub async fn fabric_network(&self, vlan: u16, id: Uuid) -> Result<Network, ApiError> {
        let reply = self
            .read(|client| client.call(Method::GET, fabric_network_route(vlan, id)))
            .await?;
        json_of(&reply)
    }

    /// Replaces all routes of a network. The last writer wins.
    pub async fn set_routes(
        &self,
        vlan: u16,
        id: Uuid,
        routes: &BTreeMap<String, String>,
    ) -> Result<Network, ApiError> {
        let body = json!({"routes": routes});
        let reply = self
            .write(|client| {
                let call = client.call(Method::PUT, fabric_network_route(vlan, id));
                call.json(&body).repeatable()
            })
            .await?;
        json_of(&reply)
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
        let route = || Route::new(":login/fwrules");
        let reply = self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await?;
        items(&reply)
    }

    /// Makes a rule.
    pub async fn create_firewall_rule(&self, rule: &WantedRule) -> Result<FirewallRule, ApiError> {
        let reply = self
            .write(|client| {
                let call = client.call_as_role(Method::POST, Route::new(":login/fwrules"));
                call.json(rule)
            })
            .await?;
        json_of(&reply)
    }

    /// Makes a rule what it should be.
    pub async fn update_firewall_rule(&self, id: Uuid, rule: &WantedRule) -> Result<(), ApiError> {
        let sent = self.write(|client| {
            let call = client.call_as_role(Method::POST, firewall_rule_route(id));
            call.json(rule).repeatable()
        });
        sent.await.map(|_| ())
    }

    /// Removes a rule.
    pub async fn delete_firewall_rule(&self, id: Uuid) -> Result<Deleted, ApiError> {
        let sent = self.write(|client| {
            let call = client.call_as_role(Method::DELETE, firewall_rule_route(id));
            call.repeatable()
        });
        deleted(sent.await)
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
                let call = client.call_as_role(Method::GET, Route::new(":login/images"));
                call.query("name", name).query("state", "active")
            })
            .await?;
        let mut images: Vec<Image> = items(&reply)?;
        images.retain(|image| image.name == name);
        Ok(images)
    }

    /// An image by its id; none if there is no such image.
    pub async fn image(&self, id: Uuid) -> Result<Option<Image>, ApiError> {
        let route = || Route::new(":login/images/:image").with("image", id.to_string());
        match self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await
        {
            Ok(reply) => json_of(&reply).map(Some),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The packages of exactly that name.
    pub async fn packages(&self, name: &str) -> Result<Vec<Package>, ApiError> {
        let reply = self
            .read(|client| {
                let call = client.call_as_role(Method::GET, Route::new(":login/packages"));
                call.query("name", name)
            })
            .await?;
        let mut packages: Vec<Package> = items(&reply)?;
        packages.retain(|package| package.name == name);
        Ok(packages)
    }

    /// A package by name or id; none if there is no such package.
    pub async fn package(&self, name: &str) -> Result<Option<Package>, ApiError> {
        let route = || Route::new(":login/packages/:package").with("package", name);
        match self
            .read(|client| client.call_as_role(Method::GET, route()))
            .await
        {
            Ok(reply) => json_of(&reply).map(Some),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The keys of the account, or of the sub-user whose key is in use.
    pub async fn keys(&self) -> Result<Vec<AccountKey>, ApiError> {
        let reply = self
            .read(|client| {
                let route = keys_route(client);
                client.call(Method::GET, route)
            })
            .await?;
        items(&reply)
    }

    /// Adds a public key, in the form of a line of OpenSSH's.
    pub async fn add_key(&self, name: &str, line: &str) -> Result<AccountKey, ApiError> {
        let body: Value = json!({"name": name, "key": line});
        let reply = self
            .write(|client| {
                let route = keys_route(client);
                client.call(Method::POST, route).json(&body)
            })
            .await?;
        json_of(&reply)
    }

    /// Removes a key by its fingerprint.
    pub async fn delete_key(&self, fingerprint: &str) -> Result<Deleted, ApiError> {
        let sent = self.write(|client| {
            let owner = &client.connection().owner;
            let route = match &owner.user {
                None => Route::new(":login/keys/:key"),
                Some(user) => Route::new(":login/users/:user/keys/:key").with("user", user),
            };
            let route = route.with("login", &owner.account).with("key", fingerprint);
            client.call(Method::DELETE, route).repeatable()
        });
        deleted(sent.await)
    }
}

/// Keys belong to the account of the key in use, never to one that it acts as.
fn keys_route(client: &super::Client) -> Route {
    let owner = &client.connection().owner;
    let route = match &owner.user {
        None => Route::new(":login/keys"),
        Some(user) => Route::new(":login/users/:user/keys").with("user", user),
    };
    route.with("login", &owner.account)
}

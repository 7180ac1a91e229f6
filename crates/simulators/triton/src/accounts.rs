//! The account itself: its data, keys, limits, and what the data center offers.

use http::StatusCode;
use serde_json::{Value, json};

use super::keys::PublicKey;
use super::model::{Cloud, Key};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;
use super::{Triton, render};

/// What an account may say about itself.
const DETAILS: [&str; 9] = [
    "email",
    "companyName",
    "firstName",
    "lastName",
    "address",
    "postalCode",
    "city",
    "state",
    "phone",
];

impl Triton {
    /// Carries out a call about the account or the data center, if it is one.
    pub(super) fn account_call(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Reply>> {
        let reply = match asked.operation {
            "getaccount" => Reply::ok(render::account(cloud.account(asked)?)),
            "updateaccount" => update(cloud, asked)?,
            "getprovisioninglimits" => cloud.show_limits(asked)?,
            "getconfig" => Reply::ok(json!({
                "default_network": cloud.account(asked)?.default_network,
            })),
            "updateconfig" => {
                let network = asked.parameters.text("default_network");
                cloud
                    .account_mut(asked)?
                    .default_network
                    .clone_from(&network);
                Reply::ok(json!({ "default_network": network }))
            }
            "listdatacenters" => Reply::ok(self.datacenters(cloud, asked)),
            "getdatacenter" => {
                let name = asked.text("datacenter");
                let known = self.datacenters(cloud, asked);
                let url = known[&name].as_str().map(str::to_owned);
                let missing = || Refusal::not_found(format!("{name} does not exist"));
                let mut reply = Reply::ok(json!({ "code": "ResourceMoved", "message": "" }));
                reply.status = StatusCode::FOUND;
                reply.header("location", url.ok_or_else(missing)?)
            }
            "listservices" => {
                let mut services = cloud.services.clone();
                let own = self.root(asked.request);
                services.entry("cloudapi".to_owned()).or_insert(own);
                Reply::ok(json!(services))
            }
            "changefeed" if super::feed::is_upgrade(asked.request) => {
                Reply::empty(StatusCode::SWITCHING_PROTOCOLS)
            }
            "changefeed" => {
                let message = "The connection must be upgraded to a WebSocket";
                return Err(Refusal::bad("BadRequestError", message));
            }
            "listvolumes" => Reply::ok(json!([])),
            "listkeys" | "createkey" | "getkey" | "deletekey" | "listuserkeys"
            | "createuserkey" | "getuserkey" | "deleteuserkey" => key_call(cloud, asked)?,
            _ => return cloud.rights_call(asked, || self.world.random.uuid()),
        };
        Ok(Some(reply))
    }

    fn datacenters(&self, cloud: &Cloud, asked: &Asked<'_>) -> Value {
        let mut all = cloud.datacenters.clone();
        let own = self.root(asked.request);
        all.entry(cloud.datacenter.clone()).or_insert(own);
        json!(all)
    }
}

fn update(cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let account = cloud.account_mut(asked)?;
    if let Some(enabled) = asked.parameters.flag("triton_cns_enabled") {
        account.names_enabled = enabled;
    }
    for name in DETAILS {
        if let Some(value) = asked.parameters.get(name) {
            account.details.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(email) = asked.parameters.text("email") {
        account.email = email;
    }
    account.updated = asked.now;
    let shown = render::account(account);
    cloud.names_changed(asked.now);
    Ok(Reply::ok(shown))
}

/// Keys of the account, or of one of its users.
fn key_call(cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let name = asked.text("name");
    let created = asked.now;
    let user = asked
        .operation
        .contains("userkey")
        .then(|| asked.text("user"));
    let account = cloud.account_mut(asked)?;
    let (keys, place) = match &user {
        None => (&mut account.keys, "keys".to_owned()),
        Some(wanted) => {
            let mut users = account.rights.users.values_mut();
            let found = users.find(|user| user.login == *wanted || user.id == *wanted);
            let missing = || Refusal::not_found(format!("{wanted} does not exist"));
            let user = found.ok_or_else(missing)?;
            let place = format!("users/{}/keys", user.login);
            (&mut user.keys, place)
        }
    };
    let meant = |key: &Key| key.name == name || key.public.fingerprint == name;
    let found = keys.iter().position(meant);
    let missing = || Refusal::not_found(format!("{name} does not exist"));
    let reply = match asked.operation {
        "listkeys" | "listuserkeys" => Reply::list(keys.iter().map(render::key).collect()),
        "getkey" | "getuserkey" => Reply::ok(render::key(&keys[found.ok_or_else(missing)?])),
        "deletekey" | "deleteuserkey" => {
            keys.remove(found.ok_or_else(missing)?);
            Reply::no_content()
        }
        _ => {
            let line = asked.parameters.text("key");
            let line = line.ok_or_else(|| Refusal::missing("key is required"))?;
            let public = PublicKey::parse(&line);
            let public = public.ok_or_else(|| Refusal::argument("key is invalid"))?;
            let same = keys
                .iter()
                .any(|key| key.public.fingerprint == public.fingerprint);
            if same || (found.is_some() && !name.is_empty()) {
                return Err(Refusal::argument("key already exists"));
            }
            let name = if name.is_empty() {
                public.fingerprint.clone()
            } else {
                name
            };
            let key = Key {
                name,
                public,
                created,
            };
            let shown = render::key(&key);
            let place = asked.place(&format!("{place}/{}", key.name));
            keys.push(key);
            Reply::created(shown, place)
        }
    };
    if user.is_some() {
        cloud.rights_changed(asked);
    }
    Ok(reply)
}

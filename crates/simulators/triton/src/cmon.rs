//! Container Monitor: metrics of machines, for whoever has a certificate signed by an account's key.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bowline_simulator::serve::{Answer, Api, Body, Peer, json as answer, text};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Triton;
use super::config::Throttle;
use super::keys::{Hash, PublicKey};
use super::model::{Account, Cloud, Machine, State};
use super::tag_rules;
use super::throttle::Buckets;

/// The name in the journal and in fault rules.
pub const CMON: &str = "cmon";
/// The usage that a certificate must have beside being a client's.
const USAGE: &str = "1.3.6.1.4.1.38678.1.4.2";
/// Calls of an account at once, and a second.
const LIMITS: Throttle = Throttle {
    burst: 1000,
    rate: 100,
};

/// The metrics server of a simulated Triton.
#[derive(Debug)]
pub struct Cmon {
    cloud: Arc<Triton>,
    /// Whose calls those without a certificate are: pipes carry none.
    trusted: Option<String>,
    buckets: Mutex<Buckets>,
}

impl Cmon {
    /// One that judges client certificates; serve it with [`bowline_simulator::serve::ServerBuilder::tls_for_any_client`].
    pub fn new(cloud: &Arc<Triton>) -> Arc<Self> {
        Self::assemble(cloud, None)
    }

    /// One that takes every caller for that account: pipes carry no certificates.
    pub fn trusting(cloud: &Arc<Triton>, account: &str) -> Arc<Self> {
        Self::assemble(cloud, Some(account.to_owned()))
    }

    fn assemble(cloud: &Arc<Triton>, trusted: Option<String>) -> Arc<Self> {
        let cloud = Arc::clone(cloud);
        Arc::new(Self {
            cloud,
            trusted,
            buckets: Mutex::default(),
        })
    }

    fn respond(&self, request: &Request<Bytes>, peer: &Peer) -> (Response<Body>, String) {
        let now = self.cloud.now();
        let caller = match (&self.trusted, &peer.certificate) {
            (Some(account), _) => Some(account.clone()),
            (None, Some(certificate)) => self
                .cloud
                .with(|cloud| owner(cloud, certificate, now.as_second())),
            (None, None) => None,
        };
        let Some(caller) = caller else {
            return (
                text(StatusCode::UNAUTHORIZED, "Unauthorized"),
                String::new(),
            );
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.take(&caller, CMON, LIMITS, now) {
            return (
                text(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
                caller,
            );
        }
        drop(buckets);
        let response = self
            .cloud
            .with(|cloud| show(cloud, &caller, request, now.as_second()));
        (response, caller)
    }
}

impl Api for Cmon {
    fn name(&self) -> &'static str {
        CMON
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let (response, caller) = self.respond(&request, peer);
            Answer { response, caller }
        }
        .boxed()
    }
}

/// The account whose certificate that is; none if it is nobody's.
fn owner(cloud: &Cloud, certificate: &[u8], now: i64) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() || now > validity.not_after.timestamp() {
        return None;
    }
    let usage = certificate.extended_key_usage().ok()??.value;
    let named = |oid: &x509_parser::der_parser::Oid<'_>| oid.to_id_string() == USAGE;
    if !usage.client_auth || !usage.other.iter().any(named) {
        return None;
    }
    let login = common_name(certificate.subject())?;
    let account = cloud.accounts.get(&login)?;
    let fingerprint = issuer(&common_name(certificate.issuer())?)?;
    let key = usable_keys(account).find(|key| key.fingerprint == fingerprint)?;
    let hash = hash_of(&certificate.signature_algorithm.algorithm.to_id_string())?;
    let message = certificate.tbs_certificate.as_ref();
    let signed =
        key.family() != "ed25519" && key.signed(hash, message, &certificate.signature_value.data);
    signed.then_some(login)
}

/// The keys of an account, and those of the members of its role `administrator`.
fn usable_keys(account: &Account) -> impl Iterator<Item = &PublicKey> {
    let rights = &account.effective;
    let role = rights.roles.get("administrator");
    let members: BTreeSet<&String> = role
        .map(|role| role.members.iter().chain(&role.default_members).collect())
        .unwrap_or_default();
    let users = members
        .into_iter()
        .filter_map(|login| rights.users.get(login));
    let keys = account.keys.iter().chain(users.flat_map(|user| &user.keys));
    keys.map(|key| &key.public)
}

fn common_name(name: &x509_parser::x509::X509Name<'_>) -> Option<String> {
    let found = name.iter_common_name().next()?;
    found.as_str().ok().map(str::to_owned)
}

/// The fingerprint that an issuer's name tells: `MD5:` and base64 or pairs of digits.
fn issuer(name: &str) -> Option<String> {
    let rest = name.strip_prefix("MD5:").unwrap_or(name);
    let pairs: Vec<&str> = rest.split(':').collect();
    if pairs.len() == 16 {
        return Some(rest.to_lowercase());
    }
    let bytes = STANDARD_NO_PAD.decode(name.strip_prefix("MD5:")?).ok()?;
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (pairs.len() == 16).then(|| pairs.join(":"))
}

/// The hash of a certificate's signature, by the object identifier of its algorithm.
fn hash_of(identifier: &str) -> Option<Hash> {
    match identifier {
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => Some(Hash::Sha256),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(Hash::Sha384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(Hash::Sha512),
        _ => None,
    }
}

fn show(cloud: &Cloud, login: &str, request: &Request<Bytes>, now: i64) -> Response<Body> {
    let header = request.headers().get(header::HOST);
    let header = header.and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let host = header.or(authority).unwrap_or_default();
    let first = host.split(['.', ':']).next().unwrap_or_default();
    let missing = || text(StatusCode::NOT_FOUND, "Not Found");
    let running = |it: &&Machine| it.owner == login && it.state == State::Running;
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/discover") if first == "cmon" || is_address(host) => {
            discover(cloud, login, request.uri().query().unwrap_or_default())
        }
        (&Method::GET, "/metrics") => match cloud.machines.get(first).filter(running) {
            Some(machine) => text(StatusCode::OK, metrics(machine, now)),
            None => missing(),
        },
        _ => missing(),
    }
}

/// Whether a host is no name at all, as that of somebody who tries it out.
fn is_address(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.parse::<std::net::IpAddr>().is_ok() || name == "localhost"
}

fn groups_of(machine: &Machine) -> Vec<&str> {
    let groups = machine
        .tags
        .get("triton.cmon.groups")
        .and_then(Value::as_str);
    groups
        .map(|groups| groups.split(',').collect())
        .unwrap_or_default()
}

fn discover(cloud: &Cloud, login: &str, query: &str) -> Response<Body> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let wanted = pairs
        .find(|(name, _)| name == "groups")
        .map(|(_, value)| value.into_owned());
    if let Some(groups) = &wanted {
        let tags = [("triton.cmon.groups".to_owned(), groups.as_str().into())];
        if tag_rules::problem(&tags.into_iter().collect()).is_some() {
            return text(StatusCode::BAD_REQUEST, "Bad Request");
        }
    }
    let wanted: Option<Vec<&str>> = wanted.as_ref().map(|groups| groups.split(',').collect());
    let owner = cloud.accounts.get(login).map(|account| account.id.clone());
    let all = cloud
        .machines
        .values()
        .filter(|it| it.owner == login && it.state == State::Running);
    let all = all.filter(|it| {
        let groups = groups_of(it);
        wanted
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(|one| groups.contains(one)))
    });
    let shown = all.map(|it| {
        let mut shown = json!({
            "groups": groups_of(it), "server_uuid": it.compute_node, "vm_alias": it.name,
            "vm_brand": it.brand, "vm_owner_uuid": owner, "vm_uuid": it.id,
        });
        if it.kind() == "smartmachine" {
            shown["vm_image_uuid"] = it.image.as_str().into();
        }
        shown
    });
    answer(
        StatusCode::OK,
        &json!({ "containers": shown.collect::<Vec<_>>() }),
    )
}

/// Name, kind, help and value of what is measured, for a machine of so much memory and age.
fn metrics(machine: &Machine, now: i64) -> String {
    let age = (now - machine.created.as_second()).max(0);
    let memory = i64::try_from(machine.memory.as_u64().unwrap_or_default()).unwrap_or_default();
    let (memory, disk) = (memory * 1_048_576, memory * 1_048_576 * 25);
    let rows = bowline_simulator::table![
        "cpu_user_usage", "counter", "User CPU utilization in nanoseconds", age * 40_000_000;
        "cpu_sys_usage", "counter", "System CPU usage in nanoseconds", age * 10_000_000;
        "cpu_wait_time", "counter", "CPU wait time in nanoseconds", age * 1_000_000;
        "load_average", "gauge", "Load average", 1;
        "mem_agg_usage", "gauge", "Aggregate memory usage in bytes", memory / 2;
        "mem_limit", "gauge", "Memory limit in bytes", memory;
        "mem_swap", "gauge", "Swap in bytes", memory / 4;
        "mem_swap_limit", "gauge", "Swap limit in bytes", memory * 4;
        "net_agg_packets_in", "counter", "Aggregate inbound packets", age * 100;
        "net_agg_packets_out", "counter", "Aggregate outbound packets", age * 80;
        "net_agg_bytes_in", "counter", "Aggregate inbound bytes", age * 64_000;
        "net_agg_bytes_out", "counter", "Aggregate outbound bytes", age * 32_000;
        "zfs_used", "gauge", "zfs space used in bytes", disk / 10;
        "zfs_available", "gauge", "zfs space available in bytes", disk - disk / 10;
        "time_of_day", "counter", "System time in seconds since epoch", now;
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
    text
}

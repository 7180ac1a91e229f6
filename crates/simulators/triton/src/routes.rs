//! From a request to an answer: which call, who asks, may they, and what comes back.

use bowline_simulator::serve::{Answer, Encrypted};
use bytes::Bytes;
use http::{Method, Request, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::calls::{Found, find};
use super::model::{Account, Cloud};
use super::parameters::Parameters;
use super::refusals::{Letterhead, OrRefusal, Refusal, Reply};
use super::signature::{self, write_date};
use super::{Triton, throttle, versions};

/// One call, taken apart.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request<Bytes>,
    pub(super) operation: &'static str,
    pub(super) parameters: Parameters,
    /// The account that it is about.
    pub(super) account: String,
    /// The sub-user who asks, if it is one, with the roles that are active.
    pub(super) user: Option<String>,
    pub(super) roles: Vec<String>,
    /// For the audit.
    pub(super) caller: Value,
    pub(super) now: Timestamp,
}

impl Asked<'_> {
    /// A parameter as text, or nothing.
    pub(super) fn text(&self, name: &str) -> String {
        self.parameters.text(name).unwrap_or_default()
    }

    /// The place of something below the account.
    pub(super) fn place(&self, rest: &str) -> String {
        format!("/{}/{rest}", self.account)
    }
}

impl Cloud {
    /// The account that a call is about.
    pub(super) fn account(&self, asked: &Asked<'_>) -> OrRefusal<&Account> {
        let found = self.accounts.get(&asked.account);
        found.ok_or_else(|| Refusal::not_found(format!("{} does not exist", asked.account)))
    }

    /// The same, to be changed.
    pub(super) fn account_mut(&mut self, asked: &Asked<'_>) -> OrRefusal<&mut Account> {
        let found = self.accounts.get_mut(&asked.account);
        found.ok_or_else(|| Refusal::not_found(format!("{} does not exist", asked.account)))
    }
}

impl Triton {
    /// Answers a request, and says who made it.
    pub(super) fn respond(&self, request: &Request<Bytes>) -> Answer {
        let mut caller = String::new();
        let (head, result) = self.with(|cloud| {
            let result = self.dispatch(cloud, request, &mut caller);
            let named =
                !cloud.quirks.no_datacenter_header && tells_datacenter(request.uri().path());
            let head = Letterhead {
                request_id: self.world.random.uuid(),
                date: write_date(self.server_time(cloud)),
                datacenter: named.then(|| cloud.datacenter.clone()),
            };
            (head, result)
        });
        let response = head.response(result);
        Answer { response, caller }
    }

    /// The time of the server, whose clock may be wrong.
    fn server_time(&self, cloud: &Cloud) -> Timestamp {
        let skew = jiff::SignedDuration::from_secs(cloud.skew);
        self.now().saturating_add(skew).unwrap_or(Timestamp::MAX)
    }

    fn dispatch(
        &self,
        cloud: &mut Cloud,
        request: &Request<Bytes>,
        caller: &mut String,
    ) -> OrRefusal<Reply> {
        let path = request.uri().path();
        let (operation, parts) = match find(request.method(), path) {
            Found::Call(operation, parts) => (operation, parts),
            Found::OtherMethod => return Err(Refusal::method(request.method())),
            Found::Nothing => return Err(Refusal::not_found(format!("{path} does not exist"))),
        };
        check_version(request)?;
        if operation == "ping" {
            return Ok(Reply::ok(ping()));
        }
        if operation == "changefeed" && cloud.quirks.no_changefeed {
            return Err(Refusal::not_found(format!("{path} does not exist")));
        }
        let asked = self.identify(cloud, request, (operation, &parts), caller)?;
        let word = path
            .trim_start_matches('/')
            .split('/')
            .nth(1)
            .unwrap_or_default();
        if let Some(limits) = cloud.throttle
            && !cloud
                .buckets
                .take(&asked.account, throttle::group(word), limits, self.now())
        {
            return Err(Refusal::throttled(limits.rate));
        }
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(now) = cloud.maintenance.filter(|_| !reads) {
            return Err(Refusal::maintenance(now.until.map(write_date)));
        }
        cloud.check_rights(&asked)?;
        self.call(cloud, &asked)
    }

    /// Finds out who asks, and about which account.
    fn identify<'a>(
        &self,
        cloud: &Cloud,
        request: &'a Request<Bytes>,
        call: (&'static str, &super::calls::Parts),
        caller: &mut String,
    ) -> OrRefusal<Asked<'a>> {
        let claim = signature::read(request, self.server_time(cloud))?;
        let parameters = Parameters::of(request, call.1)?;
        let claim = claim.ok_or_else(Refusal::anonymous)?;
        let signer = claim.signer.clone().ok_or_else(Refusal::credentials)?;
        let account = cloud
            .accounts
            .get(&signer.account)
            .ok_or_else(Refusal::credentials)?;
        let keys = match &signer.user {
            None => &account.keys,
            Some(user) => {
                let user = account.effective.users.get(user);
                &user.ok_or_else(Refusal::credentials)?.keys
            }
        };
        let mut named = keys
            .iter()
            .filter(|key| key.public.fingerprint == signer.key || key.name == signer.key);
        if !named.any(|key| claim.fits(&key.public)) {
            return Err(Refusal::credentials());
        }
        *caller = match &signer.user {
            Some(user) => format!("{}/{user}", signer.account),
            None => signer.account.clone(),
        };
        if account.disabled {
            return Err(Refusal::denied("The account is disabled"));
        }
        let wanted = parameters.text("account").unwrap_or_default();
        let own = signer.user.is_some() || wanted == "my" || wanted == account.login;
        let meant = if own {
            account
        } else {
            let missing = || Refusal::not_found(format!("{wanted} does not exist"));
            let other = cloud.accounts.get(&wanted).ok_or_else(missing)?;
            if !account.operator {
                return Err(Refusal::denied(
                    "You are not permitted to act on this account",
                ));
            }
            other
        };
        let roles = match &signer.user {
            Some(user) => account.effective.active(user, parameters.text("as-role"))?,
            None => Vec::new(),
        };
        Ok(Asked {
            request,
            operation: call.0,
            account: meant.login.clone(),
            roles,
            caller: json!({
                "type": "signature", "ip": "127.0.0.1",
                "keyId": format!("/{caller}/keys/{}", signer.key),
            }),
            user: signer.user,
            parameters,
            now: self.now(),
        })
    }

    /// The parts of the API, asked in turn.
    fn call(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let done = self.account_call(cloud, asked)?;
        let done = done.map_or_else(|| self.machine_call(cloud, asked), |reply| Ok(Some(reply)))?;
        let done = done.map_or_else(|| self.network_call(cloud, asked), |reply| Ok(Some(reply)))?;
        let done =
            done.map_or_else(|| self.firewall_call(cloud, asked), |reply| Ok(Some(reply)))?;
        let path = asked.request.uri().path();
        done.ok_or_else(|| Refusal::not_found(format!("{path} does not exist")))
    }

    /// The root of the API's addresses: as configured, or as the caller reached us.
    pub(super) fn root(&self, request: &Request<Bytes>) -> String {
        if let Some(url) = &self.fixture.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let secure = request.extensions().get::<Encrypted>().is_some();
        let scheme = if secure { "https" } else { "http" };
        let header = request.headers().get(header::HOST);
        let header = header.and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        format!(
            "{scheme}://{}",
            header.or(authority).unwrap_or("triton.invalid")
        )
    }
}

/// Whether the answer of that path says the data center's name.
fn tells_datacenter(path: &str) -> bool {
    path.starts_with("/--ping") || path.trim_end_matches('/').ends_with("/datacenters")
}

fn check_version(request: &Request<Bytes>) -> OrRefusal {
    let headers = request.headers();
    let given = headers
        .get("accept-version")
        .or_else(|| headers.get("x-api-version"));
    let range = given
        .and_then(|range| range.to_str().ok())
        .unwrap_or_default();
    if range.is_empty() || versions::supported(range) {
        return Ok(());
    }
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{range} is not supported by {method} {path}");
    Err(Refusal::bad("InvalidVersion", message))
}

fn ping() -> Value {
    let versions =
        versions::VERSIONS.map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"));
    json!({ "ping": "pong", "cloudapi": { "versions": versions } })
}

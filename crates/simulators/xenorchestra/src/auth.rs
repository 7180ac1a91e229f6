//! Who asks: cookies, passwords and tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::XenOrchestra;
use super::config::{Release, User};
use super::model::{Cloud, Token};
use super::refusals::{OrRefusal, Refusal};

/// For how long a user is refused after a wrong password.
const PAUSE: Duration = Duration::from_secs(2);
/// The life of a token that asks for none.
const USUAL_LIFE: Duration = Duration::from_secs(30 * 86_400);
const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// The longest life: half a year.
const LONGEST_LIFE: Duration = Duration::from_secs(4_383 * 3_600);

/// Somebody who is known.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) user: User,
    /// By a password, not by a token.
    pub(super) by_password: bool,
}

impl Caller {
    /// Fails if the caller is no administrator.
    pub(super) fn admin(&self) -> OrRefusal {
        if self.user.admin {
            Ok(())
        } else {
            Err(Refusal::administrators())
        }
    }
}

/// A cookie by which a caller may be known.
fn token(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs: Vec<(&str, &str)> = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .collect();
    let named = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.trim_matches('"').to_owned())
    };
    let found = named("authenticationToken").or_else(|| named("token"));
    found.filter(|token| !token.is_empty())
}

/// Name and password of a header. As the real one does, the text is cut at every colon, so that a password
/// ends at its first.
fn basic(header: &str) -> OrRefusal<(String, Option<String>)> {
    let encoded = header.split(' ').nth(1);
    let encoded = encoded.ok_or_else(|| Refusal::bad("Malformed Authorization header"))?;
    let decoded = STANDARD_NO_PAD
        .decode(encoded.trim_end_matches('='))
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded).into_owned();
    let mut parts = text.split(':').map(str::to_owned);
    Ok((parts.next().unwrap_or_default(), parts.next()))
}

impl XenOrchestra {
    /// Who asks, if anybody says so. `tokens` is true where old releases take passwords.
    pub(super) fn identify(
        &self,
        cloud: &mut Cloud,
        request: &Request<Bytes>,
        tokens: bool,
    ) -> OrRefusal<Option<Caller>> {
        let header = request.headers().get(header::AUTHORIZATION);
        let header = header
            .and_then(|it| it.to_str().ok())
            .filter(|it| !it.is_empty());
        let caller = match (token(request.headers()), header) {
            (Some(_), Some(_)) => {
                return Err(Refusal::bad(
                    "Having multiple authentication methods is not supported, please choose one",
                ));
            }
            (None, None) => return Ok(None),
            (Some(token), None) => self.by_token(cloud, &token)?,
            (None, Some(header)) => {
                let (name, password) = basic(header)?;
                if cloud.quirks.release != Release::Current && !tokens {
                    return Err(Refusal::credentials());
                }
                let query = request.uri().query().unwrap_or_default();
                let mut pairs = url::form_urlencoded::parse(query.as_bytes());
                let otp = pairs.find(|(key, _)| key == "otp").map(|(_, value)| value);
                self.by_password(cloud, &name, password.as_deref(), otp.as_deref())?
            }
        };
        Ok(Some(caller))
    }

    /// The owner of a token.
    pub(super) fn by_token(&self, cloud: &mut Cloud, id: &str) -> OrRefusal<Caller> {
        let now = self.now();
        let token = cloud.tokens.get_mut(id).filter(|token| token.lives(now));
        let token = token.ok_or_else(Refusal::credentials)?;
        token.last_use = Some(now);
        let name = token.user.clone();
        let user = cloud
            .users
            .get(&name)
            .cloned()
            .ok_or_else(Refusal::credentials)?;
        Ok(Caller {
            name,
            user,
            by_password: false,
        })
    }

    /// Somebody who knows the password.
    pub(super) fn by_password(
        &self,
        cloud: &mut Cloud,
        name: &str,
        password: Option<&str>,
        otp: Option<&str>,
    ) -> OrRefusal<Caller> {
        let now = self.now();
        let password = password.ok_or_else(Refusal::credentials)?;
        if password.is_empty() {
            return Err(Refusal::failure("empty password"));
        }
        let failed = cloud.failed.get(name);
        if failed.is_some_and(|at| now < at.saturating_add(PAUSE).unwrap_or(*at)) {
            return Err(Refusal::failure("too fast authentication tries"));
        }
        let user = cloud
            .users
            .get(name)
            .filter(|user| user.password == password);
        let user = user.filter(|user| user.otp.is_none() || user.otp.as_deref() == otp);
        let Some(user) = user.cloned() else {
            cloud.failed.insert(name.to_owned(), now);
            return Err(Refusal::credentials());
        };
        cloud.failed.remove(name);
        let name = name.to_owned();
        Ok(Caller {
            name,
            user,
            by_password: true,
        })
    }

    /// Makes a token, or prolongs the one of the same client.
    pub(super) fn make_token(
        &self,
        cloud: &mut Cloud,
        caller: &Caller,
        body: &Value,
    ) -> OrRefusal<Token> {
        let now = self.now();
        let life = life(body.get("expiresIn"))?;
        let expires = now.saturating_add(life).ok();
        let client = body
            .pointer("/client/id")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let description = body
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let same = |token: &&mut Token| {
            client.is_some()
                && token.client == client
                && token.user == caller.name
                && token.lives(now)
        };
        if let Some(token) = cloud.tokens.values_mut().find(same) {
            token.expires = expires;
            if description.is_some() {
                token.description = description;
            }
            return Ok(token.clone());
        }
        let token = Token {
            id: self.draw_token(),
            user: caller.name.clone(),
            client,
            description,
            created: now,
            expires,
            last_use: None,
        };
        cloud.tokens.insert(token.id.clone(), token.clone());
        Ok(token)
    }

    fn draw_token(&self) -> String {
        let numbers = [(); 4].map(|()| self.world.random.number().to_be_bytes());
        URL_SAFE_NO_PAD.encode(numbers.concat())
    }
}

/// The life that a token asks for.
fn life(wanted: Option<&Value>) -> OrRefusal<Duration> {
    let Some(wanted) = wanted else {
        return Ok(USUAL_LIFE);
    };
    let text = wanted
        .as_str()
        .map_or_else(|| wanted.to_string(), str::to_owned);
    let found = duration(&text).filter(|life| *life >= SHORTEST_LIFE);
    let life =
        found.ok_or_else(|| Refusal::failure(format!("invalid expiresIn duration: {text}")))?;
    if life > LONGEST_LIFE {
        return Err(Refusal::failure(format!(
            "too high expiresIn duration: {text}"
        )));
    }
    Ok(life)
}

/// A length of time as people write it: milliseconds, or `30 days`.
fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    let seconds = match unit.trim().to_lowercase().as_str() {
        "" | "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        "y" | "yr" | "yrs" | "year" | "years" => 31_557_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

impl Token {
    /// Whether it is still good.
    pub(super) fn lives(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    /// As the API shows it, with the id of its user.
    pub(super) fn show(&self, user: &str) -> Value {
        let mut shown = json!({
            "id": self.id,
            "user_id": user,
            "created_at": self.created.as_millisecond(),
        });
        if let Some(client) = &self.client {
            shown["client"] = json!({ "id": client });
        }
        if let Some(description) = &self.description {
            shown["description"] = json!(description);
        }
        if let Some(end) = self.expires {
            shown["expiration"] = json!(end.as_millisecond());
        }
        if let Some(last) = self.last_use {
            shown["last_uses"] = json!({ "": { "timestamp": last.as_millisecond() } });
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_read_as_people_write_it() {
        let days = |days: u64| Some(Duration::from_hours(24 * days));
        for (text, wanted) in [
            ("30 days", days(30)),
            ("1 hour", Some(Duration::from_hours(1))),
            ("1h", Some(Duration::from_hours(1))),
            ("60000", Some(Duration::from_mins(1))),
            ("0.5 day", Some(Duration::from_hours(12))),
            ("soon", None),
            ("1 fortnight", None),
            ("-1 day", None),
            ("", None),
        ] {
            assert_eq!(duration(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_password_ends_at_its_first_colon() {
        let (name, password) = basic("Basic c3ZjLWs4c0Bjb3JwLmxhbjpzM2NyZXQ6eA==").unwrap();
        assert_eq!(
            (name.as_str(), password.as_deref()),
            ("svc-k8s@corp.lan", Some("s3cret"))
        );
        assert!(basic("Basic").is_err());
    }
}

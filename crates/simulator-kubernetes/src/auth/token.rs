//! Service-account tokens: signed statements about who holds them, bound to a stored account.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_simulator::keys::{CertificateError, Keys, pkcs8};
use jiff::{SignedDuration, Timestamp};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::super::status::Refusal;
use super::{Objects, User, kind, text, texts};

/// Who signs tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The audience of tokens for the API server itself.
pub const AUDIENCE: &str = ISSUER;
/// The claim with everything Kubernetes knows.
const PRIVATE: &str = "kubernetes.io";
/// What the real server gives if nothing is asked for.
const DEFAULT_SECONDS: i64 = 3600;
/// The shortest life that can be asked for.
const LEAST_SECONDS: i64 = 600;
/// The longest life that can be asked for.
const MOST_SECONDS: i64 = 1 << 32;
/// Clocks may differ by this much before a token counts as expired, as in the real server.
const LEEWAY_SECONDS: i64 = 60;
/// Longest token that is looked at; real ones have about 1 KiB.
const LONGEST: usize = 16 * 1024;

/// Signs and checks tokens.
pub(super) struct Signer {
    pair: Ed25519KeyPair,
    keys: Keys,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    pub(super) fn new(keys: Keys) -> Result<Self, CertificateError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8(keys.seed()?))
            .map_err(|_| CertificateError::NoRandomness)?;
        Ok(Self { pair, keys })
    }

    /// Answers a token request.
    pub(super) fn issue(
        &self,
        namespace: &str,
        account: &Value,
        spec: &Value,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        let seconds = lifetime(spec)?;
        let audiences = match texts(spec, "audiences") {
            none if none.is_empty() => vec![AUDIENCE],
            some => some,
        };
        let expiry = now
            .saturating_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX);
        let name = text(account, "/metadata/name");
        let mut private = json!({
            "namespace": namespace,
            "serviceaccount": { "name": name, "uid": text(account, "/metadata/uid") },
        });
        let reference = &spec["boundObjectRef"];
        if !reference.is_null() {
            let (key, bound) = bound(namespace, reference, objects)?;
            private[key] = bound;
        }
        let claims = json!({
            "aud": audiences,
            "exp": expiry.as_second(),
            "iat": now.as_second(),
            "nbf": now.as_second(),
            "iss": ISSUER,
            "jti": self.identity(),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            PRIVATE: private,
        });
        let mut request_spec = json!({ "audiences": audiences, "expirationSeconds": seconds });
        request_spec["boundObjectRef"] = reference.clone();
        let whole = Timestamp::from_second(expiry.as_second()).unwrap_or(expiry);
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": text(account, "/metadata/uid"),
                "creationTimestamp": Timestamp::from_second(now.as_second()).unwrap_or(now),
            },
            "spec": request_spec,
            "status": { "token": self.sign(&claims), "expirationTimestamp": whole },
        }))
    }

    fn identity(&self) -> String {
        let seed = self.keys.seed().unwrap_or_default();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&seed[..16]);
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "typ": "JWT" });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The claims of a token that we signed.
    fn claims(&self, token: &str) -> Option<Value> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ED25519, self.pair.public_key())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// The account a token speaks for, if the token and the account are still good, and those of
    /// the wanted audiences it is meant for.
    pub(super) fn user(
        &self,
        token: &str,
        wanted: &[&str],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Option<(User, Vec<String>)> {
        let claims = self.claims(token)?;
        let now = now.as_second();
        let expired = claims["exp"].as_i64()? + LEEWAY_SECONDS < now;
        let early = claims["nbf"].as_i64()? - LEEWAY_SECONDS > now;
        let meant = texts(&claims, "aud");
        let audiences: Vec<String> = wanted
            .iter()
            .filter(|one| meant.contains(one))
            .map(|&one| one.to_owned())
            .collect();
        if expired || early || audiences.is_empty() {
            return None;
        }
        let private = &claims[PRIVATE];
        let namespace = text(private, "/namespace");
        let name = text(private, "/serviceaccount/name");
        let uid = text(private, "/serviceaccount/uid");
        if !alive("ServiceAccount", namespace, name, uid, objects) || !holds(private, objects) {
            return None;
        }
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            extra: extra(&claims),
        };
        Some((user, audiences))
    }
}

/// How long the token is to live.
fn lifetime(spec: &Value) -> Result<i64, Refusal> {
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(DEFAULT_SECONDS);
    let why = if seconds < LEAST_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MOST_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    Err(super::reviews::invalid(
        "TokenRequest.authentication.k8s.io",
        "spec.expirationSeconds",
        &format!("Invalid value: {seconds}: {why}"),
    ))
}

/// The object a token is bound to besides its account: claim name and content.
fn bound(
    namespace: &str,
    reference: &Value,
    objects: &dyn Objects,
) -> Result<(&'static str, Value), Refusal> {
    let (row, key, place) = match text(reference, "/kind") {
        "Pod" => (kind("Pod"), "pod", namespace),
        "Secret" => (kind("Secret"), "secret", namespace),
        "Node" => (kind("Node"), "node", ""),
        other => {
            let why = format!("cannot bind token for serviceaccount to object of kind {other}");
            return Err(Refusal::bad_request(why));
        }
    };
    let name = text(reference, "/name");
    let object = objects
        .get(row, place, name)
        .ok_or_else(|| Refusal::not_found(row, name))?;
    let uid = text(&object, "/metadata/uid");
    let asked = text(reference, "/uid");
    if !asked.is_empty() && asked != uid {
        let why = format!(
            "the UID in the bound object reference ({asked}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(Refusal::conflict(row, name, &why));
    }
    Ok((key, json!({ "name": name, "uid": uid })))
}

/// Whether what the token is bound to is still there.
fn holds(private: &Value, objects: &dyn Objects) -> bool {
    let namespace = text(private, "/namespace");
    [
        ("pod", "Pod", namespace),
        ("secret", "Secret", namespace),
        ("node", "Node", ""),
    ]
    .into_iter()
    .filter(|(key, ..)| !private[key].is_null())
    .all(|(key, kind, place)| {
        let bound = &private[key];
        alive(
            kind,
            place,
            text(bound, "/name"),
            text(bound, "/uid"),
            objects,
        )
    })
}

/// Whether the object exists and is still the same one.
fn alive(
    name_of_kind: &str,
    namespace: &str,
    name: &str,
    uid: &str,
    objects: &dyn Objects,
) -> bool {
    let mut same = false;
    objects.look(kind(name_of_kind), namespace, name, &mut |object| {
        same = text(object, "/metadata/uid") == uid;
    });
    same
}

/// What the token says beyond the account.
fn extra(claims: &Value) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::new();
    let mut tell = |key: &str, value: String| {
        extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    tell("credential-id", format!("JTI={}", text(claims, "/jti")));
    for what in ["pod", "node"] {
        let bound = &claims[PRIVATE][what];
        if !bound.is_null() {
            tell(&format!("{what}-name"), text(bound, "/name").to_owned());
            tell(&format!("{what}-uid"), text(bound, "/uid").to_owned());
        }
    }
    extra
}

//! Certificate signing requests.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use x509_parser::prelude::FromDer;

use super::problem::Problem;
use super::{drop_empty, drop_field, keep, names};
use crate::auth::User;
use crate::object::seconds;

/// Shortest life a request may ask for.
const LEAST_LIFE: i64 = 600;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Conditions that decide about a request.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// The server says who asks; a new request is undecided.
pub fn prepare_create(request: &mut Value, user: &User) {
    let spec = &mut request["spec"];
    for field in ["username", "uid", "groups", "extra"] {
        drop_field(spec, field);
    }
    spec["username"] = user.name.as_str().into();
    spec["uid"] = user.uid.as_str().into();
    spec["groups"] = user.groups.clone().into();
    spec["extra"] = json!(user.extra);
    drop_empty(spec, &["username", "uid", "groups", "extra"]);
    request["status"] = json!({});
}

/// Checks a request.
pub fn validate(request: &Value) -> Vec<Problem> {
    let spec = &request["spec"];
    let mut problems = Vec::new();
    if let Err(why) = parse(spec["request"].as_str().unwrap_or_default()) {
        problems.push(Problem::invalid("spec.request", &spec["request"], &why));
    }
    let usages = spec["usages"].as_array().cloned().unwrap_or_default();
    if usages.is_empty() {
        problems.push(Problem::required("spec.usages", ""));
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        problems.extend(Problem::unless_known(&field, usage, &USAGES));
        if !seen.insert(usage.to_string()) {
            problems.push(Problem::duplicate(&field, usage, ""));
        }
    }
    problems.extend(validate_signer(
        spec["signerName"].as_str().unwrap_or_default(),
    ));
    if let Some(seconds) = spec["expirationSeconds"].as_i64()
        && seconds < LEAST_LIFE
    {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        let value = json!(seconds);
        problems.push(Problem::invalid("spec.expirationSeconds", &value, detail));
    }
    problems.extend(validate_conditions(&request["status"]["conditions"]));
    problems
}

/// A signer is `domain/path`.
fn validate_signer(signer: &str) -> Vec<Problem> {
    let field = "spec.signerName";
    if signer.is_empty() {
        return vec![Problem::required(field, "")];
    }
    let value = json!(signer);
    if signer == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        return vec![Problem::invalid(field, &value, detail)];
    }
    let Some((domain, path)) = signer.split_once('/') else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![Problem::invalid(field, &value, detail)];
    };
    let faults = |part: &str| {
        let faults = names::subdomain(part).into_iter();
        let faults = faults.map(|fault| format!("validating label {part:?}: {fault}"));
        Problem::faults(field, signer, faults.collect())
    };
    let mut problems: Vec<Problem> = faults(domain).collect();
    if domain.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        problems.push(Problem::invalid(field, &json!(domain), detail));
    }
    problems.extend(faults(path));
    problems
}

/// Whether the bytes are a PEM-encoded certificate request.
fn parse(encoded: &str) -> Result<(), String> {
    let not_pem = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
    let bytes = STANDARD.decode(encoded).map_err(|_| not_pem())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&bytes).map_err(|_| not_pem())?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(not_pem());
    }
    let (_, _) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents)
            .map_err(|error| error.to_string())?;
    Ok(())
}

fn validate_conditions(conditions: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("status.conditions[{index}].{field}");
        let kind = condition["type"].as_str().unwrap_or_default();
        problems.extend(Problem::unless_given(&at("type"), kind));
        let status = &condition["status"];
        let known: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        problems.extend(match status.as_str().unwrap_or_default() {
            "" => Some(Problem::required(&at("status"), "")),
            _ => Problem::unless_known(&at("status"), status, known),
        });
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            problems.push(Problem::invalid("status.conditions", &json!(kind), detail));
        }
        if !seen.insert(kind) {
            problems.push(Problem::duplicate(&at("type"), &json!(kind), ""));
        }
    }
    problems
}

fn of_type<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    request["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|condition| condition["type"] == kind)
        .collect()
}

/// Prepares and checks a change of the object, of `status` or of `approval`.
pub fn update(subresource: &str, request: &mut Value, old: &Value, now: Timestamp) -> Vec<Problem> {
    match subresource {
        "approval" => {
            // Everything but the conditions stays.
            let conditions = request["status"]["conditions"].clone();
            keep(request, old, &["spec", "status"]);
            if !request["status"].is_object() {
                request["status"] = json!({});
            }
            request["status"]["conditions"] = conditions;
            drop_empty(&mut request["status"], &["conditions"]);
            stamp(request, old, now);
        }
        "status" => {
            keep(request, old, &["spec"]);
            stamp(request, old, now);
        }
        _ => keep(request, old, &["spec", "status"]),
    }
    let mut problems = validate_conditions(&request["status"]["conditions"]);
    problems.extend(validate_change(subresource, request, old));
    problems
}

fn validate_change(subresource: &str, request: &Value, old: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for kind in ["Approved", "Denied", "Failed"] {
        if of_type(request, kind).len() < of_type(old, kind).len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            problems.push(Problem::forbidden("status.conditions", &detail));
        }
    }
    if subresource != "approval" {
        for kind in DECISIONS {
            let (before, after) = (of_type(old, kind), of_type(request, kind));
            if after.len() > before.len() {
                let detail = format!("updates may not add a condition of type {kind:?}");
                problems.push(Problem::forbidden("status.conditions", &detail));
            } else if after.len() == before.len() && before != after {
                let detail = format!("updates may not modify a condition of type {kind:?}");
                problems.push(Problem::forbidden("status.conditions", &detail));
            }
        }
    }
    let (before, after) = (
        &old["status"]["certificate"],
        &request["status"]["certificate"],
    );
    if before != after {
        if subresource != "status" {
            let detail = "updates may not set certificate content";
            problems.push(Problem::forbidden("status.certificate", detail));
        } else if !before.is_null() {
            let detail = "updates may not modify existing certificate content";
            problems.push(Problem::forbidden("status.certificate", detail));
        } else if !holds_certificate(after) {
            let detail = "must contain at least one CERTIFICATE PEM block";
            let shown = json!("<certificate data>");
            problems.push(Problem::invalid("status.certificate", &shown, detail));
        }
    }
    problems
}

/// Whether the bytes hold a certificate in PEM.
fn holds_certificate(bytes: &Value) -> bool {
    let decoded = STANDARD.decode(bytes.as_str().unwrap_or_default());
    let text = decoded.unwrap_or_default();
    String::from_utf8_lossy(&text).contains("-----BEGIN CERTIFICATE-----")
}

/// Fills in the times of conditions.
fn stamp(request: &mut Value, old: &Value, now: Timestamp) {
    let now = seconds(now);
    let conditions = request["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if condition["lastTransitionTime"].is_null() {
            let before = old["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|known| {
                    known["type"] == condition["type"] && known["status"] == condition["status"]
                })
                .map(|known| known["lastTransitionTime"].clone())
                .filter(|time| !time.is_null());
            condition["lastTransitionTime"] = before.unwrap_or_else(|| now.as_str().into());
        }
    }
}

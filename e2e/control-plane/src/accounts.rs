//! Service accounts and their tokens.

use hyper::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::https::{Https, RequestError};

/// How long a token is good: longer than any run.
const TOKEN_SECONDS: u32 = 24 * 60 * 60;

/// A token of a service account. The account, and its namespace, are made if they are not there.
pub(crate) async fn token(
    admin: &Https,
    port: u16,
    namespace: &str,
    name: &str,
) -> Result<String, RequestError> {
    let escape = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let namespaces = "/api/v1/namespaces";
    ensure(admin, port, namespaces, "Namespace", namespace).await?;
    let accounts = format!("{namespaces}/{}/serviceaccounts", escape(namespace));
    ensure(admin, port, &accounts, "ServiceAccount", name).await?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": { "expirationSeconds": TOKEN_SECONDS },
    });
    let path = format!("{accounts}/{}/token", escape(name));
    let answer = admin.post(port, &path, &request).await?;
    let token = answer["status"]["token"].as_str();
    Ok(token.unwrap_or_default().to_owned())
}

/// Makes an object that needs nothing but a name.
async fn ensure(
    admin: &Https,
    port: u16,
    collection: &str,
    kind: &str,
    name: &str,
) -> Result<(), RequestError> {
    let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    match admin.post(port, collection, &object).await {
        Err(RequestError::Refused { status, .. }) if status == StatusCode::CONFLICT => Ok(()),
        answer => answer.map(|_| ()),
    }
}

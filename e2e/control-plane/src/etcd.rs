//! Etcd's key-value API, through its JSON gateway: bytes travel in Base64, 64-bit numbers as strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::https::{Https, RequestError};

/// Etcd at a port of loopback.
pub(crate) struct Etcd<'a> {
    pub(crate) https: &'a Https,
    pub(crate) port: u16,
}

impl Etcd<'_> {
    /// Forgets all revisions but the latest, which it gives.
    pub(crate) async fn compact(&self) -> Result<u64, RequestError> {
        // Any key will do, there or not: every answer carries the revision.
        let any = json!({ "key": STANDARD.encode([0]) });
        let answer = self.https.post(self.port, "/v3/kv/range", &any).await?;
        let revision = revision(&answer);
        let body = json!({ "revision": revision.to_string(), "physical": true });
        self.https
            .post(self.port, "/v3/kv/compaction", &body)
            .await?;
        Ok(revision)
    }

    /// Writes a value; gives the revision, which is the object's resource version.
    pub(crate) async fn put(&self, key: &str, value: &[u8]) -> Result<u64, RequestError> {
        let body = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
        let answer = self.https.post(self.port, "/v3/kv/put", &body).await?;
        Ok(revision(&answer))
    }
}

/// The revision that an answer's header carries; a new etcd begins with 1.
fn revision(answer: &Value) -> u64 {
    answer["header"]["revision"]
        .as_str()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

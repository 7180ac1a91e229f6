//! The armour around a key: `-----BEGIN …-----`, base64, `-----END …-----`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::KeyError;

#[derive(Debug)]
pub(super) struct Armoured {
    /// What it says it is, such as `RSA PRIVATE KEY`.
    pub(super) label: String,
    pub(super) bytes: Vec<u8>,
}

/// Opens the first armour of a private key. Parameters that OpenSSL writes in front are passed
/// over.
pub(super) fn open(text: &str) -> Result<Armoured, KeyError> {
    let damaged = |what: &str| KeyError::Damaged(format!("the private key is damaged: {what}"));
    let mut rest = text;
    loop {
        let Some((_, begun)) = rest.split_once("-----BEGIN ") else {
            return Err(no_key(text));
        };
        let Some((label, body)) = begun.split_once("-----") else {
            return Err(damaged("its first line is not whole"));
        };
        let end = format!("-----END {label}-----");
        let Some((body, after)) = body.split_once(end.as_str()) else {
            return Err(damaged("it has no end"));
        };
        if !label.ends_with("PRIVATE KEY") {
            rest = after;
            continue;
        }
        if body.contains("Proc-Type:") {
            let form = "Proc-Type: 4,ENCRYPTED";
            return Err(KeyError::OldEncryption { form });
        }
        let packed: String = body.split_whitespace().collect();
        let bytes = STANDARD.decode(packed);
        let bytes = bytes
            .map_err(|_| damaged("what stands between its first and last line is no base64"))?;
        let label = label.to_owned();
        return Ok(Armoured { label, bytes });
    }
}

/// What a text without a private key is instead.
fn no_key(text: &str) -> KeyError {
    let first = text.trim_start();
    let public = ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"];
    if public.iter().any(|start| first.starts_with(start)) || text.contains(" PUBLIC KEY-----") {
        return KeyError::Public;
    }
    let what = if first.is_empty() {
        "the private key is empty"
    } else {
        "this is no private key: it does not begin with -----BEGIN … PRIVATE KEY-----"
    };
    KeyError::Damaged(what.to_owned())
}

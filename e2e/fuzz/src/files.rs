//! Files that the operator writes or mounts.

use std::path::Path;

use bowline_controllers::clients::{Connection, load_config};
use bowline_core::error_chain;
use bowline_http::{Clock, ProxyRules};
use bowline_provider::ProviderInput;
use bowline_talos::endpoint::Endpoint;
use bowline_talos::talosconfig::Talosconfig;
use bowline_triton::keys::{Fingerprint, KeyId, PrivateKey};

use crate::ids::KINDS;

/// The shortest text of a key that must not be in an error.
const LONG: usize = 24;

/// `bowline.yaml`; and the same text as the file of every original.
pub(crate) fn configuration(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    if leads_to_a_device(text) {
        return;
    }
    assert_eq!(bowline::problems_of(text), bowline::problems_of(text));
    for kind in KINDS {
        (kind.check)(&ProviderInput::file(text));
    }
}

/// Whether a file may be read that never ends.
fn leads_to_a_device(text: &str) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|it| text.contains(it))
}

pub(crate) fn kubeconfig(bytes: &[u8]) {
    let text = crate::text(bytes);
    if leads_to_a_device(&text) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let path = file.path().to_str().unwrap();
    crate::answers::run(async {
        let Ok(config) = load_config(path, "").await else {
            return;
        };
        let user = &config.auth_info;
        // Commands would be run, and other files read.
        let asks = user.exec.is_some() || user.auth_provider.is_some();
        let reads = user.token_file.is_some()
            || user.client_certificate.is_some()
            || user.client_key.is_some();
        if !asks && !reads {
            let _ = Connection::open(&config, ProxyRules::default());
        }
    });
}

pub(crate) fn talosconfig(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    match Talosconfig::read(Path::new("config"), text, &Clock::system()) {
        Ok(config) => {
            for endpoint in &config.endpoints {
                endpoint_of(endpoint);
            }
        }
        Err(error) => {
            let error = error_chain(&error);
            let keys = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("key: "));
            for key in keys.map(str::trim).filter(|key| key.len() >= LONG) {
                assert!(!error.contains(key), "a key is in the error: {error}");
            }
        }
    }
    endpoint_of(text);
}

/// What is understood is written so that it is understood again.
fn endpoint_of(text: &str) {
    if let Ok(endpoint) = Endpoint::parse(text) {
        assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint.clone()));
        assert!(endpoint.uri().host().is_some(), "{endpoint} has no URI");
    }
}

/// A private key; or a line with its passphrase, and the key.
pub(crate) fn ssh_keys(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    let (passphrase, key) = match text.split_once('\n') {
        Some((first, rest)) if !first.starts_with("-----") => (Some(first), rest),
        _ => (None, text),
    };
    match PrivateKey::parse(key, passphrase) {
        Ok(key) => {
            let line = Fingerprint::of_line(&key.public_line()).expect("our own line");
            assert_eq!(&line, key.fingerprint());
            for id in [line.md5(), line.sha256()] {
                assert!(KeyId::parse(&id).expect("our own id").is_of(&line), "{id}");
            }
        }
        Err(error) => {
            let error = error_chain(&error);
            let is_data = |it: char| it.is_ascii_alphanumeric() || "+/=".contains(it);
            let is_secret = |line: &&str| line.len() >= LONG && line.chars().all(is_data);
            let lines = key.lines().filter(is_secret);
            for line in lines {
                assert!(
                    !error.contains(line),
                    "a line of the key is in the error: {error}"
                );
            }
        }
    }
    let _ = KeyId::parse(text);
    Fingerprint::of_line(text);
}

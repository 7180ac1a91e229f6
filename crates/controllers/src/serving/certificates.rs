//! Serving certificates: from files, from a directory, or made here; reloaded and renewed while
//! the process runs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bowline_http::Clock;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::ServingError;
use super::options::{CertificateOptions, NamedPair};

/// How often files are looked at; a new certificate is served at most this much later.
pub(super) const POLL: Duration = Duration::from_secs(10);
/// The name of the pair in `--cert-dir`.
const PAIR_NAME: &str = "cloud-controller-manager";
/// How long a certificate made here is valid.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How far in the past it begins, for callers whose clock is behind.
const BACKDATED: Duration = Duration::from_secs(3600);
/// What the issuer of such a certificate is called, before an `@` and the time.
const OWN_ISSUER: &str = "localhost-ca";

/// A certificate with its chain and key, as PEM.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Makes a certificate for `localhost` and this address, by an authority that is thrown away but
/// sent along.
pub(super) fn make(now: Timestamp, address: IpAddr) -> Result<Pair, rcgen::Error> {
    let second = now.as_second();
    let begin = u64::try_from(second).unwrap_or_default();
    let begin = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(begin);
    let begin = begin - BACKDATED;
    let named = |name: String| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = begin;
        params.not_after = begin + LIFE;
        params
    };
    let mut authority = named(format!("{OWN_ISSUER}@{second}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = named(format!("localhost@{second}"));
    leaf.subject_alt_names = alternative_names(address)?;
    leaf.key_usages = vec![
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DigitalSignature,
    ];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok(Pair {
        certificate: certificate.pem() + &authority_certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn alternative_names(address: IpAddr) -> Result<Vec<SanType>, rcgen::Error> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut names = vec![SanType::DnsName("localhost".try_into()?)];
    names.push(SanType::IpAddress(loopback));
    if !address.is_unspecified() && address != loopback {
        names.push(SanType::IpAddress(address));
    }
    Ok(names)
}

/// Whether a certificate with that validity is to be replaced: four fifths of its life are over.
/// That leaves 73 days of a year for a process that is asleep.
pub(super) fn renewal_due(begin: Timestamp, end: Timestamp, now: Timestamp) -> bool {
    let life = end.duration_since(begin);
    now.duration_since(begin) >= life * 4 / 5
}

/// A pair ready to serve.
#[derive(Debug)]
struct Loaded {
    pair: Pair,
    key: Arc<CertifiedKey>,
    begin: Timestamp,
    end: Timestamp,
    own: bool,
    names: Vec<String>,
}

fn load(pair: Pair) -> Result<Loaded, String> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
        .map_err(|error| format!("private key: {error}"))?;
    let provider = rustls::crypto::ring::default_provider();
    let leaf = chain.first().cloned().ok_or("no certificate in the file")?;
    let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| error.to_string())?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|error| error.to_string())?;
    let at = |time: i64| Timestamp::from_second(time).unwrap_or(Timestamp::MAX);
    let validity = parsed.validity();
    let issuer = parsed.issuer().iter_common_name().next();
    let issuer = issuer.and_then(|name| name.as_str().ok()).unwrap_or("");
    Ok(Loaded {
        begin: at(validity.not_before.timestamp()),
        end: at(validity.not_after.timestamp()),
        own: issuer.split('@').next() == Some(OWN_ISSUER),
        names: names_in(&parsed),
        key: Arc::new(key),
        pair,
    })
}

fn names_in(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative
        .iter()
        .flat_map(|names| &names.value.general_names);
    let mut names: Vec<String> = alternative
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_lowercase()),
            _ => None,
        })
        .collect();
    let common = certificate.subject().iter_common_name();
    names.extend(common.filter_map(|name| Some(name.as_str().ok()?.to_lowercase())));
    names
}

fn read(certificate: &Path, key: &Path) -> Result<Loaded, ServingError> {
    let text = |path: &Path| {
        std::fs::read_to_string(path).map_err(|source| ServingError::File {
            doing: "reading",
            path: path.to_owned(),
            source,
        })
    };
    let pair = Pair {
        certificate: text(certificate)?,
        key: text(key)?,
    };
    load(pair).map_err(|reason| ServingError::Certificate {
        path: certificate.to_owned(),
        reason,
    })
}

/// Where the certificate for callers without a known name comes from.
#[derive(Clone, Debug)]
enum Source {
    Files(PathBuf, PathBuf),
    Directory(PathBuf),
    Memory,
}

/// All certificates of the server; the TLS library asks it at each handshake. Not an
/// `http::Reloaded`: those made here are renewed and written, too.
#[derive(Debug)]
pub(super) struct Certificates {
    source: Source,
    by_name: Vec<NamedPair>,
    address: IpAddr,
    clock: Clock,
    current: RwLock<Arc<Current>>,
}

#[derive(Debug)]
struct Current {
    default: Loaded,
    by_name: Vec<Loaded>,
}

impl Certificates {
    /// Loads or makes what the options ask for.
    pub(super) fn new(
        options: &CertificateOptions,
        address: IpAddr,
        clock: Clock,
    ) -> Result<Self, ServingError> {
        let source = match (&options.files, &options.directory) {
            (Some((certificate, key)), _) => Source::Files(certificate.clone(), key.clone()),
            (None, Some(directory)) => Source::Directory(directory.clone()),
            (None, None) => Source::Memory,
        };
        let default = match &source {
            Source::Files(certificate, key) => read(certificate, key)?,
            Source::Directory(directory) => read_or_make(directory, address, &clock)?,
            Source::Memory => made(address, &clock)?,
        };
        let by_name = (options.by_name.iter())
            .map(read_named)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            source,
            by_name: options.by_name.clone(),
            address,
            clock,
            current: RwLock::new(Arc::new(Current { default, by_name })),
        })
    }

    /// Looks at the files once more, and at the age of a certificate made here. What cannot be read
    /// leaves the old one in place.
    pub(super) fn refresh(&self) {
        let old = self.current();
        let default = self.refreshed_default(&old.default);
        let by_name: Vec<Option<Loaded>> = (self.by_name.iter().zip(&old.by_name))
            .map(|(named, old)| changed(read_named(named), old))
            .collect();
        if default.is_none() && by_name.iter().all(Option::is_none) {
            return;
        }
        tracing::info!("serving certificate changed, now in use");
        let kept = |loaded: &Loaded| Loaded {
            pair: loaded.pair.clone(),
            key: Arc::clone(&loaded.key),
            names: loaded.names.clone(),
            ..*loaded
        };
        let by_name = (by_name.into_iter().zip(&old.by_name))
            .map(|(new, old)| new.unwrap_or_else(|| kept(old)))
            .collect();
        let default = default.unwrap_or_else(|| kept(&old.default));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Current { default, by_name });
    }

    fn refreshed_default(&self, old: &Loaded) -> Option<Loaded> {
        let due = old.own && renewal_due(old.begin, old.end, self.clock.now());
        match &self.source {
            Source::Files(certificate, key) => changed(read(certificate, key), old),
            Source::Directory(directory) => {
                let (certificate, key) = pair_in(directory);
                let found = changed(read(&certificate, &key), old);
                if found.is_none() && due {
                    return kept_or(written(directory, self.address, &self.clock));
                }
                found
            }
            Source::Memory if due => kept_or(made(self.address, &self.clock)),
            Source::Memory => None,
        }
    }

    fn current(&self) -> Arc<Current> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

fn kept_or(new: Result<Loaded, ServingError>) -> Option<Loaded> {
    new.inspect_err(|error| tracing::warn!(%error, "certificate not renewed, old one stays"))
        .ok()
}

fn changed(read: Result<Loaded, ServingError>, old: &Loaded) -> Option<Loaded> {
    let new = read
        .inspect_err(|error| tracing::warn!(%error, "certificate not readable, old one stays"))
        .ok()?;
    (new.pair != old.pair).then_some(new)
}

fn read_named(named: &NamedPair) -> Result<Loaded, ServingError> {
    let mut loaded = read(&named.certificate, &named.key)?;
    if !named.names.is_empty() {
        loaded.names.clone_from(&named.names);
    }
    Ok(loaded)
}

fn made(address: IpAddr, clock: &Clock) -> Result<Loaded, ServingError> {
    let pair = make(clock.now(), address).map_err(ServingError::Made)?;
    load(pair).map_err(|reason| ServingError::Certificate {
        path: PathBuf::new(),
        reason,
    })
}

fn pair_in(directory: &Path) -> (PathBuf, PathBuf) {
    let file = |ending: &str| directory.join(format!("{PAIR_NAME}.{ending}"));
    (file("crt"), file("key"))
}

fn read_or_make(directory: &Path, address: IpAddr, clock: &Clock) -> Result<Loaded, ServingError> {
    let (certificate, key) = pair_in(directory);
    match (certificate.exists(), key.exists()) {
        (true, true) => read(&certificate, &key),
        (false, false) => written(directory, address, clock),
        // Half a pair is somebody's: it is not overwritten.
        (true, false) | (false, true) => Err(ServingError::Certificate {
            path: certificate,
            reason: "certificate and key must be supplied as a pair".to_owned(),
        }),
    }
}

fn written(directory: &Path, address: IpAddr, clock: &Clock) -> Result<Loaded, ServingError> {
    let loaded = made(address, clock)?;
    let (certificate, key) = pair_in(directory);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServingError::File {
            doing: "writing",
            path,
            source,
        }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    write_file(&key, &loaded.pair.key, 0o600).map_err(failed(&key))?;
    write_file(&certificate, &loaded.pair.certificate, 0o644).map_err(failed(&certificate))?;
    Ok(loaded)
}

fn write_file(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(mode);
    options.open(path)?.write_all(text.as_bytes())
}

/// Whether a pattern such as `*.example.test` covers that host.
fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(rest) => host
            .split_once('.')
            .is_some_and(|(_, parent)| parent == rest),
        None => pattern == host,
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current();
        let host = hello.server_name().map(str::to_lowercase);
        let named = host.and_then(|host| {
            let mut exact_first: Vec<_> = current.by_name.iter().collect();
            exact_first.sort_by_key(|loaded| !loaded.names.contains(&host));
            exact_first
                .into_iter()
                .find(|loaded| loaded.names.iter().any(|name| covers(name, &host)))
        });
        Some(Arc::clone(&named.unwrap_or(&current.default).key))
    }
}

#[cfg(test)]
mod tests;

//! The settings of the server, as plain values; the flags are mapped onto these.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Everything about the HTTPS server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServingConfig {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`; 0 for no server at all.
    pub port: u16,
    /// `--permit-port-sharing`.
    pub share_port: bool,
    /// Where certificates come from.
    pub certificates: CertificateOptions,
    /// Versions and algorithms of TLS.
    pub tls: TlsConfig,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--http2-max-streams-per-connection`; 0 for the library's default.
    pub http2_max_streams: u32,
    /// How callers are recognised.
    pub authentication: AuthenticationConfig,
    /// What callers may do.
    pub authorization: AuthorizationConfig,
    /// `--profiling`: whether `/debug/flags/v` is served.
    pub profiling: bool,
}

impl Default for ServingConfig {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10258,
            share_port: false,
            certificates: CertificateOptions::default(),
            tls: TlsConfig::default(),
            disable_http2: false,
            http2_max_streams: 0,
            authentication: AuthenticationConfig::default(),
            authorization: AuthorizationConfig::default(),
            profiling: true,
        }
    }
}

/// Where certificates come from: files, else a directory, else memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CertificateOptions {
    /// `--tls-cert-file` and `--tls-private-key-file`.
    pub files: Option<(PathBuf, PathBuf)>,
    /// `--cert-dir`.
    pub directory: Option<PathBuf>,
    /// `--tls-sni-cert-key`.
    pub by_name: Vec<NamedPair>,
}

/// A certificate for some host names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPair {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The names, perhaps `*.example.test`; empty for those in the certificate.
    pub names: Vec<String>,
}

impl NamedPair {
    /// Reads `cert,key[:name,name…]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        match files.split_once(',') {
            Some((certificate, key)) if !certificate.is_empty() && !key.is_empty() => Ok(Self {
                certificate: certificate.trim().into(),
                key: key.trim().into(),
                names: names
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(str::to_lowercase)
                    .collect(),
            }),
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }
}

/// Versions and algorithms of TLS, in Go's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsConfig {
    /// `--tls-min-version`; empty for 1.2.
    pub min_version: String,
    /// `--tls-cipher-suites`; empty for the library's default.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`; empty for the library's default.
    pub curve_preferences: Vec<u16>,
}

/// How callers are recognised.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthenticationConfig {
    /// `--client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-client-ca-file`.
    pub request_header_ca_file: Option<PathBuf>,
    /// `--requestheader-*`; used with the file above.
    pub request_headers: RequestHeaders,
    /// `--authentication-skip-lookup`.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`.
    pub tolerate_lookup_failure: bool,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_cache: Duration,
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            request_header_ca_file: None,
            request_headers: RequestHeaders::default(),
            skip_lookup: false,
            tolerate_lookup_failure: false,
            token_cache: Duration::from_secs(10),
        }
    }
}

/// Which headers a front proxy sets, and who it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeaders {
    /// Common names of the proxy's certificate; empty for any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that is there counts.
    pub username: Vec<String>,
    /// Headers with groups.
    pub group: Vec<String>,
    /// Headers with the user's uid.
    pub uid: Vec<String>,
    /// Beginnings of headers with further attributes.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        Self {
            allowed_names: Vec::new(),
            username: vec!["x-remote-user".to_owned()],
            group: vec!["x-remote-group".to_owned()],
            uid: Vec::new(),
            extra_prefix: vec!["x-remote-extra-".to_owned()],
        }
    }
}

/// What callers may do.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthorizationConfig {
    /// `--authorization-always-allow-paths`.
    pub always_allow: Vec<String>,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub allowed_cache: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub denied_cache: Duration,
}

impl Default for AuthorizationConfig {
    fn default() -> Self {
        Self {
            always_allow: ["/healthz", "/readyz", "/livez"]
                .map(str::to_owned)
                .to_vec(),
            allowed_cache: Duration::from_secs(10),
            denied_cache: Duration::from_secs(10),
        }
    }
}

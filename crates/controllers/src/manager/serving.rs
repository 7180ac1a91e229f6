//! The flags of the HTTPS server, as the server wants them.

use std::path::PathBuf;

use crate::options::{self, Options};
use crate::serving::{
    AuthenticationConfig, AuthorizationConfig, CertificateOptions, NamedPair, RequestHeaders,
    ServingConfig, ServingError, TlsConfig,
};

/// Maps the command line; what it could not check before is checked here.
pub(super) fn options(options: &Options) -> Result<ServingConfig, ServingError> {
    let serving = &options.serving;
    Ok(ServingConfig {
        bind_address: serving.address,
        port: u16::try_from(serving.port).unwrap_or_default(),
        share_port: serving.share_port,
        certificates: certificates(&serving.tls)?,
        tls: tls(&serving.tls)?,
        disable_http2: serving.http1_only,
        http2_max_streams: u32::try_from(serving.http2_max_streams).unwrap_or_default(),
        authentication: authentication(&options.authentication),
        authorization: AuthorizationConfig {
            always_allow: options.authorization.always_allow_paths.clone(),
            allowed_cache: options.authorization.allowed_cache,
            denied_cache: options.authorization.denied_cache,
        },
        profiling: options.debugging.profiling,
    })
}

fn certificates(tls: &options::TlsOptions) -> Result<CertificateOptions, ServingError> {
    let named = |text: &String| {
        NamedPair::parse(text).map_err(|reason| ServingError::Certificate {
            path: text.into(),
            reason: format!("--tls-sni-cert-key: {reason}"),
        })
    };
    Ok(CertificateOptions {
        files: path(&tls.certificate_file).zip(path(&tls.private_key_file)),
        directory: path(&tls.certificate_directory),
        by_name: tls
            .named_certificates
            .iter()
            .map(named)
            .collect::<Result<_, _>>()?,
    })
}

fn tls(tls: &options::TlsOptions) -> Result<TlsConfig, ServingError> {
    let curve = |number: &i64| u16::try_from(*number).map_err(|_| ServingError::Curve(u16::MAX));
    Ok(TlsConfig {
        min_version: tls.min_version.clone(),
        cipher_suites: tls.cipher_suites.clone(),
        curve_preferences: tls
            .curve_preferences
            .iter()
            .map(curve)
            .collect::<Result<_, _>>()?,
    })
}

fn authentication(options: &options::AuthenticationOptions) -> AuthenticationConfig {
    AuthenticationConfig {
        client_ca_file: path(&options.client_ca_file),
        request_header_ca_file: path(&options.proxy_ca_file),
        request_headers: RequestHeaders {
            allowed_names: options.proxy_names.clone(),
            username: options.username_headers.clone(),
            group: options.group_headers.clone(),
            uid: options.uid_headers.clone(),
            extra_prefix: options.extra_header_prefixes.clone(),
        },
        skip_lookup: options.skip_lookup,
        tolerate_lookup_failure: options.tolerate_lookup_failure,
        token_cache: options.token_cache,
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

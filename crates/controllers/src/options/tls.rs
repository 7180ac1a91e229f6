//! The names Go gives to TLS versions, cipher suites and key exchange groups.

/// What of TLS was asked for that cannot be had.
pub(super) fn problems(suites: &[String], curves: &[i64], min_version: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !VERSIONS.contains(&min_version) {
        problems.push(format!(
            "unknown tls version {}",
            bowline_core::quote(min_version)
        ));
    }
    for suite in suites.iter().filter(|suite| !known_suite(suite)) {
        problems.push(format!(
            "Cipher suite {suite} not supported or doesn't exist"
        ));
    }
    for curve in curves.iter().filter(|curve| !CURVES.contains(curve)) {
        problems.push(format!(
            "curve preference {curve} not supported or doesn't exist"
        ));
    }
    problems
}

const VERSIONS: [&str; 5] = [
    "",
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
];

/// P-256, P-384, P-521, X25519, and the three hybrids with ML-KEM.
const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Suites that rustls offers, by Go's names.
pub const SUITES: [&str; 11] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    // Go's older names for the two above.
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
];

/// Suites that Go knows and rustls does not: accepted, so that old manifests start, and never
/// spoken.
const WEAK_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

fn known_suite(name: &str) -> bool {
    SUITES.contains(&name) || WEAK_SUITES.contains(&name)
}

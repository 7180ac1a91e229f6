//! Keys for tests, and the specification's vectors.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) const RSA_PKCS1: &str = include_str!("examples/rsa.pkcs1");
pub(crate) const RSA_PKCS8: &str = include_str!("examples/rsa.pkcs8");
pub(crate) const RSA_OPENSSH: &str = include_str!("examples/rsa.openssh");
pub(crate) const RSA_FINGERPRINT: &str = "98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5";
pub(crate) const V4_FINGERPRINT: &str = "25:c0:83:45:14:77:b6:ab:fc:dd:cd:5a:20:85:95:3a";

pub(crate) const V1: &str = r#"Signature keyId="/acme/keys/98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5",algorithm="rsa-sha256",headers="date",signature="Lvq8XPgORipiW7zgeMVYw1s2gLe6BUpg68Xeuf73RuU9s6PgU64nxJzv53gRZw1/eSY4xrsFc0dgQort0Z5wgYbaUQLqTpR2Gq3EF74Qti7A534rX9OWn1CvmwM4p3j39KRaO19yn+K6aLG43Y/iAVLtn/yIh1Q5iDg9yHxz2Rq2Law5N495i2QfoHDhmecgmKIlgWH8EUcR1XHQDIAoP7NyQXwkSLcrw2ZvgkjCxRNFmbXp7w88rK9TjFqLZJqnknZSbGS1OtE4csDnhUHmkh0OuqqxZsqLliYZpXO3IwUEt94ikXQaGWfxjr5CVhemUnjDuTZuM5UFBkyG/SRIBA==""#;
pub(crate) const V2: &str = r#"Signature keyId="/acme/keys/98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5",algorithm="rsa-sha256",headers="(request-target) date",signature="ah3pa87V3ByDIeZh8Aew786gnoc8gg2aLYqzTP6JO7CMWnmM/C6qNyPJpesr+gNqNl+Xh8epO5jo+Rill9WaillRipdHtKZl1pzKSybAKDG2wPml2nxwJcpj1rgJdmtOW+6Dz65d/SsktaykaMzWsv0wINYYPKxHgo5uR680ab1a8anBf1IHGt9B1PjCrFgDFbmsgqAInp1UmHFxZq4uUGQWvjCZ2k/yox7B0nMJYsj9NsZIz5rtfdOrYToEzF9Mu66kUO5If8jffW/fJh29O37447oalLcKjwz4vtBpzibSQNVGr07/jWdXqeSEyoGL3jD18gDZHVZkJjptRyEpZg==""#;
pub(crate) const V3: &str = r#"Signature keyId="/acme/users/bowline/keys/f1:02:17:de:ef:c1:30:83:11:8b:82:a0:0e:67:7f:d5",algorithm="ed25519-sha512",headers="(request-target) date",signature="clcLtTUA5Vx0WQ9W/46xLhpbA2puXNhyqBrd3XF1FNzoQfNYEgyOSN3z62PyZ5RZq/HzEe0e8oNRDWDfbXC7Cg==""#;
/// The signature alone.
pub(crate) const V4: &str = "MEQCIEJq51u1V+jto2GLHlfiD+VCCxq7b6lQD64ocxoKSgzPAiBUKgP/BFhAKhgoXdur+JW2+kQyCVp+rIon+opnN8tNXQ==";

/// The Ed25519 key whose seed is 00, 01, …, 1f, as PKCS#8.
pub(crate) fn ed25519_of_v3() -> String {
    let mut der = vec![
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    der.extend(0..=0x1f);
    armour("PRIVATE KEY", &der)
}

/// The P-256 key whose number is 01, 02, …, 20, as SEC1.
pub(crate) fn p256_of_v4() -> String {
    let mut der = vec![0x30, 0x31, 2, 1, 1, 4, 0x20];
    der.extend(1..=0x20);
    der.extend([0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    armour("EC PRIVATE KEY", &der)
}

fn armour(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

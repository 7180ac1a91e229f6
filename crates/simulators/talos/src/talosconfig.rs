//! What the cluster issues to its callers: talosconfig files.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::ExtendedKeyUsagePurpose;

use super::authorities::{Algorithm, Client, Issued};
use super::{ControlError, ControlResult, Talos};

/// The role that a cloud controller manager needs.
pub const READER: &str = "os:reader";
/// How long a certificate in a pod is good.
const LIFETIME: Duration = Duration::from_secs(6 * 3600);
/// Characters in a line of PEM.
const PEM_LINE: usize = 64;

/// What a talosconfig gives access to.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the API is: `host`, `host:port` or a URL.
    pub endpoints: Vec<String>,
    /// The roles of the certificate; at most two.
    pub roles: Vec<String>,
    /// How long the certificate is good, by the world's clock.
    pub lifetime: Duration,
    /// What the certificate is for; machines accept clients alone.
    pub purposes: Vec<ExtendedKeyUsagePurpose>,
}

impl Access {
    /// What a pod gets: the role of a reader, for six hours.
    pub fn reader(endpoints: &[&str]) -> Self {
        Self {
            endpoints: endpoints.iter().map(|one| (*one).to_owned()).collect(),
            roles: vec![READER.to_owned()],
            lifetime: LIFETIME,
            purposes: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

bowline_simulator::setters! { Access:
    roles(roles: &[&str]) |spec| spec.roles = roles.iter().map(|one| (*one).to_owned()).collect();
    /// For that long.
    lifetime(lifetime: Duration) |spec| spec.lifetime = lifetime;
    /// For these purposes.
    purposes(purposes: &[ExtendedKeyUsagePurpose]) |spec| spec.purposes = purposes.to_vec();
}

impl Talos {
    /// Issues a certificate, and writes the file that has it.
    pub fn talosconfig(&self, access: &Access) -> ControlResult<String> {
        let client = Client {
            roles: &access.roles,
            purposes: &access.purposes,
            from: self.world.clock.now(),
            lifetime: access.lifetime,
        };
        let (issued, authorities, algorithm) = self.with(|cluster| {
            let authorities = &cluster.authorities;
            let issued = authorities.client(&client, &self.keys);
            (issued, authorities.pem(), authorities.algorithm())
        });
        let issued = issued.map_err(|error| ControlError::new("issue", "a talosconfig", error))?;
        Ok(text(self, access, &issued, &authorities, algorithm))
    }
}

fn text(
    talos: &Talos,
    access: &Access,
    issued: &Issued,
    authorities: &str,
    algorithm: Algorithm,
) -> String {
    let endpoints: Vec<String> = access
        .endpoints
        .iter()
        .map(|one| format!("{one:?}"))
        .collect();
    let cluster = &talos.config.cluster_name;
    let cluster = if cluster.is_empty() {
        String::new()
    } else {
        format!("    cluster: {cluster:?}\n")
    };
    // The word of Talos, which PEM readers do not all know, around ordinary PKCS#8.
    let label = match algorithm {
        Algorithm::Ed25519 => "ED25519 PRIVATE KEY",
        Algorithm::Ecdsa => "PRIVATE KEY",
    };
    format!(
        "context: default\ncontexts:\n  default:\n    endpoints: [{}]\n{cluster}    ca: {}\n    \
         crt: {}\n    key: {}\n",
        endpoints.join(", "),
        STANDARD.encode(authorities),
        STANDARD.encode(&issued.pem),
        STANDARD.encode(pem(label, &issued.key)),
    )
}

fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(PEM_LINE) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use bowline_simulator::keys::pkcs8;

    use super::*;

    #[test]
    fn talos_vector_v7_the_key_as_talos_writes_it() {
        let seed: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let text = pem("ED25519 PRIVATE KEY", &pkcs8(seed));
        assert_eq!(
            text,
            "-----BEGIN ED25519 PRIVATE KEY-----\n\
             MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
             -----END ED25519 PRIVATE KEY-----\n"
        );
        assert_eq!(
            STANDARD.encode(text),
            "LS0tLS1CRUdJTiBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0KTUM0Q0FRQXdCUVlESzJWd0JDSUVJQUFCQWdNRUJRWUhDQWtL\
             Q3d3TkRnOFFFUklURkJVV0Z4Z1pHaHNjSFI0ZgotLS0tLUVORCBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0K"
        );
    }
}

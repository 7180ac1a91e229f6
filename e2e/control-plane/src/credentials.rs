//! The control plane's authorities, certificates, keys and kubeconfigs, in its folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bowline_simulator::keys::{CertificateError, Keys};
use bowline_simulator_kubernetes::certificates::{Authority, Identity};
use bowline_simulator_kubernetes::kubeconfig::{Credentials, kubeconfig, text};

use crate::https::{Https, RequestError};

/// The name of the cluster in kubeconfigs.
const CLUSTER: &str = "control-plane";
/// The address of the `kubernetes` Service: the first of the service range.
const SERVICE_ADDRESS: &str = "10.96.0.1";

/// Why the credentials could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("making the control plane's certificates")]
    Certificate(#[from] CertificateError),
    #[error("making the key that signs the tokens of service accounts")]
    SigningKey(#[source] rcgen::Error),
    #[error("using the control plane's certificates")]
    Unusable(#[from] RequestError),
    #[error("writing {}", path.display())]
    NotWritten {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Who signs, and who we are to the servers.
pub(crate) struct Keyring {
    folder: PathBuf,
    /// The API server's address.
    url: String,
    authority: Authority,
    /// How many kubeconfigs were issued.
    issued: usize,
    /// As the administrator, to the API server and kube-controller-manager.
    pub(crate) admin: Https,
    /// As the API server, to etcd.
    pub(crate) etcd: Https,
}

impl Keyring {
    /// Makes everything that the servers need, and writes it into the folder.
    pub(crate) fn make(folder: &Path, url: &str) -> Result<Self, CredentialsError> {
        let authority = Authority::new("kubernetes", Keys::System)?;
        let front_proxy = Authority::new("front-proxy-ca", Keys::System)?;
        let etcd = Authority::new("etcd-ca", Keys::System)?;
        write(&folder.join("ca.crt"), authority.pem())?;
        write(&folder.join("ca.key"), &authority.key_pem())?;
        write(&folder.join("front-proxy-ca.crt"), front_proxy.pem())?;
        write(&folder.join("etcd-ca.crt"), etcd.pem())?;
        write_identity(
            folder,
            "kube-apiserver",
            &authority.server(&[SERVICE_ADDRESS])?,
        )?;
        write_identity(folder, "etcd", &etcd.peer("etcd")?)?;
        let etcd_client = etcd.client("kube-apiserver-etcd-client", &[])?;
        write_identity(folder, "etcd-client", &etcd_client)?;
        write_signing_key(folder)?;

        let admin = authority.client("kubernetes-admin", &["system:masters"])?;
        let keyring = Self {
            folder: folder.to_owned(),
            url: url.to_owned(),
            issued: 0,
            admin: Https::new(authority.certificate(), &admin)?,
            etcd: Https::new(etcd.certificate(), &etcd_client)?,
            authority,
        };
        let manager = "system:kube-controller-manager";
        let shown = keyring.authority.client(manager, &[])?;
        keyring.write(
            "admin",
            "kubernetes-admin",
            &Credentials::Certificate(admin),
        )?;
        keyring.write(
            "kube-controller-manager",
            manager,
            &Credentials::Certificate(shown),
        )?;
        Ok(keyring)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin_kubeconfig(folder: &Path) -> PathBuf {
        folder.join("admin.kubeconfig")
    }

    /// Writes a kubeconfig for a user with a certificate.
    pub(crate) fn user(
        &mut self,
        name: &str,
        groups: &[&str],
    ) -> Result<PathBuf, CredentialsError> {
        let identity = self.authority.client(name, groups)?;
        self.issue(name, name, &Credentials::Certificate(identity))
    }

    /// Writes a kubeconfig for a service account with a token.
    pub(crate) fn account(
        &mut self,
        namespace: &str,
        name: &str,
        token: String,
    ) -> Result<PathBuf, CredentialsError> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        self.issue(
            &format!("{namespace}-{name}"),
            &user,
            &Credentials::Token(token),
        )
    }

    /// Each has a file of its own, however often it is asked for.
    fn issue(
        &mut self,
        who: &str,
        user: &str,
        credentials: &Credentials,
    ) -> Result<PathBuf, CredentialsError> {
        self.issued += 1;
        self.write(&file_name(self.issued, who), user, credentials)
    }

    fn write(
        &self,
        file: &str,
        user: &str,
        credentials: &Credentials,
    ) -> Result<PathBuf, CredentialsError> {
        let path = self.folder.join(format!("{file}.kubeconfig"));
        let config = kubeconfig(&self.authority, CLUSTER, &self.url, user, credentials);
        write(&path, &text(&config))?;
        Ok(path)
    }
}

/// A file name that is unlike all others and harmless in shells and paths.
fn file_name(number: usize, who: &str) -> String {
    let plain = who.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && letter != '.',
        "-",
    );
    format!("issued-{number}-{plain}")
}

fn write_identity(folder: &Path, name: &str, identity: &Identity) -> Result<(), CredentialsError> {
    write(
        &folder.join(format!("{name}.crt")),
        &identity.certificate_pem,
    )?;
    write(&folder.join(format!("{name}.key")), &identity.key_pem)
}

/// Tokens are signed with ECDSA: the API server does not sign with Ed25519, as our certificates are. It
/// takes the public key from a file of its own, since it reads PKCS#8 for signing only.
fn write_signing_key(folder: &Path) -> Result<(), CredentialsError> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(CredentialsError::SigningKey)?;
    write(&folder.join("service-accounts.key"), &key.serialize_pem())?;
    write(&folder.join("service-accounts.pub"), &key.public_key_pem())
}

/// Writes a file that only we may read.
pub(crate) fn write(path: &Path, content: &str) -> Result<(), CredentialsError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(|source| CredentialsError::NotWritten {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kubeconfig_has_a_harmless_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut keyring = Keyring::make(folder.path(), "https://127.0.0.1:1").unwrap();
        let first = keyring.user("system:node:n1", &["system:nodes"]).unwrap();
        assert_eq!(
            first,
            folder.path().join("issued-1-system-node-n1.kubeconfig")
        );
        let second = keyring.account("shop", "../x y", "t".into()).unwrap();
        assert_eq!(
            second,
            folder.path().join("issued-2-shop-..-x-y.kubeconfig")
        );
        let written = fs::read_to_string(second).unwrap();
        assert!(
            written.contains("system:serviceaccount:shop:../x y"),
            "{written}"
        );
    }
}

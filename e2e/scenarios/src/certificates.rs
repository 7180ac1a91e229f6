//! Requests for serving certificates, as kubelets and others make them.

use bowline_simulator::keys::pkcs8;
use k8s_openapi::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::names::Names;

/// How the user names of kubelets begin.
const NODE: &str = "system:node:";

/// A request before it is made. Names of nodes are the scenario's own.
#[derive(Clone, Debug)]
pub struct Ask {
    pub name: String,
    /// Who asks.
    pub user: String,
    /// The groups of whom asks.
    pub groups: Vec<&'static str>,
    /// Of whom the certificate is wanted.
    pub signer: &'static str,
    /// What it is wanted for.
    pub usages: Vec<&'static str>,
    /// The subject's common name.
    pub common_name: String,
    /// The subject's organisations.
    pub organizations: Vec<&'static str>,
    /// DNS names; those without a dot are names of nodes.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<String>,
    /// E-mail addresses.
    pub emails: Vec<&'static str>,
    pub uris: Vec<&'static str>,
    /// Conditions that it has from the beginning.
    pub conditions: Vec<&'static str>,
    /// Whether it has a certificate from the beginning.
    pub is_signed: bool,
}

impl Ask {
    /// The request of that name by a node's kubelet for its name and these addresses.
    pub fn new(name: &str, node: &str, addresses: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            user: format!("{NODE}{node}"),
            groups: vec!["system:nodes", "system:authenticated"],
            signer: "kubernetes.io/kubelet-serving",
            usages: vec!["digital signature", "key encipherment", "server auth"],
            common_name: format!("{NODE}{node}"),
            organizations: vec!["system:nodes"],
            dns_names: vec![node.to_owned()],
            addresses: addresses.iter().map(|&it| it.to_owned()).collect(),
            emails: Vec::new(),
            uris: Vec::new(),
            conditions: Vec::new(),
            is_signed: false,
        }
    }

    /// The same, changed like that.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The object, under the names that the server knows.
    pub fn object(&self, names: &Names) -> Value {
        let conditions: Vec<Value> = self
            .conditions
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True", "reason": "Test" }))
            .collect();
        let mut object = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": { "name": self.name, "annotations": { "bowline.test/keep": "this" } },
            "spec": {
                "request": ByteString(self.pem(names).into_bytes()),
                "signerName": self.signer,
                "usages": self.usages,
                "username": own(names, &self.user),
                "groups": self.groups,
            },
            "status": { "conditions": conditions },
        });
        if self.is_signed {
            let certificate = ByteString(b"signed".to_vec());
            object["status"]["certificate"] = json!(certificate);
        }
        names.outgoing_named(object)
    }

    /// Who asks, as the server knows them.
    pub fn user(&self, names: &Names) -> String {
        own(names, &self.user)
    }

    fn pem(&self, names: &Names) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let subject = &mut params.distinguished_name;
        for organization in &self.organizations {
            subject.push(DnType::OrganizationName, *organization);
        }
        subject.push(DnType::CommonName, own(names, &self.common_name));
        let dns = self.dns_names.iter().map(|it| {
            let is_node = !it.contains('.') && it != "kubernetes";
            let name = if is_node { names.own(it) } else { it.clone() };
            SanType::DnsName(name.try_into().unwrap())
        });
        let addresses = self.addresses.iter();
        let addresses = addresses.map(|it| SanType::IpAddress(it.parse().unwrap()));
        let emails = self.emails.iter();
        let emails = emails.map(|it| SanType::Rfc822Name((*it).try_into().unwrap()));
        let uris = self.uris.iter();
        let uris = uris.map(|it| SanType::URI((*it).try_into().unwrap()));
        params.subject_alt_names = dns.chain(addresses).chain(emails).chain(uris).collect();
        // A fixed key with a deterministic signature: the same seed gives the same bytes.
        let key = KeyPair::try_from(pkcs8([7; 32])).unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }
}

/// A user name or common name as the server knows it.
fn own(names: &Names, user: &str) -> String {
    match user.strip_prefix(NODE) {
        Some(node) => format!("{NODE}{}", names.own(node)),
        None => user.to_owned(),
    }
}

/// The conditions of a request: `Type Reason: message`.
pub fn conditions(request: &Value) -> Vec<String> {
    let list = request["status"]["conditions"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = list.into_iter().flatten();
    list.map(|it| {
        let (kind, reason) = (text(&it["type"]), text(&it["reason"]));
        format!("{kind} {reason}: {}", text(&it["message"]))
    })
    .collect()
}

//! Names and addresses of the API server: no node may get a certificate for them.

use std::net::IpAddr;

use bowline_core::Names;
use bowline_http::PeerCertificates;
use kube::Config;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The names and addresses of the API server, as far as this process has met it. Clones share what is met.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    shown: PeerCertificates,
    called: Vec<String>,
}

impl ServerNames {
    pub(super) fn of(config: &Config, shown: PeerCertificates) -> Self {
        let host = config.cluster_url.host().map(|it| {
            let it = it.trim_start_matches('[');
            it.trim_end_matches(']').to_owned()
        });
        let expected = config.tls_server_name.clone();
        Self {
            shown,
            called: host.into_iter().chain(expected).collect(),
        }
    }

    /// All of them now: by which it is called, and those in the certificates that it showed.
    pub fn all(&self) -> Names {
        let mut names: Names = self.called.iter().collect();
        for certificate in self.shown.all() {
            for name in in_certificate(&certificate) {
                names.insert(&name);
            }
        }
        names
    }
}

/// The names and addresses in a certificate (DER). It was trusted already, so what cannot be read in it is not for anybody.
fn in_certificate(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return Vec::new();
    };
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    names.filter_map(text).collect()
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|it| it.to_string())
        }
        _ => None,
    }
}

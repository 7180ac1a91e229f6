//! The store of CertificateSigningRequests for kubelet serving certificates.

use bowline_core::KUBELET_SERVING;
use serde_json::Value;

use crate::kube::objects::CertificateObject;
use crate::kube::store::{Store, StoreChange, Stored};

/// Bytes of a request that are read. A kubelet's has about 600; one with an RSA key of 4,096 bits and
/// a hundred names some 8 KiB. What is larger is neither held nor read.
pub(crate) const LARGEST_REQUEST: usize = 32 * 1024;
/// Bytes of an object that is held, twice as large as that and its base64: whoever asks chooses the
/// annotations, too.
pub(crate) const LARGEST_OBJECT: usize = 96 * 1024;

/// The requests as last seen, by name.
pub type CertificateRequests = Store<Requested>;

pub type RequestChange = StoreChange<Requested>;

/// A CertificateSigningRequest, as far as it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Requested {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.signerName`.
    pub signer: String,
    /// `spec.username`.
    pub username: String,
    /// `spec.groups`.
    pub groups: Vec<String>,
    /// `spec.usages`.
    pub usages: Vec<String>,
    /// The types of `status.conditions`.
    pub conditions: Vec<String>,
    /// Whether there is a certificate.
    pub is_issued: bool,
    /// Whether it is larger than anything that a kubelet would send.
    pub is_too_large: bool,
    /// `spec.request`, while it is undecided and not too large.
    pub request: Vec<u8>,
    /// The whole object without its version, likewise: a decision is written as a whole.
    pub whole: Option<Value>,
}

impl Stored for Requested {
    type Key = String;
    type Object = CertificateObject;
    const PLURAL: &'static str = "certificate signing requests";

    fn fields() -> Option<String> {
        Some(format!("spec.signerName={KUBELET_SERVING}"))
    }

    fn selector(name: &String) -> String {
        format!("metadata.name={name},spec.signerName={KUBELET_SERVING}")
    }

    crate::kube::store::versioned!(name);
}

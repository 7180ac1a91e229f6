//! The kinds this API server serves: one row each. Routing, discovery, OpenAPI, RBAC and storage
//! all read this table.

use serde_json::Value;

use super::object::text;

/// What can be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Stored: get, list, watch, create, update, patch, delete, deletecollection.
    Stored,
    /// A question: only `create`, answered at once and never stored (token and access reviews).
    Review,
}

/// One served kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version: `v1`.
    pub version: &'static str,
    /// Kind: `Node`.
    pub kind: &'static str,
    /// Name in paths: `nodes`.
    pub plural: &'static str,
    /// `node`.
    pub singular: &'static str,
    /// Short names of `kubectl`.
    pub short: &'static [&'static str],
    /// Categories of `kubectl get <category>`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Sub-resources that can be addressed.
    pub subresources: &'static [&'static str],
    /// Stored or only answered.
    pub role: Role,
}

impl Kind {
    /// `v1` or `group/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `nodes` or `leases.coordination.k8s.io`: how messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

const fn stored(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        group,
        version: "v1",
        kind,
        plural,
        singular,
        short: &[],
        categories: &[],
        namespaced,
        subresources: &[],
        role: Role::Stored,
    }
}

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        role: Role::Review,
        ..stored(group, kind, plural, singular, namespaced)
    }
}

const AUTHN: &str = "authentication.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const EVENTS: &str = super::events::GROUP;
const RBAC: &str = "rbac.authorization.k8s.io";

/// Every served kind, core group first, then in the order in which a real server lists them.
pub const KINDS: &[Kind] = &[
    Kind {
        short: &["cm"],
        ..stored("", "ConfigMap", "configmaps", "configmap", true)
    },
    Kind {
        short: &["ep"],
        ..stored("", "Endpoints", "endpoints", "endpoints", true)
    },
    Kind {
        short: &["ev"],
        ..stored("", "Event", "events", "event", true)
    },
    Kind {
        short: &["ns"],
        subresources: &["finalize", "status"],
        ..stored("", "Namespace", "namespaces", "namespace", false)
    },
    Kind {
        short: &["no"],
        subresources: &["status"],
        ..stored("", "Node", "nodes", "node", false)
    },
    Kind {
        short: &["po"],
        categories: &["all"],
        subresources: &["binding", "eviction", "status"],
        ..stored("", "Pod", "pods", "pod", true)
    },
    stored("", "Secret", "secrets", "secret", true),
    Kind {
        short: &["sa"],
        subresources: &["token"],
        ..stored(
            "",
            "ServiceAccount",
            "serviceaccounts",
            "serviceaccount",
            true,
        )
    },
    Kind {
        short: &["svc"],
        categories: &["all"],
        subresources: &["status"],
        ..stored("", "Service", "services", "service", true)
    },
    Kind {
        short: &["ev"],
        ..stored(EVENTS, "Event", "events", "event", true)
    },
    review(
        AUTHN,
        "SelfSubjectReview",
        "selfsubjectreviews",
        "selfsubjectreview",
        false,
    ),
    review(AUTHN, "TokenReview", "tokenreviews", "tokenreview", false),
    review(
        AUTHZ,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        true,
    ),
    review(
        AUTHZ,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        false,
    ),
    review(
        AUTHZ,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        false,
    ),
    review(
        AUTHZ,
        "SubjectAccessReview",
        "subjectaccessreviews",
        "subjectaccessreview",
        false,
    ),
    Kind {
        short: &["csr"],
        subresources: &["approval", "status"],
        ..stored(
            CERTIFICATES,
            "CertificateSigningRequest",
            "certificatesigningrequests",
            "certificatesigningrequest",
            false,
        )
    },
    stored(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
        false,
    ),
    stored(RBAC, "ClusterRole", "clusterroles", "clusterrole", false),
    stored(RBAC, "RoleBinding", "rolebindings", "rolebinding", true),
    stored(RBAC, "Role", "roles", "role", true),
    stored(COORDINATION, "Lease", "leases", "lease", true),
    stored(
        DISCOVERY,
        "EndpointSlice",
        "endpointslices",
        "endpointslice",
        true,
    ),
];

/// The served kind under that group, version and plural.
pub fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// The served kind of that name.
pub fn by_kind(group: &str, version: &str, name: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.kind == name)
}

/// The stored kind that a document names; also makes sure that the document has a name.
pub fn of_document(document: &Value) -> Result<&'static Kind, String> {
    let version = text(document, "/apiVersion");
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    let name = text(document, "/kind");
    let kind = by_kind(group, short, name)
        .filter(|kind| kind.role == Role::Stored)
        .ok_or_else(|| format!("there is no stored kind {name:?} in version {version:?}"))?;
    if text(document, "/metadata/name").is_empty() {
        return Err(format!("a {name} without metadata.name"));
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_path_and_by_its_kind() {
        for kind in KINDS {
            assert_eq!(by_path(kind.group, kind.version, kind.plural), Some(kind));
            assert_eq!(by_kind(kind.group, kind.version, kind.kind), Some(kind));
        }
    }
}

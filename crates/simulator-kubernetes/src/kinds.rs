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
    /// `node`.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

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

const AUTHN: &str = "authentication.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const EVENTS: &str = super::events::GROUP;
const RBAC: &str = "rbac.authorization.k8s.io";

/// Role, group, kind, plural, whether namespaced; short names, categories, sub-resources.
macro_rules! kinds {
    ($($role:ident, $group:expr, $kind:ident, $plural:ident, $namespaced:literal,
       $short:expr, $categories:expr, $subresources:expr;)*) => {
        &[$(Kind {
            group: $group,
            version: "v1",
            kind: stringify!($kind),
            plural: stringify!($plural),
            short: &$short,
            categories: &$categories,
            namespaced: $namespaced,
            subresources: &$subresources,
            role: Role::$role,
        }),*]
    };
}

/// Every served kind, core group first, then in the order in which a real server lists them.
pub const KINDS: &[Kind] = kinds! {
    Stored, "", ConfigMap, configmaps, true, ["cm"], [], [];
    Stored, "", Endpoints, endpoints, true, ["ep"], [], [];
    Stored, "", Event, events, true, ["ev"], [], [];
    Stored, "", Namespace, namespaces, false, ["ns"], [], ["finalize", "status"];
    Stored, "", Node, nodes, false, ["no"], [], ["status"];
    Stored, "", Pod, pods, true, ["po"], ["all"], ["binding", "eviction", "status"];
    Stored, "", Secret, secrets, true, [], [], [];
    Stored, "", ServiceAccount, serviceaccounts, true, ["sa"], [], ["token"];
    Stored, "", Service, services, true, ["svc"], ["all"], ["status"];
    Stored, EVENTS, Event, events, true, ["ev"], [], [];
    Review, AUTHN, SelfSubjectReview, selfsubjectreviews, false, [], [], [];
    Review, AUTHN, TokenReview, tokenreviews, false, [], [], [];
    Review, AUTHZ, LocalSubjectAccessReview, localsubjectaccessreviews, true, [], [], [];
    Review, AUTHZ, SelfSubjectAccessReview, selfsubjectaccessreviews, false, [], [], [];
    Review, AUTHZ, SelfSubjectRulesReview, selfsubjectrulesreviews, false, [], [], [];
    Review, AUTHZ, SubjectAccessReview, subjectaccessreviews, false, [], [], [];
    Stored, CERTIFICATES, CertificateSigningRequest, certificatesigningrequests, false,
        ["csr"], [], ["approval", "status"];
    Stored, RBAC, ClusterRoleBinding, clusterrolebindings, false, [], [], [];
    Stored, RBAC, ClusterRole, clusterroles, false, [], [], [];
    Stored, RBAC, RoleBinding, rolebindings, true, [], [], [];
    Stored, RBAC, Role, roles, true, [], [], [];
    Stored, COORDINATION, Lease, leases, true, [], [], [];
    Stored, DISCOVERY, EndpointSlice, endpointslices, true, [], [], [];
};

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

/// The first served kind of that name, in tests.
#[cfg(test)]
pub(crate) fn named(name: &str) -> &'static Kind {
    let found = KINDS.iter().find(|kind| kind.kind == name);
    found.unwrap_or_else(|| panic!("{name} is not served"))
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

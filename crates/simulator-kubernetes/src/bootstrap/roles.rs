//! The roles and bindings that a real API server creates for itself, as rows.

use bowline_simulator::rbac::{CORE, RBAC, READ, Rule, named, paths, role_reference, rule, rules};
use serde_json::{Value, json};

/// Controllers whose built-in roles fit a controller manager that works with per-controller
/// service accounts. The accounts themselves are made by whoever needs them.
const CONTROLLERS: [&str; 3] = ["node-controller", "route-controller", "service-controller"];

const EVENTS: &[&str] = &["", "events.k8s.io"];
const COORDINATION: &[&str] = &["coordination.k8s.io"];
const CERTIFICATES: &[&str] = &["certificates.k8s.io"];
const AUTHENTICATION: &[&str] = &["authentication.k8s.io"];
const AUTHORIZATION: &[&str] = &["authorization.k8s.io"];
const WATCH: &[&str] = &["list", "watch"];
const TELL: &[&str] = &["create", "patch", "update"];
const CHANGE: &[&str] = &["patch", "update"];
const CREATE: &[&str] = &["create"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const NAMESPACED: &[&str] = &[
    "configmaps",
    "endpoints",
    "pods",
    "serviceaccounts",
    "services",
    "services/status",
    "pods/status",
];

const EVENT_RULE: Rule = rule(EVENTS, &["events"], TELL);

/// What the node authorizer lets a kubelet do, and the content of `system:node`.
pub const NODE_RULES: &[Rule] = &[
    rule(AUTHENTICATION, &["tokenreviews"], CREATE),
    rule(
        AUTHORIZATION,
        &["localsubjectaccessreviews", "subjectaccessreviews"],
        CREATE,
    ),
    rule(CORE, &["services"], READ),
    rule(CORE, &["nodes"], &["create", "get", "list", "watch"]),
    rule(CORE, &["nodes/status"], CHANGE),
    rule(CORE, &["nodes"], CHANGE),
    rule(EVENTS, &["events"], TELL),
    rule(CORE, &["pods"], READ),
    rule(CORE, &["pods"], &["create", "delete"]),
    rule(CORE, &["pods/status"], CHANGE),
    rule(CORE, &["pods/eviction"], CREATE),
    rule(CORE, &["configmaps", "secrets"], READ),
    rule(
        CORE,
        &["persistentvolumeclaims", "persistentvolumes"],
        &["get"],
    ),
    rule(CORE, &["endpoints"], &["get"]),
    rule(
        CERTIFICATES,
        &["certificatesigningrequests"],
        &["create", "get", "list", "watch"],
    ),
    rule(
        COORDINATION,
        &["leases"],
        &["create", "delete", "get", "patch", "update"],
    ),
    rule(&["storage.k8s.io"], &["volumeattachments"], &["get"]),
    rule(CORE, &["serviceaccounts/token"], CREATE),
    rule(
        CORE,
        &["persistentvolumeclaims/status"],
        &["get", "patch", "update"],
    ),
    rule(&["storage.k8s.io"], &["csidrivers"], READ),
    rule(
        &["storage.k8s.io"],
        &["csinodes"],
        &["create", "delete", "get", "patch", "update"],
    ),
    rule(&["node.k8s.io"], &["runtimeclasses"], READ),
    rule(&["resource.k8s.io"], &["resourceclaims"], &["get"]),
    rule(
        &["resource.k8s.io"],
        &["resourceslices"],
        &["deletecollection"],
    ),
    rule(CORE, &["serviceaccounts"], &["get"]),
];

/// The cluster roles with rules of their own.
const CLUSTER_ROLES: &[(&str, &[Rule])] = &[
    (
        "cluster-admin",
        &[rule(&["*"], &["*"], &["*"]), paths(&["*"], &["*"])],
    ),
    (
        "system:auth-delegator",
        &[
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
        ],
    ),
    (
        "system:basic-user",
        &[
            rule(
                AUTHORIZATION,
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                CREATE,
            ),
            rule(AUTHENTICATION, &["selfsubjectreviews"], CREATE),
        ],
    ),
    (
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named(
            &["kubernetes.io/kubelet-serving"],
            rule(CERTIFICATES, &["signers"], &["approve"]),
        )],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[rule(
            CERTIFICATES,
            &["certificatesigningrequests/nodeclient"],
            CREATE,
        )],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[rule(
            CERTIFICATES,
            &["certificatesigningrequests/selfnodeclient"],
            CREATE,
        )],
    ),
    (
        "system:controller:node-controller",
        &[
            rule(
                CORE,
                &["nodes"],
                &["delete", "get", "list", "patch", "update", "watch"],
            ),
            rule(CORE, &["nodes/status"], CHANGE),
            rule(CORE, &["pods/status"], CHANGE),
            rule(CORE, &["pods"], &["delete", "get", "list", "watch"]),
            EVENT_RULE,
        ],
    ),
    (
        "system:controller:route-controller",
        &[
            rule(CORE, &["nodes"], WATCH),
            rule(CORE, &["nodes/status"], &["patch"]),
            EVENT_RULE,
        ],
    ),
    (
        "system:controller:service-controller",
        &[
            rule(CORE, &["services"], READ),
            rule(CORE, &["services/status"], CHANGE),
            rule(CORE, &["nodes"], WATCH),
            EVENT_RULE,
        ],
    ),
    (
        "system:discovery",
        &[paths(
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
            &["get"],
        )],
    ),
    (
        "system:kube-controller-manager",
        &[
            EVENT_RULE,
            rule(COORDINATION, &["leases"], CREATE),
            named(
                &["kube-controller-manager"],
                rule(COORDINATION, &["leases"], &["get", "update"]),
            ),
            rule(CORE, &["secrets", "serviceaccounts"], CREATE),
            rule(CORE, &["secrets"], &["delete"]),
            rule(
                CORE,
                &["configmaps", "namespaces", "secrets", "serviceaccounts"],
                &["get"],
            ),
            rule(CORE, &["secrets", "serviceaccounts"], &["update"]),
            rule(AUTHENTICATION, &["tokenreviews"], CREATE),
            rule(AUTHORIZATION, &["subjectaccessreviews"], CREATE),
            rule(&["*"], &["*"], WATCH),
            rule(CORE, &["serviceaccounts/token"], CREATE),
        ],
    ),
    (
        "system:monitoring",
        &[
            paths(
                &[
                    "/flagz",
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                    "/statusz",
                ],
                &["get"],
            ),
            rule(CORE, &["nodes/metrics"], &["get"]),
        ],
    ),
    ("system:node", NODE_RULES),
    (
        "system:node-bootstrapper",
        &[rule(
            CERTIFICATES,
            &["certificatesigningrequests"],
            &["create", "get", "list", "watch"],
        )],
    ),
    (
        "system:public-info-viewer",
        &[paths(
            &["/healthz", "/livez", "/readyz", "/version", "/version/"],
            &["get"],
        )],
    ),
    (
        "system:service-account-issuer-discovery",
        &[paths(
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
            &["get"],
        )],
    ),
];

/// Roles that are gathered into `admin`, `edit` and `view`: the target, and what it adds.
/// Shorter than the real ones: only kinds that are served here.
const AGGREGATED: &[(&str, &[Rule])] = &[
    (
        "admin",
        &[rule(&[RBAC], &["rolebindings", "roles"], &["*"])],
    ),
    (
        "edit",
        &[
            rule(CORE, &["secrets"], READ),
            rule(CORE, &["serviceaccounts"], &["impersonate"]),
            rule(CORE, NAMESPACED, WRITE),
            rule(CORE, &["secrets"], WRITE),
            rule(CORE, &["serviceaccounts/token"], CREATE),
        ],
    ),
    (
        "view",
        &[
            rule(CORE, NAMESPACED, READ),
            rule(CORE, &["events", "namespaces"], READ),
            rule(&["discovery.k8s.io"], &["endpointslices"], READ),
        ],
    ),
];

/// Which roles are gathered into an aggregated one besides its own.
const NESTED: &[(&str, &str)] = &[("edit", "admin"), ("view", "edit")];

/// Cluster-wide bindings: name of role and binding, subject kind, subject names.
const CLUSTER_BINDINGS: &[(&str, &str, &[&str])] = &[
    ("cluster-admin", "Group", &["system:masters"]),
    ("system:basic-user", "Group", &["system:authenticated"]),
    ("system:discovery", "Group", &["system:authenticated"]),
    (
        "system:kube-controller-manager",
        "User",
        &["system:kube-controller-manager"],
    ),
    ("system:monitoring", "Group", &["system:monitoring"]),
    // Bound to nobody, as in the real server: the node authorizer has the rules itself.
    ("system:node", "Group", &[]),
    (
        "system:public-info-viewer",
        "Group",
        &["system:authenticated", "system:unauthenticated"],
    ),
    (
        "system:service-account-issuer-discovery",
        "Group",
        &["system:serviceaccounts"],
    ),
];

/// Metadata of an object that the real server keeps up to date itself.
fn kept(name: &str) -> Value {
    json!({
        "name": name,
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
    })
}

fn object(kind: &str, metadata: &Value) -> Value {
    json!({ "kind": kind, "apiVersion": format!("{RBAC}/v1"), "metadata": metadata })
}

pub(super) fn roles() -> Vec<Value> {
    let mut roles = Vec::new();
    for (name, rows) in CLUSTER_ROLES {
        let mut role = object("ClusterRole", &kept(name));
        role["rules"] = rules(rows);
        roles.push(role);
    }
    for (target, rows) in AGGREGATED {
        let label = |name: &str| format!("{RBAC}/aggregate-to-{name}");
        let mut part = object(
            "ClusterRole",
            &kept(&format!("system:aggregate-to-{target}")),
        );
        part["metadata"]["labels"][label(target)] = json!("true");
        part["rules"] = rules(rows);
        let mut whole = object("ClusterRole", &kept(target));
        for (_, outer) in NESTED.iter().filter(|(inner, _)| inner == target) {
            whole["metadata"]["labels"][label(outer)] = json!("true");
        }
        whole["aggregationRule"] =
            json!({ "clusterRoleSelectors": [{ "matchLabels": { label(target): "true" } }] });
        whole["rules"] = Value::Null;
        roles.extend([part, whole]);
    }
    let mut reader = object("Role", &kept("extension-apiserver-authentication-reader"));
    reader["metadata"]["namespace"] = json!("kube-system");
    reader["rules"] = rules(&[named(
        &["extension-apiserver-authentication"],
        rule(CORE, &["configmaps"], READ),
    )]);
    roles.push(reader);
    roles
}

pub(super) fn bindings() -> Vec<Value> {
    let mut bindings = Vec::new();
    for (name, subject, names) in CLUSTER_BINDINGS {
        let mut binding = object("ClusterRoleBinding", &kept(name));
        binding["roleRef"] = role_reference("ClusterRole", name);
        if !names.is_empty() {
            binding["subjects"] = names
                .iter()
                .map(|name| json!({ "apiGroup": RBAC, "kind": subject, "name": name }))
                .collect();
        }
        bindings.push(binding);
    }
    for controller in CONTROLLERS {
        let name = format!("system:controller:{controller}");
        let mut binding = object("ClusterRoleBinding", &kept(&name));
        binding["roleRef"] = role_reference("ClusterRole", &name);
        binding["subjects"] = json!([
            { "kind": "ServiceAccount", "name": controller, "namespace": "kube-system" }
        ]);
        bindings.push(binding);
    }
    let mut readers = object(
        "RoleBinding",
        &kept("system::extension-apiserver-authentication-reader"),
    );
    readers["metadata"]["namespace"] = json!("kube-system");
    readers["roleRef"] = role_reference("Role", "extension-apiserver-authentication-reader");
    readers["subjects"] = ["system:kube-controller-manager", "system:kube-scheduler"]
        .iter()
        .map(|name| json!({ "apiGroup": RBAC, "kind": "User", "name": name }))
        .collect();
    bindings.push(readers);
    bindings
}

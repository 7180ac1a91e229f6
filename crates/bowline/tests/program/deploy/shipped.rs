//! The manifests that are shipped, one row each: what they have to say, and how they are read.

use std::path::Path;

use bowline_simulator_cloudscale::DEFAULT_TOKEN;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::Value;

/// One manifest, which takes the place of an original.
pub(super) struct Shipped {
    pub(super) path: &'static str,
    pub(super) provider: &'static str,
    pub(super) kind: &'static str,
    /// What the original's objects are called.
    pub(super) original: &'static str,
    /// The account that it runs as.
    pub(super) account: &'static str,
    /// Who holds this Lease works.
    pub(super) lease: &'static str,
    /// The labels that its pods are known by; the original's name is the value of each.
    pub(super) labels: &'static [&'static str],
    /// The original's own flags.
    pub(super) flags: &'static [&'static str],
    /// What the program says about them.
    pub(super) warnings: &'static [&'static str],
    pub(super) variables: fn() -> Vec<&'static str>,
    pub(super) secrets: &'static [Secret],
    /// Secrets that are mounted, and where.
    pub(super) mounted: &'static [(&'static str, &'static str)],
    /// What its controllers do that others' do not, and so need rights for.
    pub(super) duties: &'static [Duty],
    /// Labels of the nodes that it runs on.
    pub(super) nodes: &'static [&'static str],
    /// Taints that it tolerates.
    pub(super) taints: &'static [&'static str],
}

/// A variable that comes from a Secret, and what the simulator knows for it.
pub(super) struct Secret {
    pub(super) variable: &'static str,
    pub(super) name: &'static str,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
}

/// What needs rights of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    /// Nodes of machines that are gone.
    DeletedNodes,
    /// Services of type `LoadBalancer`.
    LoadBalancers,
    /// Serving certificates of kubelets.
    Certificates,
    /// An event about its own pod.
    PodEvents,
    /// What only Triton has: credentials that are followed, and names that depend on the cluster.
    Triton,
}

const NODES_AND_SERVICES: &[Duty] = &[Duty::DeletedNodes, Duty::LoadBalancers];
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

pub(super) const CLOUDSCALE: Shipped = Shipped {
    path: "deploy/cloudscale.yaml",
    provider: "cloudscale",
    kind: "DaemonSet",
    original: "cloudscale-cloud-controller-manager",
    account: "cloud-controller-manager",
    lease: "cloud-controller-manager",
    labels: &["k8s-app"],
    flags: &["--v=3"],
    warnings: &[],
    variables: || {
        let all = bowline_cloudscale::config::VARIABLES.iter();
        all.map(|variable| variable.name).collect()
    },
    secrets: &[Secret {
        variable: "CLOUDSCALE_ACCESS_TOKEN",
        name: "cloudscale",
        key: "access-token",
        value: DEFAULT_TOKEN,
    }],
    mounted: &[],
    duties: NODES_AND_SERVICES,
    nodes: &[CONTROL_PLANE],
    taints: &[
        CONTROL_PLANE,
        "CriticalAddonsOnly",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/not-ready",
    ],
};

pub(super) const EXOSCALE: Shipped = Shipped {
    path: "deploy/exoscale.yaml",
    provider: "exoscale",
    kind: "Deployment",
    original: "exoscale-cloud-controller-manager",
    account: "cloud-controller-manager",
    lease: "cloud-controller-manager",
    labels: &["app"],
    flags: &["--leader-elect=true", "--allow-untagged-cloud"],
    warnings: &[
        "Flag --allow-untagged-cloud has been deprecated, no provider here needs it, and it can be \
         left out",
    ],
    variables: || {
        let all = bowline_exoscale::config::VARIABLES.iter();
        all.map(|variable| variable.name).collect()
    },
    secrets: &[
        Secret {
            variable: "EXOSCALE_API_KEY",
            name: "exoscale-credentials",
            key: "api-key",
            value: DEFAULT_KEY,
        },
        Secret {
            variable: "EXOSCALE_API_SECRET",
            name: "exoscale-credentials",
            key: "api-secret",
            value: DEFAULT_SECRET,
        },
    ],
    mounted: &[],
    duties: NODES_AND_SERVICES,
    nodes: &[],
    taints: &[
        "node.cloudprovider.kubernetes.io/uninitialized",
        "CriticalAddonsOnly",
        "node-role.kubernetes.io/master",
        CONTROL_PLANE,
        "node.kubernetes.io/not-ready",
    ],
};

/// What a chart of the usual shape knows its pods by.
const OF_A_CHART: &[&str] = &["app.kubernetes.io/name", "app.kubernetes.io/instance"];

pub(super) const TALOS: Shipped = Shipped {
    path: "deploy/talos.yaml",
    provider: "talos",
    kind: "Deployment",
    original: "talos-cloud-controller-manager",
    account: "talos-cloud-controller-manager",
    lease: "cloud-controller-manager-talos",
    labels: OF_A_CHART,
    flags: &[
        "--v=2",
        "--controllers=cloud-node,node-csr-approval",
        "--secure-port=10458",
    ],
    warnings: &[],
    variables: || vec!["TALOS_ENDPOINTS"],
    secrets: &[],
    mounted: &[(
        "talos-cloud-controller-manager-talos-secrets",
        "/var/run/secrets/talos.dev",
    )],
    duties: &[Duty::Certificates],
    nodes: &[CONTROL_PLANE],
    taints: &[
        CONTROL_PLANE,
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/not-ready",
    ],
};

pub(super) const XENORCHESTRA: Shipped = Shipped {
    path: "deploy/xenorchestra.yaml",
    provider: "xenorchestra",
    kind: "Deployment",
    original: "xenorchestra-cloud-controller-manager",
    account: "xenorchestra-cloud-controller-manager",
    lease: "cloud-controller-manager-xenorchestra",
    labels: OF_A_CHART,
    flags: &[
        "--v=2",
        "--controllers=cloud-node,cloud-node-lifecycle,cloud-node-label-sync",
        "--cloud-config=/etc/xenorchestra/config.yaml",
        "--secure-port=10258",
    ],
    warnings: &[],
    variables: || vec!["POD_NAME", "POD_NAMESPACE", "POD_UID"],
    secrets: &[],
    mounted: &[("xenorchestra-cloud-controller-manager", "/etc/xenorchestra")],
    duties: &[Duty::DeletedNodes, Duty::PodEvents],
    nodes: &[],
    taints: &[
        CONTROL_PLANE,
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/not-ready",
    ],
};

pub(super) const TRITON: Shipped = Shipped {
    path: "deploy/triton.yaml",
    provider: "triton",
    kind: "Deployment",
    original: "triton-cloud-controller-manager",
    account: "triton-cloud-controller-manager",
    lease: "cloud-controller-manager",
    labels: OF_A_CHART,
    flags: &[
        "--v=2",
        "--secure-port=10258",
        "--triton-credentials-secret=kube-system/triton-credentials",
    ],
    warnings: &[],
    variables: || vec!["POD_NAME", "POD_NAMESPACE"],
    secrets: &[],
    mounted: &[],
    duties: &[Duty::DeletedNodes, Duty::LoadBalancers, Duty::Triton],
    nodes: &[CONTROL_PLANE],
    taints: &[
        CONTROL_PLANE,
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/not-ready",
    ],
};

pub(super) const SHIPPED: [&Shipped; 5] = [&CLOUDSCALE, &EXOSCALE, &TALOS, &XENORCHESTRA, &TRITON];

pub(super) fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) fn documents(path: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_multiple_with_options(&file(path), options).unwrap()
}

impl Shipped {
    pub(super) fn objects(&self) -> Vec<Value> {
        documents(self.path)
    }

    /// The DaemonSet or Deployment.
    pub(super) fn workload(&self) -> Value {
        let mut found = self.objects();
        found.retain(|object| object["apiVersion"] == "apps/v1");
        let [object] = found.try_into().expect("one workload");
        assert_eq!(object["kind"], self.kind, "{}", self.path);
        object
    }

    pub(super) fn template(&self) -> PodTemplateSpec {
        serde_json::from_value(self.workload()["spec"]["template"].take()).unwrap()
    }

    pub(super) fn pod(&self) -> PodSpec {
        self.template().spec.unwrap()
    }

    pub(super) fn container(&self) -> Container {
        let [container] = self.pod().containers.try_into().expect("one container");
        container
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        self.container().args.unwrap()
    }
}

//! The manifests that are shipped, one row each: what they have to say, and how they are read.

use std::path::Path;

use bowline_simulator::cloudscale::DEFAULT_TOKEN;
use bowline_simulator::exoscale::{DEFAULT_KEY, DEFAULT_SECRET};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::Value;

/// One manifest, which takes the place of an original.
pub(super) struct Shipped {
    pub(super) path: &'static str,
    pub(super) provider: &'static str,
    pub(super) kind: &'static str,
    /// What the original's objects are called.
    pub(super) original: &'static str,
    /// The label that its pods are known by.
    pub(super) label: &'static str,
    /// The original's own flags.
    pub(super) flags: &'static [&'static str],
    /// What the program says about them.
    pub(super) warnings: &'static [&'static str],
    pub(super) variables: fn() -> Vec<&'static str>,
    pub(super) secrets: &'static [Secret],
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

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

pub(super) const CLOUDSCALE: Shipped = Shipped {
    path: "deploy/cloudscale.yaml",
    provider: "cloudscale",
    kind: "DaemonSet",
    original: "cloudscale-cloud-controller-manager",
    label: "k8s-app",
    flags: &["--v=3", "--concurrent-service-syncs=2"],
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
    label: "app",
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
    nodes: &[],
    taints: &[
        "node.cloudprovider.kubernetes.io/uninitialized",
        "CriticalAddonsOnly",
        "node-role.kubernetes.io/master",
        CONTROL_PLANE,
        "node.kubernetes.io/not-ready",
    ],
};

pub(super) const SHIPPED: [&Shipped; 2] = [&CLOUDSCALE, &EXOSCALE];

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

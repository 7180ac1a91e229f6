//! Talos through the program: its credentials, its command name, and the manager as a process.

use std::path::Path;
use std::process::Command;

use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::kinds;
use bowline_simulator_talos::{Access, Config, MachineSpec, PlatformSpec, Talos};

use crate::harness::{ANY, CloudHarness, Harness, PATIENCE, end};
use crate::process::{Running, bowline, program, run};

const ORIGINAL: &str = "talos-cloud-controller-manager";

/// A manager that finds no cluster, with that file as its talosconfig.
fn lonely(talosconfig: &Path, home: &Path) -> Command {
    let mut command = bowline(&["--cloud-provider=talos", "--master=http://127.0.0.1:1"]);
    command
        .env("TALOSCONFIG", talosconfig)
        .env("HOME", home)
        .env_remove("TALOS_HOME")
        .env_remove("TALOS_ENDPOINTS");
    command
}

#[test]
fn talos_case_88_without_credentials_the_program_ends_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talosconfig");
    run(lonely(&path, folder.path())).failed_with(&[
        "there is no talosconfig",
        path.to_str().unwrap(),
        "/.talos/config",
        "/var/run/secrets/talos.dev/config",
    ]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    for (text, words) in [
        (
            "context: prod\ncontexts: {a: {}}",
            "its context \"prod\" is not found",
        ),
        (
            "context: a\ncontexts: {a: {ca: '!'}}",
            "`ca` of context \"a\" is not base64",
        ),
        (
            "context: a\ncontexts: {a: {crt: QQ==}}",
            "has `crt` without `key`",
        ),
        (
            "context: a\ncontexts: {a: {}}",
            "failed to determine endpoints",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let ended = run(lonely(&path, folder.path()));
        ended.failed_with(&[path.to_str().unwrap(), words]);
    }
}

type Setup = CloudHarness<Talos>;

impl Setup {
    async fn new() -> Self {
        let manifest = bowline_simulator_talos::manifest();
        let harness = Harness::new(manifest, ORIGINAL, ORIGINAL).await;
        let talos = Talos::new(&harness.world, Config::default()).unwrap();
        let first = MachineSpec::named("cp1", &["eth0/10.0.0.1/24"]).control_plane();
        talos.add_machine(&first).unwrap();
        let server = talos.listen("cp1", ANY).await.unwrap();
        let endpoint = server.local_addr().unwrap().to_string();
        let talosconfig = talos.talosconfig(&Access::reader(&[&endpoint])).unwrap();
        std::fs::write(harness.path("talosconfig"), talosconfig).unwrap();
        Self {
            harness,
            cloud: talos,
            url: endpoint,
            _server: server,
        }
    }

    /// The command line of the original's chart with these controllers, and that cloud config.
    fn manager(&self, controllers: &str, file: &str) -> Command {
        std::fs::write(self.path("ccm-config.yaml"), file).unwrap();
        let mut command = program(&self.path(ORIGINAL), &["--v=2", "--cloud-provider=talos"]);
        command
            .arg(self.flag("cloud-config", "ccm-config.yaml"))
            .arg(format!("--controllers={controllers}"))
            .arg("--leader-elect-resource-name=cloud-controller-manager-talos")
            .arg("--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics")
            .arg(self.flag("kubeconfig", "kubeconfig"))
            .arg("--secure-port=0")
            .env("SERVICE_ACCOUNT", ORIGINAL)
            .env("HOME", self.folder.path())
            .env("TALOSCONFIG", self.path("talosconfig"));
        command
    }
}

#[tokio::test]
async fn talos_case_02_under_the_originals_name_and_role_nodes_are_described_by_their_machines() {
    let test = Setup::new().await;
    let platform = PlatformSpec {
        platform: "exoscale".into(),
        region: "ch-gva-2".into(),
        zone: "ch-gva-2".into(),
        instance_type: "standard.medium".into(),
        instance_id: "9f01".into(),
        provider_id: "exoscale://9f01".into(),
        ..PlatformSpec::default()
    };
    let own = ["eth0/10.1.0.2/24", "external/194.182.160.5/32"];
    let machine = MachineSpec::named("n2", &own).platform(platform);
    test.cloud.add_machine(&machine).unwrap();
    test.fleet.join(test.cloud.kubelet("n2").unwrap()).unwrap();
    let file = "global:\ntransformations: [{labels: {node-role.kubernetes.io/web: \"\"}}]";
    let running = Running::start(test.manager("cloud-node,node-csr-approval", file));
    let initialized = |test: &Harness| {
        let node = test.node("n2").unwrap_or_default();
        node["spec"]["providerID"] == "exoscale://9f01"
            && !node["spec"]["taints"].to_string().contains("uninitialized")
    };
    test.until("n2 is initialised", initialized).await;
    let node = test.node("n2").unwrap();
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["topology.kubernetes.io/zone"], "ch-gva-2");
    assert_eq!(
        labels["failure-domain.beta.kubernetes.io/region"],
        "ch-gva-2"
    );
    assert_eq!(
        labels["node.kubernetes.io/instance-type"],
        "standard.medium"
    );
    assert_eq!(
        labels["node.cloudprovider.kubernetes.io/platform"],
        "exoscale"
    );
    assert_eq!(labels["node-role.kubernetes.io/web"], "");
    let addresses = node["status"]["addresses"].to_string();
    assert!(addresses.contains("194.182.160.5"), "{addresses}");
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let denied = Filter::any().server("kubernetes").status(403);
    let denied = test.world.journal.matching(&denied);
    assert_eq!(denied, [], "the original's role is enough");
}

#[tokio::test]
async fn talos_case_93_approval_of_certificates_alone_starts_without_a_talosconfig() {
    let test = Setup::new().await;
    std::fs::remove_file(test.path("talosconfig")).unwrap();
    let running = Running::start(test.manager("node-csr-approval", "global:"));
    let leads = |test: &Harness| {
        let kind = kinds::by_kind("coordination.k8s.io", "v1", "Lease").unwrap();
        let name = "cloud-controller-manager-talos";
        let lease = test.cluster.api().get(kind, "kube-system", name);
        lease.is_some_and(|lease| lease["spec"]["holderIdentity"].is_string())
    };
    test.until("the manager leads", leads).await;
    let requests = Filter::any().path("*certificatesigningrequests*");
    let watched = test.world.journal.wait_for(&requests, 1);
    tokio::time::timeout(PATIENCE, watched).await.unwrap();
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let asked = Filter::any().server("talos");
    assert_eq!(test.world.journal.count(&asked), 0);
}

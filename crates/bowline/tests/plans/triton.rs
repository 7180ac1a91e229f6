//! `bowline plan` on typical changes at Triton: recorded in `plans/triton/*.txt`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::fixture;
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds;
use bowline_simulator_triton::{DEFAULT_PRIVATE_KEY, Fixture, Triton};
use serde_json::{Value, json};

use super::{ACCOUNT, SEED, WRITE, finish};

/// The recorded command lines, by name.
const RECORDED: &[(&str, &str)] = &[
    ("new-service", "-f new-service.yaml"),
    ("no-change", "-f no-change.yaml"),
    ("port-number", "-f port-number.yaml"),
    ("label", "-f label.yaml"),
    ("direct", "-f direct.yaml"),
    ("internal", "-f internal.yaml"),
    ("reserved-port", "-f reserved-port.yaml"),
    ("bad-annotation", "-f bad-annotation.yaml"),
    ("source-ranges", "-f source-ranges.yaml"),
    ("all", "--all"),
    // What is done to the cluster before these is in `prepare`.
    ("nodes", "shop/web"),
    ("deletion", "shop/web"),
];

fn folder() -> PathBuf {
    super::folder().join("triton")
}

pub(super) fn put(
    cluster: &Cluster,
    kind: &str,
    namespace: &str,
    name: &str,
    change: impl Fn(&mut Value),
) {
    let kind = kinds::by_kind("", "v1", kind).unwrap();
    let mut object = cluster.api().get(kind, namespace, name).unwrap();
    change(&mut object);
    cluster.api().put(kind, object);
}

/// What happens in the cluster before a recorded plan.
fn prepare(cluster: &Cluster, name: &str) {
    match name {
        "nodes" => {
            let kind = kinds::by_kind("", "v1", "Node").unwrap();
            assert!(cluster.api().delete(kind, "", "worker-b"));
            put(cluster, "Node", "", "worker-c", |node| {
                node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            });
        }
        "deletion" => put(cluster, "Service", "shop", "web", |service| {
            service["metadata"]["deletionTimestamp"] = json!("2026-02-03T04:05:06Z");
        }),
        _ => {}
    }
}

#[tokio::test]
async fn typical_changes_at_triton_are_told_as_recorded_and_nothing_is_written() {
    compare(&folder(), RECORDED, prepare).await;
}

/// Asks for the plans of a folder, each after what happens in the cluster before it.
pub(super) async fn compare(
    folder: &Path,
    recorded: &[(&str, &str)],
    prepare: impl Fn(&Cluster, &str),
) {
    let world = World::with(Clock::system(), Random::seeded(SEED));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let cluster = Cluster::on_socket(&world, any).await.unwrap();
    let objects = bowline_simulator_kubernetes::fixture::read(&folder.join("cluster.yaml"));
    cluster.install(objects.unwrap()).unwrap();
    put(&cluster, "Namespace", "", "kube-system", |namespace| {
        namespace["metadata"]["uid"] = json!("cccccccc-0000-4000-8000-00000000000c");
    });
    let scene: Fixture = fixture::read(&folder.join("cloud.yaml")).unwrap();
    let cloud = Triton::from_fixture(&world, scene).unwrap();
    let server = Server::builder(&world, cloud).plain(any).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    let text = cluster.account_kubeconfig(ACCOUNT.0, ACCOUNT.1).unwrap();
    std::fs::write(&kubeconfig, text).unwrap();
    let mut different = Vec::new();
    for (name, line) in recorded {
        prepare(&cluster, name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        let url = format!("http://{}", server.local_addr().unwrap());
        command
            .env_clear()
            .env("SDC_ENDPOINT", url)
            .env("SDC_ACCOUNT", "acme")
            .env("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY)
            .env("TRITON_LB_PACKAGE", "lb1.small")
            .env("TRITON_LB_ALLOWED_PACKAGES", "g4-highcpu-1G")
            .current_dir(folder)
            .stdin(Stdio::null())
            .arg("plan")
            .args(line.split(' '))
            .arg("--cloud-provider=triton")
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        let told = finish(command).await;
        assert_eq!(told.complaint, "", "{name}");
        let text = format!("$ bowline plan {line}\n{}[exit {}]\n", told.text, told.code);
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            different.push(format!("{}:\n{text}", path.display()));
        }
    }
    let writes = world.journal.matching(&Filter::any().mutating());
    assert!(writes.is_empty(), "{writes:?}");
    assert!(world.journal.count(&Filter::any().server("triton")) > 0);
    assert!(
        different.is_empty(),
        "not as recorded; record anew with {WRITE}=1 cargo test -p bowline --test plans\n{}",
        different.join("\n")
    );
}

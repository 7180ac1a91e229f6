//! `bowline plan` on typical changes at Exoscale: recorded in `plans/exoscale/*.txt`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::fixture;
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Fixture};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds;
use serde_json::json;

use super::{ACCOUNT, SEED, WRITE, finish};

/// The recorded command lines, by name.
const RECORDED: &[(&str, &str)] = &[
    ("new-service", "-f new-service.yaml"),
    ("no-change", "-f no-change.yaml"),
    ("port-number", "-f port-number.yaml"),
    ("second-port", "-f second-port.yaml"),
    ("pool", "-f pool.yaml"),
    ("health-check", "-f health-check.yaml"),
    ("description", "-f description.yaml"),
    ("bad-annotation", "-f bad-annotation.yaml"),
    ("shared", "-f shared.yaml"),
    ("all", "--all"),
    // Both Services are on their way out.
    ("deletion", "shop/web"),
    ("deletion-external", "shop/billing"),
];

fn folder() -> PathBuf {
    super::folder().join("exoscale")
}

#[tokio::test]
async fn typical_changes_at_exoscale_are_told_as_recorded_and_nothing_is_written() {
    let world = World::with(Clock::system(), Random::seeded(SEED));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let cluster = Cluster::on_socket(&world, any).await.unwrap();
    let objects = bowline_simulator_kubernetes::fixture::read(&folder().join("cluster.yaml"));
    cluster.install(objects.unwrap()).unwrap();
    cluster
        .install(bowline_simulator_exoscale::manifest())
        .unwrap();
    let scene: Fixture = fixture::read(&folder().join("cloud.yaml")).unwrap();
    let cloud = Exoscale::from_fixture(&world, scene).unwrap();
    let server = Server::builder(&world, cloud).plain(any).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    let text = cluster.account_kubeconfig(ACCOUNT.0, ACCOUNT.1).unwrap();
    std::fs::write(&kubeconfig, text).unwrap();
    let mut different = Vec::new();
    for (name, line) in RECORDED {
        if *name == "deletion" {
            let kind = kinds::by_kind("", "v1", "Service").unwrap();
            for name in ["web", "billing"] {
                let mut service = cluster.api().get(kind, "shop", name).unwrap();
                service["metadata"]["deletionTimestamp"] = json!("2026-02-03T04:05:06Z");
                cluster.api().put(kind, service);
            }
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        let url = format!("http://{}/v2", server.local_addr().unwrap());
        command
            .env_clear()
            .env("EXOSCALE_API_ENDPOINT", url)
            .env("EXOSCALE_API_ZONE", DEFAULT_ZONE)
            .env("EXOSCALE_API_KEY", DEFAULT_KEY)
            .env("EXOSCALE_API_SECRET", DEFAULT_SECRET)
            .current_dir(folder())
            .stdin(Stdio::null())
            .arg("plan")
            .args(line.split(' '))
            .arg("--cloud-provider=exoscale")
            .arg(format!("--kubeconfig={}", kubeconfig.display()));
        let told = finish(command).await;
        // Which zone it is, and no more.
        let said = told.complaint.lines();
        let complaints: Vec<&str> = said.filter(|it| !it.contains("serving one zone")).collect();
        assert_eq!(complaints, [""; 0], "{name}");
        let text = format!("$ bowline plan {line}\n{}[exit {}]\n", told.text, told.code);
        let path = folder().join(format!("{name}.txt"));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            different.push(format!("{}:\n{text}", path.display()));
        }
    }
    let writes = world.journal.matching(&Filter::any().mutating());
    assert!(writes.is_empty(), "{writes:?}");
    assert!(world.journal.count(&Filter::any().server("exoscale")) > 0);
    assert!(
        different.is_empty(),
        "not as recorded; record anew with {WRITE}=1 cargo test -p bowline --test plans\n{}",
        different.join("\n")
    );
}

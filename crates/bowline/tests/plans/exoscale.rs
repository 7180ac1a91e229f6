//! `bowline plan` on typical changes at Exoscale: recorded in `plans/exoscale/*.txt`.

use bowline_simulator::fixture;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Fixture};

use super::{Recording, folder};

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

#[tokio::test]
async fn typical_changes_at_exoscale_are_told_as_recorded_and_nothing_is_written() {
    let manifest = bowline_simulator_exoscale::manifest();
    let test = Recording::new(folder().join("exoscale"), manifest).await;
    let fixture: Fixture = fixture::read(&test.folder.join("cloud.yaml")).unwrap();
    let cloud = Exoscale::from_fixture(&test.world, fixture).unwrap();
    let server = test.serve(cloud).await;
    let url = format!("http://{}/v2", server.local_addr().unwrap());
    let environment = [
        ("EXOSCALE_API_ENDPOINT", url.as_str()),
        ("EXOSCALE_API_ZONE", DEFAULT_ZONE),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ];
    let prepare = |name: &str| {
        if name == "deletion" {
            test.delete_service("web");
            test.delete_service("billing");
        }
    };
    let program = ("exoscale", &environment[..]);
    test.compare(program, RECORDED, "serving one zone", prepare)
        .await;
}

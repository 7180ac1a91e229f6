use super::*;
use crate::testing::{ENDPOINT, Harness};
use bowline_test_kit::says;
use serde_json::json;

fn machine(test: &Harness, cdrom: &Path) -> Machine {
    Machine {
        cdrom: cdrom.to_owned(),
        metadata: "http://api.localhost".to_owned(),
        connector: test.connector(),
    }
}

#[test]
fn what_a_machine_calls_a_zone_is_checked() {
    for valid in ["ch-gva-2", "at-vie-1", "ch-dk-2", "xx-abcd-9"] {
        assert!(is_zone(valid), "{valid}");
    }
    for wrong in [
        "",
        "ch-gva",
        "CH-gva-2",
        "ch-gva-22",
        "ch-g-2",
        "ch-abcde-1",
        "ch-gva-2-x",
    ] {
        assert!(!is_zone(wrong), "{wrong}");
    }
    let text = "a: b\n availability-zone :  ch-dk-2 \navailability-zone: de-fra-1\n";
    assert_eq!(availability_zone(text), Some("ch-dk-2"));
    assert_eq!(availability_zone("availability-zones: x\nnothing\n"), None);
}

#[tokio::test]
async fn exoscale_case_10_the_zone_comes_from_the_machine() {
    let test = Harness::new();
    let folder = tempfile::tempdir().unwrap();
    let cdrom = folder.path().join("cidata");
    let machine = machine(&test, &cdrom);
    test.sim.set_metadata(200, " ch-dk-2\n");
    assert_eq!(machine.zone().await.unwrap(), "ch-dk-2");
    let calls = ["GET /latest/meta-data/availability-zone 200"];
    assert_eq!(test.calls(), calls);
    // The disk comes first.
    let naming = cdrom::tests::Naming::RockRidge;
    let disk = cdrom::tests::disk(
        naming,
        "local-ipv4: 10.0.0.1\navailability-zone: at-vie-2\n",
    );
    std::fs::write(&cdrom, disk).unwrap();
    assert_eq!(machine.zone().await.unwrap(), "at-vie-2");
    assert_eq!(test.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_say_stops_the_start() {
    let test = Harness::new();
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(&test, &folder.path().join("none"));
    for (status, body, reason) in [
        (404, "no", "404"),
        (203, "ch-dk-2", "203"),
        (200, "<html>", "not a zone"),
        (500, "", "500"),
    ] {
        test.sim.set_metadata(status, body);
        let text = machine.zone().await.unwrap_err().to_string();
        assert!(text.starts_with("get metadata: "), "{text}");
        says(&text, "No such file");
        says(&text, reason);
    }
}

async fn find_endpoint(test: &Harness, zone: &str) -> Result<BaseUrl, ZoneError> {
    let configured = Endpoint::Listing(BaseUrl::parse(ENDPOINT).unwrap());
    endpoint(&configured, zone, |base| {
        assert_eq!(base.to_string(), ENDPOINT);
        test.client(Some(("EXOk", "s")))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_listed_zone_is_served_where_the_list_says() {
    let test = Harness::new();
    test.sim.set_zones(json!([
        {"name": "ch-gva-2", "api-endpoint": "http://gva.sim/v2", "sos-endpoint": "x"},
        {"name": "at-vie-1", "api-endpoint": "http://vie.sim/v2"},
        {"name": "de-fra-1"}, {"name": 7},
        {"name": "hr-zag-1", "api-endpoint": "a"}, {"name": "hr-zag-1", "api-endpoint": "b"}
    ]));
    let found = find_endpoint(&test, "ch-gva-2").await.unwrap();
    assert_eq!(found.to_string(), "http://gva.sim/v2");
    // Unsigned: nobody is named as the caller.
    assert_eq!(test.calls(), ["GET /v2/zone 200"]);
    for (zone, reason) in [
        ("hr-zag-1", "too many found"),
        ("de-fra-1", "cannot be used"),
        ("ch-dk-2", "not found"),
    ] {
        let text = find_endpoint(&test, zone).await.unwrap_err().to_string();
        says(&text, reason);
        says(&text, &format!("{zone:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_the_list_is_https_unless_the_configured_one_is_http_on_loopback() {
    let test = Harness::new();
    for (configured, listed, wanted) in [
        ("http://127.0.0.1:9000/v2", "http://gva.sim/v2", true),
        ("http://[::1]/v2", "http://gva.sim/v2", true),
        ("http://localhost/v2", "http://gva.sim/v2", true),
        ("http://api.localhost/v2", "https://gva.sim/v2", true),
        (
            "http://localhost.example.org/v2",
            "http://gva.sim/v2",
            false,
        ),
        ("http://api.example.org/v2", "http://gva.sim/v2", false),
        ("http://api.example.org/v2", "https://gva.sim/v2", true),
        ("https://127.0.0.1/v2", "http://gva.sim/v2", false),
        ("https://api.example.org/v2", "https://gva.sim/v2", true),
    ] {
        let zones = json!([{"name": "ch-gva-2", "api-endpoint": listed}]);
        test.sim.set_zones(zones);
        let endpoint_of = Endpoint::Listing(BaseUrl::parse(configured).unwrap());
        let client = |_| test.client(Some(("EXOk", "s")));
        let found = endpoint(&endpoint_of, "ch-gva-2", client).await;
        assert_eq!(found.is_ok(), wanted, "{configured} {listed}");
        if let Err(error) = found {
            assert!(error.to_string().contains("not https"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_configured_endpoint_nobody_is_asked() {
    for (environment, wanted) in [
        ("api", "https://api-at-vie-1.exoscale.com/v2"),
        ("beta", "https://beta-at-vie-1.exoscale.com/v2"),
    ] {
        let environment = environment.to_owned();
        let configured = Endpoint::OfZone { environment };
        let never = |_| panic!("nobody is asked");
        let found = endpoint(&configured, "at-vie-1", never).await.unwrap();
        assert_eq!(found.to_string(), wanted);
    }
}

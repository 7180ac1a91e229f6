//! The specification's cases about nodes, as far as the provider answers them. Taints, deletions
//! and events are the manager's part.

use std::time::Duration;

use bowline_core::{
    Claim, CloudErrorKind, InitializeError, Lookup, PROVIDED_NODE_IP, Power, initialize,
};
use bowline_http::{BaseUrl, Bearer, Connector, HttpClient, Route};
use bowline_simulator::faults::Action;
use bowline_simulator_cloudscale::{DEFAULT_TOKEN, MachineSpec};
use bowline_test_kit::status;
use serde_json::json;

use crate::harness::{A, AUTHORITY, B, Harness, NOBODY, addresses, cannot_tell, found, gone, node};

#[tokio::test(start_paused = true)]
async fn cloudscale_case_01_a_new_node_gets_id_labels_and_addresses_in_order() {
    let test = Harness::new();
    let fresh = node("worker-a", None);
    let instance = found(test.ask_one(&fresh).await);
    let change = initialize(&fresh, &instance).unwrap();
    assert_eq!(change.provider_id, Some(format!("cloudscale://{A}")));
    let labels: Vec<(&str, &str)> = change
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        labels,
        [
            ("beta.kubernetes.io/instance-type", "flex-8-4"),
            ("failure-domain.beta.kubernetes.io/region", "rma"),
            ("failure-domain.beta.kubernetes.io/zone", "rma1"),
            ("node.kubernetes.io/instance-type", "flex-8-4"),
            ("topology.kubernetes.io/region", "rma"),
            ("topology.kubernetes.io/zone", "rma1"),
        ]
    );
    assert_eq!(
        addresses(&change.addresses.unwrap()),
        [
            "Hostname:worker-a",
            "ExternalIP:203.0.113.11",
            "ExternalIP:2001:db8:1:1101::11",
            "InternalIP:10.20.0.11"
        ]
    );
    assert_eq!(change.taints, []);
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_02_two_servers_of_one_name_are_no_answer() {
    let test = Harness::new();
    for _ in 0..2 {
        test.sim.add_server(&MachineSpec::named("clone")).unwrap();
    }
    let text = cannot_tell(test.ask_one(&node("clone", None)).await);
    assert!(text.contains("found more than one"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_03_a_provider_id_wins_over_the_name() {
    let test = Harness::new();
    test.sim.add_server(&MachineSpec::named("bar")).unwrap();
    let instance = found(test.ask_one(&node("bar", Some(A))).await);
    assert_eq!(instance.provider_id.unwrap().rest(), A);
    assert_eq!(
        addresses(&instance.addresses)[..2],
        ["Hostname:bar", "ExternalIP:203.0.113.11"]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_04_a_404_about_the_server_is_gone_with_evidence() {
    let test = Harness::new();
    let evidence = gone(test.ask_one(&node("x", Some(NOBODY))).await);
    assert_eq!(
        evidence.text,
        format!("GET v1/servers/{NOBODY} answered 404")
    );
    assert_eq!(evidence.at, test.world.clock.now());
    assert_eq!(test.calls(), [format!("GET /v1/servers/{NOBODY} 404")]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_05_an_error_or_a_timeout_is_never_gone() {
    let test = Harness::new();
    test.fault("*", status(500));
    let text = cannot_tell(test.ask_one(&node("x", Some(NOBODY))).await);
    assert!(text.contains("answered 500"), "{text}");
    assert_eq!(test.calls().len(), 3, "a read is tried three times");
    test.fault("*", Action::Hang);
    let before = tokio::time::Instant::now();
    let text = cannot_tell(test.ask_one(&node("x", Some(NOBODY))).await);
    assert!(text.contains("no complete answer within 20 s"), "{text}");
    let taken = before.elapsed().as_secs();
    assert!(
        (60..65).contains(&taken),
        "three requests of 20 s: {taken} s"
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_06_a_node_without_id_and_server_is_left_alone() {
    let test = Harness::new();
    let answer = test.ask_one(&node("stranger", None)).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    test.sim.destroy(A).unwrap();
    test.wait(Duration::from_secs(6)).await;
    let answer = test.ask_one(&node("worker-a", None)).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    let answer = test.ask_one(&node("", None)).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_07_a_malformed_provider_id_is_an_error_without_a_call() {
    let test = Harness::new();
    let mut broken = node("worker-a", None);
    broken.provider_id = Some("cloudscale://invalid".into());
    let text = cannot_tell(test.ask_one(&broken).await);
    assert!(text.contains("cloudscale://invalid"), "{text}");
    let claim = test.cloud.match_node(&broken).claim;
    assert!(matches!(claim, Claim::Malformed(_)), "{claim:?}");
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_08_only_a_stopped_server_is_off() {
    let test = Harness::new();
    let worker = node("worker-a", Some(A));
    let power = async || found(test.ask_one(&worker).await).power;
    assert_eq!(power().await, Power::On);
    let base = BaseUrl::parse(&format!("http://{AUTHORITY}")).unwrap();
    let pipes = Connector::simulated(test.world.pipes.clone());
    let user = HttpClient::builder("user", base, pipes)
        .auth(Bearer(bowline_core::Secret::new(DEFAULT_TOKEN)))
        .build();
    let stop = Route::new("v1/servers/:id/stop").with("id", A);
    user.post(stop).send().await.unwrap();
    assert_eq!(power().await, Power::Unclear, "changing");
    test.wait(Duration::from_secs(2)).await;
    assert_eq!(power().await, Power::Off);
    test.sim.start(A).unwrap();
    assert_eq!(power().await, Power::On);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_09_a_foreign_node_costs_no_call() {
    let test = Harness::new();
    let mut foreign = node("worker-a", None);
    foreign.provider_id = Some("bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e".into());
    let mut many = vec![foreign; 10];
    many.push(node("worker-a", Some(A)));
    let mut answers = test.ask(&many).await;
    found(answers.pop().unwrap());
    assert!(answers.iter().all(|a| matches!(a, Lookup::NotMine)));
    assert_eq!(test.calls(), [format!("GET /v1/servers/{A} 200")]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_10_the_region_is_the_zone_without_its_number() {
    let test = Harness::new();
    let spec = MachineSpec::named("south").zone("lpg1");
    test.sim.add_server(&spec).unwrap();
    let instance = found(test.ask_one(&node("south", None)).await);
    assert_eq!((&*instance.zone, &*instance.region), ("lpg1", "lpg"));
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_11_interfaces_keep_the_users_order() {
    let test = Harness::new();
    let spec = MachineSpec::named("inside-out")
        .interface("k8s", Some(vec!["10.20.0.31".parse().unwrap()]))
        .interface("public", Some(vec!["203.0.113.31".parse().unwrap()]));
    test.sim.add_server(&spec).unwrap();
    let instance = found(test.ask_one(&node("inside-out", None)).await);
    assert_eq!(
        addresses(&instance.addresses),
        [
            "Hostname:inside-out",
            "InternalIP:10.20.0.31",
            "ExternalIP:203.0.113.31"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_12_an_interface_without_addresses_adds_none() {
    let test = Harness::new();
    let spec = MachineSpec::named("layer-2")
        .interface("k8s", Some(vec![]))
        .interface("public", Some(vec!["203.0.113.32".parse().unwrap()]));
    let uuid = test.sim.add_server(&spec).unwrap();
    let public = json!({"type": "public", "addresses": [{"address": "203.0.113.32"}]});
    for interfaces in [
        None,
        Some(json!([{"type": "private"}, public])),
        Some(json!([{"type": "private", "addresses": null}, public])),
    ] {
        if let Some(interfaces) = interfaces {
            let members = [("interfaces".to_owned(), interfaces)];
            let members = members.into_iter().collect();
            test.sim.deform(&uuid, members).unwrap();
        }
        let instance = found(test.ask_one(&node("layer-2", Some(&uuid))).await);
        assert_eq!(
            addresses(&instance.addresses),
            ["Hostname:layer-2", "ExternalIP:203.0.113.32"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_13_the_kubelets_address_comes_first_or_the_node_waits() {
    let test = Harness::new();
    let mut pinned = node("worker-a", None);
    let instance = found(test.ask_one(&pinned).await);
    let mut pin = |value: &str| {
        let key = PROVIDED_NODE_IP.to_owned();
        pinned.annotations.insert(key, value.to_owned());
        initialize(&pinned, &instance)
    };
    assert_eq!(
        addresses(&pin("10.20.0.11").unwrap().addresses.unwrap()),
        [
            "InternalIP:10.20.0.11",
            "Hostname:worker-a",
            "ExternalIP:203.0.113.11",
            "ExternalIP:2001:db8:1:1101::11"
        ]
    );
    let error = pin("10.99.0.1").unwrap_err();
    assert!(matches!(error, InitializeError::ProvidedNodeIp { .. }));
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_14_other_spellings_of_an_id_find_the_server_and_stay() {
    let test = Harness::new();
    let mut shouting = node("worker-a", None);
    shouting.provider_id = Some("cloudscale://3F9B1C526A7D4E089C41D2F0A8B7E613".into());
    let instance = found(test.ask_one(&shouting).await);
    assert_eq!(instance.provider_id.as_ref().unwrap().rest(), A);
    assert_eq!(initialize(&shouting, &instance).unwrap().provider_id, None);
    assert_eq!(test.calls(), [format!("GET /v1/servers/{A} 200")]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_15_a_renamed_server_leaves_the_node_its_host_name() {
    let test = Harness::new();
    test.sim.rename(A, "acme | node").unwrap();
    let instance = found(test.ask_one(&node("worker-a", Some(A))).await);
    assert_eq!(
        addresses(&instance.addresses),
        [
            "Hostname:worker-a",
            "ExternalIP:203.0.113.11",
            "ExternalIP:2001:db8:1:1101::11",
            "InternalIP:10.20.0.11"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_17_the_configured_timeout_limits_each_request() {
    for (value, seconds) in [("5", 5), ("abc", 20)] {
        let test = Harness::with(&[("CLOUDSCALE_API_TIMEOUT", value)]);
        test.fault("*", Action::Hang);
        let before = tokio::time::Instant::now();
        let text = cannot_tell(test.ask_one(&node("worker-a", Some(A))).await);
        assert!(text.contains(&format!("within {seconds} s")), "{text}");
        let taken = before.elapsed().as_secs();
        assert!((3 * seconds..3 * seconds + 4).contains(&taken), "{taken} s");
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_18_the_version_in_the_url_is_not_doubled() {
    for path in ["", "/", "/v1", "/v1/"] {
        let url = format!("http://{AUTHORITY}{path}");
        let test = Harness::with(&[("CLOUDSCALE_API_URL", &url)]);
        test.canary().await.unwrap();
        assert_eq!(test.calls(), ["GET /v1/servers 200"], "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_83_no_failure_is_read_as_absence() {
    let test = Harness::new();
    let one = [node("x", Some(NOBODY))];
    let many = [NOBODY, A, B, "11111111-2222-4333-8444-555555555555"].map(|id| node("x", Some(id)));
    let faults = [
        (status(401), CloudErrorKind::Denied),
        (status(403), CloudErrorKind::Denied),
        (status(429), CloudErrorKind::Throttled),
        (Action::Reset, CloudErrorKind::Unavailable),
        (Action::Html { code: 404 }, CloudErrorKind::Unknown),
        (Action::Html { code: 200 }, CloudErrorKind::Unknown),
        (Action::Html { code: 502 }, CloudErrorKind::Unavailable),
    ];
    for (action, kind) in faults {
        for path in ["/v1/servers", "/v1/servers/*", "*"] {
            test.wait(Duration::from_secs(60)).await;
            test.fault(path, action.clone());
            let mut answers = test.ask(&one).await;
            answers.extend(test.ask(&many).await);
            for (number, answer) in answers.into_iter().enumerate() {
                match answer {
                    Lookup::CannotTell(error) => assert_eq!(error.kind(), kind, "{error}"),
                    // By id while only the list fails, from the list while only reads by id do.
                    Lookup::Gone(_) if path == "/v1/servers" && number == 0 => {}
                    Lookup::Found(_) if path == "/v1/servers/*" && number > 0 => {}
                    other => panic!("{action:?} on {path}, {number}: {other:?}"),
                }
            }
        }
        test.canary().await.unwrap_err();
    }
    test.fault("/v1/servers", status(404));
    for answer in test.ask(&many).await {
        let Lookup::CannotTell(error) = answer else {
            panic!("a 404 of the collection was believed: {answer:?}");
        };
        assert_eq!(error.kind(), CloudErrorKind::Unknown);
    }
    test.world.faults.clear();
    gone(test.ask(&one).await.remove(0));
}

/// The simulator's 404 has a body; this one has none.
#[tokio::test(start_paused = true)]
async fn cloudscale_case_83_a_404_without_a_body_is_absence() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = bowline_simulator::World::simulated(1);
    let mut listener = world.pipes.listen(AUTHORITY);
    let server = tokio::spawn(async move {
        let mut wire = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(wire.read_u8().await.unwrap());
        }
        wire.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        String::from_utf8(request).unwrap()
    });
    let config = crate::harness::config(&format!("http://{AUTHORITY}"), &[]);
    let cloud =
        bowline_cloudscale::build(&config, bowline_test_kit::seams(&world, "cloudscale")).unwrap();
    let nodes = [std::sync::Arc::new(node("x", Some(NOBODY)))];
    gone(cloud.instances().unwrap().lookup(&nodes).await.remove(0));
    let request = server.await.unwrap().to_ascii_lowercase();
    for header in [
        "authorization: bearer simulated-token\r\n",
        "user-agent: bowline/",
        "accept: application/json\r\n",
    ] {
        assert!(request.contains(header), "{header} in {request}");
    }
}

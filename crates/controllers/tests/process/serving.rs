//! What a manager answers on its HTTPS port, with reviews by the simulated API server.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::auth::framework;
use serde_json::{Value, json};

use crate::cloud::Demo;
use crate::harness::{Harness, LEASE, Replica};
use crate::https::{call, free_port, get, serving_flags};

/// A manager that serves, and its port.
fn serve(test: &Harness, config: &kube::Config, more: &[&str]) -> (Replica, u16) {
    let port = free_port();
    let flags = serving_flags(port);
    let flags: Vec<&str> = flags
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    (test.start_as(config, &flags), port)
}

/// Waits until the controllers of the only leader run: the node watch comes after their start.
async fn until_working(test: &Harness) {
    let watch = Filter::any().path("/api/v1/nodes").query("*watch=true*");
    test.until_called("the watch of nodes", &watch).await;
}

/// Somebody whom RBAC allows to read `/metrics`, and somebody whom it does not.
fn install_scraper(test: &Harness) -> (String, String) {
    let account = |name: &str| {
        json!({
            "kind": "ServiceAccount", "apiVersion": "v1",
            "metadata": { "namespace": "kube-system", "name": name },
        })
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let objects = [
        account("scraper"),
        account("stranger"),
        json!({
            "kind": "ClusterRole", "apiVersion": rbac, "metadata": { "name": "scraper" },
            "rules": [{ "nonResourceURLs": ["/metrics", "/metrics/slis", "/configz"],
                "verbs": ["get", "delete"] }],
        }),
        json!({
            "kind": "ClusterRoleBinding", "apiVersion": rbac, "metadata": { "name": "scraper" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "scraper" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "kube-system",
                "name": "scraper" }],
        }),
    ];
    test.cluster.install(objects).unwrap();
    let token = |name| test.cluster.account_token("kube-system", name).unwrap();
    (token("scraper"), token("stranger"))
}

/// What `kubectl` would bind for delegated authentication and authorization.
fn bind_auth_delegator(test: &Harness, account: &str) {
    test.put(json!({
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": format!("{account}:auth-delegator") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "system:auth-delegator" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "kube-system", "name": account }],
    }));
}

#[tokio::test]
async fn framework_case_112_exactly_the_named_controllers_run_and_are_checked() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let flags = ["--controllers=cloud-node,cloud-node-lifecycle"];
    let (manager, port) = serve(&test, &config, &flags);
    until_working(&test).await;
    let said = get(port, "/healthz?verbose", None).await;
    assert_eq!(
        (said.status, said.body.as_str()),
        (
            200,
            "[+]leaderElection ok\n[+]cloud-node-controller ok\n\
             [+]cloud-node-lifecycle-controller ok\nhealthz check passed\n"
        )
    );
    for (path, status) in [
        ("/healthz/cloud-node-controller", 200),
        ("/healthz/leaderElection", 200),
        ("/livez", 200),
        ("/livez/leaderElection", 200),
    ] {
        // Below /healthz only the path itself is always allowed, so ask as an administrator.
        let token = config_token(&config);
        assert_eq!(get(port, path, Some(&token)).await.status, status, "{path}");
    }
    let (ended, _) = manager.stop().await;
    ended.unwrap();
}

fn config_token(config: &kube::Config) -> String {
    use kube::config::AuthInfo;
    let AuthInfo { token, .. } = &config.auth_info;
    // The type hides its text from logs, not from JSON.
    let json: Value = serde_json::to_value(&config.auth_info).unwrap();
    assert!(token.is_some());
    json["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn readyz_is_good_when_the_nodes_are_known_and_not_before() {
    let test = Harness::on_socket().await;
    let list = Rule::new(Action::Hang)
        .named("no-nodes")
        .on("GET", "/api/v1/nodes");
    test.world.faults.add(list).unwrap();
    let config = test.administrator("manager");
    let token = config_token(&config);
    let (manager, port) = serve(&test, &config, &[]);
    let key = "cloud-node-controller";
    test.until("the start of the controllers", || {
        manager
            .metrics
            .text()
            .contains("running_managed_controllers{")
            .then_some(())
    })
    .await;
    // The checks are added right after the controllers' start; nothing else is waited for there.
    while !get(port, "/healthz?verbose", None).await.body.contains(key) {}
    let said = get(port, "/readyz?verbose", Some(&token)).await;
    assert_eq!(said.status, 500, "{}", said.body);
    assert!(
        said.body.contains("[-]nodes-synced failed"),
        "{}",
        said.body
    );
    assert_eq!(get(port, "/healthz", None).await.body, "ok");
    manager.stop().await.0.unwrap();

    test.world.faults.clear();
    let (manager, port) = serve(&test, &config, &[]);
    until_working(&test).await;
    while get(port, "/readyz", Some(&token)).await.status != 200 {}
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn readyz_waits_for_a_cloud_that_lacks_something() {
    let test = Harness::on_socket().await;
    test.cloud.lack(Some("no credentials yet"));
    let config = test.administrator("manager");
    let token = config_token(&config);
    let (manager, port) = serve(&test, &config, &[]);
    until_working(&test).await;
    let said = get(port, "/readyz?verbose", Some(&token)).await;
    assert_eq!(said.status, 500, "{}", said.body);
    assert!(said.body.contains("[-]cloud-demo failed"), "{}", said.body);
    assert_eq!(get(port, "/healthz", None).await.body, "ok");
    test.cloud.lack(None);
    while get(port, "/readyz", Some(&token)).await.status != 200 {}
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn readyz_names_the_unhappy_one_of_several_clouds_and_is_good() {
    let mut test = Harness::on_socket().await;
    let west = Demo::named("west", &test.world.clock);
    test.others.push(west.clone());
    west.lack(Some("no credentials yet"));
    let config = test.administrator("manager");
    let token = config_token(&config);
    let (manager, port) = serve(&test, &config, &[]);
    until_working(&test).await;
    while get(port, "/readyz", None).await.status != 200 {}
    let said = get(port, "/readyz", None).await.body;
    let unhappy = "[+]cloud-demo ok\n[!]cloud-west unhappy: reason withheld\n";
    assert!(said.contains(unhappy), "{said}");
    assert!(!said.contains("credentials"), "{said}");
    let said = get(port, "/readyz/cloud-west", Some(&token)).await;
    let why = "internal server error: no credentials yet\n";
    assert_eq!((said.status, said.body.as_str()), (500, why));
    assert_eq!(get(port, "/readyz/cloud-west", None).await.status, 403);
    let demo = get(port, "/readyz/cloud-demo", Some(&token)).await;
    assert_eq!(demo.status, 200);
    let ready = |cloud: &str, value: u8| {
        let line = format!("bowline_cloud_ready{{cloud=\"{cloud}\"}} {value}\n");
        manager.metrics.text().contains(&line)
    };
    assert!(ready("demo", 1) && ready("west", 0));
    test.cloud.lack(Some("nothing works"));
    assert_eq!(get(port, "/readyz", None).await.status, 500, "none is left");
    test.cloud.lack(None);
    west.lack(None);
    assert_eq!(get(port, "/readyz", None).await.body, "ok");
    assert!(ready("demo", 1) && ready("west", 1));
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn readyz_tells_why_node_ipam_does_not_start_and_healthz_is_good() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let token = config_token(&config);
    let flags = [
        "--controllers=*,nodeipam",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.0.0.0/16,fd00::/56",
        "--node-cidr-mask-size=24",
    ];
    let (manager, port) = serve(&test, &config, &flags);
    until_working(&test).await;
    let mut said = get(port, "/readyz?verbose", Some(&token)).await;
    while !said.body.contains("[+]nodes-synced ok") {
        said = get(port, "/readyz?verbose", Some(&token)).await;
    }
    assert_eq!(said.status, 500, "{}", said.body);
    let failed = "[-]node-ipam-controller failed";
    assert!(said.body.contains(failed), "{}", said.body);
    let health = get(port, "/healthz?verbose", None).await;
    let started = "[+]node-ipam-controller ok";
    assert!(health.body.contains(started), "{}", health.body);
    assert_eq!(get(port, "/healthz", None).await.body, "ok");
    manager.stop().await.0.unwrap();
    let (manager, port) = serve(&test, &config, &flags[..3]);
    while get(port, "/readyz", Some(&token)).await.status != 200 {}
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_115_each_caller_gets_what_the_cluster_grants() {
    let test = Harness::on_socket().await;
    let (scraper, stranger) = install_scraper(&test);
    let config = test.administrator("manager");
    let (manager, port) = serve(&test, &config, &[]);
    let said = get(port, "/healthz", None).await;
    assert_eq!((said.status, said.body.as_str()), (200, "ok"));
    let said = get(port, "/metrics", None).await;
    let status: Value = serde_json::from_str(&said.body).unwrap();
    assert_eq!((said.status, &status["kind"]), (403, &json!("Status")));
    assert_eq!(
        status["message"],
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
    );
    let said = get(port, "/metrics", Some(&scraper)).await;
    assert_eq!(said.status, 200);
    assert!(said.body.contains("leader_election_master_status"));
    let said = get(port, "/metrics", Some(&stranger)).await;
    assert_eq!(said.status, 403);
    assert!(
        said.body
            .contains("system:serviceaccount:kube-system:stranger")
    );
    manager.stop().await.0.unwrap();

    // A review that fails on the server's side; nobody's earlier answer is remembered.
    let status = Action::Status {
        code: 400,
        headers: [].into(),
        body: None,
    };
    let reviews = Rule::new(status).on("POST", "*/subjectaccessreviews");
    test.world.faults.add(reviews).unwrap();
    let (manager, port) = serve(&test, &config, &[]);
    let said = get(port, "/metrics", None).await;
    assert_eq!(said.status, 500, "{}", said.body);
    manager.stop().await.0.unwrap();

    let open = ["--authorization-always-allow-paths=/healthz,/metrics"];
    let (manager, port) = serve(&test, &config, &open);
    assert_eq!(get(port, "/metrics", None).await.status, 200);
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_116_a_bad_token_gets_401_on_every_path() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let (manager, port) = serve(&test, &config, &[]);
    for path in [
        "/healthz", "/livez", "/readyz", "/metrics", "/configz", "/nothing",
    ] {
        let said = get(port, path, Some("no-such-token")).await;
        let status: Value = serde_json::from_str(&said.body).unwrap();
        assert_eq!(
            (said.status, &status["reason"]),
            (401, &json!("Unauthorized")),
            "{path}"
        );
    }
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_117_a_standby_serves_and_does_nothing() {
    let test = Harness::on_socket().await;
    test.give_lease(LEASE, "somebody");
    test.join("n1");
    let config = test.administrator("manager");
    let open = ["--authorization-always-allow-paths=/healthz,/metrics,/readyz"];
    let (manager, port) = serve(&test, &config, &open);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/*";
    let looked = Filter::any().caller("manager").method("GET").path(lease);
    test.until_called("a look at the lease", &looked).await;
    let said = get(port, "/healthz?verbose", None).await;
    let expected = "[+]leaderElection ok\nhealthz check passed\n";
    assert_eq!((said.status, said.body.as_str()), (200, expected));
    assert_eq!(
        get(port, "/readyz", None).await.status,
        200,
        "a standby is ready"
    );
    let text = get(port, "/metrics", None).await.body;
    let status = "leader_election_master_status{name=\"cloud-controller-manager\"} 0";
    assert!(text.contains(status), "{text}");
    let running = |line: &&str| line.starts_with("running_managed_controllers{");
    assert!(
        text.lines()
            .filter(running)
            .all(|line| line.ends_with(" 0"))
    );
    let nodes = Filter::any().path("/api/v1/nodes*").caller("manager");
    assert_eq!(test.world.journal.count(&nodes), 0);
    assert!(test.cloud.calls().is_empty());
    let (ended, _) = manager.stop().await;
    ended.unwrap();
    assert_eq!(
        test.holder(LEASE),
        "somebody",
        "what is not ours is not released"
    );
}

#[tokio::test]
async fn framework_case_121_configz_shows_the_final_values() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let flags = [
        "--node-status-update-frequency=10m",
        "--controllers=cloud-node",
        "--authorization-always-allow-paths=/configz",
    ];
    let (manager, port) = serve(&test, &config, &flags);
    let said = get(port, "/configz", None).await;
    let whole: Value = serde_json::from_str(&said.body).unwrap();
    let shown = &whole["cloudcontrollermanager.config.k8s.io"];
    assert_eq!(shown["kind"], "CloudControllerManagerConfiguration");
    assert_eq!(shown["NodeStatusUpdateFrequency"], "10m0s");
    assert_eq!(
        shown["Generic"]["Controllers"],
        json!(["cloud-node-controller"])
    );
    assert_eq!(shown["KubeCloudShared"]["CloudProvider"]["Name"], "demo");
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_132_review_back_ends_that_are_away_close_what_needs_them() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let away = Rule::new(Action::Reset).on("POST", "*reviews");
    test.world.faults.add(away).unwrap();
    let (manager, port) = serve(&test, &config, &[]);
    let said = get(port, "/metrics", None).await;
    assert_eq!(said.status, 500);
    assert!(
        said.body
            .starts_with("Internal Server Error: \"/metrics\": "),
        "{}",
        said.body
    );
    assert_eq!(get(port, "/metrics", Some("any")).await.status, 401);
    assert_eq!(get(port, "/healthz", None).await.status, 200);
    manager.stop().await.0.unwrap();

    // Nobody to ask at all: a token says nothing about its bearer.
    test.world.faults.clear();
    let (scraper, _) = install_scraper(&test);
    let port = free_port();
    let flags = serving_flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut manager = test.manager(&config, &flags);
    manager.reviews = bowline_controllers::manager::Reviews::default();
    let manager = Replica::of(manager);
    let said = get(port, "/metrics", Some(&scraper)).await;
    assert_eq!(said.status, 403);
    assert!(said.body.contains("system:anonymous"), "{}", said.body);
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_133_health_checks_are_counted_and_reset() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let open = ["--authorization-always-allow-paths=/healthz,/metrics,/metrics/slis"];
    let (manager, port) = serve(&test, &config, &open);
    for _ in 0..2 {
        assert_eq!(get(port, "/healthz", None).await.body, "ok");
    }
    let series = "kubernetes_healthchecks_total{name=\"leaderElection\",status=\"success\",\
                  type=\"healthz\"} 2";
    let text = get(port, "/metrics/slis", None).await.body;
    assert!(text.contains(series), "{text}");
    let said = call("DELETE", port, "/metrics/slis", None).await;
    assert_eq!((said.status, said.body.trim()), (200, "metrics reset"));
    let text = get(port, "/metrics/slis", None).await.body;
    assert!(!text.contains("kubernetes_healthchecks_total{"), "{text}");
    let deleted = call("DELETE", port, "/metrics", None).await;
    assert_eq!(deleted.status, 200);
    assert!(deleted.body.contains("leader_election_master_status"));
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_142_a_controller_that_no_cloud_can_serve_is_no_check() {
    let test = Harness::on_socket().await;
    let config = test.administrator("manager");
    let (manager, port) = serve(&test, &config, &["--controllers=service"]);
    until_working(&test).await;
    let said = get(port, "/healthz?verbose", None).await;
    let expected = "[+]leaderElection ok\nhealthz check passed\n";
    assert_eq!((said.status, said.body.as_str()), (200, expected));
    manager.stop().await.0.unwrap();

    test.world.journal.clear();
    let (manager, port) = serve(&test, &config, &["--controllers=*"]);
    until_working(&test).await;
    let body = get(port, "/healthz?verbose", None).await.body;
    for name in [
        "node-ipam-controller",
        "certificatesigningrequest-approving-controller",
    ] {
        assert!(!body.contains(name), "{body}");
    }
    manager.stop().await.0.unwrap();

    test.world.journal.clear();
    let named = "--controllers=*,node-csr-approval";
    let (manager, port) = serve(&test, &config, &[named]);
    until_working(&test).await;
    let body = get(port, "/healthz?verbose", None).await.body;
    let check = "[+]certificatesigningrequest-approving-controller ok";
    assert!(body.contains(check), "{body}");
    assert!(!body.contains("node-ipam-controller"), "{body}");
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn framework_case_113_with_every_controller_off_the_manager_still_serves() {
    let test = Harness::on_socket().await;
    test.join("n1");
    let config = test.administrator("manager");
    let (manager, port) = serve(&test, &config, &["--controllers=-service"]);
    test.until_held(LEASE, "").await;
    let said = get(port, "/healthz?verbose", None).await;
    let expected = "[+]leaderElection ok\nhealthz check passed\n";
    assert_eq!((said.status, said.body.as_str()), (200, expected));
    manager.stop().await.0.unwrap();
    assert!(test.cloud.calls().is_empty());
    let writes = Filter::any().mutating().path("/api/v1/nodes*");
    assert_eq!(test.world.journal.count(&writes), 0);
}

#[tokio::test]
async fn cloudscales_role_serves_health_but_no_metrics_until_reviews_are_granted() {
    let test = Harness::on_socket().await;
    let (scraper, _) = install_scraper(&test);
    test.cloud.say("n1", crate::cloud::Answer::Runs("10.0.0.1"));
    test.join("n1");
    let config = test.original_account();
    let (manager, port) = serve(&test, &config, &[]);
    test.until_initialized("n1").await;
    assert_eq!(get(port, "/healthz", None).await.body, "ok");
    // The role has no token reviews and no access reviews: nobody can be let in.
    assert_eq!(get(port, "/metrics", Some(&scraper)).await.status, 401);
    assert_eq!(get(port, "/metrics", None).await.status, 500);
    assert!(manager.is_running());
    let refused: std::collections::BTreeSet<String> = test
        .world
        .journal
        .matching(&Filter::any().status(403))
        .into_iter()
        .map(|call| format!("{} {}", call.method, call.path))
        .collect();
    let reviews = [
        "POST /apis/authentication.k8s.io/v1/tokenreviews",
        "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
    ];
    assert_eq!(
        refused.iter().map(String::as_str).collect::<Vec<_>>(),
        reviews
    );

    bind_auth_delegator(&test, "cloud-controller-manager");
    assert_eq!(get(port, "/metrics", Some(&scraper)).await.status, 200);
    assert_eq!(get(port, "/metrics", None).await.status, 403);
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn the_frameworks_role_is_enough_for_everything_the_port_serves() {
    let test = Harness::on_socket().await;
    let (scraper, stranger) = install_scraper(&test);
    test.cluster.install(framework("bowline", false)).unwrap();
    let config = test.account("bowline");
    let (manager, port) = serve(&test, &config, &[]);
    assert_eq!(get(port, "/metrics", Some(&scraper)).await.status, 200);
    assert_eq!(get(port, "/metrics", Some(&stranger)).await.status, 403);
    until_working(&test).await;
    manager.stop().await.0.unwrap();
    assert_eq!(test.world.journal.count(&Filter::any().status(403)), 0);
    for (method, path) in [
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        // The cluster's authorities.
        ("GET", "/api/v1/namespaces/kube-system/configmaps*"),
    ] {
        let user = "system:serviceaccount:kube-system:bowline";
        let call = Filter::any().caller(user).method(method).path(path);
        assert_ne!(test.world.journal.count(&call), 0, "{method} {path}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_on_disk_is_served_without_a_restart() {
    let test = Harness::on_socket().await;
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let renew = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    };
    let first = renew();
    let files = [
        format!("--tls-cert-file={}", chain.display()),
        format!("--tls-private-key-file={}", key.display()),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let files = [&files[..], &["--leader-elect=false"]].concat();
    let config = test.administrator("manager");
    let (manager, port) = serve(&test, &config, &files);
    assert_eq!(get(port, "/healthz", None).await.certificate, first);
    let second = renew();
    // Files are looked at every ten seconds; the clock jumps over them.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    while get(port, "/healthz", None).await.certificate != second {}
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn without_the_right_to_read_the_authorities_the_start_fails_unless_that_is_tolerated() {
    let test = Harness::on_socket().await;
    let refused = Action::Status {
        code: 403,
        headers: [].into(),
        body: None,
    };
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let refused = Rule::new(refused).on("GET", map);
    test.world.faults.add(refused).unwrap();
    let config = test.administrator("manager");
    let (manager, _) = serve(&test, &config, &[]);
    let ended = manager.ended().await.unwrap_err();
    assert!(matches!(ended, ManagerError::Serving(_)), "{ended:?}");
    let leases = Filter::any().path("*/leases*");
    assert_eq!(test.world.journal.count(&leases), 0, "it did not compete");

    let tolerate = ["--authentication-tolerate-lookup-failure"];
    let (manager, port) = serve(&test, &config, &tolerate);
    assert_eq!(get(port, "/healthz", None).await.body, "ok");
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn a_manager_that_still_asks_for_the_authorities_stops_at_once() {
    let test = Harness::on_socket().await;
    let hang = Rule::new(Action::Hang).on("GET", "*/configmaps/*");
    test.world.faults.add(hang).unwrap();
    let (manager, _) = serve(&test, &test.administrator("manager"), &[]);
    while test.world.faults.rules()[0].1 == 0 {
        tokio::task::yield_now().await;
    }
    let (ended, took) = manager.stop().await;
    ended.unwrap();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

//! Networks, fabrics, names, firewall rules.

use super::*;

const ACCOUNT: &str = DEFAULT_ACCOUNT_ID;

#[tokio::test(start_paused = true)]
async fn networks_show_what_their_kind_has() {
    let it = Harness::with("");
    let all = it.get("/acme/networks").await;
    shows!(all[0], {"name": "external", "public": true});
    assert!(
        all[0].get("subnet").is_none(),
        "only fabric networks show more"
    );
    let zone = format!("{ACCOUNT}.eg-1.cns.example.com");
    shows!(all, {"/0/suffixes": [format!("svc.{zone}"), format!("inst.{zone}")]});
    shows!(all[1], {"vlan_id": 2, "subnet": "10.20.0.0/24"});
    assert_eq!(
        it.get("/acme/networks?fabric=true")
            .await
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        it.status("GET", &format!("/acme/networks/{UNKNOWN}")).await,
        404
    );
    it.cloud.set_quirks(|quirks| quirks.login_names = true);
    let one = it.get(&format!("/acme/networks/{FABRIC}")).await;
    assert_eq!(one["suffixes"][0], "svc.acme.int.eg-1.example.com");
    it.cloud.enable_names("acme", false).unwrap();
    assert!(it.get("/acme/networks").await[0].get("suffixes").is_none());
    it.cloud
        .set_quirks(|quirks| quirks.shuffled_networks = true);
    let mut orders = std::collections::BTreeSet::new();
    for _ in 0..20 {
        orders.insert(it.get("/acme/networks").await[0]["name"].to_string());
    }
    assert_eq!(orders.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_pool_is_on_a_network_that_nobody_sees() {
    let it = Harness::with(
        "
networks:
  - name: Pool
    id: 66666666-6666-4666-8666-666666666666
    public: true
    zones: [z.example.com]
    pool:
      - {name: a, subnet: 198.51.100.0/30, provision_start_ip: 198.51.100.1, provision_end_ip: 198.51.100.1}
      - {name: b, id: 77777777-7777-4777-8777-777777777777, subnet: 198.51.100.64/26}
machines:
  - {name: m1, networks: [Pool]}
  - {name: m2, networks: [Pool]}",
    );
    let second = it.cloud.machine("m2").unwrap();
    assert_eq!(second.networks, ["77777777-7777-4777-8777-777777777777"]);
    assert_eq!(it.get("/acme/networks").await.as_array().unwrap().len(), 1);
    let member = format!("/acme/networks/{}", second.networks[0]);
    assert_eq!(it.status("GET", &member).await, 404);
    assert!(second.dns_names[0].ends_with(".z.example.com") || !second.dns_names.is_empty());
}

#[tokio::test(start_paused = true)]
async fn routes_of_a_fabric_are_replaced_whole_and_checked() {
    let it = Harness::with("");
    let vlans = it.get("/acme/fabrics/default/vlans").await;
    assert_eq!(vlans[0]["vlan_id"], 2);
    let path = format!("/acme/fabrics/default/vlans/2/networks/{FABRIC}");
    let routes = json!({ "10.244.1.7/24": "10.20.0.6", "10.98.0.0/16": "linklocal", "192.0.2.1": "10.20.0.9" });
    let reply = it.call("PUT", &path, json!({ "routes": routes })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let wanted = json!({ "10.244.1.0/24": "10.20.0.6", "10.98.0.0/16": "linklocal", "192.0.2.1": "10.20.0.9" });
    assert_eq!(reply.json()["routes"], wanted);
    assert_eq!(it.get(&path).await["routes"], wanted);
    for (body, problem) in rows![
        { "routes": { "10.0.0.0/33": "10.20.0.1" } } => "property \\\"routes\\\": invalid route";
        { "routes": { "10.0.0.0/8": "nowhere" } } => "property \\\"routes\\\": invalid route";
        { "routes": { "10.0.0.0/8": "fd00::1" } } => "property \\\"routes\\\": invalid route";
        { "subnet": "10.0.0.0/8" } => "property \\\"subnet\\\": unsupported property";
    ] {
        refused(
            &it.call("PUT", &path, body).await,
            409,
            "InvalidArgument",
            problem,
        );
    }
    let reply = it
        .call(
            "PUT",
            &format!("{path}?as-role=ops"),
            json!({ "routes": {} }),
        )
        .await;
    refused(
        &reply,
        409,
        "InvalidArgument",
        "property \\\"as-role\\\": unsupported property",
    );
    assert_eq!(
        it.call("PUT", &path, json!({ "routes": {} })).await.status,
        200
    );
    assert!(it.get(&path).await.get("routes").is_none());
    refused(
        &it.call("DELETE", &path, Value::Null).await,
        409,
        "InUseError",
        "",
    );
    let networks = "/acme/fabrics/default/vlans/2/networks";
    let body = json!({ "name": "n", "subnet": "10.30.0.0/24", "provision_start_ip": "10.30.0.9",
        "provision_end_ip": "10.30.0.99", "internet_nat": false });
    let made = it.call("POST", networks, body).await;
    assert_eq!(
        (made.status, &made.json()["provision_start_ip"]),
        (201, &json!("10.30.0.9"))
    );
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(it.status("DELETE", &format!("{networks}/{id}")).await, 204);
    it.cloud.set_quirks(|quirks| quirks.no_fabrics = true);
    let reply = it
        .call("GET", "/acme/fabrics/default/vlans", Value::Null)
        .await;
    refused(&reply, 501, "NotImplementedError", "");
}

#[tokio::test(start_paused = true)]
async fn names_are_published_in_turns_and_follow_states_and_tags() {
    let it = Harness::new();
    let public = format!("{ACCOUNT}.eg-1.cns.example.com");
    let private = format!("{ACCOUNT}.int.eg-1.example.com");
    let names = async || it.machine(MACHINE).await["dns_names"].to_string();
    assert!(names().await.contains(&format!("k8s-1.inst.{public}")));
    let tags = format!("/acme/machines/{MACHINE}/tags");
    let body = json!({ "triton.cns.services": "Web.prod:30080,web.prod:30443,k8s-nodes" });
    assert_eq!(it.call("POST", &tags, body).await.status, 200);
    seconds(1).await;
    let web = format!("web.prod.svc.{public}");
    assert!(!names().await.contains(&web), "not before the next turn");
    seconds(10).await;
    assert!(names().await.contains(&web));
    assert!(
        names()
            .await
            .contains(&format!("my-fabric.k8s-nodes.svc.{private}"))
    );
    assert!(
        !names()
            .await
            .contains(&format!("external.web.prod.svc.{public}"))
    );
    assert_eq!(
        it.cloud.resolve(&web),
        ["203.0.113.10".parse::<std::net::Ipv4Addr>().unwrap()]
    );
    let target = format!("k8s-1.inst.{public}");
    assert_eq!(
        it.cloud.resolve_services(&web),
        [(30080, target.clone()), (30443, target)]
    );
    // Stopped, or said to be down: still an instance, no longer in its services.
    for (change, back) in [
        (json!({ "state": "stopped" }), json!({ "state": "running" })),
        (json!({ "down": true }), json!({ "down": false })),
    ] {
        let apply = |what: &Value| {
            if let Some(state) = what["state"].as_str() {
                it.cloud
                    .set_state("k8s-1", State::parse(state).unwrap())
                    .unwrap();
            } else {
                let value = if what["down"] == true { "down" } else { "up" };
                it.cloud
                    .set_metadata("k8s-1", "triton.cns.status", Some(value))
                    .unwrap();
            }
        };
        apply(&change);
        seconds(10).await;
        assert!(!names().await.contains(&web) && names().await.contains("k8s-1.inst."));
        apply(&back);
        seconds(10).await;
        assert!(names().await.contains(&web));
    }
    it.cloud
        .set_tag("k8s-1", "triton.cns.disable", Some(json!(true)))
        .unwrap();
    seconds(10).await;
    assert_eq!(names().await, "[]");
    it.cloud
        .set_tag("k8s-1", "triton.cns.disable", Some(json!(false)))
        .unwrap();
    seconds(10).await;
    assert!(names().await.contains(&web));
    // A dead compute node is believed to be one after an hour.
    let node = it.cloud.machine("k8s-1").unwrap().compute_node.unwrap();
    it.cloud.kill_compute_node(&node);
    seconds(3000).await;
    assert!(names().await.contains(&web));
    seconds(601).await;
    assert!(!names().await.contains(&web));
}

#[tokio::test(start_paused = true)]
async fn firewall_rules_are_kept_normalised_and_decide() {
    let it = Harness::with(
        "
machines: [{name: web, tags: {role: web}, firewall_enabled: true}, {name: open}]
fwrules: [{rule: FROM any TO all vms ALLOW icmp TYPE 8, global: true, enabled: true}]",
    );
    let rule = "FROM (subnet 203.0.113.0/24 OR ip 198.51.100.1) TO tag role = web ALLOW tcp (PORT 443 AND PORT 80)";
    let made = it
        .call(
            "POST",
            "/acme/fwrules",
            json!({ "rule": rule, "description": "x" }),
        )
        .await;
    assert_eq!((made.status, &made.json()["enabled"]), (201, &json!(false)));
    let text = "FROM (ip 198.51.100.1 OR subnet 203.0.113.0/24) TO tag role = web ALLOW tcp (PORT 80 AND PORT 443)";
    assert_eq!(made.json()["rule"], text);
    let path = format!("/acme/fwrules/{}", made.json()["id"].as_str().unwrap());
    let reach = |from: &str, machine: &str, port| {
        it.cloud
            .would_reach(from.parse().unwrap(), machine, "tcp", port)
    };
    assert!(!reach("198.51.100.1", "web", 80) && reach("198.51.100.1", "open", 80));
    shows!(it.call("POST", &path, json!({ "enabled": true })).await.json(), {"rule": text});
    assert!(reach("198.51.100.1", "web", 80) && reach("203.0.113.99", "web", 443));
    assert!(!reach("198.51.100.2", "web", 80) && !reach("198.51.100.1", "web", 22));
    let web = it.cloud.machine("web").unwrap().id;
    let rules = it.get(&format!("/acme/machines/{web}/fwrules")).await;
    assert_eq!(rules.as_array().unwrap().len(), 2);
    let concerned = it.get(&format!("{path}/machines")).await;
    assert_eq!(concerned.as_array().unwrap().len(), 1);
    let all = it.get("/acme/fwrules").await;
    let global = all
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["global"] == true)
        .unwrap();
    let global = format!("/acme/fwrules/{}", global["id"].as_str().unwrap());
    refused(
        &it.call("DELETE", &global, Value::Null).await,
        403,
        "Forbidden",
        "",
    );
    refused(
        &it.call("POST", "/acme/fwrules", json!({})).await,
        409,
        "MissingParameter",
        "",
    );
    let bad = json!({ "rule": "FROM any TO any ALLOW tcp PORT 1" });
    let reply = it.call("POST", "/acme/fwrules", bad).await;
    refused(&reply, 422, "InvalidParameters", "rule does not affect VMs");
    it.cloud.set_quirks(|quirks| quirks.eight_ports = true);
    let ports: Vec<_> = (1..10).map(|port| format!("PORT {port}")).collect();
    let nine = format!("FROM any TO tag a ALLOW tcp ({})", ports.join(" AND "));
    assert_eq!(
        it.call("POST", "/acme/fwrules", json!({ "rule": nine }))
            .await
            .status,
        422
    );
    assert_eq!(it.status("DELETE", &path).await, 204);
    assert_eq!(it.status("GET", &path).await, 404);
}

#[tokio::test(start_paused = true)]
async fn packages_images_and_services_are_listed() {
    let it = Harness::with("services: {cmon: 'https://cmon.eg-1.cns.example.com:9163'}");
    assert_eq!(
        it.get("/acme/packages?name=g4-*")
            .await
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(it.get("/acme/packages/lb1.small").await["memory"], 512);
    let found = it
        .get("/acme/images?name=cloud-load-balancer&state=active")
        .await;
    assert_eq!(found[0]["id"], BALANCER_IMAGE);
    assert_eq!(
        it.status("GET", &format!("/acme/images/{UNKNOWN}")).await,
        404
    );
    let services = it.get("/acme/services").await;
    assert_eq!(services["cmon"], "https://cmon.eg-1.cns.example.com:9163");
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_reads_its_port_map_in_turns() {
    let it = Harness::with(
        "
machines:
  - {name: n1, tags: {triton.cns.services: 'nodes,srv:8080'}}
  - {name: n2, tags: {triton.cns.services: nodes}}
  - name: lb
    image: cloud-load-balancer
    metadata: {'cloud.tritoncompute:loadbalancer': 'true'}",
    );
    let private = format!("{ACCOUNT}.int.eg-1.example.com");
    let map = format!("tcp://80:nodes.svc.{private}:30080,udp://1:a:2 http://81:srv.svc.{private}");
    let path = format!(
        "/acme/machines/{}/metadata",
        it.cloud.machine("lb").unwrap().id
    );
    let body = json!({ "cloud.tritoncompute:portmap": map, "cloud.tritoncompute:max_rs": "4096" });
    assert_eq!(it.call("POST", &path, body).await.status, 200);
    assert!(it.cloud.appliance("lb").is_none());
    seconds(6).await;
    let lb = it.cloud.appliance("lb").unwrap();
    let targets: Vec<String> = lb.entries[0]
        .targets
        .iter()
        .map(|(ip, port)| format!("{ip}:{port}"))
        .collect();
    assert_eq!(targets, ["10.20.0.5:30080", "10.20.0.6:30080"]);
    assert_eq!(
        lb.entries[1].targets,
        [("10.20.0.5".parse().unwrap(), 8080)]
    );
    assert_eq!(
        (lb.dropped.as_slice(), lb.slots),
        (["udp://1:a:2".to_owned()].as_slice(), 1024)
    );
    assert!(it.cloud.appliance("n1").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fabric_of_nobody_goes_to_the_account_that_is_written_first() {
    let it = Harness::with("accounts: [{login: zulu}, {login: acme}]");
    let owner = |id: &str| {
        it.cloud
            .with(|cloud| cloud.networks.get(id).and_then(|it| it.owner.clone()))
    };
    assert_eq!(owner(FABRIC).as_deref(), Some("zulu"));
    let fabrics = it.get("/acme/networks?fabric=true").await;
    assert_eq!(fabrics, json!([]), "they are zulu's");
}

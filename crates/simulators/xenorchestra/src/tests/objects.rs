//! Pools, hosts and VMs, one by one and in lists.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_vm_is_shown_with_its_place_size_and_addresses() {
    let sim = Harness::new();
    let vm = sim.get(&format!("/vms/{VM1}")).await;
    for (member, wanted) in [
        ("/id", json!(VM1)),
        ("/uuid", json!(VM1)),
        ("/type", json!("VM")),
        ("/name_label", json!("worker 1")),
        ("/power_state", json!("Running")),
        ("/CPUs", json!({ "max": 4, "number": 4 })),
        ("/memory/size", json!(4_294_967_296_u64)),
        ("/mainIpAddress", json!("10.20.0.11")),
        ("/addresses", json!({ "0/ipv4/0": "10.20.0.11" })),
        ("/$pool", json!(PA)),
        ("/$poolId", json!(PA)),
        ("/$container", json!(H1)),
    ] {
        assert_eq!(vm.pointer(member), Some(&wanted), "{member}");
    }
    assert_eq!(vm.get("href"), None);
}

#[tokio::test(start_paused = true)]
async fn a_host_and_a_pool_are_shown() {
    let sim = Harness::new();
    let host = sim.get(&format!("/hosts/{H1}")).await;
    assert_eq!(host["name_label"], "xcp 1");
    assert_eq!(host["$pool"], PA);
    assert!(host["controlDomain"].is_string());
    assert_eq!(host["residentVms"][0], VM1);
    assert!(host["CPUs"]["cpu_count"].is_string() && host["cpus"]["cores"].is_u64());
    let pool = sim.get(&format!("/pools/{PA}")).await;
    shows!(pool, {"name_label": "lab pool", "master": H1});
}

#[tokio::test(start_paused = true)]
async fn answers_are_written_for_people() {
    let sim = Harness::new();
    let reply = sim.call("GET", "/pools?fields=id", Value::Null).await;
    assert_eq!(
        reply.text(),
        format!(
            "[\n  {{\n    \"href\": \"/rest/v0/pools/{PA}\",\n    \"id\": \"{PA}\"\n  }},\n  \
             {{\n    \"href\": \"/rest/v0/pools/{PB}\",\n    \"id\": \"{PB}\"\n  }}\n]"
        )
    );
    assert_eq!(
        reply.headers["content-type"],
        "application/json; charset=utf-8"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_is_of_paths_objects_or_members() {
    let sim = Harness::new();
    let paths = sim.get("/vms").await;
    assert_eq!(
        paths,
        json!([format!("/rest/v0/vms/{VM1}"), format!("/rest/v0/vms/{VM2}")])
    );
    let whole = sim.get("/vms?fields=%2A&limit=1").await;
    assert_eq!(whole.as_array().unwrap().len(), 1);
    assert_eq!(whole[0]["href"], format!("/rest/v0/vms/{VM1}"));
    assert_eq!(whole[0]["$container"], H1);
    let some = sim
        .get("/vms?fields=id,power_state,nothing&nonsense=1")
        .await;
    let href = format!("/rest/v0/vms/{VM2}");
    assert_eq!(
        some[1],
        json!({ "id": VM2, "power_state": "Running", "href": href })
    );
    assert_eq!(sim.get("/vms?limit=0").await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_filtered() {
    let sim = Harness::new();
    for (filter, wanted) in [
        (format!("id:%7C({VM1}%20{UNKNOWN})"), 1),
        (format!("$pool:{PA}"), 2),
        (format!("$pool:{PB}"), 0),
        ("power_state:running%20CPUs:max:%3E2".to_owned(), 1),
        ("name_label:/%5Eworker-/".to_owned(), 1),
    ] {
        let found = sim.get(&format!("/vms?filter={filter}")).await;
        assert_eq!(found.as_array().unwrap().len(), wanted, "{filter}");
    }
    let reply = sim.call("GET", "/vms?filter=id:%7C()", Value::Null).await;
    assert_answer(
        &reply,
        400,
        &json!({
            "error": "parse error: expected end of input at position 2",
            "data": { "stringToParse": "id:|()" },
        }),
    );
}

#[tokio::test(start_paused = true)]
async fn lists_come_as_lines_and_as_tables() {
    let sim = Harness::new();
    let lines = sim
        .call("GET", "/pools?fields=id&ndjson=true", Value::Null)
        .await;
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    let first = format!("{{\"href\":\"/rest/v0/pools/{PA}\",\"id\":\"{PA}\"}}");
    assert_eq!(lines.text().lines().next(), Some(first.as_str()));
    let table = sim
        .call("GET", "/pools?fields=name_label&markdown=true", Value::Null)
        .await;
    assert_eq!(
        table.text(),
        "| name_label |\n| --- |\n| lab pool |\n| dr pool |"
    );
    let both = sim
        .call("GET", "/pools?markdown=true&ndjson=true", Value::Null)
        .await;
    let text = "Cannot use both ndjson and markdown output formats simultaneously";
    answers!(both, 422, { "error": text, "data": {} });
    let reply = sim.call("GET", "/pools?ndjson=maybe", Value::Null).await;
    let wrong = json!({ "ndjson": { "message": "invalid boolean value", "value": "maybe" } });
    answers!(reply, 422, { "error": wrong, "data": {} });
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_refused_by_its_kind() {
    let sim = Harness::new();
    let upper = VM1.to_uppercase();
    for (path, kind, id) in [
        ("vms", "VM", UNKNOWN),
        ("vms", "VM", upper.as_str()),
        ("vms", "VM", H1),
        ("hosts", "host", UNKNOWN),
        ("pools", "pool", UNKNOWN),
        ("tasks", "task", "0mdd1basu"),
        ("servers", "xenServer", "x"),
        ("users", "user", "x"),
    ] {
        let reply = sim.call("GET", &format!("/{path}/{id}"), Value::Null).await;
        let body = json!({
            "error": format!("no such {kind} {id}"), "data": { "id": id, "type": kind },
        });
        answers!(reply, 404, body);
    }
    let reply = sim.call("GET", "/nonsense", Value::Null).await;
    assert_eq!(reply.status, 404);
    assert!(
        reply.text().contains("Cannot GET /rest/v0/nonsense"),
        "{}",
        reply.text()
    );
    assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
    let reply = sim.call("GET", "/vms?limit=abc", Value::Null).await;
    let wrong = json!({ "limit": { "message": "invalid float number", "value": "abc" } });
    answers!(reply, 422, { "error": wrong, "data": {} });
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_a_name_has_that_of_its_master() {
    let sim = Harness::with("pools: [{name: ''}]\nhosts: [{name: first}, {name: second}]");
    shows!(sim.get("/pools?fields=name_label").await, {"/0/name_label": "first"});
}

#[tokio::test(start_paused = true)]
async fn templates_are_no_vms() {
    let sim = Harness::new();
    sim.orchestra.make_template("worker 1").unwrap();
    assert_eq!(sim.status(&format!("/vms/{VM1}")).await, 404);
    assert_eq!(sim.get("/vms").await.as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tags_come_and_go() {
    let sim = Harness::new();
    for (path, id) in [("vms", VM1), ("hosts", H1), ("pools", PA)] {
        let place = format!("/{path}/{id}");
        let tag = format!("{place}/tags/k8s%2Flabel");
        for _ in 0..2 {
            assert_eq!(sim.call("PUT", &tag, Value::Null).await.status, 204);
        }
        assert_eq!(sim.get(&place).await["tags"], json!(["k8s/label"]));
        assert_eq!(sim.call("DELETE", &tag, Value::Null).await.status, 204);
        assert_eq!(sim.get(&place).await["tags"], json!([]));
    }
    assert_eq!(
        sim.call("PUT", &format!("/vms/{UNKNOWN}/tags/a"), Value::Null)
            .await
            .status,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn the_api_describes_itself() {
    let sim = Harness::new();
    let document = sim.get("/docs/swagger.json").await;
    assert_eq!(
        document["paths"]["/vms/{id}"]["get"]["operationId"],
        "GetVm"
    );
}

//! Actions on VMs, and the tasks that they are.

use super::*;

async fn act(sim: &Harness, action: &str) -> Reply {
    let path = format!("/vms/{VM1}/actions/{action}");
    sim.call("POST", &path, json!({})).await
}

async fn done(sim: &Harness, action: &str) {
    let reply = act(sim, &format!("{action}?sync=true")).await;
    assert_eq!((reply.status, reply.text().as_str()), (204, ""), "{action}");
}

async fn vm(sim: &Harness) -> Value {
    sim.get(&format!("/vms/{VM1}")).await
}

#[tokio::test(start_paused = true)]
async fn an_action_is_a_task_that_ends() {
    let sim = Harness::new();
    let reply = act(&sim, "clean_shutdown").await;
    let id = reply.json()["taskId"].as_str().unwrap().to_owned();
    assert_eq!(reply.status, 202);
    assert_eq!(
        reply.headers["location"].to_str().unwrap(),
        format!("/rest/v0/tasks/{id}")
    );
    let task = sim.get(&format!("/tasks/{id}")).await;
    shows!(task, {"status": "pending", "id": id});
    assert_eq!(task["properties"]["name"], "REST API: clean shutdown VM");
    shows!(vm(&sim).await, {"current_operations": { id.as_str(): "clean_shutdown" }});
    let ended = sim.get(&format!("/tasks/{id}?wait=true")).await;
    assert_eq!(ended["status"], "success");
    assert_eq!(
        ended["end"].as_i64().unwrap() - ended["start"].as_i64().unwrap(),
        1_000
    );
    let halted = vm(&sim).await;
    assert_eq!(halted["power_state"], "Halted");
    assert_eq!(halted["current_operations"], json!({}));
    shows!(sim.get("/tasks?fields=status").await, {"/0/status": "success"});
}

#[tokio::test(start_paused = true)]
async fn a_vm_goes_through_its_states() {
    let sim = Harness::new();
    for (action, state, place) in [
        ("pause", "Paused", H1),
        ("unpause", "Running", H1),
        ("suspend", "Suspended", PA),
        ("resume", "Running", H1),
        ("hard_reboot", "Running", H1),
        ("hard_shutdown", "Halted", PA),
        ("start", "Running", H1),
    ] {
        done(&sim, action).await;
        let vm = vm(&sim).await;
        assert_eq!(
            (&vm["power_state"], &vm["$container"]),
            (&json!(state), &json!(place)),
            "{action}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn guest_data_go_with_the_run_and_come_late() {
    let sim = Harness::new();
    done(&sim, "hard_shutdown").await;
    let off = vm(&sim).await;
    assert_eq!(
        (off.get("mainIpAddress"), &off["addresses"]),
        (None, &json!({}))
    );
    done(&sim, "start").await;
    pass(14).await;
    assert_eq!(vm(&sim).await.get("mainIpAddress"), None);
    pass(1).await;
    assert_eq!(vm(&sim).await["mainIpAddress"], "10.20.0.11");
    // What was planned for an earlier run does not tell in a later one.
    done(&sim, "hard_shutdown").await;
    done(&sim, "start").await;
    pass(10).await;
    done(&sim, "hard_reboot").await;
    pass(10).await;
    assert_eq!(vm(&sim).await.get("mainIpAddress"), None);
    pass(5).await;
    assert_eq!(vm(&sim).await["mainIpAddress"], "10.20.0.11");
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_vm_that_is_off_is_what_it_may_have() {
    let sim = Harness::new();
    sim.orchestra.balloon("worker 1", 3 << 30).unwrap();
    assert_eq!(vm(&sim).await["memory"]["size"], 3_u64 << 30);
    sim.orchestra.halt("worker 1").unwrap();
    assert_eq!(vm(&sim).await["memory"]["size"], 4_u64 << 30);
}

#[tokio::test(start_paused = true)]
async fn a_vm_with_a_local_disk_stays_with_its_host() {
    let sim = Harness::new();
    sim.orchestra
        .set_local_disk("worker 1", Some("xcp-2"))
        .unwrap();
    assert_eq!(vm(&sim).await["$container"], H1);
    sim.orchestra.halt("worker 1").unwrap();
    assert_eq!(vm(&sim).await["$container"], H2);
}

#[tokio::test(start_paused = true)]
async fn what_the_pool_refuses_is_a_failed_task() {
    let sim = Harness::new();
    let reply = act(&sim, "start").await;
    assert_eq!(reply.status, 202);
    let id = reply.json()["taskId"].as_str().unwrap().to_owned();
    let task = sim.get(&format!("/tasks/{id}")).await;
    assert_eq!(task["status"], "failure");
    assert_eq!(task["result"]["code"], "VM_BAD_POWER_STATE");
    let params = &task["result"]["params"];
    assert_eq!(
        (&params[1], &params[2]),
        (&json!("halted"), &json!("running"))
    );
    let reply = act(&sim, "start?sync=true").await;
    assert_eq!(reply.status, 500);
    shows!(reply.json(), {"info": "This is a XenServer/XCP-ng error, not an XO error"});
    act(&sim, "pause").await;
    let busy = act(&sim, "suspend?sync=true").await;
    assert!(
        busy.text().contains("OTHER_OPERATION_IN_PROGRESS"),
        "{}",
        busy.text()
    );
    let reply = act(&sim, "explode").await;
    assert_eq!(reply.status, 404);
    let gone = format!("/vms/{UNKNOWN}/actions/start");
    assert_eq!(sim.call("POST", &gone, json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_clean_shutdown_needs_guest_tools() {
    let sim = Harness::new();
    sim.orchestra.set_guest("worker 1", &[]).unwrap();
    let reply = act(&sim, "clean_shutdown?sync=true").await;
    assert!(
        reply.text().contains("VM_LACKS_FEATURE"),
        "{}",
        reply.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_migrates_in_its_pool() {
    let sim = Harness::new();
    let path = format!("/vms/{VM1}/actions/migrate");
    let reply = sim.call("POST", &path, json!({ "hostId": H2 })).await;
    assert_eq!(reply.status, 202);
    pass(4).await;
    let moving = vm(&sim).await;
    assert_eq!(moving["$container"], H1);
    assert_eq!(
        moving["current_operations"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap(),
        "pool_migrate"
    );
    pass(1).await;
    let moved = vm(&sim).await;
    shows!(moved, {"$container": H2, "current_operations": {}});
    assert_eq!(moved["mainIpAddress"], "10.20.0.11");
    let reply = sim.call("POST", &path, json!({})).await;
    assert_eq!(reply.status, 422);
    let reply = sim.call("POST", &path, json!({ "hostId": UNKNOWN })).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (404, &json!(format!("no such host {UNKNOWN}")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_migrates_to_another_pool_and_may_be_in_none_for_a_while() {
    let sim = Harness::new();
    sim.orchestra
        .set_timings(|timings| timings.gap = Duration::from_secs(3));
    sim.orchestra
        .begin_migration("worker 1", "dr-host")
        .unwrap();
    pass(4).await;
    let moving = vm(&sim).await;
    assert_eq!(
        moving["current_operations"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap(),
        "migrate_send"
    );
    pass(1).await;
    assert_eq!(sim.status(&format!("/vms/{VM1}")).await, 404);
    pass(3).await;
    let moved = vm(&sim).await;
    shows!(moved, {"$container": H3, "$pool": PB, "$poolId": PB});
    assert_eq!(moved["current_operations"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn only_a_vm_that_is_off_can_be_deleted() {
    let sim = Harness::new();
    let path = format!("/vms/{VM1}");
    let reply = sim.call("DELETE", &path, Value::Null).await;
    assert_eq!(reply.status, 500);
    assert!(
        reply.text().contains("VM_BAD_POWER_STATE"),
        "{}",
        reply.text()
    );
    done(&sim, "hard_shutdown").await;
    assert_eq!(sim.call("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(sim.status(&path).await, 404);
    assert_eq!(sim.world.machines.power(&machine_id(VM1)), None);
}

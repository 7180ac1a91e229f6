use serde_json::{Value, json};

use super::*;
use crate::{Impact, Notice, Problem, ResourceRef, ResourceState, Step, Verb};

fn newcomer() -> Newcomer {
    Newcomer {
        uid: "0001".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn live() -> Value {
    let last = json!({"metadata": {"annotations": {"mine/a": "1"}},
                      "spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}});
    json!({
        "metadata": {
            "name": "web", "uid": "u", "resourceVersion": "7",
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": last.to_string(),
                "mine/a": "1", "cloud/id": "lb-1",
            },
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.7",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 31080},
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 31053},
            ],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    })
}

fn node_ports(applied: &AppliedFile) -> Vec<u64> {
    let ports = applied.object["spec"]["ports"].as_array().unwrap().iter();
    ports
        .map(|it| it["nodePort"].as_u64().unwrap_or(0))
        .collect()
}

#[test]
fn what_was_applied_and_is_left_out_goes_and_what_others_wrote_stays() {
    let file = json!({
        "metadata": {"name": "web", "uid": "stale", "resourceVersion": "1",
                     "finalizers": ["x.io/y"], "annotations": {"mine/b": "2"}},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]},
        "status": {"loadBalancer": {}},
    });
    let applied = as_applied(&file, Some(&live()), &newcomer());
    assert_eq!(applied.assumptions, [""; 0]);
    let AppliedFile { object, .. } = applied;
    let metadata = &object["metadata"];
    assert_eq!(metadata["uid"], "u");
    assert_eq!(metadata["resourceVersion"], "7");
    let finalizers = json!(["x.io/y", "service.kubernetes.io/load-balancer-cleanup"]);
    assert_eq!(metadata["finalizers"], finalizers);
    assert_eq!(metadata["annotations"]["mine/a"], Value::Null);
    assert_eq!(metadata["annotations"]["mine/b"], "2");
    assert_eq!(metadata["annotations"]["cloud/id"], "lb-1");
    assert_eq!(object["spec"]["loadBalancerSourceRanges"], Value::Null);
    assert_eq!(object["spec"]["clusterIP"], "10.96.0.7");
    assert_eq!(object["status"], live()["status"]);
}

#[test]
fn a_file_without_annotations_removes_only_those_that_it_applied() {
    for annotations in [None, Some(Value::Null), Some(json!({}))] {
        let mut file = json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer"}});
        if let Some(annotations) = annotations {
            file["metadata"]["annotations"] = annotations;
        }
        let AppliedFile { object, .. } = as_applied(&file, Some(&live()), &newcomer());
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["cloud/id"], "lb-1");
        assert_eq!(annotations["mine/a"], Value::Null);
    }
}

#[test]
fn without_a_record_of_the_last_apply_what_is_left_out_stays_and_that_is_said() {
    let mut live = live();
    live["metadata"]["annotations"] = json!({"mine/a": "1"});
    let file = json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer"}});
    let applied = as_applied(&file, Some(&live), &newcomer());
    assert_eq!(applied.object["metadata"]["annotations"]["mine/a"], "1");
    assert_eq!(node_ports(&applied), [31080, 31053]);
    let [said] = applied.assumptions.as_slice() else {
        panic!("{:?}", applied.assumptions);
    };
    assert!(said.contains("what the file leaves out stays"), "{said}");
}

#[test]
fn node_ports_stay_with_their_number_and_then_with_their_name() {
    for (what, ports, wanted) in [
        (
            "nothing changed",
            json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]),
            vec![31080, 31053],
        ),
        (
            "another name",
            json!([{"name": "web", "port": 80}]),
            vec![31080],
        ),
        (
            "another number",
            json!([{"name": "http", "port": 81}]),
            vec![31080],
        ),
        (
            "another protocol and name",
            json!([{"name": "x", "port": 53, "protocol": "TCP"}]),
            vec![65001],
        ),
        (
            "said by the file",
            json!([{"name": "http", "port": 80, "nodePort": 31999}]),
            vec![31999],
        ),
        (
            "the number of one and the name of the other: each node port once",
            json!([{"name": "dns", "port": 80}, {"name": "http", "port": 81}]),
            vec![31080, 65001],
        ),
        (
            "new ones",
            json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]),
            vec![65001, 65002],
        ),
    ] {
        let file = json!({"metadata": {}, "spec": {"type": "LoadBalancer", "ports": ports}});
        let applied = as_applied(&file, Some(&live()), &newcomer());
        assert_eq!(node_ports(&applied), wanted, "{what}");
        let assumed = wanted.iter().filter(|it| **it > 65_000).count();
        assert_eq!(applied.assumptions.len(), assumed, "{what}");
    }
}

#[test]
fn a_new_service_gets_stand_ins_for_all_that_the_server_will_choose() {
    let file = json!({
        "metadata": {"name": "web", "uid": "of another cluster"},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
                 "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    });
    let applied = as_applied(&file, None, &newcomer());
    assert_eq!(applied.object["metadata"]["uid"], "0001");
    assert_eq!(applied.object["status"], Value::Null);
    assert_eq!(node_ports(&applied), [65001]);
    assert_eq!(applied.object["spec"]["healthCheckNodePort"], 65002);
    assert_eq!(applied.assumptions.len(), 3, "{:?}", applied.assumptions);
    // Nobody allocates what is not asked for.
    for spec in [
        json!({"type": "ClusterIP", "ports": [{"port": 80}]}),
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
               "ports": [{"port": 80}]}),
    ] {
        let file = json!({"metadata": {"name": "web"}, "spec": spec});
        let applied = as_applied(&file, None, &newcomer());
        assert_eq!(node_ports(&applied), [0]);
        assert_eq!(applied.assumptions.len(), 1);
    }
}

fn thing(kind: &'static str, name: &str, id: Option<&str>, attributes: &Value) -> ResourceState {
    ResourceState {
        object: object(kind, name, id),
        attributes: attributes.as_object().cloned().unwrap(),
    }
}

fn object(kind: &'static str, name: &str, id: Option<&str>) -> ResourceRef {
    ResourceRef {
        kind,
        name: name.into(),
        id: id.map(str::to_owned),
    }
}

fn preview() -> Preview {
    Preview {
        service: ServiceKey {
            namespace: "shop".into(),
            name: "web".into(),
        },
        file: Some("web.yaml".into()),
        cloud: Some(CloudName::parse("demo").unwrap()),
        goal: Some(Goal::Present),
        outlook: Outlook::Unchanged,
        message: None,
        assumptions: Vec::new(),
        plan: Plan::default(),
        publication: Vec::new(),
    }
}

fn change(field: &str, before: Value, after: Value) -> Change {
    Change {
        field: field.into(),
        before,
        after,
    }
}

fn full_plan() -> Plan {
    let listener = |attributes| thing("listener", "tcp/80", Some("l-1"), &attributes);
    let step = |verb, object, changes, impact, reason: Option<&str>, needs: &[usize]| Step {
        verb,
        object,
        changes,
        impact,
        reason: reason.map(str::to_owned),
        needs: needs.to_vec(),
    };
    let members = (1..=14).map(|number| {
        let name = format!("10.0.0.{number}:31080");
        thing("member", &name, Some("m"), &json!({"port": 31080}))
    });
    let mut found = vec![
        thing(
            "load balancer",
            "web",
            Some("lb-1"),
            &json!({"zone": "a", "tags": {"k": "v"}}),
        ),
        listener(json!({"timeout": 5, "name": "x".repeat(60), "other": "y".repeat(60)})),
    ];
    found.extend(members);
    Plan {
        wanted: vec![
            thing("load balancer", "web", None, &json!({"zone": "a"})),
            listener(json!({"timeout": 6})),
        ],
        found,
        unread: false,
        held: Vec::new(),
        steps: vec![
            step(
                Verb::Wait,
                object("load balancer", "web", Some("lb-1")),
                vec![],
                Impact::None,
                Some("the cloud is at work on it"),
                &[],
            ),
            step(
                Verb::Update,
                object("listener", "tcp/80", Some("l-1")),
                vec![change("timeout", json!(5), json!(6))],
                Impact::InPlace,
                None,
                &[0],
            ),
            step(
                Verb::Create,
                object("member", "10.0.0.15:31080", None),
                vec![change("port", Value::Null, json!(31080))],
                Impact::None,
                Some("node n15"),
                &[0, 1],
            ),
            step(
                Verb::Delete,
                object("listener", "tcp/81", None),
                vec![],
                Impact::Interrupts,
                None,
                &[],
            ),
        ],
        problems: vec![],
        notices: vec![
            Notice {
                warning: true,
                reason: "NodeSkipped",
                message: "node n9 is no member".into(),
            },
            Notice {
                warning: false,
                reason: "TakenOver",
                message: "it was another's".into(),
            },
        ],
    }
}

#[test]
fn a_preview_is_told_in_sections() {
    let mut preview = preview().planned(
        full_plan(),
        vec![change("metadata.finalizers", json!([]), json!(["f"]))],
    );
    preview.assumptions = vec!["the Service is new".into()];
    let text = preview.text();
    let wanted = r#"Service shop/web, as in web.yaml, in cloud demo: 4 steps, interrupts traffic

Assumed:
  the Service is new

Exists:
  load balancer web (lb-1)
       tags={"k":"v"} zone="a"
  listener tcp/80 (l-1)
       name="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
       other="yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" timeout=5
"#;
    assert!(text.starts_with(wanted), "{text}");
    let wanted = r#"  member 10.0.0.12:31080 (m)
       port=31080
  member: 2 more

Wanted:
  listener tcp/80 (l-1)
       timeout=6
  and 1 thing as it exists

Steps:
  1. wait for load balancer web (lb-1): the cloud is at work on it
  2. update listener tcp/80 (l-1): in place; after 1
       timeout: 5 → 6
  3. create member 10.0.0.15:31080: no impact; node n15; after 1, 2
       port=31080
  4. delete listener tcp/81: interrupts traffic

Notices:
  warning NodeSkipped: node n9 is no member
  TakenOver: it was another's

Written to the Service:
       metadata.finalizers: [] → ["f"]
"#;
    assert!(text.ends_with(wanted), "{text}");
}

#[test]
fn the_outlook_is_the_worst_of_what_there_is_to_say() {
    let problem = Problem {
        reason: "Invalid",
        message: "no such size".into(),
    };
    let with_problem = Plan {
        problems: vec![problem],
        ..Plan::default()
    };
    let finalizer = vec![change("metadata.finalizers", json!([]), json!(["f"]))];
    let rows = [
        (
            preview().planned(Plan::default(), vec![]),
            Outlook::Unchanged,
            "nothing to do",
        ),
        (
            preview().planned(Plan::default(), finalizer),
            Outlook::Changes,
            "nothing to do in the cloud",
        ),
        (
            preview().planned(full_plan(), vec![]),
            Outlook::Changes,
            "4 steps, interrupts traffic",
        ),
        (
            preview().planned(with_problem, vec![]),
            Outlook::Problems,
            "1 problem; nothing to do",
        ),
        (
            preview().without_plan(Outlook::NotOurs, "another program serves it"),
            Outlook::NotOurs,
            "another program serves it",
        ),
        (
            preview().without_plan(Outlook::Failed, "no answer"),
            Outlook::Failed,
            "no answer",
        ),
    ];
    for (preview, outlook, summary) in &rows {
        assert_eq!(preview.outlook, *outlook);
        assert_eq!(preview.summary(), *summary);
    }
    let all = Previews::new(rows.map(|row| row.0).into(), vec!["a remark".into()]);
    assert_eq!(all.outlook, Outlook::Failed);
    let end = "a remark\n\n6 Services, 2 with changes, 1 with problems, 1 that could not be planned, \
               1 with nothing to do, 1 not Bowline's.\n";
    assert!(all.text().ends_with(end), "{}", all.text());
    let none = Previews::new(Vec::new(), Vec::new());
    assert_eq!(none.outlook, Outlook::Unchanged);
    assert_eq!(
        none.text(),
        "No Service has, or is to have, a load balancer.\n"
    );
    let text = all.services[3].text();
    assert!(
        text.contains("Wanted:\n  unknown until the problems are fixed\n"),
        "{text}"
    );
    assert!(
        text.contains("Problems:\n  Invalid: no such size\n"),
        "{text}"
    );
}

#[test]
fn a_preview_in_json_has_the_documented_fields() {
    let preview = preview().planned(full_plan(), Vec::new());
    let json = serde_json::to_value(Previews::new(vec![preview], Vec::new())).unwrap();
    assert_eq!(json["outlook"], "changes");
    let service = &json["services"][0];
    assert_eq!(service["service"], "shop/web");
    assert_eq!(service["file"], "web.yaml");
    assert_eq!(service["cloud"], "demo");
    assert_eq!(service["goal"], "present");
    let plan = &service["plan"];
    assert_eq!(plan["found"][0]["object"]["id"], "lb-1");
    assert_eq!(plan["wanted"][1]["attributes"]["timeout"], 6);
    let step = json!({
        "verb": "update",
        "object": {"kind": "listener", "name": "tcp/80", "id": "l-1"},
        "changes": [{"field": "timeout", "before": 5, "after": 6}],
        "impact": "in-place", "needs": [0],
    });
    assert_eq!(plan["steps"][1], step);
}

use serde_json::{Value, json};

use super::*;
use crate::kinds::KINDS;

const NOW: &str = "2026-05-01T12:00:00Z";

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.kind == name).unwrap()
}

fn rows(name: &str, objects: &[Value]) -> Value {
    table(
        kind(name),
        objects,
        IncludeObject::None,
        NOW.parse().unwrap(),
    )
}

fn cells(name: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-05-01T11:56:48Z".into();
    rows(name, &[object])["rows"][0]["cells"].clone()
}

fn headings(name: &str) -> (Vec<String>, Vec<String>) {
    let table = rows(name, &[]);
    let mut shown = (Vec::new(), Vec::new());
    for column in table["columnDefinitions"].as_array().unwrap() {
        let heading = column["name"].as_str().unwrap().to_owned();
        let side = if column["priority"] == 0 {
            &mut shown.0
        } else {
            &mut shown.1
        };
        side.push(heading);
    }
    shown
}

#[test]
fn spans_read_as_people_say_them() {
    for (seconds, text) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_000, "3h3m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (5 * 86_400, "5d"),
        (700 * 86_400, "700d"),
        (730 * 86_400, "2y"),
        (800 * 86_400, "2y70d"),
        (3000 * 86_400, "8y"),
    ] {
        assert_eq!(human_duration(seconds), text, "{seconds}");
    }
}

#[test]
fn columns_are_those_of_a_real_server() {
    for (name, shown, wide) in [
        (
            "Node",
            "Name Status Roles Age Version",
            "Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
        ),
        (
            "Service",
            "Name Type Cluster-IP External-IP Port(s) Age",
            "Selector",
        ),
        (
            "Pod",
            "Name Ready Status Restarts Age",
            "IP Node Nominated_Node Readiness_Gates",
        ),
        (
            "Event",
            "Last_Seen Type Reason Object Message",
            "Subobject Source First_Seen Count Name",
        ),
        ("Lease", "Name Holder Age", ""),
        ("Namespace", "Name Status Age", ""),
        ("Secret", "Name Type Data Age", ""),
        ("ConfigMap", "Name Data Age", ""),
        ("ServiceAccount", "Name Age", ""),
        ("Endpoints", "Name Endpoints Age", ""),
        ("EndpointSlice", "Name AddressType Ports Endpoints Age", ""),
        (
            "CertificateSigningRequest",
            "Name Age SignerName Requestor RequestedDuration Condition",
            "",
        ),
        ("ClusterRole", "Name Created_At", ""),
        ("Role", "Name Created_At", ""),
        (
            "ClusterRoleBinding",
            "Name Role Age",
            "Users Groups ServiceAccounts",
        ),
        (
            "RoleBinding",
            "Name Role Age",
            "Users Groups ServiceAccounts",
        ),
    ] {
        let (normal, extra) = headings(name);
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace().map(|word| word.replace('_', " "));
            words.collect()
        };
        assert_eq!((normal, extra), (words(shown), words(wide)), "{name}");
    }
    for kind in KINDS {
        let table = rows(kind.kind, &[json!({ "metadata": {} })]);
        assert_eq!(
            table["columnDefinitions"].as_array().unwrap().len(),
            table["rows"][0]["cells"].as_array().unwrap().len(),
            "{}",
            kind.kind
        );
    }
}

#[test]
fn nodes_show_status_roles_and_addresses() {
    let node = json!({
        "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "etcd",
                                  "node-role.kubernetes.io/": "" } },
        "spec": { "unschedulable": true },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True" }],
            "addresses": [{ "type": "Hostname", "address": "h" }, { "type": "InternalIP", "address": "10.0.0.1" },
                          { "type": "InternalIP", "address": "fd00::1" }],
            "nodeInfo": { "kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64",
                          "osImage": "Linux", "containerRuntimeVersion": "containerd://2" },
        },
    });
    assert_eq!(
        cells("Node", node),
        json!([
            "x",
            "Ready,SchedulingDisabled",
            "control-plane,etcd",
            "3m12s",
            "v1.36.0",
            "10.0.0.1",
            "<none>",
            "Linux",
            "6.1 (amd64)",
            "containerd://2"
        ])
    );
    let bare = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    assert_eq!(
        cells("Node", bare),
        json!([
            "x",
            "NotReady",
            "<none>",
            "3m12s",
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ])
    );
    assert_eq!(cells("Node", json!({}))[1], "Unknown");
}

#[test]
fn services_show_their_addresses_and_ports() {
    let service = |kind: &str, ingress: Value, extra: Value| {
        json!({ "spec": { "type": kind, "clusterIPs": ["10.96.0.1"], "externalIPs": extra, "externalName": "a.b",
                          "ports": [{ "port": 80, "protocol": "TCP", "nodePort": 30080 }, { "port": 53, "protocol": "UDP" }],
                          "selector": { "b": "2", "a": "1" } },
                "status": { "loadBalancer": { "ingress": ingress } } })
    };
    for (kind, ingress, extra, external) in [
        ("LoadBalancer", json!([]), json!([]), "<pending>"),
        (
            "LoadBalancer",
            json!([{ "ip": "5.6.7.8" }, { "hostname": "lb" }, { "ip": "1.2.3.4" }]),
            json!([]),
            "1.2.3.4,5.6.7.8,lb",
        ),
        (
            "LoadBalancer",
            json!([{ "ip": "1.2.3.4" }]),
            json!(["9.9.9.9"]),
            "1.2.3.4,9.9.9.9",
        ),
        ("ClusterIP", json!([]), json!([]), "<none>"),
        ("NodePort", json!([]), json!(["9.9.9.9"]), "9.9.9.9"),
        ("ExternalName", json!([]), json!([]), "a.b"),
    ] {
        assert_eq!(
            cells("Service", service(kind, ingress, extra)),
            json!([
                "x",
                kind,
                "10.96.0.1",
                external,
                "80:30080/TCP,53/UDP",
                "3m12s",
                "a=1,b=2"
            ])
        );
    }
    assert_eq!(
        cells("Service", json!({ "spec": { "type": "ClusterIP" } })),
        json!([
            "x",
            "ClusterIP",
            "<none>",
            "<none>",
            "<none>",
            "3m12s",
            "<none>"
        ])
    );
}

#[test]
fn events_show_when_they_were_seen() {
    let event = json!({
        "involvedObject": { "kind": "Node", "name": "n", "fieldPath": "spec" }, "type": "Normal", "reason": "Synced",
        "message": " all well\n", "source": { "component": "ccm" }, "count": 3,
        "firstTimestamp": "2026-05-01T11:00:00Z", "lastTimestamp": "2026-05-01T11:59:30Z",
    });
    assert_eq!(
        cells("Event", event),
        json!([
            "30s", "Normal", "Synced", "node/n", "spec", "ccm", "all well", "60m", 3, "x"
        ])
    );
    let modern = json!({
        "involvedObject": { "kind": "Node" }, "eventTime": "2026-05-01T11:59:00.500000Z", "lastTimestamp": null,
        "firstTimestamp": null, "reportingComponent": "ccm", "reportingInstance": "i",
    });
    assert_eq!(
        cells("Event", modern),
        json!(["59s", "", "", "node", "", "ccm, i", "", "59s", 1, "x"])
    );
    let series = json!({ "eventTime": "2026-05-01T11:00:00.000000Z",
        "series": { "count": 7, "lastObservedTime": "2026-05-01T11:59:58.000000Z" } });
    let row = cells("Event", series);
    assert_eq!(
        (&row[0], &row[7], &row[8]),
        (&json!("2s"), &json!("60m"), &json!(7))
    );
}

#[test]
fn other_kinds_show_what_matters() {
    for (name, object, expected) in [
        (
            "Namespace",
            json!({ "status": { "phase": "Active" } }),
            json!(["x", "Active", "3m12s"]),
        ),
        (
            "Secret",
            json!({ "type": "Opaque", "data": { "a": "", "b": "" } }),
            json!(["x", "Opaque", 2, "3m12s"]),
        ),
        (
            "ConfigMap",
            json!({ "data": { "a": "" }, "binaryData": { "b": "" } }),
            json!(["x", 2, "3m12s"]),
        ),
        ("ServiceAccount", json!({}), json!(["x", "3m12s"])),
        (
            "Lease",
            json!({ "spec": { "holderIdentity": "me" } }),
            json!(["x", "me", "3m12s"]),
        ),
        (
            "ClusterRole",
            json!({}),
            json!(["x", "2026-05-01T11:56:48Z"]),
        ),
        ("Endpoints", json!({}), json!(["x", "<none>", "3m12s"])),
        (
            "Endpoints",
            json!({ "subsets": [{ "addresses": [{ "ip": "1.1.1.1" }, { "ip": "fd::1" }], "ports": [{ "port": 1 }, { "port": 2 }] }] }),
            json!(["x", "1.1.1.1:1,[fd::1]:1,1.1.1.1:2 + 1 more...", "3m12s"]),
        ),
        (
            "EndpointSlice",
            json!({ "addressType": "IPv4", "ports": [{ "port": 80 }, { "name": "n" }, {}],
                    "endpoints": [{ "addresses": ["1", "2"] }, { "addresses": ["3", "4", "5"] }] }),
            json!(["x", "IPv4", "80,n,*", "1,2,3 + 2 more...", "3m12s"]),
        ),
        (
            "EndpointSlice",
            json!({ "addressType": "IPv4" }),
            json!(["x", "IPv4", "<unset>", "<unset>", "3m12s"]),
        ),
        (
            "CertificateSigningRequest",
            json!({ "spec": { "signerName": "s", "username": "u", "expirationSeconds": 3600 },
                    "status": { "conditions": [{ "type": "Approved" }], "certificate": "Zm9v" } }),
            json!(["x", "3m12s", "s", "u", "60m", "Approved,Issued"]),
        ),
        (
            "CertificateSigningRequest",
            json!({ "spec": { "username": "u" } }),
            json!(["x", "3m12s", "<none>", "u", "<none>", "Pending"]),
        ),
        (
            "RoleBinding",
            json!({ "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "User", "name": "u" },
                    { "kind": "ServiceAccount", "namespace": "n", "name": "s" }, { "kind": "User", "name": "v" }] }),
            json!(["x", "Role/r", "3m12s", "u, v", "", "n/s"]),
        ),
    ] {
        assert_eq!(cells(name, object), expected, "{name}");
    }
}

#[test]
fn pods_show_the_state_of_their_containers() {
    let pod = |phase: &str, containers: Value| {
        let count = containers.as_array().unwrap().len();
        let specs: Vec<Value> = (0..count)
            .map(|n| json!({ "name": n.to_string() }))
            .collect();
        json!({ "spec": { "containers": specs }, "status": { "phase": phase, "containerStatuses": containers } })
    };
    let running = json!({ "ready": true, "state": { "running": {} } });
    let crashed = json!({ "restartCount": 4, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        "lastState": { "terminated": { "finishedAt": "2026-05-01T11:58:00Z" } } });
    let failed = json!({ "state": { "terminated": { "exitCode": 2 } } });
    for (object, ready, status, restarts) in [
        (
            pod("Running", json!([running, running])),
            "2/2",
            "Running",
            "0",
        ),
        (
            pod("Running", json!([running, crashed])),
            "1/2",
            "CrashLoopBackOff",
            "4 (2m ago)",
        ),
        (pod("Failed", json!([failed])), "0/1", "ExitCode:2", "0"),
        (
            json!({ "spec": { "containers": [{}] }, "status": { "phase": "Pending" } }),
            "0/1",
            "Pending",
            "0",
        ),
        (
            json!({ "metadata": { "deletionTimestamp": NOW }, "spec": { "containers": [{}] }, "status": { "phase": "Running" } }),
            "0/1",
            "Terminating",
            "0",
        ),
        (
            json!({ "spec": { "containers": [{}], "initContainers": [{ "name": "i" }] },
                    "status": { "phase": "Pending", "initContainerStatuses": [{ "name": "i", "state": { "running": {} } }] } }),
            "0/1",
            "Init:0/1",
            "0",
        ),
    ] {
        let row = cells("Pod", object);
        assert_eq!(
            (&row[1], &row[2], &row[3]),
            (&json!(ready), &json!(status), &json!(restarts))
        );
    }
    let placed = json!({ "spec": { "nodeName": "n", "containers": [], "readinessGates": [{ "conditionType": "g" }] },
        "status": { "podIPs": [{ "ip": "10.1.1.1" }], "conditions": [{ "type": "g", "status": "True" }] } });
    let row = cells("Pod", placed);
    assert_eq!(
        row.as_array().unwrap()[5..],
        [json!("10.1.1.1"), json!("n"), json!("<none>"), json!("1/1")]
    );
}

#[test]
fn rows_carry_as_much_of_the_object_as_was_asked_for() {
    let object = json!({ "kind": "Lease", "metadata": { "name": "x" }, "spec": {} });
    let carried = |include| {
        table(
            kind("Lease"),
            std::slice::from_ref(&object),
            include,
            NOW.parse().unwrap(),
        )["rows"][0]["object"]
            .clone()
    };
    assert_eq!(carried(IncludeObject::None), Value::Null);
    assert_eq!(carried(IncludeObject::Object), object);
    assert_eq!(
        carried(IncludeObject::Metadata),
        json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": { "name": "x" } })
    );
    assert_eq!(IncludeObject::parse(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("All"), None);
}

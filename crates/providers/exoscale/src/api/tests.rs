use super::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ID: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_documented_service_is_read() {
    let balancer: LoadBalancer = read(json!({
        "id": ID, "name": "edge", "state": "running", "ip": "203.0.113.80",
        "created-at": "2026-05-01T00:00:00Z", "labels": {"a": "b"},
        "services": [{
            "id": "1c9e3b9a-61f3-4d0e-8b51-0d0c1a2b3c4d", "name": "x-80",
            "description": "front door", "state": "running", "protocol": "tcp", "port": 80,
            "target-port": 30080, "strategy": "round-robin",
            "instance-pool": {"id": "0f0e0d0c-0b0a-4908-8706-050403020100", "name": "new field"},
            "healthcheck": {"mode": "http", "port": 30080, "uri": "/healthz", "interval": 10,
                "timeout": 5, "retries": 1},
            "healthcheck-status": [{"public-ip": "198.51.100.21", "status": "success"}]
        }, {"id": "nonsense", "name": "bad"}]
    }));
    assert_eq!(balancer.ip.unwrap().to_string(), "203.0.113.80");
    assert_eq!(balancer.state, LoadBalancerState::Running);
    let [service] = &balancer.services.items[..] else {
        panic!("{balancer:?}");
    };
    assert_eq!((service.port, service.target_port), (80, 30080));
    let pool = service.instance_pool.unwrap().to_string();
    assert_eq!(pool, "0f0e0d0c-0b0a-4908-8706-050403020100");
    let check = service.healthcheck.as_ref().unwrap();
    assert_eq!(
        (check.uri.as_str(), check.tls_sni.as_str()),
        ("/healthz", "")
    );
    assert_eq!(service.healthcheck_status.items[0].status, "success");
    let [bad] = &balancer.services.bad[..] else {
        panic!("{balancer:?}");
    };
    assert_eq!((bad.position, bad.object.as_deref()), (1, Some("nonsense")));
}

#[test]
fn everything_but_an_id_may_be_missing_or_null() {
    let bare = json!({"id": ID});
    let nulls = json!({"id": ID, "name": null, "state": null, "public-ip": null, "labels": null,
        "ipv6-address": "", "private-networks": null, "manager": null, "instance-type": null,
        "services": null, "ip": null, "description": null, "healthcheck": null,
        "healthcheck-status": null, "port": null, "instance-pool": null, "nodepools": null});
    for value in [bare, nulls] {
        let instance: Instance = read(value.clone());
        assert_eq!(instance.state, InstanceState::Other);
        assert_eq!((instance.name.clone(), instance.pool()), (None, None));
        assert_eq!(instance.ipv6_address, None);
        let balancer: LoadBalancer = read(value.clone());
        assert_eq!((balancer.ip, balancer.services.items.len()), (None, 0));
        let service: LoadBalancerService = read(value.clone());
        assert_eq!((service.port, service.healthcheck.clone()), (0, None));
        let _: InstanceType = read(value.clone());
        let _: instance_pool::InstancePool = read(value.clone());
        let _: SksCluster = read(value.clone());
        let operation: Operation = read(value);
        assert_eq!(operation.state, OperationState::Missing);
    }
}

#[test]
fn values_newer_than_this_program_are_taken() {
    let instance: Instance = read(json!({"id": ID, "state": "hibernating",
        "manager": {"id": ID, "type": "something"}, "private-networks": [{"id": ID}, {}, null],
        "instance-type": {"id": ID, "family": "quantum"}}));
    assert_eq!(instance.state, InstanceState::Other);
    assert_eq!(instance.pool(), None);
    assert_eq!(instance.private_networks.len(), 3);
    assert_eq!(instance.instance_type.unwrap().to_string(), ID);
    let state = |text: &str| read::<Instance>(json!({"id": ID, "state": text})).state;
    assert_eq!(state("expunging"), InstanceState::Expunging);
    let pool = json!({"id": ID, "manager": {"id": ID, "type": "instance-pool"}});
    assert_eq!(read::<Instance>(pool).pool().unwrap().to_string(), ID);
    let odd: Operation = read(json!({"id": ID, "state": "paused"}));
    assert_eq!(odd.state, OperationState::Other("paused".to_owned()));
    let wrong = json!({"id": ID, "public-ip": "300.1.2.3"});
    assert!(serde_json::from_value::<Instance>(wrong).is_err());
}

#[test]
fn bodies_hold_what_is_said_and_no_empty_texts() {
    let id = ID.parse().unwrap();
    let check = HealthCheck {
        mode: "tcp".to_owned(),
        port: 30080,
        interval: 10,
        timeout: 5,
        retries: 1,
        ..HealthCheck::default()
    };
    let service = NewService {
        name: "x-80".to_owned(),
        description: String::new(),
        protocol: "tcp".to_owned(),
        port: 80,
        target_port: 30080,
        strategy: "round-robin".to_owned(),
        instance_pool: Reference { id },
        healthcheck: check.clone(),
    };
    let sent_check = json!({"mode": "tcp", "port": 30080, "interval": 10, "timeout": 5,
        "retries": 1});
    assert_eq!(
        serde_json::to_value(service).unwrap(),
        json!({"name": "x-80", "protocol": "tcp", "port": 80, "target-port": 30080,
            "strategy": "round-robin", "instance-pool": {"id": ID}, "healthcheck": sent_check})
    );
    let change = ServiceChange {
        target_port: Some(30090),
        healthcheck: Some(check),
        ..ServiceChange::default()
    };
    let wanted = json!({"target-port": 30090, "healthcheck": sent_check});
    assert_eq!(serde_json::to_value(change).unwrap(), wanted);
    let new = NewLoadBalancer {
        name: "k8s-x".to_owned(),
        ..NewLoadBalancer::default()
    };
    assert_eq!(serde_json::to_value(new).unwrap(), json!({"name": "k8s-x"}));
    let nothing = serde_json::to_value(LoadBalancerChange::default()).unwrap();
    assert_eq!(nothing, json!({}));
}

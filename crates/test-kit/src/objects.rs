//! Nodes and Services, and what was answered about them.

use bowline_core::{
    Evidence, Instance, Lookup, Node, PROVIDED_NODE_IP, Protocol, Ready, Service, ServiceKey,
    ServicePort, Taint, UNINITIALIZED_TAINT,
};

/// A node that was initialised long ago and is silent now; an empty provider id is none.
pub fn node(name: &str, provider_id: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
        ready: Ready::False,
        ..Node::default()
    }
}

/// A node that has just registered, on that machine.
pub fn fresh(name: &str, system_uuid: &str) -> Node {
    Node {
        taints: vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")],
        system_uuid: system_uuid.to_owned(),
        ..node(name, "")
    }
}

/// The same with `--node-ip`.
pub fn with_node_ip(mut node: Node, address: &str) -> Node {
    let key = PROVIDED_NODE_IP.to_owned();
    node.annotations.insert(key, address.to_owned());
    node
}

#[track_caller]
pub fn found(answer: Lookup) -> Instance {
    match answer {
        Lookup::Found(instance) => *instance,
        other => panic!("not found: {other:?}"),
    }
}

#[track_caller]
pub fn gone(answer: Lookup) -> Evidence {
    match answer {
        Lookup::Gone(evidence) => evidence,
        other => panic!("not gone: {other:?}"),
    }
}

/// The error of an answer that concludes nothing, with its causes.
#[track_caller]
pub fn cannot_tell(answer: Lookup) -> String {
    match answer {
        Lookup::CannotTell(error) => error.chain(),
        other => panic!("a conclusion: {other:?}"),
    }
}

pub fn all_found(answers: &[Lookup]) -> bool {
    let mut answers = answers.iter();
    answers.all(|answer| matches!(answer, Lookup::Found(_)))
}

/// A Service of type LoadBalancer that we hold, without ports.
pub fn service(namespace: &str, name: &str, uid: &str) -> Service {
    Service {
        key: ServiceKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        uid: uid.to_owned(),
        resource_version: "7".to_owned(),
        created: "2026-02-01T00:00:00Z".parse().unwrap(),
        finalizers: vec![bowline_core::CLEANUP_FINALIZER.to_owned()],
        is_load_balancer: true,
        type_name: "LoadBalancer".to_owned(),
        ip_families: vec!["IPv4".to_owned()],
        ..Service::default()
    }
}

/// A port with the name `tcp-80`.
pub fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    let name = format!("{protocol}-{port}").to_lowercase();
    named_port(&name, protocol, port, node_port)
}

pub fn named_port(name: &str, protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

//! Server-side printing: objects as rows of a `meta.k8s.io/v1` Table, the way `kubectl get` asks
//! for them. Columns with a priority above 0 show with `-o wide`.

mod age;
mod cells;
mod pod;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;

pub use age::human_duration;

/// How much of each object comes with its row: the `includeObject` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    /// Its metadata: what the server does when nothing was asked for.
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; `None` if it is not one of the three words.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// One column: heading, whether only wide output shows it, and what it says.
struct Column(&'static str, bool, &'static str);

const NAME: Column = Column("Name", false, "Name, unique among its kind (and namespace)");
const AGE: Column = Column("Age", false, "Time since creation");

/// Objects as a Table. The caller fills in `metadata` (resource version, continue token).
pub fn table(kind: &Kind, objects: &[Value], include: IncludeObject, now: Timestamp) -> Value {
    let columns = columns(kind);
    let definitions: Vec<Value> = columns.iter().map(definition).collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({
                "cells": cells::cells(kind, object, now),
                "object": shown(object, include),
            });
            if kind.kind == "Pod"
                && let Some(conditions) = pod::conditions(object)
            {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn definition(Column(name, wide, description): &Column) -> Value {
    json!({
        "name": name,
        "type": if *name == "Created At" { "date" } else { "string" },
        "format": if *name == "Name" { "name" } else { "" },
        "description": description,
        "priority": i32::from(*wide),
    })
}

fn shown(object: &Value, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        }),
        IncludeObject::Object => object.clone(),
    }
}

const BINDING: &[Column] = &[
    NAME,
    Column("Role", false, "The role that is bound"),
    AGE,
    Column("Users", true, "Users it is bound to"),
    Column("Groups", true, "Groups it is bound to"),
    Column("ServiceAccounts", true, "Service accounts it is bound to"),
];

const NODE: &[Column] = &[
    NAME,
    Column("Status", false, "Whether it is ready and takes pods"),
    Column("Roles", false, "Roles, from its labels"),
    AGE,
    Column("Version", false, "Version of its kubelet"),
    Column("Internal-IP", true, "First internal address"),
    Column("External-IP", true, "First external address"),
    Column("OS-Image", true, "Operating system"),
    Column("Kernel-Version", true, "Kernel"),
    Column("Container-Runtime", true, "Container runtime"),
];

const EVENT: &[Column] = &[
    Column("Last Seen", false, "Time since it happened last"),
    Column("Type", false, "Normal or Warning"),
    Column("Reason", false, "Why, in one word"),
    Column("Object", false, "What it is about"),
    Column("Subobject", true, "Which part of that"),
    Column("Source", true, "Who reports it"),
    Column("Message", false, "What happened"),
    Column("First Seen", true, "Time since it happened first"),
    Column("Count", true, "How often it happened"),
    Column("Name", true, "Name of the event"),
];

const SERVICE: &[Column] = &[
    NAME,
    Column("Type", false, "How it is exposed"),
    Column("Cluster-IP", false, "Address inside the cluster"),
    Column("External-IP", false, "Addresses outside the cluster"),
    Column("Port(s)", false, "Ports, with their node ports"),
    AGE,
    Column("Selector", true, "Labels of its pods"),
];

const POD: &[Column] = &[
    NAME,
    Column("Ready", false, "Containers ready, of all"),
    Column("Status", false, "State of its containers"),
    Column(
        "Restarts",
        false,
        "Restarts of its containers, and the last one",
    ),
    AGE,
    Column("IP", true, "First address"),
    Column("Node", true, "Where it runs"),
    Column("Nominated Node", true, "Where it may run after preemption"),
    Column("Readiness Gates", true, "Extra conditions met, of all"),
];

fn columns(kind: &Kind) -> &'static [Column] {
    match kind.kind {
        "Node" => NODE,
        "Event" => EVENT,
        "Service" => SERVICE,
        "Pod" => POD,
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "Namespace" => &[NAME, Column("Status", false, "Phase"), AGE],
        "Secret" => &[
            NAME,
            Column("Type", false, "What it is for"),
            Column("Data", false, "Number of entries"),
            AGE,
        ],
        "ConfigMap" => &[NAME, Column("Data", false, "Number of entries"), AGE],
        "ServiceAccount" => &[NAME, AGE],
        "Endpoints" => &[NAME, Column("Endpoints", false, "Addresses and ports"), AGE],
        "EndpointSlice" => &[
            NAME,
            Column("AddressType", false, "Family of its addresses"),
            Column("Ports", false, "Ports"),
            Column("Endpoints", false, "Addresses"),
            AGE,
        ],
        "Lease" => &[NAME, Column("Holder", false, "Who holds it"), AGE],
        "CertificateSigningRequest" => &[
            NAME,
            AGE,
            Column("SignerName", false, "Who is to sign"),
            Column("Requestor", false, "Who asks"),
            Column("RequestedDuration", false, "For how long"),
            Column("Condition", false, "What became of it"),
        ],
        _ => &[NAME, Column("Created At", false, "When it was created")],
    }
}

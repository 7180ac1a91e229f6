//! Which cloud serves a Service, and why, or why none does; and whose nodes there are to be its members.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_core::{
    BalancerClouds, CLASS_PREFIX, CLOUD, CLOUD_CONDITION, Cloud, CloudName, Handling, Node,
    Ownership, Roster, Service, ServiceKey,
};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{ExplainError, unread};
use crate::objects::{NodeObject, ServiceObject};
use crate::referee::{CloudRules, Referee};
use crate::service::balancer_clouds;

/// Which cloud serves a Service, and why.
#[derive(Clone, Debug)]
pub struct ServiceExplanation {
    service: Arc<Service>,
    clouds: BalancerClouds,
    /// Whether the cloud that serves it by its class leaves it alone for another reason.
    left_alone: bool,
    /// Nodes that may be members, and why others may not.
    members: Option<(usize, Vec<String>)>,
    nodes: Nodes,
}

/// How many nodes there are, by who has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Nodes {
    owned: BTreeMap<CloudName, usize>,
    nobodys: usize,
    /// The clouds would have to be asked.
    undecided: usize,
}

/// Says which of these clouds serves that Service.
pub async fn explain_service(
    client: &kube::Client,
    clouds: &[Arc<dyn Cloud>],
    rules: Arc<CloudRules>,
    key: &ServiceKey,
) -> Result<ServiceExplanation, ExplainError> {
    // The manager's rights are to list Services, and not to get one.
    let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let api: Api<ServiceObject> = Api::namespaced(client.clone(), &key.namespace);
    let read = api.list(&named).await;
    let found = read.map_err(unread(format!("the Service {key}")))?.items;
    let service = found.into_iter().next();
    let service = service.ok_or_else(|| ExplainError::Missing(format!("Service {key}")))?;
    let api = Api::<NodeObject>::all(client.clone());
    let nodes = api.list(&ListParams::default()).await;
    let nodes = nodes.map_err(unread("the Nodes".to_owned()))?.items;
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(|it| Arc::new(it.into())).collect();
    let referee = Referee::new(clouds, rules);
    Ok(explain(Arc::new(service.into()), &nodes, &referee))
}

fn explain(service: Arc<Service>, nodes: &[Arc<Node>], referee: &Referee) -> ServiceExplanation {
    let clouds = balancer_clouds(referee);
    let mut counts = Nodes::default();
    for node in nodes {
        match referee.ownership(node) {
            Some(Ownership::Owned { by, .. }) => *counts.owned.entry(by).or_default() += 1,
            Some(Ownership::Nobody(_)) => counts.nobodys += 1,
            Some(Ownership::Contested(_) | Ownership::Undecided(_)) | None => {
                counts.undecided += 1;
            }
        }
    }
    let serving = match clouds.handling(&service) {
        Handling::Ensure(cloud) => Some(cloud),
        Handling::CleanUp(_) | Handling::Nothing => None,
    };
    let members = serving.as_ref().map(|cloud| {
        let belonging = |node: &Node| referee.belonging(node, cloud);
        let roster = Roster::new(nodes, &BTreeMap::new(), belonging);
        let (members, census) = roster.targets();
        (members.len(), census.reasons())
    });
    let balancers = serving.as_ref().and_then(|name| {
        let cloud = referee.clouds().iter().find(|it| it.name() == name)?;
        cloud.balancers()
    });
    let is_new = !service.has_finalizer();
    ServiceExplanation {
        left_alone: is_new && balancers.is_some_and(|it| !it.serves(&service)),
        service,
        clouds,
        members,
        nodes: counts,
    }
}

/// Who serves a Service, in one word and in several.
struct Verdict {
    kind: &'static str,
    cloud: Option<CloudName>,
    text: String,
}

impl ServiceExplanation {
    /// Whether a cloud here serves it.
    pub fn is_served(&self) -> bool {
        self.verdict().cloud.is_some()
    }

    fn verdict(&self) -> Verdict {
        let none = |kind, text: String| Verdict {
            kind,
            cloud: None,
            text,
        };
        let by = match &self.service.class {
            Some(class) => format!("by its class {class}"),
            None if self.clouds.names_no_cloud(&self.service) => {
                "the default for Services without a class".to_owned()
            }
            None if self.service.annotation(CLOUD).is_some() => {
                format!("by its annotation {CLOUD}")
            }
            None => format!("where its load balancer was found (condition {CLOUD_CONDITION})"),
        };
        match self.clouds.handling(&self.service) {
            Handling::Ensure(cloud) if self.left_alone => none(
                "leftAlone",
                format!("not served: cloud {cloud} ({by}) is set to leave it alone"),
            ),
            Handling::Ensure(cloud) => Verdict {
                kind: "served",
                text: format!("served by cloud {cloud}, {by}"),
                cloud: Some(cloud),
            },
            Handling::CleanUp(clouds) => {
                let names: Vec<&str> = clouds.iter().map(CloudName::as_str).collect();
                let names = names.join(", ");
                none(
                    "cleanedUp",
                    format!("to have no load balancer any more: removed at {names}"),
                )
            }
            Handling::Nothing if !self.service.is_load_balancer => none(
                "noLoadBalancer",
                "not served: it is not of type LoadBalancer".to_owned(),
            ),
            Handling::Nothing => self.unserved(),
        }
    }

    fn unserved(&self) -> Verdict {
        let (kind, text) = match &self.service.class {
            _ if self.service.deleting && !self.service.has_finalizer() => {
                ("deleted", "not served: it is being deleted".to_owned())
            }
            None => (
                "noDefault",
                "not served: it has no class, and no cloud is the default (services.defaultCloud)"
                    .to_owned(),
            ),
            Some(class) if class.starts_with(CLASS_PREFIX) => (
                "unknownCloud",
                format!("not served: class {class} names no cloud with load balancers"),
            ),
            Some(class) => (
                "foreignClass",
                format!("not served: class {class} is somebody else's"),
            ),
        };
        Verdict {
            kind,
            cloud: None,
            text,
        }
    }

    /// What people can do about it; none if there is nothing to do.
    pub fn advice(&self) -> Option<String> {
        let unserved = self.clouds.unserved(&self.service);
        let told = unserved.map(|it| it.advice(self.clouds.all()));
        let no_members = matches!(&self.members, Some((0, _))).then(|| {
            "No node of this cloud may be a member: see whose they are with bowline explain node NAME".to_owned()
        });
        told.or(no_members)
    }

    /// The explanation as JSON: `docs/several-clouds.md` says what is in it.
    pub fn json(&self) -> Value {
        let verdict = self.verdict();
        let key = &self.service.key;
        let (members, left_out) = match &self.members {
            Some((count, left_out)) => (Some(count), left_out.as_slice()),
            None => (None, &[][..]),
        };
        json!({
            "namespace": key.namespace,
            "name": key.name,
            "class": self.service.class,
            "deleting": self.service.deleting,
            "finalizer": self.service.has_finalizer(),
            "decision": verdict.kind,
            "cloud": verdict.cloud,
            "message": verdict.text,
            "classes": self.classes(),
            "members": members,
            "leftOut": left_out,
            "nodes": {
                "byCloud": self.nodes.owned,
                "nobodys": self.nodes.nobodys,
                "undecided": self.nodes.undecided,
            },
            "advice": self.advice(),
        })
    }

    fn classes(&self) -> Vec<String> {
        let all = self.clouds.all().iter();
        all.map(|cloud| format!("{CLASS_PREFIX}{cloud}")).collect()
    }
}

impl fmt::Display for ServiceExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = &self.service;
        writeln!(f, "Service {}: {}", service.key, self.verdict().text)?;
        writeln!(f, "  class: {}", service.class.as_deref().unwrap_or("none"))?;
        match self.classes().as_slice() {
            [] => writeln!(
                f,
                "  classes there are: none, because no cloud has load balancers"
            )?,
            classes => writeln!(f, "  classes there are: {}", classes.join(", "))?,
        }
        if let Some((count, left_out)) = &self.members {
            write!(f, "  nodes that may be members: {count}")?;
            match left_out.as_slice() {
                [] => writeln!(f)?,
                reasons => writeln!(f, "; not {}", reasons.join(", "))?,
            }
        }
        write!(f, "Nodes by cloud")?;
        for (cloud, count) in &self.nodes.owned {
            write!(f, "\n  {cloud}: {count}")?;
        }
        for (whose, count) in [
            ("nobody's", self.nodes.nobodys),
            ("not known without asking the clouds", self.nodes.undecided),
        ] {
            if count > 0 {
                write!(f, "\n  {whose}: {count}")?;
            }
        }
        match self.advice() {
            Some(advice) => write!(f, "\nWhat to do\n  {advice}"),
            None => Ok(()),
        }
    }
}

//! Explains which cloud serves a Service, or why none does, and which nodes may be its targets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_core::{
    CLASS_PREFIX, CLOUD, CLOUD_CONDITION, Cloud, CloudName, LoadBalancerClasses, Node, Ownership,
    Responsibility, Roster, Service, ServiceKey, name_list,
};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{ExplainError, Warnings, departed_of, manager, unread};
use crate::clouds::machines::Machines;
use crate::clouds::resolver::{CloudRules, OwnershipResolver};
use crate::kube::election::LeaseName;
use crate::kube::events::service_reference;
use crate::kube::objects::{NodeObject, ServiceObject};
use crate::loops::service::balancer_clouds;
use tokio_util::sync::CancellationToken;

/// Which cloud serves a Service, and why.
#[derive(Clone, Debug)]
pub struct ServiceExplanation {
    service: Arc<Service>,
    clouds: LoadBalancerClasses,
    /// Whether the cloud that serves it by its class leaves it alone for another reason.
    left_alone: bool,
    /// Nodes that may be members, and why others may not.
    members: Option<Members>,
    nodes: Nodes,
    /// What was refused or held back for it lately, and for the manager as a whole.
    warnings: Warnings,
}

/// Who may be targets, and who may not.
#[derive(Clone, Debug)]
struct Members {
    count: usize,
    left_out: Vec<String>,
    /// Nodes that keep the targets they have, by name.
    held: Vec<String>,
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
    lease: &LeaseName,
) -> Result<ServiceExplanation, ExplainError> {
    // The manager's rights are to list Services, and not to get one.
    let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let api: Api<ServiceObject> = Api::namespaced(client.clone(), &key.namespace);
    let read = api.list(&named).await;
    let found = read.map_err(unread(format!("the Service {key}")))?.items;
    let service = found.into_iter().next();
    let Some(service) = service else {
        // A restored cluster lacks what the manager still knows.
        let lost = Warnings::about(client, &[manager(lease)]).await;
        let lost = lost.naming(&format!("Service {key} "));
        return Err(ExplainError::Missing(format!("Service {key}{lost}")));
    };
    let service: Arc<Service> = Arc::new(service.into());
    let about = service_reference(&service);
    let mut warnings = Warnings::about(client, &[about, manager(lease)]).await;
    let api = Api::<NodeObject>::all(client.clone());
    let nodes = api.list(&ListParams::default()).await;
    let nodes = nodes.map_err(unread("the Nodes".to_owned()))?.items;
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(|it| Arc::new(it.into())).collect();
    let departed = departed_of(client, lease, clouds, &mut warnings).await;
    let resolver = OwnershipResolver::seeing(clouds, rules, (Machines::of(&nodes), departed));
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    let owners = super::owners(&resolver, &stop);
    owners.settle_once(&nodes).await;
    Ok(explain(service, &nodes, &resolver, warnings))
}

fn explain(
    service: Arc<Service>,
    nodes: &[Arc<Node>],
    resolver: &OwnershipResolver,
    warnings: Warnings,
) -> ServiceExplanation {
    let clouds = balancer_clouds(resolver);
    let mut counts = Nodes::default();
    for node in nodes {
        match resolver.ownership(node) {
            Some(Ownership::Owned { by, .. }) => *counts.owned.entry(by).or_default() += 1,
            Some(Ownership::Nobody(_)) => counts.nobodys += 1,
            Some(Ownership::Contested(_) | Ownership::Undecided(_)) | None => {
                counts.undecided += 1;
            }
        }
    }
    let serving = match clouds.responsibility(&service) {
        Responsibility::Ensure(cloud) => Some(cloud),
        Responsibility::CleanUp(_) | Responsibility::Nothing => None,
    };
    let members = serving.as_ref().map(|cloud| {
        let node_owner = |node: &Node| resolver.node_owner(node, cloud);
        let roster = Roster::new(nodes, &BTreeMap::new(), node_owner);
        let (members, excluded) = roster.targets();
        let held = excluded.held.iter().map(|it| it.name.clone()).collect();
        Members {
            count: members.len(),
            left_out: excluded.reasons(),
            held,
        }
    });
    let balancers = serving.as_ref().and_then(|name| {
        let cloud = resolver.clouds().iter().find(|it| it.name() == name)?;
        cloud.balancers()
    });
    let is_new = !service.has_finalizer();
    ServiceExplanation {
        left_alone: is_new && balancers.is_some_and(|it| !it.serves(&service)),
        service,
        clouds,
        members,
        nodes: counts,
        warnings,
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
            None if self.service.annotation(CLOUD).is_some()
                && self.clouds.misnamed(&self.service).is_none() =>
            {
                format!("by its annotation {CLOUD}")
            }
            None => format!("where its load balancer was found (condition {CLOUD_CONDITION})"),
        };
        match self.clouds.responsibility(&self.service) {
            Responsibility::Ensure(cloud) if self.left_alone => none(
                "leftAlone",
                format!("not served: cloud {cloud} ({by}) is set to leave it alone"),
            ),
            Responsibility::Ensure(cloud) => Verdict {
                kind: "served",
                text: format!("served by cloud {cloud}, {by}"),
                cloud: Some(cloud),
            },
            Responsibility::CleanUp(_) if self.is_unproven() => none(
                "cleanedUpIfOurs",
                "not of type LoadBalancer any more; its finalizer goes only if a configured cloud has a load balancer \
                 of this Service: nothing on it says that Bowline made one"
                    .to_owned(),
            ),
            Responsibility::CleanUp(clouds) => {
                let names: Vec<&str> = clouds.iter().map(CloudName::as_str).collect();
                let names = names.join(", ");
                none(
                    "cleanedUp",
                    format!("to have no load balancer any more: removed at {names}"),
                )
            }
            Responsibility::Nothing if !self.service.is_load_balancer => none(
                "noLoadBalancer",
                "not served: it is not of type LoadBalancer".to_owned(),
            ),
            Responsibility::Nothing => self.unserved(),
        }
    }

    /// Whether the finalizer may be another controller's.
    fn is_unproven(&self) -> bool {
        !self.service.is_load_balancer && !self.service.was_served_by_us()
    }

    fn unserved(&self) -> Verdict {
        let (kind, text) = match &self.service.class {
            _ if self.service.deleting && !self.service.has_finalizer() => {
                ("deleted", "not served: it is being deleted".to_owned())
            }
            None if self.clouds.misnamed(&self.service).is_some() => (
                "unknownCloud",
                format!("not served: annotation {CLOUD} names no cloud with load balancers"),
            ),
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
        let unserved = unserved.or_else(|| self.clouds.misnamed(&self.service));
        let advice = unserved.map(|it| it.advice(self.clouds.all()));
        let has_none = self.members.as_ref().is_some_and(|it| it.count == 0);
        let no_members = has_none.then(|| {
            "No node of this cloud can be a target: bowline explain node NAME shows which cloud owns a node".to_owned()
        });
        advice.or(no_members)
    }

    /// The explanation as JSON: `docs/several-clouds.md` says what is in it.
    pub fn json(&self) -> Value {
        let verdict = self.verdict();
        let key = &self.service.key;
        let members = self.members.as_ref();
        let names = |of: fn(&Members) -> &Vec<String>| members.map(of).cloned().unwrap_or_default();
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
            "members": members.map(|it| it.count),
            "leftOut": names(|it| &it.left_out),
            "targetsHeld": names(|it| &it.held),
            "nodes": {
                "byCloud": self.nodes.owned,
                "nobodys": self.nodes.nobodys,
                "undecided": self.nodes.undecided,
            },
            "warnings": self.warnings.json(),
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
        if let Some(members) = &self.members {
            write!(f, "  nodes that may be members: {}", members.count)?;
            match members.left_out.as_slice() {
                [] => writeln!(f)?,
                reasons => writeln!(f, "; not {}", reasons.join(", "))?,
            }
            if !members.held.is_empty() {
                let held = name_list(members.held.iter().map(String::as_str));
                writeln!(
                    f,
                    "  targets held back: those of nodes [{held}] stay, and none are added, until their owner is known"
                )?;
            }
        }
        write!(f, "Nodes by cloud")?;
        for (cloud, count) in &self.nodes.owned {
            write!(f, "\n  {cloud}: {count}")?;
        }
        for (owner, count) in [
            ("unowned", self.nodes.nobodys),
            ("not known without asking the clouds", self.nodes.undecided),
        ] {
            if count > 0 {
                write!(f, "\n  {owner}: {count}")?;
            }
        }
        write!(f, "{}", self.warnings)?;
        match self.advice() {
            Some(advice) => write!(f, "\nWhat to do\n  {advice}"),
            None => Ok(()),
        }
    }
}

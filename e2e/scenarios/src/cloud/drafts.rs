//! How the load balancers of a scripted cloud are planned and worked on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, BoxFuture, Change, CloudError, CloudErrorKind, ClusterMarks,
    ClusterMatch, DraftError, Executor, Goal, Impact, Ingress, IpMode, Needs, Node, Notice, Plan,
    PreparedPlan, Problem, Publication, Ready, ResourceRef, Service, Step, StepId, StepOutcome,
    TaggedBalancer, TrafficPolicy, Verb, names_a_cluster,
};
use serde_json::Value;

use super::balancers::{
    Balancer, ID, Inner, Look, SELECTOR, SIZE, ScriptedBalancers, Trouble, unavailable,
};
use crate::names::Names;

/// What a step does to the load balancers.
#[derive(Clone)]
enum Deed {
    Make,
    AwaitReady,
    Set(String),
    AddPort(String),
    RemovePort(String),
    AddMember(String),
    RemoveMember(String),
    Remove,
}

/// How to add and how to remove one of a set.
type Deeds = (fn(String) -> Deed, fn(String) -> Deed);

struct Worker {
    cloud: Arc<Inner>,
    request: BalancerRequest,
    deeds: Vec<Deed>,
}

impl Balancers for ScriptedBalancers {
    fn draft<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>> {
        Box::pin(async move {
            let service = &request.service;
            let names: Vec<&str> = request.nodes.iter().map(|it| it.name.as_str()).collect();
            let goal = match request.goal {
                Goal::Present => format!("({})", names.join(" ")),
                Goal::Absent => "(absent)".to_owned(),
            };
            let look = format!("look at {} {goal}", service.key);
            self.0.record(self.0.names.plain(&look));
            self.0.busy(&service.uid).await;
            match self.0.next_look() {
                Look::Usual => {}
                Look::Error(text) => return Err(unavailable(text).into()),
                Look::Throttled(after) => {
                    let error = CloudError::new(CloudErrorKind::Throttled, "slow down");
                    return Err(error.retry_after(Some(after)).into());
                }
                Look::Elsewhere => return Err(DraftError::Elsewhere),
                Look::Later(what, after) => {
                    let what = what.to_owned();
                    return Err(DraftError::Later { what, after });
                }
            }
            let (plan, deeds) = self.plan(request);
            let executor = Box::new(Worker {
                cloud: self.0.clone(),
                request: request.clone(),
                deeds,
            });
            Ok(PreparedPlan::new(plan, executor))
        })
    }

    fn own_annotations(&self) -> &'static [&'static str] {
        &[ID]
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn selects(&self, service: &Service, node: &Node) -> bool {
        is_selected(service, node)
    }

    fn audit_period(&self) -> Option<Duration> {
        self.0.audit()
    }

    fn marked<'a>(
        &'a self,
        cluster: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
        Box::pin(async move {
            self.0.record("list load balancers".to_owned());
            if let Look::Error(text) = self.0.next_look() {
                return Err(unavailable(text));
            }
            let state = self.0.state();
            let marked = state.balancers.iter().map(|(uid, it)| TaggedBalancer {
                id: it.id.clone(),
                name: format!("k8s-{uid}"),
                service_uid: uid.clone(),
                cluster: match &it.cluster {
                    None => ClusterMatch::Unclear("names no cluster"),
                    Some(name) if name != cluster.name => ClusterMatch::Foreign,
                    Some(name) if !names_a_cluster(name) => {
                        ClusterMatch::Unclear("has the name that every cluster has by default")
                    }
                    Some(_) => ClusterMatch::Ours,
                },
            });
            Ok(marked.collect())
        })
    }

    fn remove_orphan<'a>(
        &'a self,
        orphan: &'a TaggedBalancer,
    ) -> BoxFuture<'a, Result<(), CloudError>> {
        Box::pin(async move {
            self.0.record(format!("remove orphan {}", orphan.id));
            self.0.state().balancers.remove(&orphan.service_uid);
            self.0.notice();
            Ok(())
        })
    }
}

impl ScriptedBalancers {
    fn plan(&self, request: &BalancerRequest) -> (Plan, Vec<Deed>) {
        let service = &request.service;
        let seen = self.0.state().balancers.get(&service.uid).cloned();
        let mut made = Planner {
            name: service.key.to_string(),
            ..Planner::default()
        };
        if request.goal == Goal::Absent {
            if seen.is_some() {
                made.push(
                    Verb::Delete,
                    "load balancer",
                    "",
                    Impact::Destroys,
                    Deed::Remove,
                );
            }
            return (made.plan, made.deeds);
        }
        if service.annotation(SIZE) == Some("bad") {
            made.plan.problems.push(Problem {
                reason: "InvalidLoadBalancerConfig",
                message: format!("annotation {SIZE}: \"bad\" is not allowed"),
            });
            if seen.is_none() {
                return (made.plan, made.deeds);
            }
        }
        let is_new = seen.is_none();
        let now = self.0.clock.now();
        let building = seen.as_ref().and_then(|it| it.ready_at);
        let seen = seen.unwrap_or_default();
        if is_new {
            made.push(Verb::Create, "load balancer", "", Impact::None, Deed::Make);
        } else if building.is_some_and(|at| at > now) {
            made.push(
                Verb::Wait,
                "load balancer",
                "",
                Impact::None,
                Deed::AwaitReady,
            );
        }
        let size = service.annotation(SIZE).filter(|it| *it != "bad");
        if let Some(size) = size
            && seen.settings.get(SIZE).map(String::as_str) != Some(size)
        {
            let deed = Deed::Set(size.to_owned());
            made.push(Verb::Update, "load balancer", "", Impact::InPlace, deed);
        }
        made.sets(
            "port",
            &ports(service),
            &seen.ports,
            Impact::Interrupts,
            (Deed::AddPort, Deed::RemovePort),
        );
        let mut members = members(request, self.0.needs(), &self.0.names);
        for node in &request.excluded.held {
            let begin = format!("{} ", self.0.names.plain(&node.name));
            let has = seen.members.iter().filter(|it| it.starts_with(&begin));
            let has: Vec<String> = has.cloned().collect();
            if !has.is_empty() && is_selected(service, node) {
                members.extend(has);
                made.plan.held.push(node.name.clone());
            }
        }
        let deeds: Deeds = (Deed::AddMember, Deed::RemoveMember);
        made.sets("member", &members, &seen.members, Impact::InPlace, deeds);
        (made.plan, made.deeds)
    }
}

fn ports(service: &Service) -> BTreeSet<String> {
    let name = |it: &bowline_core::ServicePort| format!("{}/{}", it.protocol, it.port);
    service.ports.iter().map(name).collect()
}

fn members(request: &BalancerRequest, needs: Needs, names: &Names) -> BTreeSet<String> {
    let selected = request.nodes.iter();
    let selected = selected
        .filter(|node| is_selected(&request.service, node))
        .filter(|node| !needs.readiness || node.ready == Ready::True)
        .filter(|node| serves(request, node));
    let text = |node: &Arc<Node>| {
        let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
        let id = node.provider_id.as_deref().unwrap_or("?");
        let name = names.plain(&node.name);
        format!("{name} {id} {}", addresses.join(","))
    };
    selected.map(text).collect()
}

/// Whether the node can take traffic: it has an endpoint, or may hand it on to others.
fn serves(request: &BalancerRequest, node: &Node) -> bool {
    match &request.endpoints {
        Some(endpoints) if request.service.traffic_policy == TrafficPolicy::Local => endpoints
            .get(&request.service.key)
            .is_some_and(|nodes| nodes.contains(&node.name)),
        _ => true,
    }
}

fn is_selected(service: &Service, node: &Node) -> bool {
    let selector = service.annotation(SELECTOR);
    let Some((key, value)) = selector.and_then(|it| it.split_once('=')) else {
        return true;
    };
    node.labels.get(key).is_some_and(|it| it == value)
}

fn entrance(address: &str, ip_mode: Option<IpMode>) -> Ingress {
    Ingress {
        ip: Some(address.to_owned()),
        hostname: None,
        ip_mode,
    }
}

fn skipped(text: &str) -> Notice {
    Notice {
        warning: true,
        reason: "NodeSkipped",
        message: text.to_owned(),
    }
}

#[derive(Default)]
struct Planner {
    name: String,
    plan: Plan,
    deeds: Vec<Deed>,
}

impl Planner {
    fn push(&mut self, verb: Verb, kind: &'static str, what: &str, impact: Impact, deed: Deed) {
        let name = match what.split(' ').next().filter(|it| !it.is_empty()) {
            Some(first) => format!("{} {first}", self.name),
            None => self.name.clone(),
        };
        let needs = (0..self.plan.steps.len().min(1)).collect();
        self.plan.push(Step {
            verb,
            object: ResourceRef {
                kind,
                name,
                id: None,
            },
            changes: Vec::<Change>::from([Change {
                field: kind.to_owned(),
                before: Value::Null,
                after: what.into(),
            }]),
            impact,
            reason: None,
            needs,
        });
        self.deeds.push(deed);
    }

    /// Adds what is missing, then removes what is too much.
    fn sets(
        &mut self,
        kind: &'static str,
        wanted: &BTreeSet<String>,
        seen: &BTreeSet<String>,
        removal: Impact,
        (add, remove): Deeds,
    ) {
        for one in wanted.difference(seen) {
            self.push(Verb::Create, kind, one, Impact::None, add(one.clone()));
        }
        for one in seen.difference(wanted) {
            self.push(Verb::Delete, kind, one, removal, remove(one.clone()));
        }
    }
}

impl Executor for Worker {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        Box::pin(async move {
            let text = format!("{} {}", step.verb, step.object);
            let text = self.cloud.names.plain(&text);
            self.cloud.record(text.clone());
            self.cloud.busy(&self.request.service.uid).await;
            let trouble = self.cloud.next_trouble(&text);
            match &trouble {
                Some(Trouble::Error(why)) => return Err(unavailable(why)),
                Some(Trouble::Skip(why)) => return Ok(StepOutcome::Skipped(skipped(why))),
                Some(Trouble::Lost) | None => {}
            }
            let progress = self.work(&self.deeds[id].clone());
            self.cloud.notice();
            match trouble {
                Some(_) => Err(unavailable("connection reset")),
                None => Ok(progress),
            }
        })
    }

    fn again(&self) -> Option<Duration> {
        self.cloud.again()
    }

    fn publication(&self, _: bool) -> Publication {
        let state = self.cloud.state();
        let Some(balancer) = state.balancers.get(&self.request.service.uid) else {
            return Publication::default();
        };
        Publication {
            annotations: BTreeMap::from([(ID.to_owned(), balancer.id.clone())]),
            ingress: vec![entrance(&balancer.address, state.ip_mode)],
            ..Publication::default()
        }
    }
}

impl Worker {
    fn work(&self, deed: &Deed) -> StepOutcome {
        let now = self.cloud.clock.now();
        let uid = self.request.service.uid.clone();
        let mut state = self.cloud.state();
        if let Deed::Remove = deed {
            state.balancers.remove(&uid);
            return StepOutcome::Done;
        }
        if let Deed::Make = deed
            && !state.balancers.contains_key(&uid)
        {
            state.made += 1;
            let number = state.made;
            let building = state.building;
            let balancer = Balancer {
                id: format!("lb-{number}"),
                address: format!("192.0.2.{number}"),
                cluster: Some(self.request.cluster_name.clone()),
                cluster_uid: self.request.cluster_uid.clone(),
                ready_at: (!building.is_zero()).then(|| now + building),
                ..Balancer::default()
            };
            state.balancers.insert(uid.clone(), balancer);
        }
        let Some(balancer) = state.balancers.get_mut(&uid) else {
            return StepOutcome::Skipped(skipped("the load balancer is gone"));
        };
        if balancer.ready_at.is_some_and(|at| at > now) {
            return StepOutcome::Wait {
                what: format!("load balancer {} to be ready", balancer.id),
                after: Duration::from_secs(2),
            };
        }
        match deed {
            Deed::Make | Deed::AwaitReady | Deed::Remove => balancer.ready_at = None,
            Deed::Set(size) => {
                balancer.settings.insert(SIZE.to_owned(), size.clone());
            }
            Deed::AddPort(port) => {
                balancer.ports.insert(port.clone());
            }
            Deed::RemovePort(port) => {
                balancer.ports.remove(port);
            }
            Deed::AddMember(member) => {
                balancer.members.insert(member.clone());
            }
            Deed::RemoveMember(member) => {
                balancer.members.remove(member);
            }
        }
        StepOutcome::Done
    }
}

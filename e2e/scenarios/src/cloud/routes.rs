//! The routes of the scripted cloud.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::routes::{
    Advice, ObservedRoutes, PodRoute, Question, RouteNote, RoutePlacement, RouteStep, Routes,
    Target,
};
use bowline_core::{AddressKind, BoxFuture, CloudError, CloudErrorKind, NodeAddress};
use bowline_http::Clock;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::names::Names;

#[derive(Default)]
struct State {
    is_offered: bool,
    writes_tables: bool,
    routes: Vec<PodRoute>,
    placements: BTreeMap<(String, String), RoutePlacement>,
    latency: Duration,
    /// Calls under way, and the most there ever were.
    under_way: (usize, usize),
    /// What the next writes of a destination answer.
    failures: BTreeMap<String, VecDeque<(CloudErrorKind, &'static str)>>,
    unseen: Option<(CloudErrorKind, &'static str)>,
    calls: Vec<(Timestamp, String)>,
    advice: Option<Advice>,
}

/// Routes as the test says them.
pub struct ScriptedRoutes {
    names: Names,
    clock: Clock,
    state: Mutex<State>,
    asked: watch::Sender<usize>,
}

/// A route in the only table: `10.0.0.0/24 a` to node `a`, `… !` to nobody, `… a!` to a node, into the
/// dark.
pub fn route(text: &str) -> PodRoute {
    let (cidr, to) = text.split_once(' ').unwrap();
    let (target, blackhole) = match (to, to.strip_suffix('!')) {
        ("!", _) => (Target::Nobody, true),
        (_, Some(name)) => (Target::Node(name.to_owned()), true),
        (name, None) => (Target::Node(name.to_owned()), false),
    };
    PodRoute {
        name: format!("r-{cidr}"),
        table: String::new(),
        destination: cidr.to_owned(),
        target,
        blackhole,
        addresses: None,
    }
}

/// The same, by an internal address that matters to the cloud.
pub fn route_by(text: &str, address: &str) -> PodRoute {
    let address = NodeAddress::new(AddressKind::InternalIp, address);
    PodRoute {
        addresses: Some(vec![address]),
        ..route(text)
    }
}

impl ScriptedRoutes {
    pub(super) fn new(names: &Names, clock: &Clock, asked: &watch::Sender<usize>) -> Self {
        Self {
            names: names.clone(),
            clock: clock.clone(),
            state: Mutex::default(),
            asked: asked.clone(),
        }
    }

    pub(super) fn offer(&self) {
        self.state().is_offered = true;
    }

    pub(super) fn is_offered(&self) -> bool {
        self.state().is_offered
    }

    /// All steps of a table come in one write.
    pub fn write_tables(&self) {
        self.state().writes_tables = true;
    }

    /// It has these, and no others.
    pub fn have(&self, routes: impl IntoIterator<Item = PodRoute>) {
        self.state().routes = routes.into_iter().collect();
    }

    /// The routes of a range have to be in these tables.
    pub fn place(&self, node: &str, cidr: &str, tables: &[&str]) {
        let tables = tables.iter().map(|&it| it.to_owned()).collect();
        let key = (node.to_owned(), cidr.to_owned());
        let placement = RoutePlacement::In(tables);
        self.state().placements.insert(key, placement);
    }

    /// There can be no route of that range.
    pub fn refuse(&self, node: &str, cidr: &str, reason: &'static str) {
        let message = format!("there is no place for {cidr}");
        let key = (node.to_owned(), cidr.to_owned());
        let placement = RoutePlacement::Refused(RouteNote { reason, message });
        self.state().placements.insert(key, placement);
    }

    /// What people should know, on that Pod if there is one (namespace and name).
    pub fn advise(&self, pod: Option<(&str, &str)>, reason: &'static str, message: &str) {
        let own = |(namespace, name): (&str, &str)| (namespace.to_owned(), self.names.own(name));
        let message = message.to_owned();
        let remark = RouteNote { reason, message };
        let pod = pod.map(own);
        self.state().advice = Some(Advice { pod, remark });
    }

    /// Every call takes that long.
    pub fn take(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// So many writes of that destination fail.
    pub fn fail(&self, cidr: &str, kind: CloudErrorKind, text: &'static str, times: usize) {
        let failures = std::iter::repeat_n((kind, text), times);
        let failures = failures.collect();
        self.state().failures.insert(cidr.to_owned(), failures);
    }

    /// Whether its routes cannot be seen, and why.
    pub fn hide(&self, why: Option<(CloudErrorKind, &'static str)>) {
        self.state().unseen = why;
    }

    /// `10.0.0.0/24 a` of every route, in order; with its table, if it has one.
    pub fn all(&self) -> Vec<String> {
        let state = self.state();
        let mut all: Vec<String> = state.routes.iter().map(shown).collect();
        all.sort();
        all
    }

    /// Every call: `list`, `create 10.0.0.0/24 a <hint>`, `delete 10.0.0.0/24 a`; those of one write of
    /// a table on one line.
    pub fn calls(&self) -> Vec<String> {
        let state = self.state();
        state.calls.iter().map(|(_, call)| call.clone()).collect()
    }

    /// Every call but those that look, in their order.
    pub fn writes(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| call != "list");
        calls
    }

    /// When calls were made that begin with that.
    pub fn moments(&self, start: &str) -> Vec<Timestamp> {
        let state = self.state();
        let calls = state.calls.iter();
        let such = calls.filter(|(_, call)| call.starts_with(start));
        such.map(|(at, _)| *at).collect()
    }

    /// How often it was looked at.
    pub fn looks(&self) -> usize {
        self.moments("list").len()
    }

    /// The most calls that were ever under way at the same time.
    pub fn most_at_once(&self) -> usize {
        self.state().under_way.1
    }

    async fn begin(&self, call: String) {
        let latency = {
            let mut state = self.state();
            state.calls.push((self.clock.now(), call));
            let now = state.under_way.0 + 1;
            state.under_way = (now, state.under_way.1.max(now));
            state.latency
        };
        self.asked.send_modify(|asked| *asked += 1);
        tokio::time::sleep(latency).await;
        self.state().under_way.0 -= 1;
    }

    fn make(&self, step: &RouteStep) -> Result<(), CloudError> {
        let mut state = self.state();
        let failures = state.failures.get_mut(&step.route().destination);
        if let Some((kind, text)) = failures.and_then(VecDeque::pop_front) {
            return Err(CloudError::new(kind, text));
        }
        match step {
            RouteStep::Create { hint, route } => {
                let mut route = self.plain(route.clone());
                route.name.clone_from(hint);
                // Whether addresses matter is the test's choice.
                route.addresses = None;
                state.routes.push(route);
            }
            RouteStep::Delete(route) => {
                let route = self.plain(route.clone());
                state.routes.retain(|it| *it != route);
            }
        }
        Ok(())
    }

    /// As the scenario says it.
    fn plain(&self, mut route: PodRoute) -> PodRoute {
        if let Target::Node(name) = &mut route.target {
            *name = self.names.plain(name);
        }
        route
    }

    /// As the manager knows it.
    fn own(&self, mut route: PodRoute) -> PodRoute {
        if let Target::Node(name) = &mut route.target {
            *name = self.names.own(name);
        }
        route
    }

    fn reported(&self, step: &RouteStep) -> String {
        let route = shown(&self.plain(step.route().clone()));
        match step {
            RouteStep::Create { hint, .. } => format!("create {route} {hint}"),
            RouteStep::Delete(_) => format!("delete {route}"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn shown(route: &PodRoute) -> String {
    let dark = if route.blackhole { "!" } else { "" };
    let to = match &route.target {
        Target::Node(name) => format!("{name}{dark}"),
        Target::Nobody => "!".to_owned(),
        Target::Unclear => "?".to_owned(),
    };
    let table = match route.table.as_str() {
        "" => String::new(),
        table => format!(" in {table}"),
    };
    format!("{} {to}{table}", route.destination)
}

impl Routes for ScriptedRoutes {
    fn survey<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<ObservedRoutes, CloudError>> {
        Box::pin(async {
            self.begin("list".to_owned()).await;
            let state = self.state();
            if let Some((kind, text)) = state.unseen {
                return Err(CloudError::new(kind, text));
            }
            let placements = state.placements.iter();
            Ok(ObservedRoutes {
                routes: state
                    .routes
                    .iter()
                    .cloned()
                    .map(|it| self.own(it))
                    .collect(),
                placements: placements
                    .map(|((node, cidr), it)| ((self.names.own(node), cidr.clone()), it.clone()))
                    .collect(),
            })
        })
    }

    fn write<'a>(
        &'a self,
        _: &'a Question,
        steps: &'a [RouteStep],
    ) -> BoxFuture<'a, Vec<Result<(), CloudError>>> {
        Box::pin(async {
            let reported: Vec<String> = steps.iter().map(|step| self.reported(step)).collect();
            self.begin(reported.join("; ")).await;
            steps.iter().map(|step| self.make(step)).collect()
        })
    }

    fn advice(&self) -> Option<Advice> {
        self.state().advice.clone()
    }

    fn writes_tables(&self) -> bool {
        self.state().writes_tables
    }
}

//! Finds the VM of each node, and describes it.
//!
//! ```text
//!  nodes ─▶ questions ─▶ in bulk: views, or lists ─▶ what is left, one by one ─▶ missing? prove it ─▶ answers
//!           (pure)       (each server)               (at most CONFIRMATIONS)     (proof)
//! ```
//!
//! Up to a few nodes are asked for one by one, more in bulk. *Gone* follows only from a read of
//! that very VM, and only while its pools are there (`proof`); so does *switched off*, when it is
//! asked for by the life cycle of nodes. When very many are missing at once, only the first
//! [`CONFIRMATIONS`] of them, in the order of their ids, are read in one look-up, and the others
//! are *cannot tell*.

mod addresses;
mod bulk;
mod describe;
mod question;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_core::{BoxFuture, CloudError, CloudErrorKind, Evidence, Instances, Lookup, Node};
use bowline_http::lookup::{self, CONFIRMATIONS, FEW, READS_AT_ONCE, ReportedOnce};
use bowline_http::{Background, Clock, Random};
use futures::future::join_all;
use tracing::warn;
use uuid::Uuid;

use crate::api::Vm;
use crate::config::{AddressMode, NodeConfig};
use crate::events;
use crate::labels;
use crate::proof::{Proofs, pools_of};
use crate::server::{Reading, Server, Wanted};
use addresses::reported;
use bulk::{Bulk, Names, Seen, wanted};
use describe::{Around, describe, has_moved};
use question::{Question, question};

/// Bound of messages remembered as reported; beyond, each may be reported again.
const MOST_REPORTED: usize = 1024;
/// Machines whose addresses are remembered, to know those that several have.
const REMEMBERED: usize = 8192;

pub(crate) struct Machines {
    servers: Vec<Arc<Server>>,
    config: NodeConfig,
    clock: Clock,
    random: Random,
    /// Followed from the first question on: who never leads never asks.
    events: Mutex<Events>,
    addresses: Mutex<BTreeMap<Uuid, Vec<IpAddr>>>,
    reported: ReportedOnce,
}

enum Events {
    Off,
    NotYet,
    Followed(#[expect(dead_code, reason = "they end with it")] Vec<Background>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To describe the machine to its node.
    Describe,
    /// To taint or delete it.
    Decide,
}

enum Finding {
    Found {
        server: usize,
        vm: Box<Vm>,
    },
    /// These servers answer that there is no such VM; one of the others answered this.
    Missing {
        at: Vec<usize>,
        failure: Option<CloudError>,
    },
    Failed(CloudError),
}

impl Machines {
    pub(crate) fn new(
        servers: Vec<Arc<Server>>,
        config: NodeConfig,
        events: bool,
        clock: Clock,
        random: Random,
    ) -> Self {
        Self {
            servers,
            config,
            clock,
            random,
            events: Mutex::new(if events { Events::NotYet } else { Events::Off }),
            addresses: Mutex::default(),
            reported: ReportedOnce::new(MOST_REPORTED),
        }
    }

    /// Begins to follow events, if that was not done yet.
    pub(crate) fn follow_events(&self) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*events, Events::NotYet) {
            // Outside the fence: only reads.
            let tasks = self.servers.iter().map(|server| {
                Background::start(events::follow(server.clone(), self.random.fork()))
            });
            *events = Events::Followed(tasks.collect());
        }
    }

    async fn answers(&self, nodes: &[Arc<Node>], purpose: Purpose) -> Vec<Lookup> {
        self.follow_events();
        let asked = |node: &Arc<Node>| match purpose {
            // As with the original, no node is tainted or deleted that has no provider id.
            Purpose::Decide if node.provider_id.is_none() => Question::Nothing,
            Purpose::Describe | Purpose::Decide => question(node),
        };
        let questions: Vec<Question> = nodes.iter().map(asked).collect();
        let findings = self.findings(nodes, &questions, purpose).await;
        let names = match purpose {
            Purpose::Describe => self.names(findings.values()).await,
            Purpose::Decide => Vec::new(),
        };
        self.remember_addresses(findings.values());
        let shared = self.shared_addresses();
        let proofs = Proofs::default();
        let mut answers = Vec::with_capacity(nodes.len());
        let mut findings = findings;
        for (number, (node, question)) in nodes.iter().zip(&questions).enumerate() {
            let finding = findings.remove(&number);
            let answer = match (question, finding) {
                (Question::Malformed(why), _) => {
                    self.warn_once(&format!("node {}: {why}", node.name));
                    Lookup::CannotTell(CloudError::new(CloudErrorKind::Invalid, why))
                }
                (Question::Nothing, _) | (_, None) => Lookup::NotMine,
                (_, Some(Finding::Failed(error))) => Lookup::CannotTell(error),
                (_, Some(Finding::Found { server, vm })) => {
                    let names = names.get(server);
                    let around = names.map_or_else(Around::default, |it| it.around(&vm));
                    self.tell_oddities(node, &vm);
                    let instance = describe(&vm, node, around, &self.config, &shared);
                    Lookup::Found(Box::new(instance))
                }
                (question, Some(Finding::Missing { at, failure })) => {
                    self.missing(node, question, &at, failure, &proofs).await
                }
            };
            answers.push(answer);
        }
        answers
    }

    /// What is found out about each node that has to be asked about, by its number.
    async fn findings(
        &self,
        nodes: &[Arc<Node>],
        questions: &[Question],
        purpose: Purpose,
    ) -> BTreeMap<usize, Finding> {
        let wanted = wanted(nodes, questions);
        let bulk = self.bulk(&wanted, questions, purpose).await;
        let mut findings = BTreeMap::new();
        let mut open: BTreeSet<(Uuid, usize)> = BTreeSet::new();
        for (number, question) in questions.iter().enumerate() {
            let Some(id) = question.ids().first().copied() else {
                continue;
            };
            match bulk.find(question) {
                Some((server, vm)) if purpose == Purpose::Describe || vm.is_running() => {
                    let vm = Box::new(vm.clone());
                    findings.insert(number, Finding::Found { server, vm });
                }
                // A node that nobody claims, and that a whole list does not show, is somebody
                // else's. A new one may have a new machine; if they are many, they are asked about
                // again anyway.
                None if bulk.complete
                    && matches!(question, Question::ByMachine { .. })
                    && !(bulk.few && nodes[number].is_uninitialized()) =>
                {
                    let at = (0..self.servers.len()).collect();
                    findings.insert(number, Finding::Missing { at, failure: None });
                }
                _ => {
                    open.insert((id, number));
                }
            }
        }
        let first_left_out = open.iter().nth(CONFIRMATIONS).copied();
        let too_many = first_left_out.map(|first| open.split_off(&first));
        for (_, number) in too_many.unwrap_or_default() {
            let text = "too many VMs are not to be seen to ask for each of them";
            let error = CloudError::new(CloudErrorKind::Unknown, text);
            findings.insert(number, Finding::Failed(error));
        }
        let bulk = &bulk;
        let read = |(_, number)| self.read(&questions[number], bulk);
        let read = lookup::read_each(open, READS_AT_ONCE, read).await;
        findings.extend(
            read.into_iter()
                .map(|((_, number), finding)| (number, finding)),
        );
        findings
    }

    /// What all servers show in bulk: their views, or lists if there is much to ask. What few nodes
    /// ask before they are tainted or deleted is always read by itself.
    async fn bulk(&self, wanted: &Wanted, questions: &[Question], purpose: Purpose) -> Bulk {
        let asked = questions.iter().filter(|it| !it.ids().is_empty()).count();
        let few = asked <= FEW;
        let of_server = self.servers.iter().map(|server| async move {
            if few && purpose == Purpose::Decide {
                return Seen::NotAsked;
            }
            if let Some(viewed) = server.viewed(wanted) {
                return Seen::Shown(viewed);
            }
            if few {
                return Seen::NotAsked;
            }
            match server.list(wanted).await {
                Ok(listed) => Seen::Shown(listed),
                Err(error) => Seen::Failed(error),
            }
        });
        let servers = join_all(of_server).await;
        let complete = servers.iter().all(|it| matches!(it, Seen::Shown(_)));
        Bulk {
            servers,
            complete,
            few,
        }
    }

    /// Asks every server that answers for that very machine, until one has it.
    async fn read(&self, question: &Question, bulk: &Bulk) -> Finding {
        let (mut at, mut failure) = (Vec::new(), None);
        for (number, server) in self.servers.iter().enumerate() {
            if let Some(Seen::Failed(error)) = bulk.servers.get(number) {
                failure = Some(error.copy());
                continue;
            }
            let mut missing = true;
            // The other byte order only where the first is not there: any other answer proves
            // nothing.
            for id in question.ids() {
                match server.read(id).await {
                    Reading::Found(vm) => {
                        return Finding::Found { server: number, vm };
                    }
                    Reading::Missing => {}
                    Reading::Failed(error) => {
                        failure = Some(error);
                        missing = false;
                        break;
                    }
                }
            }
            if missing {
                at.push(number);
            }
        }
        match (at.is_empty(), failure) {
            (true, Some(failure)) => Finding::Failed(failure),
            (_, failure) => Finding::Missing { at, failure },
        }
    }

    async fn missing(
        &self,
        node: &Node,
        question: &Question,
        at: &[usize],
        failure: Option<CloudError>,
        proofs: &Proofs,
    ) -> Lookup {
        let Question::ById { vm, .. } = question else {
            return match failure {
                Some(error) => Lookup::CannotTell(error),
                None => Lookup::NotMine,
            };
        };
        let pools = pools_of(node);
        match proofs.gone(&self.servers, at, &pools).await {
            Ok(()) => {
                let pools: Vec<String> = pools.iter().map(Uuid::to_string).collect();
                let where_from = if pools.is_empty() {
                    "all pools are".to_owned()
                } else {
                    format!("pool {} is", pools.join(" and "))
                };
                let text = format!("GET vms/{vm} answered 404 no such VM, and {where_from} loaded");
                let at = self.clock.now();
                Lookup::Gone(Evidence { text, at })
            }
            Err(error) => Lookup::CannotTell(failure.unwrap_or(error)),
        }
    }

    /// The names around the machines that were found, for each server.
    async fn names(&self, findings: impl Iterator<Item = &Finding>) -> Vec<Names> {
        let mut places = vec![(BTreeSet::new(), BTreeSet::new()); self.servers.len()];
        for finding in findings {
            if let Finding::Found { server, vm } = finding {
                let (hosts, pools) = &mut places[*server];
                hosts.extend(vm.container.filter(|it| Some(*it) != vm.pool()));
                pools.extend(vm.pool());
            }
        }
        let servers = self.servers.iter().zip(places);
        let names = servers.map(|(server, (hosts, pools))| async move {
            Names {
                hosts: server.host_names(hosts).await,
                pools: server.pool_names(pools).await,
            }
        });
        join_all(names).await
    }

    fn remember_addresses<'a>(&self, findings: impl Iterator<Item = &'a Finding>) {
        if self.config.addresses.mode == AddressMode::Compat {
            return;
        }
        let mut known = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        for finding in findings {
            if let Finding::Found { vm, .. } = finding {
                known.insert(vm.id, reported(vm).collect());
            }
        }
    }

    /// Addresses that several machines of the cluster have: virtual ones, which move.
    fn shared_addresses(&self) -> BTreeSet<IpAddr> {
        let known = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (mut once, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for addresses in known.values() {
            let own: BTreeSet<IpAddr> = addresses.iter().copied().collect();
            shared.extend(own.iter().filter(|it| once.contains(*it)));
            once.extend(own);
        }
        shared
    }

    /// Says once what somebody may want to know.
    fn tell_oddities(&self, node: &Node, vm: &Vm) {
        let name = &node.name;
        if has_moved(vm, node) && !vm.is_running() {
            let pool = vm.pool().map(|it| it.to_string()).unwrap_or_default();
            self.warn_once(&format!(
                "node {name}: VM {} is in pool {pool}, not in that of its provider id, and does not run",
                vm.id
            ));
        }
        if let Some(prefix) = &self.config.tag_prefix {
            for tag in labels::of_tags(&vm.tags, prefix).1 {
                self.warn_once(&format!("node {name}: tag {tag:?} of its VM is no label"));
            }
        }
    }

    fn warn_once(&self, text: &str) {
        if self.reported.is_new(text) {
            warn!("{text}");
        }
    }

    /// Whether a server answers. Which of them does not matter: what is gone is proven by reads of
    /// its own server, twice.
    async fn prove(&self) -> Result<(), CloudError> {
        let checks = self.servers.iter().map(|server| server.api().check());
        let mut failure = None;
        for check in join_all(checks).await {
            match check {
                Ok(_) => return Ok(()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

impl Instances for Machines {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, Purpose::Describe))
    }

    fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, Purpose::Decide))
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(self.prove())
    }
}

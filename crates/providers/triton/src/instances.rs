//! Finds the machine of each node, and describes it.
//!
//! ```text
//!  nodes ─▶ question ─┬─ by id: in the list? ─ no ─▶ GET it ─ 410, deleted, failed ─▶ gone
//!           (pure)    │                               └─ 404 ─▶ listed after that? account? ─▶ gone, or not
//!                     └─ by name, firmware, address: in the list ─▶ one, none, several
//!                                                    │
//!                              names, networks ─▶ describe (pure) ─▶ found
//! ```
//!
//! A 404 proves nothing: live machines whose image cannot be found have it too. Only a list that is
//! whole, asked for afterwards, without the machine, of an account that answers, does; two of them
//! if the list has pages, because a machine can slip between pages.

mod describe;
mod mass_disappearance;
mod question;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Evidence, Instance, Instances, Lookup, Node,
    NodeMetadata, Regarding,
};
use bowline_http::lookup::{self, LIST_AGE, read_each};
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::api::{Machine, MachineRead};
use crate::context::Context;
use crate::machine_cache::Listing;
use crate::{lock, remember};
use describe::{Knowledge, describe, power};
use mass_disappearance::{Judgement, MassDisappearance};
use question::{Match, Question, find, question};

pub use bowline_http::lookup::CONFIRMATIONS;
pub use describe::PREFIX;
pub(crate) use describe::{is_own_label, is_public, zones_of};
pub use question::{INSTANCE_ID, dnsify};

/// DNS names that one look-up reads beside: twenty seconds. The others follow with the next one.
pub const NAMES_READ: usize = 64;
/// How long cached DNS names of a machine are used.
const NAMES_AGE: Duration = Duration::from_secs(600);
/// Bound of cached DNS names; the map is emptied when it is full.
const NAMES_REMEMBERED: usize = 10_000;
/// Single reads at the same time: half of what the client allows.
const READS_AT_ONCE: usize = 4;

/// Bound of nodes reported as ambiguous; the map is emptied when it is full.
const AMBIGUOUS_REMEMBERED: usize = 5_000;
const AMBIGUOUS: &str = "AmbiguousInstance";
const MASS: &str = "MassDisappearance";

pub(crate) struct Machines {
    context: Arc<Context>,
    /// The last report about nodes (by uid) that several machines fit, so that it is reported once.
    ambiguous: Mutex<BTreeMap<String, String>>,
    mass_disappearance: Mutex<MassDisappearance>,
    /// Counts the credentials. What some answered is void once the number has changed.
    credentials: AtomicU64,
    names: Mutex<BTreeMap<Uuid, (Instant, Vec<String>)>>,
}

type Reading = lookup::Reading<Machine>;

impl Machines {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self {
            context: Arc::clone(context),
            ambiguous: Mutex::default(),
            mass_disappearance: Mutex::default(),
            credentials: AtomicU64::new(0),
            names: Mutex::default(),
        }
    }

    /// Forgets what other credentials showed.
    pub(crate) fn credentials_changed(&self) {
        self.credentials.fetch_add(1, Ordering::AcqRel);
        lock(&self.names).clear();
    }

    /// One answer for each node. `whole`: with addresses and labels, not only whether it is there.
    async fn answers(&self, nodes: &[Arc<Node>], whole: bool) -> Vec<Lookup> {
        self.context.activity.record();
        let questions: Vec<Question> = nodes.iter().map(|node| question(node)).collect();
        let mut answers: Vec<Option<Lookup>> = questions.iter().map(settled).collect();
        let open: Vec<usize> = (0..nodes.len())
            .filter(|&at| answers[at].is_none())
            .collect();
        if !open.is_empty() {
            let asked = open.iter().map(|&at| (&*nodes[at], &questions[at]));
            let asked: Vec<(&Node, &Question)> = asked.collect();
            let found = self.ask(&asked, whole).await;
            for (at, lookup) in open.into_iter().zip(found) {
                answers[at] = Some(lookup);
            }
        }
        let answers = or_not_mine(answers);
        self.hold_vanishing(&questions, answers)
    }

    async fn ask(&self, asked: &[(&Node, &Question)], whole: bool) -> Vec<Lookup> {
        // Whether a machine is there is asked because its node does not answer: that is no time for
        // an old list.
        let age = if whole {
            self.context.config.resync
        } else {
            LIST_AGE
        };
        let listing = match self.listing_for(asked, age).await {
            Ok(listing) => listing,
            Err(error) => {
                let failed = |_| Lookup::CannotTell(error.copy());
                return asked.iter().map(failed).collect();
            }
        };
        let account = if self.context.config.nodes.name_match || whole {
            self.context.data_center.account().await.ok()
        } else {
            None
        };
        let account_id = account.as_ref().map(|account| account.id);
        let found: Vec<Result<Option<Uuid>, CloudError>> = asked
            .iter()
            .map(|(node, question)| match question {
                Question::Machine(id) => Ok(Some(*id)),
                _ => self.matched(node, &listing, account_id),
            })
            .collect();
        let missing: BTreeSet<Uuid> = found
            .iter()
            .flatten()
            .flatten()
            .filter(|id| !listing.machines.contains_key(id))
            .copied()
            .collect();
        let read = self.read_missing(missing).await;
        let machine_of = |id: Uuid| match read.get(&id) {
            Some(reading) => reading.machine(),
            None => listing.machines.get(&id).ok_or_else(|| {
                let text =
                    format!("machine {id} is not listed, and too many are missing to ask for each");
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Unknown, text))
            }),
        };
        let mut answers: Vec<Option<Lookup>> = Vec::new();
        let mut live: Vec<(usize, &Machine)> = Vec::new();
        for (at, found) in found.into_iter().enumerate() {
            answers.push(match found {
                Err(error) => Some(Lookup::CannotTell(error)),
                Ok(None) => Some(Lookup::NotMine),
                Ok(Some(id)) => match machine_of(id) {
                    Ok(machine) => {
                        live.push((at, machine));
                        None
                    }
                    Err(answer) => Some(answer),
                },
            });
        }
        let cns = account.filter(|account| account.triton_cns_enabled);
        let described = if whole {
            let account = cns.map(|account| account.id);
            self.describe(asked, &live, account).await
        } else {
            Ok(live
                .iter()
                .map(|(_, machine)| Ok(presence_of(machine)))
                .collect())
        };
        match described {
            Ok(described) => {
                for ((at, machine), instance) in live.iter().zip(described) {
                    self.context.metrics.state(&asked[*at].0.name, machine);
                    answers[*at] = Some(match instance {
                        Ok(instance) => Lookup::Found(Box::new(instance)),
                        Err(error) => Lookup::CannotTell(error),
                    });
                }
            }
            Err(error) => {
                for (at, _) in &live {
                    answers[*at] = Some(Lookup::CannotTell(error.copy()));
                }
            }
        }
        or_not_mine(answers)
    }

    /// The last list, unless it leaves something open and is not quite new.
    async fn listing_for(
        &self,
        asked: &[(&Node, &Question)],
        age: Duration,
    ) -> Result<Arc<Listing>, CloudError> {
        let start = Instant::now();
        let listing = self.context.data_center.machines.recent(age).await?;
        let open = |(_, question): &(&Node, &Question)| match question {
            Question::Machine(id) => !listing.machines.contains_key(id),
            _ => true,
        };
        let old = start.saturating_duration_since(listing.asked) > LIST_AGE;
        if old && asked.iter().any(open) {
            return self.context.data_center.machines.recent(LIST_AGE).await;
        }
        Ok(listing)
    }

    fn matched(
        &self,
        node: &Node,
        listing: &Listing,
        account: Option<Uuid>,
    ) -> Result<Option<Uuid>, CloudError> {
        match find(
            node,
            &listing.machines,
            account,
            self.context.config.nodes.name_match,
        ) {
            Match::One(id) => Ok(Some(id)),
            Match::None if listing.nameless && listing.machines.is_empty() => {
                let text = "machines are listed without their ids";
                Err(CloudError::new(CloudErrorKind::Unknown, text))
            }
            Match::None => Ok(None),
            Match::Several(ids) => {
                let ids: Vec<String> = ids.iter().take(8).map(ToString::to_string).collect();
                let text = format!(
                    "several machines fit node {}: {}; name one in its annotation {INSTANCE_ID}",
                    node.name,
                    ids.join(", ")
                );
                self.report_ambiguous(node, &text);
                let text = format!("{AMBIGUOUS}: {text}");
                Err(CloudError::new(CloudErrorKind::Conflict, text))
            }
        }
    }

    /// Reports once that several machines fit a node; once more if they are others.
    fn report_ambiguous(&self, node: &Node, text: &str) {
        let mut reported = lock(&self.ambiguous);
        if reported.get(&node.uid).is_some_and(|before| before == text) {
            return;
        }
        let (uid, most) = (node.uid.clone(), AMBIGUOUS_REMEMBERED);
        remember(&mut reported, most, uid, text.to_owned());
        self.context.events.warn_on(node, AMBIGUOUS, text);
    }

    /// Reads machines that the list does not show, and looks again for those that cannot be read.
    async fn read_missing(&self, ids: BTreeSet<Uuid>) -> BTreeMap<Uuid, Reading> {
        let ids = ids.into_iter().take(CONFIRMATIONS);
        let api = &self.context.data_center.api;
        let reads = read_each(ids, READS_AT_ONCE, |id| api.machine(id)).await;
        let mut readings = BTreeMap::new();
        let mut not_found = BTreeMap::new();
        for (id, read) in reads {
            let reading = match read {
                Ok(MachineRead::Shown(machine)) if machine.state.is_over() => {
                    let state = machine.state.as_str();
                    self.gone(format!(
                        "GET machines/{id} answered 200 with the state {state}"
                    ))
                }
                Ok(MachineRead::Shown(machine)) => Reading::Found(machine),
                Ok(MachineRead::Destroyed) => self.gone(format!("GET machines/{id} answered 410")),
                Ok(MachineRead::Missing(words)) => {
                    not_found.insert(id, words);
                    continue;
                }
                Err(error) => Reading::Failed(error.into()),
            };
            readings.insert(id, reading);
        }
        if !not_found.is_empty() {
            readings.extend(self.confirm(not_found).await);
        }
        readings
    }

    async fn confirm(&self, missing: BTreeMap<Uuid, String>) -> Vec<(Uuid, Reading)> {
        let proof = self.context.data_center.proof().await;
        let judge = |(id, words): (Uuid, String)| {
            let lists = match &proof {
                Ok(lists) => lists,
                Err(error) => return (id, Reading::Failed(error.copy())),
            };
            if let Some(machine) = lists.iter().find_map(|list| list.machines.get(&id)) {
                return (id, Reading::Found(Box::new(machine.clone())));
            }
            if !lists.iter().all(|list| list.lacks(id)) {
                let text = format!("machine {id} may be one that cannot be read");
                return (
                    id,
                    Reading::Failed(CloudError::new(CloudErrorKind::Unknown, text)),
                );
            }
            let count = lists.last().map_or(0, |list| list.machines.len());
            (id, self.gone(format!(
                "GET machines/{id} answered 404 ({words}); it is not among the {count} machines \
                 listed after that, and the account answers"
            )))
        };
        missing.into_iter().map(judge).collect()
    }

    fn gone(&self, text: String) -> Reading {
        let at = self.context.setting.clock.now();
        Reading::Gone(Evidence { text, at })
    }

    async fn describe(
        &self,
        asked: &[(&Node, &Question)],
        live: &[(usize, &Machine)],
        account: Option<Uuid>,
    ) -> Result<Vec<Result<Instance, CloudError>>, CloudError> {
        if live.is_empty() {
            return Ok(Vec::new());
        }
        let (region, zone) = self.context.data_center.region_and_zone().await?;
        let machines: Vec<&Machine> = live.iter().map(|(_, machine)| *machine).collect();
        let networks = self.context.data_center.networks_of(&machines).await?;
        let names = match account {
            Some(_) => self.names(&machines).await,
            None => BTreeMap::new(),
        };
        let mut described = Vec::new();
        for (at, machine) in live {
            let with_nics = match self.context.data_center.with_nics(machine).await {
                Ok(machine) => machine,
                Err(error) => {
                    described.push(Err(error));
                    continue;
                }
            };
            let knowledge = Knowledge {
                networks: &networks,
                account,
                dns_names: names.get(&machine.id).map_or(&[][..], Vec::as_slice),
                region: &region,
                zone: &zone,
                labels_from_tags: &self.context.config.nodes.labels_from_tags,
            };
            described.push(Ok(describe(&with_nics, asked[*at].0, knowledge)));
        }
        Ok(described)
    }

    /// The DNS names of machines: only an answer about one machine has them. Without an answer
    /// there are none, and the machine is described all the same.
    async fn names(&self, machines: &[&Machine]) -> BTreeMap<Uuid, Vec<String>> {
        let (mut known, unknown) = {
            let names = lock(&self.names);
            let fresh = |id: &Uuid| {
                let known = names.get(id).filter(|(at, _)| at.elapsed() < NAMES_AGE);
                known.map(|(_, names)| (*id, names.clone()))
            };
            let known: BTreeMap<Uuid, Vec<String>> =
                machines.iter().filter_map(|it| fresh(&it.id)).collect();
            let ids = machines.iter().map(|it| it.id);
            let unknown: BTreeSet<Uuid> = ids.filter(|id| !known.contains_key(id)).collect();
            (known, unknown)
        };
        let unknown = unknown.into_iter().take(NAMES_READ);
        let api = &self.context.data_center.api;
        let reads = read_each(unknown, READS_AT_ONCE, |id| api.machine(id)).await;
        let mut remembered = lock(&self.names);
        for (id, read) in reads {
            if let Ok(MachineRead::Shown(machine)) = read {
                let names = machine.dns_names.unwrap_or_default();
                let now = (Instant::now(), names.clone());
                remember(&mut remembered, NAMES_REMEMBERED, id, now);
                known.insert(id, names);
            }
        }
        known
    }

    /// Believes that machines are gone, unless they are too many at once.
    fn hold_vanishing(&self, questions: &[Question], answers: Vec<Lookup>) -> Vec<Lookup> {
        let seen = questions
            .iter()
            .zip(&answers)
            .filter_map(|(question, answer)| {
                let Question::Machine(id) = question else {
                    return None;
                };
                match answer {
                    Lookup::Gone(_) => Some((*id, true)),
                    Lookup::Found(_) => Some((*id, false)),
                    Lookup::NotMine | Lookup::CannotTell(_) => None,
                }
            });
        let judged = lock(&self.mass_disappearance).judge(seen, Instant::now());
        let Judgement::Wait { gone, of, events } = judged else {
            return answers;
        };
        let text = format!(
            "{gone} of {of} machines of nodes are gone at once; that is believed after {} min",
            mass_disappearance::LASTING.as_secs() / 60
        );
        if events {
            warn!("{MASS}: {text}");
            self.context
                .events
                .warn(Regarding::manager(), MASS, text.as_str());
            self.context.metrics.mass_disappearances.inc();
        }
        let held = |answer| match answer {
            Lookup::Gone(evidence) => {
                let text = format!("{MASS}: {text} ({})", evidence.text);
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Unknown, text))
            }
            other => other,
        };
        answers.into_iter().map(held).collect()
    }

    async fn check(&self) -> Result<(), CloudError> {
        let credentials = self.credentials.load(Ordering::Acquire);
        let now = Instant::now();
        self.context.data_center.machines.since(now).await?;
        self.context.data_center.account_since(Some(now)).await?;
        if credentials != self.credentials.load(Ordering::Acquire) {
            let text = "the credentials changed while machines were listed";
            return Err(CloudError::new(CloudErrorKind::Unavailable, text));
        }
        Ok(())
    }
}

impl Instances for Machines {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, true))
    }

    fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes, false))
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(self.check())
    }
}

fn or_not_mine(answers: Vec<Option<Lookup>>) -> Vec<Lookup> {
    let answers = answers.into_iter();
    answers.map(|it| it.unwrap_or(Lookup::NotMine)).collect()
}

fn settled(question: &Question) -> Option<Lookup> {
    match question {
        Question::Nothing => Some(Lookup::NotMine),
        Question::Malformed(why) => {
            let text = format!("InvalidProviderID: {why}");
            let error = CloudError::new(CloudErrorKind::Invalid, text);
            Some(Lookup::CannotTell(error))
        }
        Question::Machine(_) | Question::Any => None,
    }
}

/// As much as the question whether it is there needs.
fn presence_of(machine: &Machine) -> Instance {
    Instance {
        provider_id: crate::id::provider_id(machine.id),
        instance_type: String::new(),
        zone: String::new(),
        region: String::new(),
        addresses: Vec::new(),
        power: power(&machine.state),
        extra_labels: BTreeMap::new(),
        marks: NodeMetadata::default(),
    }
}

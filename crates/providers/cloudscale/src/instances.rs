//! Finds the server of each node, and describes it.
//!
//! ```text
//!  nodes ─▶ question ─┬─ up to 3 ids, no names ─▶ GET each ───────────────┬─▶ answer, one per node
//!           (pure)    └─ else ─▶ the list, ≤ 5 s old ─▶ GET each missing ─┘   (pure)
//! ```
//!
//! *Gone* is only ever a 404 about that very server. A server that the list does not show is asked
//! for by itself, since lists can be stale and lose items.
//!
//! When very many servers are missing at once, only the first [`CONFIRMATIONS`] of them, in the
//! order of their ids, are asked for in one look-up, and the others are *cannot tell*. The order is
//! the same in every look-up, so that the same nodes collect the two looks that the deletion guard
//! wants, and make room for the next when they are gone. With 2,000 of 2,000 servers gone this
//! confirms 128 per look-up where the guard's budget lets 200 nodes go in ten minutes: no delay for
//! anybody, and 128 reads every few seconds instead of 2,000.

mod answer;
mod describe;
#[cfg(test)]
mod examples;
mod question;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{BoxFuture, CloudError, CloudErrorKind, Evidence, Instances, Lookup, Node};
pub use bowline_http::lookup::{CONFIRMATIONS, FEW, LIST_AGE};
use bowline_http::lookup::{READS_AT_ONCE, Reading, ReportedOnce, list_for, read_each};
use bowline_http::{Cached, CachedRead, Clock};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::{Api, Server, ServerList};
use crate::id::ServerId;
use answer::{Knowledge, found};
use describe::is_renamed;
use question::{Question, question};

/// Bound of messages remembered as reported; beyond, each may be reported again.
const MOST_REPORTED: usize = 4096;

pub(crate) struct Servers {
    api: Api,
    clock: Clock,
    match_by_address: bool,
    /// Void once the token has changed.
    listing: CachedRead<ServerList>,
    reported: ReportedOnce,
}

impl Servers {
    pub(crate) fn new(api: Api, clock: Clock, match_by_address: bool) -> Self {
        Self {
            api,
            clock,
            match_by_address,
            listing: CachedRead::default(),
            reported: ReportedOnce::new(MOST_REPORTED),
        }
    }

    /// Forgets what another token saw.
    pub(crate) fn token_changed(&self) {
        self.listing.invalidate();
    }

    async fn answers(&self, nodes: &[Arc<Node>]) -> Vec<Lookup> {
        let questions: Vec<Question> = nodes.iter().map(|node| question(node)).collect();
        let knowledge = self.gather(nodes, &questions).await;
        let index = knowledge.index(self.match_by_address);
        let asked = nodes.iter().zip(&questions);
        asked
            .map(
                |(node, question)| match knowledge.server(index.as_ref(), node, question) {
                    Ok(server) => {
                        self.report_renamed(server, node);
                        found(server, node)
                    }
                    Err(answer) => answer,
                },
            )
            .collect()
    }

    /// The servers themselves, for callers that need more than a node's description. Always from
    /// the list, however few the nodes: many Services ask about the same nodes within seconds.
    pub(crate) async fn servers_of(&self, nodes: &[Arc<Node>]) -> Vec<Result<Server, Lookup>> {
        let questions: Vec<Question> = nodes.iter().map(|node| question(node)).collect();
        let ids = ids_of(&questions);
        let start = Instant::now();
        let knowledge = if ids.is_empty() && !questions.contains(&Question::Which) {
            Knowledge::default()
        } else {
            self.gather_from_list(start, nodes, &questions, &ids).await
        };
        let index = knowledge.index(self.match_by_address);
        let asked = nodes.iter().zip(&questions);
        asked
            .map(|(node, question)| {
                let server = knowledge.server(index.as_ref(), node, question);
                server.cloned()
            })
            .collect()
    }

    /// Asks the cloud what the questions need, in as few calls as that takes.
    async fn gather(&self, nodes: &[Arc<Node>], questions: &[Question]) -> Knowledge {
        let start = Instant::now();
        let ids = ids_of(questions);
        if questions.contains(&Question::Which) || ids.len() > FEW {
            return self.gather_from_list(start, nodes, questions, &ids).await;
        }
        let recent = self.listing.kept(LIST_AGE);
        let missing = match &recent {
            Some(listing) => missing(&ids, &listing.value),
            None => ids,
        };
        Knowledge {
            read: read_each(missing, READS_AT_ONCE, |id| self.read(id, "")).await,
            list: recent.map(|listing| Ok(listing.value)),
        }
    }

    async fn gather_from_list(
        &self,
        start: Instant,
        nodes: &[Arc<Node>],
        questions: &[Question],
        ids: &BTreeSet<ServerId>,
    ) -> Knowledge {
        let leaves_open = |list: &ServerList| {
            missing(ids, list).len() > FEW || self.some_unknown(nodes, questions, list)
        };
        match list_for(
            &self.listing,
            start,
            |_| LIST_AGE,
            || self.list(),
            leaves_open,
        )
        .await
        {
            Ok(Cached { value: list, .. }) => {
                let missing = missing(ids, &list).into_iter().take(CONFIRMATIONS);
                let not_listed = "GET v1/servers does not list it; ";
                Knowledge {
                    read: read_each(missing, READS_AT_ONCE, |id| self.read(id, not_listed)).await,
                    list: Some(Ok(list)),
                }
            }
            Err(error) => Knowledge {
                list: Some(Err(error)),
                read: BTreeMap::new(),
            },
        }
    }

    /// Whether the list has no server for one of the nodes that go by their names.
    fn some_unknown(&self, nodes: &[Arc<Node>], questions: &[Question], list: &ServerList) -> bool {
        let index = question::Index::new(list, self.match_by_address);
        nodes.iter().zip(questions).any(|(node, question)| {
            *question == Question::Which && matches!(index.find(node), question::Match::Nobody)
        })
    }

    async fn list(&self) -> Result<ServerList, CloudError> {
        let list = self.api.servers().await?;
        for bad in &list.unreadable {
            let text = bad.to_string();
            if self.reported.is_new(&text) {
                warn!(error = text, "leaving a server out");
            }
        }
        Ok(list)
    }

    async fn read(&self, id: ServerId, before: &str) -> Reading<Server> {
        match self.api.server(id).await {
            Ok(server) => Reading::Found(Box::new(server)),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Reading::Gone(Evidence {
                text: format!("{before}GET v1/servers/{id} answered 404"),
                at: self.clock.now(),
            }),
            Err(error) => Reading::Failed(error),
        }
    }

    fn report_renamed(&self, server: &Server, node: &Node) {
        if is_renamed(server, node)
            && self
                .reported
                .is_new(&format!("{} {}", node.uid, server.name))
        {
            info!(
                node = node.name,
                server = %server.id,
                name = server.name,
                "the server has another name than its node; the node keeps its host name"
            );
        }
    }

    async fn check(&self) -> Result<(), CloudError> {
        let listing = self.listing.since(Instant::now(), self.list()).await?;
        if !self.listing.is_current(&listing) {
            let text = "the API token changed while GET v1/servers was under way";
            return Err(CloudError::new(CloudErrorKind::Unavailable, text));
        }
        Ok(())
    }
}

fn ids_of(questions: &[Question]) -> BTreeSet<ServerId> {
    let ids = questions.iter().filter_map(|question| match question {
        Question::About(id) => Some(*id),
        _ => None,
    });
    ids.collect()
}

fn missing(ids: &BTreeSet<ServerId>, list: &ServerList) -> BTreeSet<ServerId> {
    let unreadable: BTreeSet<ServerId> = list.unreadable.iter().filter_map(|bad| bad.id).collect();
    ids.iter()
        .filter(|id| !list.servers.contains_key(id) && !unreadable.contains(id))
        .copied()
        .collect()
}

impl Instances for Servers {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes))
    }

    /// Lists the servers, always anew: what the deletion of a node rests on must be readable.
    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(self.check())
    }
}

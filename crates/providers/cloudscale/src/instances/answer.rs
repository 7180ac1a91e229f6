//! From what was gathered to the answer about one node. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind, Lookup, Node};
use bowline_http::lookup::Reading;

use super::describe::describe;
use super::question::{Index, Match, Question};
use crate::api::{Server, ServerList};
use crate::id::ServerId;

/// What was gathered for all nodes of one look-up.
#[derive(Default)]
pub(super) struct Knowledge {
    /// All servers; none if they were not asked for.
    pub(super) list: Option<Result<Arc<ServerList>, CloudError>>,
    /// Servers that were read one by one; they count more than the list.
    pub(super) read: BTreeMap<ServerId, Reading<Server>>,
}

impl Knowledge {
    fn list(&self) -> Option<&ServerList> {
        self.list.as_ref()?.as_deref().ok()
    }

    /// The list by name and address, if there is one.
    pub(super) fn index(&self, match_by_address: bool) -> Option<Index<'_>> {
        self.list().map(|list| Index::new(list, match_by_address))
    }

    /// The server of a node, or the whole answer if there is none.
    pub(super) fn server<'a>(
        &'a self,
        index: Option<&Index<'a>>,
        node: &Node,
        question: &Question,
    ) -> Result<&'a Server, Lookup> {
        match question {
            Question::None => Err(Lookup::NotMine),
            Question::Malformed(error) => Err(Lookup::CannotTell(CloudError::new(
                CloudErrorKind::Invalid,
                error.to_string(),
            ))),
            Question::About(id) => self.by_id(*id),
            Question::Which => match index.map(|index| index.find(node)) {
                Some(Match::One(server)) => Ok(server),
                Some(Match::Nobody) => Err(Lookup::NotMine),
                Some(Match::Unclear(text)) => Err(Lookup::CannotTell(Match::unclear(&text))),
                None => Err(self.no_list()),
            },
        }
    }

    fn by_id(&self, id: ServerId) -> Result<&Server, Lookup> {
        if let Some(reading) = self.read.get(&id) {
            return reading.machine();
        }
        let Some(list) = self.list() else {
            return Err(self.no_list());
        };
        if let Some(server) = list.servers.get(&id) {
            return Ok(server);
        }
        let unreadable = list.unreadable.iter().find(|bad| bad.id == Some(id));
        Err(Lookup::CannotTell(match unreadable {
            Some(bad) => bad.clone().into(),
            None => CloudError::new(
                CloudErrorKind::Unknown,
                format!(
                    "GET v1/servers does not list server {id}, and too many servers are missing \
                     to ask for each"
                ),
            ),
        }))
    }

    fn no_list(&self) -> Lookup {
        Lookup::CannotTell(match &self.list {
            Some(Err(error)) => error.copy(),
            _ => CloudError::new(CloudErrorKind::Unknown, "GET v1/servers was not asked"),
        })
    }
}

pub(super) fn found(server: &Server, node: &Node) -> Lookup {
    Lookup::Found(Box::new(describe(server, node)))
}

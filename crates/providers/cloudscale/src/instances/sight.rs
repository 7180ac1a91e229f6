//! What the token has shown so far, and whether that proves that it sees the right project. Pure.

use std::collections::BTreeSet;

use crate::api::ServerList;
use crate::id::ServerId;

/// Servers that are remembered. One that still exists is enough, so that the memory may begin anew
/// when it is full: the next look-up brings the living ones back.
const REMEMBERED: usize = 4096;

/// How the server of a node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By its id, which no other project has.
    Id,
    /// By its name or address, which another project may have too.
    Likeness,
}

/// Which servers of the cluster's nodes were seen, and whether with the token in use.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// Counts the tokens.
    token: u64,
    /// Whether this token has shown the server of one of the cluster's nodes.
    proven: bool,
    /// Servers of the cluster's nodes, seen with this token or an earlier one.
    seen: BTreeSet<ServerId>,
}

impl Sight {
    /// The token in use, by number. What it answered is void once the number has changed.
    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// Another token is in use; it has to prove itself.
    pub(super) fn token_changed(&mut self) {
        self.token += 1;
        self.proven = false;
    }

    /// The token of that number has shown the servers of these nodes.
    ///
    /// The first token is believed a likeness, or a new cluster would prove nothing for long; a
    /// later one may be of another project with servers of the same names.
    pub(super) fn saw(&mut self, token: u64, servers: impl IntoIterator<Item = (ServerId, By)>) {
        for (server, by) in servers {
            self.proven |= token == self.token && (by == By::Id || token == 0);
            if self.seen.len() >= REMEMBERED && !self.seen.contains(&server) {
                self.seen.clear();
            }
            self.seen.insert(server);
        }
    }

    /// Whether a list that the token in use has just given proves that it sees the cluster's
    /// project, so that what it does not see is really gone; else why not.
    ///
    /// A token belongs to one project for ever. So one server of the cluster, once seen, is proof;
    /// after a change of tokens a server seen before must be seen again; and as long as nothing
    /// was ever seen, an empty project is as likely the wrong one.
    pub(super) fn judge(&mut self, list: &ServerList) -> Result<(), String> {
        if self.proven {
            return Ok(());
        }
        if self.seen.is_empty() {
            let any = !list.servers.is_empty() || !list.unreadable.is_empty();
            return any.then_some(()).ok_or_else(|| {
                "the project of the API token has no servers at all; is it the right project?"
                    .to_owned()
            });
        }
        if self.seen.iter().any(|id| list.servers.contains_key(id)) {
            self.proven = true;
            return Ok(());
        }
        Err(format!(
            "the API token shows none of the {} servers seen before; is it of the same project?",
            self.seen.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances::examples::server;

    fn list(servers: &[&crate::api::Server]) -> ServerList {
        ServerList {
            servers: servers.iter().map(|s| (s.id, (*s).clone())).collect(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn an_empty_project_proves_nothing_until_a_server_was_seen() {
        let ours = server("a", &[]);
        let mut sight = Sight::default();
        assert!(sight.judge(&list(&[])).is_err());
        assert!(sight.judge(&list(&[&ours])).is_ok());
        assert!(
            sight.judge(&list(&[])).is_err(),
            "a list alone is not a node found"
        );
        sight.saw(0, [(ours.id, By::Likeness)]);
        assert!(sight.judge(&list(&[])).is_ok(), "the last server may go");
    }

    #[test]
    fn a_server_found_by_its_id_proves_a_new_token_and_the_memory_is_bounded() {
        let mut sight = Sight::default();
        sight.token_changed();
        let fleet: Vec<_> = (0..=REMEMBERED).map(|_| server("w", &[]).id).collect();
        sight.saw(1, fleet.iter().map(|id| (*id, By::Likeness)));
        assert_eq!(sight.seen.len(), 1, "the memory began anew");
        assert!(sight.judge(&list(&[])).is_err());
        sight.saw(1, [(fleet[0], By::Id)]);
        assert!(sight.judge(&list(&[])).is_ok());
    }

    #[test]
    fn a_new_token_must_show_a_server_seen_before() {
        let (ours, theirs) = (server("a", &[]), server("b", &[]));
        let mut sight = Sight::default();
        sight.saw(0, [(ours.id, By::Likeness)]);
        sight.token_changed();
        for elsewhere in [list(&[]), list(&[&theirs])] {
            let why = sight.judge(&elsewhere).unwrap_err();
            assert!(why.contains("none of the 1 servers"), "{why}");
        }
        sight.saw(0, [(theirs.id, By::Id)]);
        sight.saw(1, [(theirs.id, By::Likeness)]);
        assert!(
            sight.judge(&list(&[])).is_err(),
            "an answer to the old token, and a mere likeness, prove nothing"
        );
        assert!(sight.judge(&list(&[&ours])).is_ok());
        assert!(sight.judge(&list(&[])).is_ok(), "it has proven itself");
    }
}

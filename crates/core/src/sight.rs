//! What credentials have shown so far, and whether that proves that they see the right place.
//!
//! Credentials of another account see none of the cluster's machines, and are told so: 404. Before
//! that is believed of a machine, the credentials in use must have shown that they see the cluster.

use std::collections::BTreeSet;

/// Machines that are remembered. One that still exists is enough, so that the memory may begin anew
/// when it is full: the next look-up brings the living ones back.
const REMEMBERED: usize = 4096;

/// How the machine of a node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By its id, which no other account has.
    Id,
    /// By its name or address, which another account may have too.
    Likeness,
}

/// Why the credentials in use prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// No machine was ever seen, and there is none at all.
    Empty,
    /// None of so many machines that were seen before can be seen.
    Elsewhere(usize),
}

/// Which machines of the cluster's nodes were seen, and whether with the credentials in use.
#[derive(Clone, Debug)]
pub struct Sight<Id> {
    /// Counts the credentials.
    credentials: u64,
    /// Whether these have shown the machine of one of the cluster's nodes.
    proven: bool,
    /// Machines of the cluster's nodes, seen with these credentials or earlier ones.
    seen: BTreeSet<Id>,
}

impl<Id> Default for Sight<Id> {
    fn default() -> Self {
        Self {
            credentials: 0,
            proven: false,
            seen: BTreeSet::new(),
        }
    }
}

impl<Id: Ord + Copy> Sight<Id> {
    /// The credentials in use, by number. What they answered is void once the number has changed.
    pub fn credentials(&self) -> u64 {
        self.credentials
    }

    /// Other credentials are in use; they have to prove themselves.
    pub fn credentials_changed(&mut self) {
        self.credentials += 1;
        self.proven = false;
    }

    /// Whether the credentials in use have proven themselves.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// The machines seen, in order.
    pub fn seen(&self) -> impl Iterator<Item = Id> + '_ {
        self.seen.iter().copied()
    }

    /// The credentials of that number have shown the machines of these nodes.
    ///
    /// The first ones are believed a likeness, or a new cluster would prove nothing for long; later
    /// ones may be of another account with machines of the same names.
    pub fn saw(&mut self, credentials: u64, machines: impl IntoIterator<Item = (Id, By)>) {
        for (machine, by) in machines {
            self.proven |= credentials == self.credentials && (by == By::Id || credentials == 0);
            if self.seen.len() >= REMEMBERED && !self.seen.contains(&machine) {
                self.seen.clear();
            }
            self.seen.insert(machine);
        }
    }

    /// Whether a list that the credentials in use have just given proves that they see the cluster,
    /// so that what they do not see is really gone; else why not. `any` says whether there is
    /// anything in the list, `shows` whether a machine is.
    ///
    /// Credentials belong to one account for ever. So one machine of the cluster, once seen, is
    /// proof; after a change a machine seen before must be seen again; and as long as nothing was
    /// ever seen, an empty account is as likely the wrong one.
    pub fn judge(&mut self, any: bool, shows: impl Fn(&Id) -> bool) -> Result<(), Unproven> {
        if self.proven {
            return Ok(());
        }
        if self.seen.is_empty() {
            return any.then_some(()).ok_or(Unproven::Empty);
        }
        if self.seen.iter().any(shows) {
            self.proven = true;
            return Ok(());
        }
        Err(Unproven::Elsewhere(self.seen.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(sight: &mut Sight<usize>, list: &[usize]) -> Result<(), Unproven> {
        sight.judge(!list.is_empty(), |id| list.contains(id))
    }

    #[test]
    fn an_empty_account_proves_nothing_until_a_machine_was_seen() {
        let mut sight = Sight::default();
        assert_eq!(judged(&mut sight, &[]), Err(Unproven::Empty));
        assert_eq!(judged(&mut sight, &[1]), Ok(()));
        assert!(
            judged(&mut sight, &[]).is_err() && !sight.is_proven(),
            "a list alone is not a node found"
        );
        sight.saw(0, [(1, By::Likeness)]);
        assert_eq!(judged(&mut sight, &[]), Ok(()), "the last machine may go");
    }

    #[test]
    fn a_machine_found_by_its_id_proves_new_credentials_and_the_memory_is_bounded() {
        let mut sight = Sight::default();
        sight.credentials_changed();
        sight.saw(1, (0..=REMEMBERED).map(|id| (id, By::Likeness)));
        assert_eq!(sight.seen().count(), 1, "the memory began anew");
        assert!(judged(&mut sight, &[]).is_err());
        sight.saw(1, [(0, By::Id)]);
        assert_eq!(judged(&mut sight, &[]), Ok(()));
    }

    #[test]
    fn new_credentials_must_show_a_machine_seen_before() {
        let mut sight = Sight::default();
        sight.saw(0, [(1, By::Likeness)]);
        sight.credentials_changed();
        for elsewhere in [&[][..], &[2]] {
            assert_eq!(judged(&mut sight, elsewhere), Err(Unproven::Elsewhere(1)));
        }
        sight.saw(0, [(2, By::Id)]);
        sight.saw(1, [(2, By::Likeness)]);
        assert!(
            judged(&mut sight, &[]).is_err(),
            "an answer to the old credentials, and a mere likeness, prove nothing"
        );
        assert_eq!(judged(&mut sight, &[1]), Ok(()));
        assert_eq!(
            judged(&mut sight, &[]),
            Ok(()),
            "they have proven themselves"
        );
    }
}

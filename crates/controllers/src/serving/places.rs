//! Limits the number of connections. A new connection always gets in, because probes and operators are
//! new; an old one is closed for it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::patience::{ConnectionState, Tracker};

/// Connections at the same time. Probes and scrapers need a handful; more would cost memory only.
const LIMIT: usize = 256;
/// Of these, the ones that callers from elsewhere cannot have: the kubelet's probes come from the host.
const KEPT_FOR_LOCAL: usize = 32;
/// How often people hear that connections are closed because there are too many.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A connection, as far as the choice goes.
#[derive(Clone, Copy, Debug)]
struct Guest {
    /// In the order of arrival.
    id: u64,
    local: bool,
    standing: ConnectionState,
}

/// Who is closed for a newcomer, if there is no place left.
fn victim(guests: &[Guest], newcomer_is_local: bool) -> Option<u64> {
    let locals = guests.iter().filter(|guest| guest.local).count();
    let strangers = guests.len() - locals;
    if !newcomer_is_local && strangers >= LIMIT - KEPT_FOR_LOCAL {
        least(guests.iter().filter(|guest| !guest.local))
    } else if guests.len() < LIMIT {
        None
    } else if !newcomer_is_local {
        // Callers from here have more than is kept for them.
        least(guests.iter().filter(|guest| guest.local))
    } else if locals < KEPT_FOR_LOCAL {
        least(guests.iter().filter(|guest| !guest.local))
    } else {
        least(guests.iter())
    }
}

/// The oldest connection without a finished request. Only if more than half have finished one, it is the one that has
/// rested the longest: whoever keeps many of those must not make newcomers push each other out.
fn least<'a>(among: impl Iterator<Item = &'a Guest>) -> Option<u64> {
    let (mut unfinished, mut served) = (Vec::new(), Vec::new());
    for guest in among {
        match guest.standing {
            ConnectionState::Unfinished => unfinished.push(guest.id),
            ConnectionState::Served { busy, since } => served.push((busy, since, guest.id)),
        }
    }
    let resting = served.iter().min().map(|(_, _, id)| *id);
    if served.len() > unfinished.len() {
        resting
    } else {
        unfinished.into_iter().min().or(resting)
    }
}

/// Whether an address is loopback's or one of this host's: the kernel would answer it from that same address. Nothing is
/// sent.
pub(super) fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = || {
        let socket = UdpSocket::bind((any, 0))?;
        // The port does not matter.
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    address.is_loopback() || from().is_ok_and(|from| from.ip() == address)
}

/// The connections that there are.
#[derive(Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    next: u64,
    guests: BTreeMap<u64, (bool, Tracker)>,
    reported: Option<Instant>,
}

/// A connection's place, until it is dropped.
pub(super) struct ConnectionPlace {
    id: u64,
    places: Arc<Places>,
    pub(super) tracker: Tracker,
}

impl Places {
    /// Gives the newcomer a place, if need be another's.
    pub(super) fn take(self: &Arc<Self>, local: bool) -> ConnectionPlace {
        let tracker = Tracker::new();
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.make_room(local);
        let id = taken.next;
        taken.next += 1;
        taken.guests.insert(id, (local, tracker.clone()));
        ConnectionPlace {
            id,
            places: Arc::clone(self),
            tracker,
        }
    }
}

impl Taken {
    fn make_room(&mut self, local: bool) {
        let guests: Vec<Guest> = (self.guests.iter())
            .map(|(id, (local, tracker))| Guest {
                id: *id,
                local: *local,
                standing: tracker.standing(),
            })
            .collect();
        let victim = victim(&guests, local).and_then(|id| self.guests.remove(&id));
        let Some((_, tracker)) = victim else {
            return;
        };
        tracker.evict();
        let now = Instant::now();
        if self.reported.is_none_or(|at| now >= at + REPORT_INTERVAL) {
            self.reported = Some(now);
            tracing::warn!(
                limit = LIMIT,
                "too many connections to the serving port: closing the oldest without a finished request"
            );
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.guests.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: usize = LIMIT - KEPT_FOR_LOCAL;

    /// So many connections of each kind, in this order of arrival: (local, finished one, number).
    fn hall(groups: &[(bool, bool, usize)]) -> Vec<Guest> {
        let now = Instant::now();
        let kinds = groups.iter().flat_map(|(local, finished, number)| {
            std::iter::repeat_n((*local, *finished), *number)
        });
        (0..)
            .zip(kinds)
            .map(|(id, (local, finished))| Guest {
                id,
                local,
                standing: if finished {
                    ConnectionState::Served {
                        busy: false,
                        // The last to come has rested the longest.
                        since: now - Duration::from_millis(id),
                    }
                } else {
                    ConnectionState::Unfinished
                },
            })
            .collect()
    }

    #[test]
    fn proof_case_39_who_is_closed_for_whom() {
        const HERE: bool = true;
        const AWAY: bool = false;
        const DONE: bool = true;
        const OPEN: bool = false;
        for (case, groups, for_here, for_away) in [
            ("nobody", &[] as &[_], None, None),
            ("a few", &[(AWAY, OPEN, 10), (HERE, OPEN, 10)], None, None),
            ("one place left", &[(AWAY, OPEN, FREE - 1)], None, None),
            (
                "strangers have theirs",
                &[(AWAY, OPEN, FREE)],
                None,
                Some(0),
            ),
            (
                "a scraper came first",
                &[(AWAY, DONE, 1), (AWAY, OPEN, FREE - 1)],
                None,
                Some(1),
            ),
            (
                "the probes' places are full, and the strangers'",
                &[(HERE, OPEN, KEPT_FOR_LOCAL), (AWAY, OPEN, FREE)],
                Some(0),
                Some(KEPT_FOR_LOCAL),
            ),
            (
                "full, but some are kept for probes",
                &[(HERE, OPEN, KEPT_FOR_LOCAL - 1), (AWAY, OPEN, FREE + 1)],
                Some(KEPT_FOR_LOCAL - 1),
                Some(KEPT_FOR_LOCAL - 1),
            ),
            (
                "callers from here took all",
                &[(HERE, DONE, 3), (HERE, OPEN, LIMIT - 3)],
                Some(3),
                Some(3),
            ),
            (
                "a stranger's place taken from here",
                &[(AWAY, OPEN, 100), (HERE, OPEN, LIMIT - 100)],
                Some(0),
                Some(100),
            ),
            (
                "all have finished a request: the longest at rest",
                &[(AWAY, DONE, FREE)],
                None,
                Some(FREE - 1),
            ),
            (
                "most have: newcomers do not push each other out",
                &[(AWAY, DONE, FREE - 2), (AWAY, OPEN, 2)],
                None,
                Some(FREE - 3),
            ),
        ] {
            let guests = hall(groups);
            let id = |index: Option<usize>| index.map(|index| index as u64);
            assert_eq!(victim(&guests, HERE), id(for_here), "{case}, from here");
            assert_eq!(victim(&guests, AWAY), id(for_away), "{case}, from away");
        }
    }

    #[test]
    fn who_is_answered_goes_last() {
        let mut guests = hall(&[(false, true, FREE)]);
        for guest in guests.iter_mut().skip(7) {
            if let ConnectionState::Served { busy, .. } = &mut guest.standing {
                *busy = true;
            }
        }
        assert_eq!(victim(&guests, false), Some(6));
    }

    #[test]
    fn loopback_and_the_host_s_own_addresses_are_local() {
        for (address, local) in [
            ("127.0.0.1", true),
            ("127.200.3.4", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.1", false),
            ("::ffff:192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_local(address.parse().unwrap()), local, "{address}");
        }
        // Whatever address this host would speak from, if it has any.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        if socket.connect(("192.0.2.1", 9)).is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(is_local(own), "{own}");
        }
    }
}

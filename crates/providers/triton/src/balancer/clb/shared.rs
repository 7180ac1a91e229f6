//! A load balancer machine that somebody else looks after, and whose port map several Services and other
//! people share. Pure.
//!
//! Ours in the map is what the record says, letter for letter; everything else stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Problem, Service, ServiceKey};
use jiff::Timestamp;

use super::portmap::{Entry, split};

/// The reason of events about ports that somebody else has.
const PORT_CONFLICT: &str = "PortConflict";

/// A Service that names the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: ServiceKey,
    pub(crate) created: Timestamp,
    pub(crate) ports: BTreeSet<u16>,
}

impl Claim {
    pub(crate) fn of(service: &Service) -> Self {
        Self {
            key: service.key.clone(),
            created: service.created,
            ports: service.ports.iter().map(|port| port.port).collect(),
        }
    }

    /// Whether it comes before another one.
    fn precedes(&self, other: &Self) -> bool {
        (self.created, &self.key) < (other.created, &other.key)
    }
}

/// A port map and the record of what in it is ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedMap {
    pub(crate) portmap: String,
    pub(crate) record: String,
}

impl SharedMap {
    fn recorded(&self) -> Vec<&str> {
        split(&self.record)
    }

    /// What is not ours.
    fn foreign(&self) -> Vec<&str> {
        let ours: BTreeSet<&str> = self.recorded().into_iter().collect();
        let all = split(&self.portmap).into_iter();
        all.filter(|it| !ours.contains(it)).collect()
    }

    /// Whether something in it is that of a Service with these ports.
    pub(crate) fn has(&self, ports: &BTreeSet<u16>) -> bool {
        let mut listens = self.recorded().into_iter().filter_map(listen);
        listens.any(|it| ports.contains(&it))
    }

    /// The map with `entries` for the Service `own`, and for the `others` what they have in it: each Service
    /// brings its own in. What a Service that is gone has left goes.
    pub(crate) fn with(&self, own: &ServiceKey, entries: &[String], others: &[Claim]) -> Self {
        let mut owned: BTreeMap<(&ServiceKey, u16), &str> = BTreeMap::new();
        for text in self.recorded() {
            let Some(port) = listen(text) else {
                continue;
            };
            let holders = others.iter().filter(|it| it.ports.contains(&port));
            let first = holders.reduce(|one, other| if other.precedes(one) { other } else { one });
            if let Some(holder) = first {
                owned.insert((&holder.key, port), text);
            }
        }
        for text in entries {
            if let Some(port) = listen(text) {
                // Whoever had the port before had it wrongly.
                owned.retain(|(_, other), _| *other != port);
                owned.insert((own, port), text);
            }
        }
        let ours: Vec<&str> = owned.into_values().collect();
        let mut all = self.foreign();
        all.extend(&ours);
        Self {
            portmap: all.join(","),
            record: ours.join(","),
        }
    }

    /// Which of a Service's entries can be in the map: not those whose port an older Service or somebody
    /// else has.
    pub(crate) fn admit(
        &self,
        own: &Claim,
        entries: &[Entry],
        others: &[Claim],
    ) -> (Vec<String>, Vec<Problem>) {
        let mut admitted = Vec::new();
        let mut problems = Vec::new();
        let foreign = self.foreign();
        for entry in entries {
            let port = entry.listen;
            let older = others
                .iter()
                .find(|it| it.ports.contains(&port) && it.precedes(own));
            let theirs = foreign.iter().find(|it| listen(it) == Some(port));
            let holder = match (older, theirs) {
                (Some(older), _) => format!("that of Service {}, which is older", older.key),
                (None, Some(theirs)) => format!("taken by an entry that is not ours ({theirs})"),
                (None, None) => {
                    admitted.push(entry.to_string());
                    continue;
                }
            };
            problems.push(Problem {
                reason: PORT_CONFLICT,
                message: format!("port {port} of the shared load balancer machine is {holder}"),
            });
        }
        (admitted, problems)
    }
}

/// The port that a designation listens on, also of one that the appliance would drop for another reason.
fn listen(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("://")?;
    let digits = rest.split(':').next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = "tcp://25:mail.example.com:25";

    fn claim(name: &str, created: i64, ports: &[u16]) -> Claim {
        Claim {
            key: ServiceKey {
                namespace: "prod".to_owned(),
                name: name.to_owned(),
            },
            created: Timestamp::from_second(created).unwrap(),
            ports: ports.iter().copied().collect(),
        }
    }

    fn entry(port: u16) -> Entry {
        Entry::parse(&format!("tcp://{port}:n:3{port:04}")).unwrap()
    }

    fn map(portmap: &str, record: &str) -> SharedMap {
        SharedMap {
            portmap: portmap.to_owned(),
            record: record.to_owned(),
        }
    }

    #[test]
    fn services_come_and_go_and_what_is_not_theirs_stays() {
        let (a, b) = (claim("a", 1, &[80]), claim("b", 2, &[8080]));
        let empty = map(MAIL, "");
        let (one, _) = empty.admit(&a, &[entry(80)], std::slice::from_ref(&b));
        let one = empty.with(&a.key, &one, std::slice::from_ref(&b));
        assert_eq!(
            one,
            map(&format!("{MAIL},tcp://80:n:30080"), "tcp://80:n:30080")
        );
        let (two, _) = one.admit(&b, &[entry(8080)], std::slice::from_ref(&a));
        let two = one.with(&b.key, &two, std::slice::from_ref(&a));
        let ours = "tcp://80:n:30080,tcp://8080:n:38080";
        assert_eq!(two, map(&format!("{MAIL},{ours}"), ours));
        assert_eq!(
            two.with(&b.key, &[entry(8080).to_string()], std::slice::from_ref(&a)),
            two
        );
        assert!(two.has(&b.ports) && !one.has(&b.ports));
        let left = two.with(&a.key, &[], std::slice::from_ref(&b));
        assert_eq!(
            left,
            map(&format!("{MAIL},tcp://8080:n:38080"), "tcp://8080:n:38080")
        );
        assert_eq!(left.with(&b.key, &[], &[]), map(MAIL, ""));
    }

    #[test]
    fn what_services_left_behind_that_are_no_more_goes_with_the_next_change() {
        let a = claim("a", 1, &[80]);
        let old = map("tcp://81:n:1,tcp://82:m:2", "tcp://81:n:1");
        let new = old.with(&a.key, &[entry(80).to_string()], &[]);
        assert_eq!(
            new,
            map("tcp://82:m:2,tcp://80:n:30080", "tcp://80:n:30080")
        );
    }

    #[test]
    fn the_older_service_has_the_port_and_whoever_is_not_ours_keeps_theirs() {
        let (old, young) = (claim("z", 1, &[80]), claim("a", 2, &[80, 81]));
        let empty = map("tcp://81:theirs:1", "");
        let (admitted, problems) = empty.admit(
            &young,
            &[entry(80), entry(81), entry(82)],
            std::slice::from_ref(&old),
        );
        assert_eq!(admitted, ["tcp://82:n:30082"]);
        let reasons: Vec<&str> = problems.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, ["PortConflict"; 2]);
        assert!(problems[0].message.contains("prod/z"), "{problems:?}");
        assert!(
            problems[1].message.contains("tcp://81:theirs:1"),
            "{problems:?}"
        );
        let (admitted, problems) = empty.admit(&old, &[entry(80)], std::slice::from_ref(&young));
        assert_eq!((admitted.len(), problems.len()), (1, 0));
        // The young one was first, by chance; the older one takes over.
        let wrong = map("tcp://80:young:1", "tcp://80:young:1");
        let right = wrong.with(&old.key, &admitted, std::slice::from_ref(&young));
        assert_eq!(right, map("tcp://80:n:30080", "tcp://80:n:30080"));
    }
}

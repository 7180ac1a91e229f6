//! The port map of an appliance that somebody else manages, shared by several Services and other
//! people. Pure.
//!
//! Ours are the entries on record, letter for letter; everything else stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Problem, Service, ServiceKey};
use jiff::Timestamp;

use super::portmap::{Entry, split};

/// The reason of events about ports that somebody else has.
const PORT_CONFLICT: &str = "PortConflict";

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

    fn precedes(&self, other: &Self) -> bool {
        (self.created, &self.key) < (other.created, &other.key)
    }
}

/// A port map and the record of what in it is of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedMap {
    pub(crate) portmap: String,
    pub(crate) record: String,
}

/// The port map from one cluster's point of view. Other clusters write the record too; the labels
/// of its nodes show which entries are this cluster's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) map: &'a SharedMap,
    pub(crate) labels: &'a BTreeSet<String>,
    /// The Services that name the machine, without the one that it is about.
    pub(crate) others: &'a [Claim],
}

impl<'a> View<'a> {
    fn is_of_cluster(&self, text: &str) -> bool {
        let backend = Entry::parse(text).map(|it| it.backend).unwrap_or_default();
        let mut labels = self.labels.iter();
        // `<network>.<label>.svc.…` or `<label>.svc.…`.
        labels.any(|label| {
            let begin = format!("{label}.svc.");
            backend.starts_with(&begin) || backend.contains(&format!(".{begin}"))
        })
    }

    fn ours(&self) -> Vec<&'a str> {
        let recorded = split(&self.map.record).into_iter();
        recorded.filter(|it| self.is_of_cluster(it)).collect()
    }

    fn without_ours(&self, map: &'a str) -> Vec<&'a str> {
        let ours: BTreeSet<&str> = self.ours().into_iter().collect();
        let all = split(map).into_iter();
        all.filter(|it| !ours.contains(it)).collect()
    }

    /// The map with `entries` for the Service `dedicated`, and for the others what they have in it:
    /// each Service brings its own in. What a Service that is gone has left goes.
    pub(crate) fn with(&self, own: &ServiceKey, entries: &[String]) -> SharedMap {
        let mut owned: BTreeMap<(&ServiceKey, u16), &str> = BTreeMap::new();
        for text in self.ours() {
            let Some(port) = listen(text) else {
                continue;
            };
            let holders = self.others.iter().filter(|it| it.ports.contains(&port));
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
        let with_ours = |mut rest: Vec<&'a str>| -> String {
            let mut all: Vec<&str> = std::mem::take(&mut rest);
            all.extend(&ours);
            all.join(",")
        };
        SharedMap {
            portmap: with_ours(self.without_ours(&self.map.portmap)),
            record: with_ours(self.without_ours(&self.map.record)),
        }
    }

    /// Which of a Service's entries can be in the map: not those whose port an older Service or
    /// somebody else has.
    pub(crate) fn admit(&self, own: &Claim, entries: &[Entry]) -> (Vec<String>, Vec<Problem>) {
        let mut admitted = Vec::new();
        let mut problems = Vec::new();
        let foreign = self.without_ours(&self.map.portmap);
        for entry in entries {
            let port = entry.listen;
            let older = self
                .others
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

/// The port that a designation listens on, also of one that the appliance would drop for another
/// reason.
fn listen(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("://")?;
    let digits = rest.split(':').next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = "tcp://25:mail.example.com:25";
    const OTHER: &str = "tcp://90:k8s-nodes-dddddddd.svc.a.z:30090";

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
        let text = format!("tcp://{port}:net.k8s-nodes-cccccccc.svc.a.z:3{port:04}");
        Entry::parse(&text).unwrap()
    }

    fn map(portmap: &[&str], record: &[&str]) -> SharedMap {
        SharedMap {
            portmap: portmap.join(","),
            record: record.join(","),
        }
    }

    fn with(map: &SharedMap, own: &Claim, ports: &[u16], others: &[Claim]) -> SharedMap {
        let labels = BTreeSet::from(["k8s-nodes-cccccccc".to_owned(), "be-3f0c2a9e".to_owned()]);
        let view = View {
            map,
            labels: &labels,
            others,
        };
        let entries: Vec<Entry> = ports.iter().map(|port| entry(*port)).collect();
        let (admitted, _) = view.admit(own, &entries);
        view.with(&own.key, &admitted)
    }

    fn problems(map: &SharedMap, own: &Claim, others: &[Claim]) -> Vec<String> {
        let labels = BTreeSet::from(["k8s-nodes-cccccccc".to_owned()]);
        let view = View {
            map,
            labels: &labels,
            others,
        };
        let entries: Vec<Entry> = own.ports.iter().map(|port| entry(*port)).collect();
        let problems = view.admit(own, &entries).1.into_iter();
        problems
            .map(|it| format!("{}: {}", it.reason, it.message))
            .collect()
    }

    #[test]
    fn services_come_and_go_and_what_is_not_theirs_stays() {
        let (a, b) = (claim("a", 1, &[80]), claim("b", 2, &[8080]));
        let (at80, at8080) = (entry(80).to_string(), entry(8080).to_string());
        let (just_a, just_b) = ([a.clone()], [b.clone()]);
        let empty = map(&[MAIL, OTHER], &[OTHER]);
        let one = with(&empty, &a, &[80], &just_b);
        assert_eq!(one, map(&[MAIL, OTHER, &at80], &[OTHER, &at80]));
        let two = with(&one, &b, &[8080], &just_a);
        let all = map(&[MAIL, OTHER, &at80, &at8080], &[OTHER, &at80, &at8080]);
        assert_eq!(two, all);
        assert_eq!(with(&two, &b, &[8080], &just_a), two, "nothing to do");
        let left = with(&two, &a, &[], &just_b);
        assert_eq!(left, map(&[MAIL, OTHER, &at8080], &[OTHER, &at8080]));
        assert_eq!(with(&left, &b, &[], &[]), empty);
    }

    #[test]
    fn what_services_left_behind_that_are_no_more_goes_with_the_next_change() {
        let a = claim("a", 1, &[80]);
        let (at80, at81) = (entry(80).to_string(), entry(81).to_string());
        let selected = "tcp://82:net.be-3f0c2a9e.svc.a.z:2";
        let stranger = "tcp://83:net.be-00000000.svc.a.z:2";
        let old = map(&[&at81, selected, stranger], &[&at81, selected, stranger]);
        let new = with(&old, &a, &[80], &[]);
        assert_eq!(new, map(&[stranger, &at80], &[stranger, &at80]));
    }

    #[test]
    fn the_older_service_has_the_port_and_whoever_is_not_ours_keeps_theirs() {
        let (old, young) = (claim("z", 1, &[80]), claim("a", 2, &[80, 81, 82]));
        let (just_old, just_young) = ([old.clone()], [young.clone()]);
        let theirs = "tcp://81:theirs:1";
        let empty = map(&[theirs], &[]);
        let reported = problems(&empty, &young, &just_old);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported[0].starts_with("PortConflict") && reported[0].contains("prod/z"),
            "{reported:?}"
        );
        assert!(reported[1].contains(theirs), "{reported:?}");
        let at82 = entry(82).to_string();
        assert_eq!(
            with(&empty, &young, &[80, 81, 82], &just_old),
            map(&[theirs, &at82], &[&at82])
        );
        assert_eq!(problems(&empty, &old, &just_young), [""; 0]);
        // The young one was first, by chance; the older one takes over.
        let young80 = "tcp://80:k8s-nodes-cccccccc.svc.a.z:1";
        let right = with(&map(&[young80], &[young80]), &old, &[80], &just_young);
        let at80 = entry(80).to_string();
        assert_eq!(right, map(&[&at80], &[&at80]));
    }
}

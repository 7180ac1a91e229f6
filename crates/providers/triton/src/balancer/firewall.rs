//! Firewall rules: who may reach the load balancers, and what load balancers may reach. Mostly
//! pure.
//!
//! A rule is ours by its description: cluster, Service, kind, and a hash of the text that we want.
//! The server rewrites rule texts in its own form, so the hash is compared instead of the text.
//!
//! ```text
//!  Service ─▶ wanted rules ──┐
//!  the API ─▶ all rules ─────┴─▶ compare ─▶ make, change, remove
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bowline_core::{BalancerRequest, Notice, Protocol, allows_all};
use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{Api, ApiError, FirewallRule, WantedRule};

/// Ports of one rule: the limit where the operator has not raised it.
const MOST_PORTS: usize = 8;
/// Sources of one rule: the limit everywhere.
const MOST_SOURCES: usize = 24;
/// Digits of a hash, and of a cluster's uid.
const DIGITS: usize = 8;
const PREFIX: &str = "bowline";
/// Rules count as orphaned after no Service of their uid was seen for so long: a plan under way
/// does not know a Service created meanwhile.
const ORPHAN_AGE: Duration = Duration::from_secs(120);
/// Bound of the uids remembered as orphaned; the map is emptied when it is full.
const MOST_ORPHANS: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    cluster: String,
    cluster_uid: String,
    service_uid: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Clients to what serves them.
    Front(Carried),
    Back,
    Metrics,
}

/// What rules can name: no SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carried {
    Tcp,
    Udp,
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl Kind {
    fn carried(self) -> Carried {
        match self {
            Self::Front(carried) => carried,
            Self::Back | Self::Metrics => Carried::Tcp,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Front(_) => "front",
            Self::Back => "back",
            Self::Metrics => "metrics",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) rules: Vec<WantedRule>,
    pub(crate) notices: Vec<Notice>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines<'a> {
    pub(crate) ports: &'a BTreeSet<u16>,
    pub(crate) sources: &'a BTreeSet<IpNet>,
    /// Who may read metrics, and where; none if nobody.
    pub(crate) metrics: Option<(&'a BTreeSet<IpNet>, u16)>,
    /// What load balancers reach on nodes; none if no target has a firewall.
    pub(crate) back: Option<&'a BTreeSet<u16>>,
    /// The shared appliance; none for machines that bear the Service's tag.
    pub(crate) shared: Option<Uuid>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes<'a> {
    pub(crate) ports: &'a [(Protocol, u16)],
    pub(crate) sources: &'a BTreeSet<IpNet>,
    pub(crate) guarded: usize,
    pub(crate) open: usize,
    /// Whether kube-proxy sees where clients come from and enforces it (`direct`).
    pub(crate) enforced: bool,
    pub(crate) keeps_rules: bool,
}

impl Holder {
    pub(crate) fn new(cluster_uid: &str, service_uid: &str) -> Self {
        Self {
            cluster: cluster_uid.chars().take(DIGITS).collect(),
            cluster_uid: cluster_uid.to_owned(),
            service_uid: service_uid.to_owned(),
        }
    }

    pub(crate) fn of_machines(&self, opened: &Machines<'_>) -> Wanted {
        let mut wanted = Wanted::default();
        let balancers = match opened.shared {
            Some(machine) => format!("vm {machine}"),
            None => format!("tag \"bowline.uid\" = \"{}\"", self.service_uid),
        };
        let nodes = format!("tag \"bowline.node\" = \"{}\"", self.cluster_uid);
        let sources = sources(opened.sources, "source ranges", &mut wanted.notices);
        let front = Kind::Front(Carried::Tcp);
        self.add(&mut wanted.rules, front, &sources, &balancers, opened.ports);
        if let Some(ports) = opened.back {
            let from = [balancers.clone()];
            self.add(&mut wanted.rules, Kind::Back, &from, &nodes, ports);
        }
        if let Some((readers, port)) = opened.metrics {
            let from = self::sources(readers, "metrics_acl", &mut wanted.notices);
            let ports = BTreeSet::from([port]);
            self.add(&mut wanted.rules, Kind::Metrics, &from, &balancers, &ports);
        }
        wanted
    }

    pub(crate) fn of_nodes(&self, opened: &Nodes<'_>) -> Wanted {
        let mut wanted = Wanted::default();
        let guards = opened.keeps_rules && opened.guarded > 0;
        let unguarded = opened.open > 0 || (!opened.keeps_rules && opened.guarded > 0);
        if unguarded && !opened.enforced && !allows_all(opened.sources) {
            wanted.notices.push(not_enforced(opened));
        }
        if !guards {
            return wanted;
        }
        let nodes = format!("tag \"bowline.node\" = \"{}\"", self.cluster_uid);
        let sources = sources(opened.sources, "source ranges", &mut wanted.notices);
        for (protocol, carried) in [(Protocol::Tcp, Carried::Tcp), (Protocol::Udp, Carried::Udp)] {
            let same = opened.ports.iter().filter(|(it, _)| *it == protocol);
            let ports = same.map(|(_, port)| *port).collect();
            let kind = Kind::Front(carried);
            self.add(&mut wanted.rules, kind, &sources, &nodes, &ports);
        }
        for (protocol, port) in opened.ports {
            if let Protocol::Other(name) = protocol {
                wanted.notices.push(unsupported(name, *port));
            }
        }
        wanted
    }

    fn add(
        &self,
        rules: &mut Vec<WantedRule>,
        kind: Kind,
        sources: &[String],
        to: &str,
        ports: &BTreeSet<u16>,
    ) {
        let mut ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        ports.sort();
        let mut number = 0;
        for ports in ports.chunks(MOST_PORTS) {
            for sources in sources.chunks(MOST_SOURCES) {
                let text = format!(
                    "FROM {} TO {to} ALLOW {} {}",
                    list(sources, " OR "),
                    kind.carried(),
                    list(&ports_of(ports), " AND ")
                );
                rules.push(WantedRule {
                    description: self.description(&name(kind, number), &text),
                    rule: text,
                    enabled: true,
                });
                number += 1;
            }
        }
    }

    fn description(&self, kind: &str, text: &str) -> String {
        let (cluster, uid) = (&self.cluster, &self.service_uid);
        format!("{PREFIX}:{cluster}:{uid}:{kind}:{}", hash(text))
    }
}

/// `front-tcp`, `front-tcp-1`, …
fn name(kind: Kind, number: usize) -> String {
    let first = format!("{}-{}", kind.name(), kind.carried());
    match number {
        0 => first,
        _ => format!("{first}-{number}"),
    }
}

fn ports_of(ports: &[String]) -> Vec<String> {
    ports.iter().map(|port| format!("PORT {port}")).collect()
}

/// A list as rules have it: one alone has no parentheses.
fn list(items: &[String], between: &str) -> String {
    match items {
        [one] => one.clone(),
        _ => format!("({})", items.join(between)),
    }
}

fn hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.take(DIGITS / 2).collect()
}

/// Sources in the words of rules, sorted. Nothing if nobody may come: then there is no rule, and
/// the firewall lets nobody in.
fn sources(ranges: &BTreeSet<IpNet>, what: &str, notices: &mut Vec<Notice>) -> Vec<String> {
    if allows_all(ranges) {
        return vec!["any".to_owned()];
    }
    let sixes: Vec<String> = ranges
        .iter()
        .filter(|it| matches!(it, IpNet::V6(_)))
        .map(ToString::to_string)
        .collect();
    if !sixes.is_empty() {
        notices.push(Notice {
            warning: true,
            reason: "IPv6RangesIgnored",
            message: format!(
                "{what} {} have no effect: machines of this cloud have IPv4 addresses only",
                sixes.join(", ")
            ),
        });
    }
    let fours = ranges.iter().filter_map(|it| match it {
        IpNet::V4(net) if net.prefix_len() == 32 => Some(format!("ip {}", net.addr())),
        IpNet::V4(net) => Some(format!("subnet {}", net.trunc())),
        IpNet::V6(_) => None,
    });
    let sorted: BTreeSet<String> = fours.collect();
    sorted.into_iter().collect()
}

fn not_enforced(opened: &Nodes<'_>) -> Notice {
    let ranges: Vec<String> = opened.sources.iter().map(ToString::to_string).collect();
    let who = if opened.keeps_rules {
        format!("{} of the members have no firewall", opened.open)
    } else {
        "firewall rules are switched off (firewall=never)".to_owned()
    };
    Notice {
        warning: true,
        reason: "SourceRangesNotEnforced",
        message: format!(
            "nobody enforces the source ranges {}: {who}, and kube-proxy does not see node ports as those \
             of a load balancer; the Service is served all the same",
            ranges.join(", ")
        ),
    }
}

fn unsupported(protocol: &str, port: u16) -> Notice {
    Notice {
        warning: true,
        reason: "FirewallUnsupported",
        message: format!(
            "port {port}/{protocol} cannot be opened: firewall rules of this cloud know no {protocol}; \
             members whose firewall is on do not let it in"
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label<'a> {
    cluster: &'a str,
    service_uid: &'a str,
    kind: &'a str,
    hash: &'a str,
}

impl<'a> Label<'a> {
    fn of(rule: &'a FirewallRule) -> Option<Self> {
        Self::parse(&rule.description).filter(|_| !rule.global)
    }

    fn parse(description: &'a str) -> Option<Self> {
        let parts: Vec<&str> = description.split(':').collect();
        match parts.as_slice() {
            [PREFIX, cluster, service_uid, kind, hash] => Some(Self {
                cluster,
                service_uid,
                kind,
                hash,
            }),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleChange {
    Create(WantedRule),
    Update { id: Uuid, rule: WantedRule },
    Delete { id: Uuid, description: String },
}

impl RuleChange {
    /// The kind of the rule, with what it is called in plans: `front-tcp`.
    pub(crate) fn name(&self) -> &str {
        let description = match self {
            Self::Create(rule) | Self::Update { rule, .. } => &rule.description,
            Self::Delete { description, .. } => description,
        };
        Label::parse(description).map_or(description, |label| label.kind)
    }

    /// Carries it out, looking once more: a rule that was made meanwhile is not made twice, and one
    /// that does not say any more that it is this Service's is left alone.
    pub(crate) async fn carry_out(&self, api: &Api) -> Result<(), ApiError> {
        let there = api.firewall_rules().await?;
        match self {
            Self::Create(rule) => {
                let mut same = there.iter().filter(|it| !it.global && it.enabled);
                if same.any(|it| it.description == rule.description) {
                    return Ok(());
                }
                api.create_firewall_rule(rule).await.map(|_| ())
            }
            Self::Update { id, rule } if is_still(&there, *id, &rule.description) => {
                api.update_firewall_rule(*id, rule).await
            }
            Self::Delete { id, description } if is_still(&there, *id, description) => {
                api.delete_firewall_rule(*id).await.map(|_| ())
            }
            // Gone, or somebody else's by now: the next plan begins with that.
            Self::Update { .. } | Self::Delete { .. } => Ok(()),
        }
    }
}

/// Whether there is such a rule, of the cluster and Service that this description names.
fn is_still(there: &[FirewallRule], id: Uuid, description: &str) -> bool {
    let holder = |label: Label<'_>| (label.cluster.to_owned(), label.service_uid.to_owned());
    let wanted = Label::parse(description).map(holder);
    let found = there.iter().find(|it| it.id == id);
    wanted.is_some() && found.and_then(Label::of).map(holder) == wanted
}

/// From the rules that are there to those that are wanted. `is_gone` says of a Service's uid that
/// there is no such Service in this cluster. Rules of others are not looked at.
pub(crate) fn compare(
    holder: &Holder,
    wanted: &[WantedRule],
    there: &[FirewallRule],
    is_gone: impl Fn(&str) -> bool,
) -> Vec<RuleChange> {
    let mut own: BTreeMap<&str, Vec<(&FirewallRule, Label<'_>)>> = BTreeMap::new();
    let mut orphans = Vec::new();
    for rule in there {
        let Some(label) = Label::of(rule).filter(|it| it.cluster == holder.cluster) else {
            continue;
        };
        if label.service_uid == holder.service_uid {
            own.entry(label.kind).or_default().push((rule, label));
        } else if is_gone(label.service_uid) {
            orphans.push(rule);
        }
    }
    let mut changes = Vec::new();
    for rule in wanted {
        let label = Label::parse(&rule.description);
        let Some(Label { kind, hash, .. }) = label else {
            continue;
        };
        let same = own.remove(kind).unwrap_or_default();
        let good = |(it, label): &(&FirewallRule, Label<'_>)| it.enabled && label.hash == hash;
        let keep = same.iter().position(good).unwrap_or(0);
        match same.get(keep) {
            None => changes.push(RuleChange::Create(rule.clone())),
            Some(found) if good(found) => {}
            Some((found, _)) => changes.push(RuleChange::Update {
                id: found.id,
                rule: rule.clone(),
            }),
        }
        let spare = same.iter().enumerate().filter(|(at, _)| *at != keep);
        changes.extend(spare.map(|(_, (rule, _))| removal(rule)));
    }
    let stale = own.into_values().flatten().map(|(rule, _)| rule);
    changes.extend(stale.chain(orphans).map(removal));
    changes
}

/// Uids on rules of the cluster that no Service has, and since when.
#[derive(Debug, Default)]
pub(crate) struct Orphans(Mutex<BTreeMap<String, Instant>>);

impl Orphans {
    /// Whether there is no such Service in the cluster, for certain.
    pub(crate) fn is_gone(&self, request: &BalancerRequest, uid: &str) -> bool {
        let mut since = crate::lock(&self.0);
        if !request.all_known || request.all.iter().any(|it| it.uid == uid) {
            since.remove(uid);
            return false;
        }
        if since.len() >= MOST_ORPHANS {
            since.clear();
        }
        let since = since.entry(uid.to_owned()).or_insert_with(Instant::now);
        since.elapsed() >= ORPHAN_AGE
    }
}

fn removal(rule: &FirewallRule) -> RuleChange {
    RuleChange::Delete {
        id: rule.id,
        description: rule.description.clone(),
    }
}

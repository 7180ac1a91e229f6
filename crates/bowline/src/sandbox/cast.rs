//! Who plays: one cloud alone, told as its original is, or several at once with one configuration.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use bowline_simulator::cluster::Cluster;
use serde_json::Value;

use super::clouds::{self, Entry, Section, written};

/// The clouds that play together: each kind once, one of them with a second account.
const SEVERAL: [Part; 6] = [
    // Its nodes are told by a label, so that no other cloud waits for its word about theirs.
    part("zurich", "cloudscale", "nodeSelector: site=zurich"),
    // So that nobody has to wait for a minute in front of a sandbox.
    part(
        "geneva",
        "exoscale",
        "guard: {nodeAge: 10s, looksApart: 5s}",
    ),
    part("partner", "exoscale", ""),
    part("metal", "talos", ""),
    part("lab", "xenorchestra", ""),
    part("campus", "triton", ""),
];
/// Which of them serves Services without a class.
pub(super) const DEFAULT: &str = SEVERAL[0].name;
/// The system whose machines are found at other clouds too.
pub(super) const GUEST: &str = SEVERAL[3].name;
/// The one that comes into the configuration later: a second account.
pub(super) const JOINING: &str = SEVERAL[2].name;
/// The label that says where a node is.
pub(super) const SITE_LABEL: &str = "site";
/// The service account, and the rights that any of them needs, as the chart gives them.
const ACCOUNT: (&str, &str) = ("kube-system", "bowline");
const RIGHTS: &str = include_str!("../../../../deploy/rbac-triton.yaml");
/// How often the manager looks for machines that stopped or are gone: the default is 5 s.
const MONITOR_PERIOD: &str = "2s";

/// A cloud that plays with others.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    provider: &'static str,
    /// A line about it in the configuration.
    line: &'static str,
}

const fn part(name: &'static str, provider: &'static str, line: &'static str) -> Part {
    Part {
        name,
        provider,
        line,
    }
}

/// Who plays.
#[derive(Clone, Copy)]
pub(super) enum Cast {
    /// This cloud.
    One(&'static Entry),
    /// All.
    Several,
}

impl Cast {
    /// Who plays if that cloud is named, or none.
    pub(super) fn of(cloud: Option<&str>) -> Result<Self> {
        match cloud {
            Some(name) => Ok(Self::One(clouds::named(name)?)),
            None => Ok(Self::Several),
        }
    }

    /// The clouds, by their names in the configuration.
    pub(super) fn clouds(self) -> Result<Vec<(&'static str, &'static Entry)>> {
        match self {
            Self::One(entry) => Ok(vec![(entry.name, entry)]),
            Self::Several => {
                let all = SEVERAL.iter();
                all.map(|it| Ok((it.name, clouds::named(it.provider)?)))
                    .collect()
            }
        }
    }

    /// What the machines of a cloud are called, before their numbers.
    pub(super) fn machines_of(self, cloud: &str) -> String {
        match self {
            Self::One(_) => "worker".to_owned(),
            Self::Several => cloud.to_owned(),
        }
    }

    /// Namespace and name of the manager's service account.
    pub(super) fn account(self) -> (&'static str, &'static str) {
        match self {
            Self::One(entry) => entry.account,
            Self::Several => ACCOUNT,
        }
    }

    /// Gives a cluster that account and its roles.
    pub(super) fn grant(self, cluster: &Cluster) -> Result<()> {
        match self {
            Self::One(entry) => (entry.grant)(cluster)?,
            Self::Several => {
                let rights: Vec<Value> = serde_saphyr::from_multiple(RIGHTS)?;
                cluster.install(rights)?;
            }
        }
        Ok(())
    }
}

/// What a manager of several clouds is told.
pub(super) struct Plot {
    /// What each cloud is told.
    pub sections: Vec<(&'static str, Section)>,
    /// Who the manager is.
    pub kubeconfig: PathBuf,
    /// Where it serves.
    pub port: u16,
}

impl Plot {
    /// Its configuration, with these clouds.
    pub(super) fn configuration(&self, with: impl Fn(&str) -> bool) -> String {
        let sections = self.sections.iter().filter(|(name, _)| with(name));
        let sections: String = sections.map(|(name, it)| lines_of(name, it)).collect();
        let (kubeconfig, port) = (written(&self.kubeconfig), self.port);
        format!(
            "clouds:\n{sections}services:\n  defaultCloud: {DEFAULT}\n\
             manager:\n  kubeconfig: {kubeconfig}\n  bind-address: 127.0.0.1\n  secure-port: {port}\n  \
             node-monitor-period: {MONITOR_PERIOD}\n"
        )
    }

    /// The lines about one cloud.
    pub(super) fn lines_of(&self, cloud: &str) -> String {
        let mut sections = self.sections.iter();
        let found = sections.find(|(name, _)| *name == cloud);
        found.map_or_else(String::new, |(name, it)| lines_of(name, it))
    }
}

fn lines_of(name: &str, section: &Section) -> String {
    let Some(part) = SEVERAL.iter().find(|it| it.name == name) else {
        return String::new();
    };
    let mut text = format!("- name: {name}\n  provider: {}\n", part.provider);
    // Writing to a string cannot fail.
    if !part.line.is_empty() {
        let _ = writeln!(text, "  {}", part.line);
    }
    text.push_str("  settings:\n");
    for line in section.settings.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cloud_plays_and_one_kind_does_with_two_accounts() {
        let parts = Cast::Several.clouds().unwrap();
        let names: BTreeSet<&str> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), parts.len());
        let kinds: BTreeSet<&str> = parts.iter().map(|(_, entry)| entry.name).collect();
        assert_eq!(kinds, clouds::names().collect());
        assert_eq!(kinds.len() + 1, parts.len());
        assert!(
            [DEFAULT, GUEST, JOINING]
                .iter()
                .all(|it| names.contains(it))
        );
    }

    #[test]
    fn the_rights_are_some() {
        let rights: Vec<Value> = serde_saphyr::from_multiple(RIGHTS).unwrap();
        let account = rights.iter().find(|it| it["kind"] == "ServiceAccount");
        let account = &account.unwrap()["metadata"];
        let named = [&account["namespace"], &account["name"]];
        assert_eq!(named, [ACCOUNT.0, ACCOUNT.1]);
    }
}

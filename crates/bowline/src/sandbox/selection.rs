//! Which clouds are in the sandbox: one, whose manager gets the flags and files of its original, or all, with
//! one configuration.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::{NamedAccount, Section, SimulatorKind, written};
use bowline_simulator_kubernetes::cluster::Cluster;

use crate::simulators::{self, SIMULATORS};

/// Which of several clouds serves Services without a class.
pub(super) const DEFAULT: &str = SIMULATORS[0].accounts[0].name;
/// The system whose machines are found at other clouds too, and its account.
pub(super) const GUEST_SYSTEM: &str = guest().title;
pub(super) const GUEST: &str = guest().accounts[0].name;
/// The account of a cloud with two that loses a machine, and the one that comes into the
/// configuration later.
pub(super) const LOSING: &str = with_two_accounts().accounts[0].name;
pub(super) const JOINING: &str = with_two_accounts().accounts[1].name;
/// The label that says where a node is.
pub(super) const SITE_LABEL: &str = "site";
/// The service account of a manager of several clouds. Its rights are those that the chart gives, which one of
/// them is run with, too.
const ACCOUNT: (&str, &str) = ("kube-system", "bowline");
/// How often the manager looks for machines that stopped or are gone: the default is 5 s.
const MONITOR_PERIOD: &str = "2s";

const fn guest() -> &'static SimulatorKind {
    let mut at = 0;
    while !SIMULATORS[at].is_guest {
        at += 1;
    }
    &SIMULATORS[at]
}

const fn with_two_accounts() -> &'static SimulatorKind {
    let mut at = 0;
    while SIMULATORS[at].accounts.len() < 2 {
        at += 1;
    }
    &SIMULATORS[at]
}

/// The accounts of all clouds, each with its cloud.
fn several() -> impl Iterator<Item = (&'static NamedAccount, &'static SimulatorKind)> {
    let all = SIMULATORS.iter();
    all.flat_map(|kind| kind.accounts.iter().map(move |account| (account, kind)))
}

/// Which clouds are in the sandbox.
#[derive(Clone, Copy)]
pub(super) enum Selection {
    /// This cloud.
    One(&'static SimulatorKind),
    Several,
}

impl Selection {
    /// That cloud, or all.
    pub(super) fn of(cloud: Option<&str>) -> Result<Self> {
        match cloud {
            Some(name) => Ok(Self::One(simulators::named(name)?)),
            None => Ok(Self::Several),
        }
    }

    /// The clouds, by their names in the configuration.
    pub(super) fn clouds(self) -> Vec<(&'static str, &'static SimulatorKind)> {
        match self {
            Self::One(kind) => vec![(kind.server.name, kind)],
            Self::Several => several()
                .map(|(account, kind)| (account.name, kind))
                .collect(),
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
            Self::One(kind) => kind.account,
            Self::Several => ACCOUNT,
        }
    }

    /// Gives a cluster that account and its roles.
    pub(super) fn grant(self, cluster: &Cluster) -> Result<()> {
        let kind = match self {
            Self::One(kind) => kind,
            Self::Several => {
                let found = SIMULATORS.iter().find(|kind| kind.account == ACCOUNT);
                found.context("no cloud is run with the chart's own account")?
            }
        };
        cluster.install((kind.manifest)())?;
        Ok(())
    }
}

/// What the configuration of a manager of several clouds is made of.
pub(super) struct ManagerConfiguration {
    /// The settings of each cloud.
    pub sections: Vec<(&'static str, Section)>,
    /// Who the manager is.
    pub kubeconfig: PathBuf,
    /// Where it serves.
    pub port: u16,
}

impl ManagerConfiguration {
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
    let Some((account, kind)) = several().find(|(account, _)| account.name == name) else {
        return String::new();
    };
    let mut text = format!("- name: {name}\n  provider: {}\n", kind.server.name);
    // Writing to a string cannot fail.
    if !account.line.is_empty() {
        let _ = writeln!(text, "  {}", account.line);
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
        let parts = Selection::Several.clouds();
        let names: BTreeSet<&str> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), parts.len());
        let kinds: BTreeSet<&str> = parts.iter().map(|(_, kind)| kind.server.name).collect();
        assert_eq!(kinds, simulators::names().collect());
        assert_eq!(kinds.len() + 1, parts.len());
        assert!(
            [DEFAULT, GUEST, LOSING, JOINING]
                .iter()
                .all(|it| names.contains(it))
        );
    }

    #[test]
    fn the_rights_are_some() {
        let kind = SIMULATORS.iter().find(|kind| kind.account == ACCOUNT);
        let rights = (kind.unwrap().manifest)();
        let account = rights.iter().find(|it| it["kind"] == "ServiceAccount");
        let account = &account.unwrap()["metadata"];
        let named = [&account["namespace"], &account["name"]];
        assert_eq!(named, [ACCOUNT.0, ACCOUNT.1]);
    }
}

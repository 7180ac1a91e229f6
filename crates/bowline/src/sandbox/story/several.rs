//! The story of several clouds in one cluster with one manager.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::Words;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, Story};
use crate::sandbox::display::Mark;
use crate::sandbox::harness::SandboxCloud;
use crate::sandbox::observer::{CONFIGURATION, NodeView, Views};
use crate::sandbox::selection::{DEFAULT, GUEST, GUEST_SYSTEM, JOINING, LOSING};

/// Nodes that no cloud here owns, and their provider IDs.
const FOREIGN_NODES: [(&str, Option<&str>); 3] = [
    (
        "elsewhere",
        Some("aws:///eu-central-2a/i-0d5f3c1e9b7a24680"),
    ),
    (
        "mainframe",
        Some("bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e"),
    ),
    ("under-the-desk", None),
];
/// The cloud whose API fails: the most important one.
const FAILING: &str = DEFAULT;
/// The Service without a class, and the one of somebody else's class.
const WEB: &str = "web";
const FOREIGN_SERVICE: (&str, &str) = ("web-inside", "metallb.io/layer2");
/// What the class of a Service is called, before the name of the cloud.
const CLASS: &str = "bowline.dev/";
/// A label that only machines that describe themselves have.
const DESCRIBED: &str = "node.cloudprovider.kubernetes.io/platform";
/// How often readiness is asked for.
const BETWEEN: Duration = Duration::from_millis(500);

/// The nodes that a cloud has to have.
struct ExpectedNodes {
    /// What their provider ids begin with.
    scheme: &'static str,
    /// Their names, and what their provider ids end with.
    nodes: Vec<(String, String)>,
}

impl ExpectedNodes {
    fn of(cloud: &SandboxCloud) -> Self {
        Self {
            scheme: cloud.kind.provider_id,
            nodes: cloud.identities(),
        }
    }

    /// Whether each was initialised by its own cloud, and may have pods.
    fn is_complete(&self, views: &Views) -> bool {
        self.nodes.iter().all(|(name, id)| {
            let node = views.nodes.get(name);
            node.is_some_and(|it| {
                let own = it.provider_id.starts_with(self.scheme) && it.provider_id.ends_with(id);
                own && !it.uninitialized && it.facts.contains("IP ") && it.ready == "True"
            })
        })
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
        match names.as_slice() {
            [first, .., last] if names.len() > 3 => format!("{first} to {last}"),
            names => names.join(", "),
        }
    }
}

impl Story {
    /// Several clouds, from their configuration to the failure of one.
    pub(super) async fn of_several_clouds(&mut self) -> Result<()> {
        self.one_configuration()?;
        self.machines_boot_everywhere().await?;
        self.an_account_comes_in().await?;
        self.a_node_is_explained().await?;
        self.each_cloud_serves().await?;
        self.one_cloud_fails().await?;
        self.it_answers_again().await
    }

    fn one_configuration(&mut self) -> Result<()> {
        let count = self.harness.clouds().len() - 1;
        self.begin(
            &format!("One manager, one configuration, {count} clouds"),
            &["Secrets are in files of their own."],
        );
        let path = self.harness.configuration();
        self.display.say(&format!("   $ cat {}", path.display()));
        self.show_lines(&std::fs::read_to_string(path)?);
        Ok(())
    }

    fn show_lines(&self, text: &str) {
        for line in text.lines() {
            self.display.note(&format!("  {line}"));
        }
    }

    async fn machines_boot_everywhere(&mut self) -> Result<()> {
        let (each, foreign) = (self.nodes, FOREIGN_NODES.len());
        self.begin(
            &format!("{each} machines boot in each cloud, and {foreign} nodes join that no cloud owns"),
            &[
                "No kubelet reports its cloud. Bowline asks all clouds: a node is initialised by the",
                &format!("only one that has its machine. One machine at {DEFAULT} runs {GUEST_SYSTEM}, which knows"),
                "best what it is: it describes its node, and its cloud owns the node.",
                &format!("The account {JOINING} is not in the configuration yet."),
            ],
        );
        for cloud in self.cloud_names() {
            for _ in 0..each {
                self.harness.boot_machine_in(cloud)?;
            }
        }
        let guest = self.harness.boot_guest_in(DEFAULT)?;
        for (name, provider_id) in FOREIGN_NODES {
            self.harness.join_foreign(name, provider_id)?;
        }
        self.clouds_have_their_nodes(|it| it != JOINING).await;
        let what = format!(
            "{guest} was described by {GUEST}, with the provider ID that {DEFAULT} gave it"
        );
        self.expect(&what, |views| {
            let node = views.nodes.get(&guest);
            node.is_some_and(|it| it.content.contains(DESCRIBED))
        })
        .await;
        let waiting = self.harness.cloud_named(JOINING)?.machines().to_vec();
        let what = format!("{} stay uninitialized, too", waiting.join(", "));
        self.expect(&what, |views| {
            let waits = |name| views.nodes.get(name).is_some_and(|it| it.uninitialized);
            waiting.iter().all(waits)
        })
        .await;
        self.foreign_nodes_are_left_alone().await;
        Ok(())
    }

    /// The file is wrong at first.
    async fn an_account_comes_in(&mut self) -> Result<()> {
        self.begin(
            &format!(
                "{JOINING}, a second account, is added to the file; the manager is not restarted"
            ),
            &["The file is checked every few seconds. An invalid one is refused as a whole:"],
        );
        let manager_configuration = self.harness.manager_configuration()?;
        let (all, lines) = (
            manager_configuration.configuration(|_| true),
            manager_configuration.lines_of(JOINING),
        );
        let wrong = lines.replace(": {file:", ": {fiel:");
        self.show_lines(&wrong);
        self.harness.reconfigure(&all.replace(&lines, &wrong))?;
        self.expect("the previous configuration stays in use", |views| {
            views.has_event(CONFIGURATION, "ConfigurationRefused")
        })
        .await;
        self.display.note("Now without the error:");
        let right = lines.lines().filter(|line| !wrong.contains(line));
        self.show_lines(&right.collect::<Vec<_>>().join("\n"));
        self.harness.reconfigure(&all)?;
        self.expect("the new configuration is in use", |views| {
            views.has_event(CONFIGURATION, "ConfigurationChanged")
        })
        .await;
        self.clouds_have_their_nodes(|it| it == JOINING).await;
        Ok(())
    }

    /// Each of these clouds has initialised its own nodes.
    async fn clouds_have_their_nodes(&mut self, these: impl Fn(&str) -> bool) {
        let clouds = self.harness.clouds().iter().filter(|it| these(it.name));
        let expected: Vec<(&str, &str, ExpectedNodes)> = clouds
            .map(|it| (it.name, it.kind.server.name, ExpectedNodes::of(it)))
            .collect();
        for (name, kind, expected) in expected {
            let names = expected.names();
            let what = format!("{name} ({kind}) has initialised {names}; they are Ready");
            self.expect(&what, |views| expected.is_complete(views))
                .await;
        }
    }

    async fn foreign_nodes_are_left_alone(&mut self) {
        let names: Vec<&str> = FOREIGN_NODES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let what = format!("{names} stay uninitialized: no configured cloud owns them");
        self.expect(&what, |views| {
            let waits = |it: &NodeView| it.uninitialized;
            let mut all = FOREIGN_NODES.iter();
            all.all(|(name, _)| views.nodes.get(*name).is_some_and(waits))
        })
        .await;
        let path = |name: &str| format!("/api/v1/nodes/{name}*");
        let writes = FOREIGN_NODES.iter();
        let writes: usize = writes
            .map(|(name, _)| self.harness.writes(&path(name)))
            .sum();
        let otherwise = format!("Bowline wrote to foreign nodes {writes} times");
        self.judge(writes == 0, "Bowline wrote to none of them", &otherwise);
    }

    async fn a_node_is_explained(&mut self) -> Result<()> {
        let machines = self.harness.cloud_named(DEFAULT)?.machines();
        let name = machines.last().cloned().unwrap_or_default();
        self.begin(&format!("Which cloud owns {name}, and why?"), &[]);
        let (program, path) = (std::env::current_exe()?, self.harness.configuration());
        let asked = format!("bowline explain node {name} --config {}", path.display());
        self.display.say(&format!("   $ {asked}"));
        let mut command = Command::new(program);
        command
            .args(["explain", "node", &name, "--config"])
            .arg(path);
        // As people would ask; the clouds and the manager go on meanwhile.
        let answer = tokio::task::spawn_blocking(move || command.output()).await?;
        let answer = answer.with_context(|| format!("running {asked}"))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        self.show_lines(&text);
        let wanted = [
            format!("Node {name}: owned by {DEFAULT}"),
            format!("addresses and labels: described by {GUEST}"),
        ];
        let right = answer.status.success() && wanted.iter().all(|it| text.contains(it));
        let what = format!("{DEFAULT} owns it, and {GUEST} describes it");
        let error = String::from_utf8_lossy(&answer.stderr).into_owned();
        self.judge(right, &what, &format!("it is explained otherwise: {error}"));
        Ok(())
    }

    async fn each_cloud_serves(&mut self) -> Result<()> {
        let (foreign, class) = FOREIGN_SERVICE;
        self.begin(
            "Services: one for each cloud, one for the default cloud, and one of a foreign class",
            &[
                &format!("The class {CLASS}<name> selects the cloud. Without a class it is {DEFAULT}, as configured."),
                &format!("Targets are nodes of that cloud only. {foreign} has the class {class}."),
            ],
        );
        for (cloud, _) in self.serving() {
            let class = format!("{CLASS}{cloud}");
            let name = format!("{WEB}-{cloud}");
            self.harness.create_service_of(&name, Some(&class)).await?;
        }
        self.harness.create_service(WEB).await?;
        self.harness.create_service_of(foreign, Some(class)).await?;
        for (cloud, words) in self.serving() {
            self.is_served(&format!("{WEB}-{cloud}"), cloud, words)
                .await?;
        }
        if let Some((cloud, words)) = self.serving().into_iter().find(|it| it.0 == DEFAULT) {
            self.is_served(WEB, cloud, words).await?;
        }
        let counted: Vec<(&str, usize)> = self
            .serving()
            .iter()
            .map(|(cloud, _)| (*cloud, if *cloud == DEFAULT { 2 } else { 1 }))
            .collect();
        self.expect(
            "no cloud has a load balancer for a Service of another cloud",
            |views| {
                let has = |cloud: &str| views.balancers.get(cloud).map_or(0, BTreeMap::len);
                counted.iter().all(|(cloud, count)| has(cloud) == *count)
            },
        )
        .await;
        let shown = self.observer.now().services.get(foreign).cloned();
        let path = format!("/api/v1/namespaces/default/services/{foreign}*");
        let alone = shown.is_some_and(|it| it.addresses.is_empty());
        let what = format!("{foreign} was left alone");
        self.judge(
            alone && self.harness.writes(&path) == 0,
            &what,
            &format!("not so: {what}"),
        );
        Ok(())
    }

    /// A Service has a load balancer of that cloud, with its nodes and nobody else behind it.
    async fn is_served(&mut self, service: &str, cloud: &str, words: Words) -> Result<()> {
        let machines = self.targets(cloud)?;
        let names: Vec<&str> = machines.iter().map(String::as_str).collect();
        let (name, names) = (words.name, names.join(", "));
        let what = format!("{service} has a {name} at {cloud} with exactly the targets {names}");
        self.expect(&what, |views| is_before(views, (cloud, service), &machines))
            .await;
        Ok(())
    }

    async fn one_cloud_fails(&mut self) -> Result<()> {
        let lost = self
            .harness
            .cloud_named(LOSING)?
            .machines()
            .first()
            .cloned();
        let lost = lost.unwrap_or_default();
        self.begin(
            &format!("{FAILING} fails: its API answers 503 to everything"),
            &[
                "Meanwhile another machine boots in each cloud, a Service is created,",
                &format!("{lost} is destroyed for good, and the foreign machines stop."),
            ],
        );
        let before = self.observer.now();
        self.harness.set_down(FAILING, true)?;
        let mut waiting = String::new();
        for cloud in self.cloud_names() {
            let name = self.harness.boot_machine_in(cloud)?;
            if cloud == FAILING {
                waiting = name;
            }
        }
        self.harness.stop_foreign();
        self.harness.destroy_in(LOSING, &lost)?;
        let late = format!("late-{LOSING}");
        let class = format!("{CLASS}{LOSING}");
        self.harness.create_service_of(&late, Some(&class)).await?;
        let what = format!("/readyz reports {FAILING}, and no other cloud");
        let named = self.readiness_names(&[FAILING]).await;
        self.judge(named, &what, &format!("not so: {what}"));
        self.clouds_have_their_nodes(|it| it != FAILING).await;
        if let Some((cloud, words)) = self.serving().into_iter().find(|it| it.0 == LOSING) {
            self.is_served(&late, cloud, words).await?;
        }
        let what = format!("the Node {lost} is deleted, on proof from {LOSING}");
        self.expect(&what, |views| !views.nodes.contains_key(&lost))
            .await;
        let what = format!(
            "{waiting} stays uninitialized; nodes and load balancers of {FAILING} are unchanged"
        );
        let nodes = self.harness.cloud_named(FAILING)?.machines().to_vec();
        self.expect(&what, |views| {
            let is_same = |name: &String| *name == waiting || same(&before, views, name);
            let waits = views.nodes.get(&waiting).is_some_and(|it| it.uninitialized);
            waits
                && nodes.iter().all(is_same)
                && views.balancers.get(FAILING) == before.balancers.get(FAILING)
        })
        .await;
        self.foreign_nodes_are_left_alone().await;
        Ok(())
    }

    async fn it_answers_again(&mut self) -> Result<()> {
        self.begin(&format!("{FAILING} answers again"), &[]);
        self.harness.set_down(FAILING, false)?;
        self.clouds_have_their_nodes(|it| it == FAILING).await;
        if let Some((cloud, words)) = self.serving().into_iter().find(|it| it.0 == FAILING) {
            self.is_served(WEB, cloud, words).await?;
        }
        let what = "/readyz reports that all clouds are ok";
        let named = self.readiness_names(&[]).await;
        self.judge(named, what, &format!("not so: {what}"));
        Ok(())
    }

    /// Whether readiness soon names these clouds as unhappy, and all others as well; shows what it says of them.
    async fn readiness_names(&self, unhappy: &[&str]) -> bool {
        let names = self.cloud_names();
        let is_so = |text: &str| {
            let well = |name: &str| text.contains(&format!("[+]cloud-{name} "));
            let said = |name: &str| text.contains(&format!("]cloud-{name} "));
            let mut all = names.iter();
            all.all(|name| said(name) && well(name) != unhappy.contains(name))
        };
        let (begun, mut last) = (Instant::now(), String::new());
        let mut named = false;
        while !named && begun.elapsed() < PATIENCE {
            self.display.waiting("readiness", begun.elapsed());
            match self.harness.page("/readyz?verbose").await {
                Ok((_, text)) => last = text,
                Err(error) => last = error.to_string(),
            }
            named = is_so(&last);
            if !named {
                sleep(BETWEEN).await;
            }
        }
        let is_printed = |line: &&str| line.contains("]cloud-") && !(named && unhappy.is_empty());
        for line in last.lines().filter(is_printed) {
            self.display
                .line(Mark::Happened, &format!("/readyz: {line}"));
        }
        named
    }

    fn cloud_names(&self) -> Vec<&'static str> {
        self.harness.clouds().iter().map(|it| it.name).collect()
    }

    /// The clouds with load balancers, and what these are called.
    fn serving(&self) -> Vec<(&'static str, Words)> {
        let clouds = self.harness.clouds().iter();
        clouds
            .filter_map(|it| Some((it.name, it.kind.balancer?)))
            .collect()
    }

    fn targets(&self, cloud: &str) -> Result<BTreeSet<String>> {
        Ok(self
            .harness
            .cloud_named(cloud)?
            .machines()
            .iter()
            .cloned()
            .collect())
    }
}

/// Whether a Service shows the address of a load balancer of that cloud, with these behind it and no others.
fn is_before(views: &Views, (cloud, service): (&str, &str), machines: &BTreeSet<String>) -> bool {
    let found = views.balancer_at(cloud, service);
    found.is_some_and(|(_, it)| it.targets == *machines)
}

/// Whether a node is in both views as it was.
fn same(before: &Views, after: &Views, name: &str) -> bool {
    let (old, new) = (before.nodes.get(name), after.nodes.get(name));
    old.is_some() && old == new
}

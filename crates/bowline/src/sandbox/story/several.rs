//! The story of several clouds in one cluster, which one manager looks after.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::Words;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, Story};
use crate::sandbox::cast::{DEFAULT, GUEST, GUEST_SYSTEM, JOINING, LOSING};
use crate::sandbox::display::Mark;
use crate::sandbox::observer::{CONFIGURATION, NodeView, Views};
use crate::sandbox::stage::Site;

/// Nodes of nobody here, and their provider ids.
const STRANGERS: [(&str, Option<&str>); 3] = [
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
struct Roll {
    /// What their provider ids begin with.
    scheme: &'static str,
    /// Their names, and what their provider ids end with.
    nodes: Vec<(String, String)>,
}

impl Roll {
    fn of(site: &Site) -> Self {
        Self {
            scheme: site.kind.provider_id,
            nodes: site.identities(),
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
        let count = self.stage.sites().len() - 1;
        self.begin(
            &format!("One manager, one configuration, {count} clouds"),
            &["Secrets stand in files of their own."],
        );
        let path = self.stage.configuration();
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
        let (each, strangers) = (self.nodes, STRANGERS.len());
        self.begin(
            &format!("{each} machines boot in each cloud, and {strangers} nodes join that no cloud owns"),
            &[
                "No kubelet says which cloud it is at. The clouds are asked: a node is initialised by the",
                &format!("only one that has its machine. One machine at {DEFAULT} runs {GUEST_SYSTEM}, which knows"),
                "best what it is: it describes its node, and its cloud looks after it.",
                &format!("The account {JOINING} is not in the configuration yet."),
            ],
        );
        for site in self.site_names() {
            for _ in 0..each {
                self.stage.boot_machine_in(site)?;
            }
        }
        let guest = self.stage.boot_guest_in(DEFAULT)?;
        for (name, provider_id) in STRANGERS {
            self.stage.join_stranger(name, provider_id)?;
        }
        self.clouds_have_their_nodes(|it| it != JOINING).await;
        let what = format!("{guest} was described by {GUEST}, with the id that {DEFAULT} gave it");
        self.expect(&what, |views| {
            let node = views.nodes.get(&guest);
            node.is_some_and(|it| it.content.contains(DESCRIBED))
        })
        .await;
        let waiting = self.stage.site(JOINING)?.machines().to_vec();
        let what = format!("{} wait, too", waiting.join(", "));
        self.expect(&what, |views| {
            let waits = |name| views.nodes.get(name).is_some_and(|it| it.uninitialized);
            waiting.iter().all(waits)
        })
        .await;
        self.strangers_are_left_alone().await;
        Ok(())
    }

    /// The file is wrong at first.
    async fn an_account_comes_in(&mut self) -> Result<()> {
        self.begin(
            &format!(
                "{JOINING}, a second account, comes into the file; the manager is not restarted"
            ),
            &["The file is looked at every few seconds. One that is wrong is refused as a whole:"],
        );
        let plot = self.stage.plot()?;
        let (all, lines) = (plot.configuration(|_| true), plot.lines_of(JOINING));
        let wrong = lines.replace(": {file:", ": {fiel:");
        self.show_lines(&wrong);
        self.stage.reconfigure(&all.replace(&lines, &wrong))?;
        self.expect("everything stays as it is", |views| {
            views.has_told(CONFIGURATION, "ConfigurationRefused")
        })
        .await;
        self.display.note("Now without the mistake:");
        let right = lines.lines().filter(|line| !wrong.contains(line));
        self.show_lines(&right.collect::<Vec<_>>().join("\n"));
        self.stage.reconfigure(&all)?;
        self.expect("it is in use", |views| {
            views.has_told(CONFIGURATION, "ConfigurationChanged")
        })
        .await;
        self.clouds_have_their_nodes(|it| it == JOINING).await;
        Ok(())
    }

    /// Each of these clouds has initialised its own nodes.
    async fn clouds_have_their_nodes(&mut self, these: impl Fn(&str) -> bool) {
        let sites = self.stage.sites().iter().filter(|it| these(it.name));
        let rolls: Vec<(&str, &str, Roll)> = sites
            .map(|it| (it.name, it.kind.server.name, Roll::of(it)))
            .collect();
        for (name, kind, roll) in rolls {
            let names = roll.names();
            let what = format!("{name} ({kind}) has initialised {names}; they are Ready");
            self.expect(&what, |views| roll.is_complete(views)).await;
        }
    }

    async fn strangers_are_left_alone(&mut self) {
        let names: Vec<&str> = STRANGERS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let what = format!("{names} still wait for somebody else");
        self.expect(&what, |views| {
            let waits = |it: &NodeView| it.uninitialized;
            let mut all = STRANGERS.iter();
            all.all(|(name, _)| views.nodes.get(*name).is_some_and(waits))
        })
        .await;
        let path = |name: &str| format!("/api/v1/nodes/{name}*");
        let writes = STRANGERS.iter();
        let writes: usize = writes.map(|(name, _)| self.stage.writes(&path(name))).sum();
        let otherwise = format!("Bowline wrote to foreign nodes {writes} times");
        self.judge(writes == 0, "Bowline wrote to none of them", &otherwise);
    }

    async fn a_node_is_explained(&mut self) -> Result<()> {
        let machines = self.stage.site(DEFAULT)?.machines();
        let name = machines.last().cloned().unwrap_or_default();
        self.begin(&format!("Whose is {name}, and why?"), &[]);
        let (program, path) = (std::env::current_exe()?, self.stage.configuration());
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
        let what = format!("{DEFAULT} looks after it, and {GUEST} describes it");
        let error = String::from_utf8_lossy(&answer.stderr).into_owned();
        self.judge(right, &what, &format!("it is explained otherwise: {error}"));
        Ok(())
    }

    async fn each_cloud_serves(&mut self) -> Result<()> {
        let (foreign, class) = FOREIGN_SERVICE;
        self.begin(
            "Services: one for each cloud, one for whichever is the default, and one that is not for us",
            &[
                &format!("The class {CLASS}<name> says which cloud. Without one it is {DEFAULT}, as configured."),
                &format!("Members are nodes of that cloud only. {foreign} has the class {class}."),
            ],
        );
        for (site, _) in self.serving() {
            let class = format!("{CLASS}{site}");
            let name = format!("{WEB}-{site}");
            self.stage.create_service_of(&name, Some(&class)).await?;
        }
        self.stage.create_service(WEB).await?;
        self.stage.create_service_of(foreign, Some(class)).await?;
        for (site, words) in self.serving() {
            self.is_served(&format!("{WEB}-{site}"), site, words)
                .await?;
        }
        if let Some((site, words)) = self.serving().into_iter().find(|it| it.0 == DEFAULT) {
            self.is_served(WEB, site, words).await?;
        }
        let counted: Vec<(&str, usize)> = self
            .serving()
            .iter()
            .map(|(site, _)| (*site, if *site == DEFAULT { 2 } else { 1 }))
            .collect();
        self.expect("no cloud has a load balancer for another", |views| {
            let has = |site: &str| views.balancers.get(site).map_or(0, BTreeMap::len);
            counted.iter().all(|(site, count)| has(site) == *count)
        })
        .await;
        let shown = self.observer.now().services.get(foreign).cloned();
        let path = format!("/api/v1/namespaces/default/services/{foreign}*");
        let alone = shown.is_some_and(|it| it.addresses.is_empty());
        let what = format!("{foreign} was left alone");
        self.judge(
            alone && self.stage.writes(&path) == 0,
            &what,
            &format!("not so: {what}"),
        );
        Ok(())
    }

    /// A Service has a load balancer of that cloud, with its nodes and nobody else behind it.
    async fn is_served(&mut self, service: &str, site: &str, words: Words) -> Result<()> {
        let machines = self.members(site)?;
        let names: Vec<&str> = machines.iter().map(String::as_str).collect();
        let (name, names) = (words.name, names.join(", "));
        let what = format!("{service} has a {name} at {site}, before {names} and nobody else");
        self.expect(&what, |views| is_before(views, (site, service), &machines))
            .await;
        Ok(())
    }

    async fn one_cloud_fails(&mut self) -> Result<()> {
        let lost = self.stage.site(LOSING)?.machines().first().cloned();
        let lost = lost.unwrap_or_default();
        self.begin(
            &format!("{FAILING} fails: its API answers 503 to everything"),
            &[
                "Meanwhile another machine boots in each cloud, a Service is created,",
                &format!("{lost} is destroyed for good, and the foreign machines fall silent."),
            ],
        );
        let before = self.observer.now();
        self.stage.set_down(FAILING, true)?;
        let mut waiting = String::new();
        for site in self.site_names() {
            let name = self.stage.boot_machine_in(site)?;
            if site == FAILING {
                waiting = name;
            }
        }
        self.stage.silence_strangers();
        self.stage.destroy_in(LOSING, &lost)?;
        let late = format!("late-{LOSING}");
        let class = format!("{CLASS}{LOSING}");
        self.stage.create_service_of(&late, Some(&class)).await?;
        let what = format!("readiness names {FAILING}, and no other cloud");
        let named = self.readiness_names(&[FAILING]).await;
        self.judge(named, &what, &format!("not so: {what}"));
        self.clouds_have_their_nodes(|it| it != FAILING).await;
        if let Some((site, words)) = self.serving().into_iter().find(|it| it.0 == LOSING) {
            self.is_served(&late, site, words).await?;
        }
        let what = format!("the Node of {lost} goes, on proof by {LOSING}");
        self.expect(&what, |views| !views.nodes.contains_key(&lost))
            .await;
        let what = format!(
            "{waiting} waits for {FAILING}, whose nodes and load balancers are as they were"
        );
        let nodes = self.stage.site(FAILING)?.machines().to_vec();
        self.expect(&what, |views| {
            let is_same = |name: &String| *name == waiting || same(&before, views, name);
            let waits = views.nodes.get(&waiting).is_some_and(|it| it.uninitialized);
            waits
                && nodes.iter().all(is_same)
                && views.balancers.get(FAILING) == before.balancers.get(FAILING)
        })
        .await;
        self.strangers_are_left_alone().await;
        Ok(())
    }

    async fn it_answers_again(&mut self) -> Result<()> {
        self.begin(&format!("{FAILING} answers again"), &[]);
        self.stage.set_down(FAILING, false)?;
        self.clouds_have_their_nodes(|it| it == FAILING).await;
        if let Some((site, words)) = self.serving().into_iter().find(|it| it.0 == FAILING) {
            self.is_served(WEB, site, words).await?;
        }
        let what = "readiness has nothing to say against any cloud";
        let named = self.readiness_names(&[]).await;
        self.judge(named, what, &format!("not so: {what}"));
        Ok(())
    }

    /// Whether readiness soon names these clouds as unhappy, and all others as well; shows what it says of them.
    async fn readiness_names(&self, unhappy: &[&str]) -> bool {
        let names = self.site_names();
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
            match self.stage.page("/readyz?verbose").await {
                Ok((_, text)) => last = text,
                Err(error) => last = error.to_string(),
            }
            named = is_so(&last);
            if !named {
                sleep(BETWEEN).await;
            }
        }
        let is_told = |line: &&str| line.contains("]cloud-") && !(named && unhappy.is_empty());
        for line in last.lines().filter(is_told) {
            self.display
                .line(Mark::Happened, &format!("/readyz: {line}"));
        }
        named
    }

    fn site_names(&self) -> Vec<&'static str> {
        self.stage.sites().iter().map(|it| it.name).collect()
    }

    /// The clouds with load balancers, and how they speak of them.
    fn serving(&self) -> Vec<(&'static str, Words)> {
        let sites = self.stage.sites().iter();
        sites
            .filter_map(|it| Some((it.name, it.kind.balancer?)))
            .collect()
    }

    fn members(&self, site: &str) -> Result<BTreeSet<String>> {
        Ok(self.stage.site(site)?.machines().iter().cloned().collect())
    }
}

/// Whether a Service shows the address of a load balancer of that cloud, with these behind it and no others.
fn is_before(views: &Views, (site, service): (&str, &str), machines: &BTreeSet<String>) -> bool {
    let found = views.balancer_at(site, service);
    found.is_some_and(|(_, it)| it.members == *machines)
}

/// Whether a node is in both views as it was.
fn same(before: &Views, after: &Views, name: &str) -> bool {
    let (old, new) = (before.nodes.get(name), after.nodes.get(name));
    old.is_some() && old == new
}

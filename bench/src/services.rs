//! Many Services get load balancers at once.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::changes::Changes;
use crate::join::{self, Site};
use crate::nodes::{self, each};
use crate::process::Program;
use crate::progress::{Progress, say};
use crate::requests;
use crate::results::{Row, Run, What};

/// Nodes that they are served by.
const NODES: usize = 20;
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// What is to be measured.
pub(crate) struct Services<'a> {
    pub(crate) kind: &'static bowline_simulator::sandbox::SimulatorKind,
    pub(crate) count: usize,
    pub(crate) program: &'a Program,
    pub(crate) peer: Option<&'a Program>,
}

impl Services<'_> {
    pub(crate) async fn measure(&self, place: crate::plane::Where) -> Result<(String, Row)> {
        let mut runs = Vec::new();
        let mut version = String::new();
        // The cloud keeps its load balancers: each has servers of its own.
        for program in [Some(self.program), self.peer].into_iter().flatten() {
            let site = Site::set_up(place, self.kind, NODES).await?;
            runs.push(self.run(&site, program).await?);
            version.clone_from(&site.plane.version);
            site.plane.shutdown().await;
        }
        let peer = (runs.len() > 1).then(|| runs.remove(1));
        let row = Row {
            what: What::Services,
            cloud: self.kind.server.name.to_owned(),
            count: self.count,
            floor: 0.0,
            floor_cpu: 0.0,
            run: runs.remove(0),
            peer,
        };
        Ok((version, row))
    }

    async fn run(&self, site: &Site, program: &Program) -> Result<Run> {
        let plane = &site.plane;
        nodes::register(plane, &site.cloud.kubelets).await?;
        let (joined, mut process) = join::initialise(site, program).await?;
        let (before, used) = (plane.counts().await?, process.usage()?);
        let changes = Changes::of(&plane.admin, SERVICES).await?;
        let begun = Instant::now();
        let (sender, mut receiver) = watch::channel(0);
        let watching = tokio::spawn(follow(changes, sender));
        let numbers: Vec<usize> = (1..=self.count).collect();
        say(&format!("creating {} Services", self.count));
        each(&numbers, async |number| {
            requests::post(&plane.admin, SERVICES, &service(*number)).await
        })
        .await?;
        let published = tokio::select! {
            published = until(&mut receiver, self.count) => published,
            error = process.ended() => Err(error),
        };
        watching.abort();
        published?;
        let seconds = begun.elapsed().as_secs_f64();
        let at_end = process.usage()?.cpu;
        let mut counts = join::quiet(plane, before).await?;
        // Without ours, which create them.
        counts.services = counts.services.saturating_sub(self.count as u64);
        let after = process.usage()?;
        process.kill().await?;
        let times = (joined.start_seconds, seconds);
        Ok(Run::of(times, &used, at_end, &after, counts))
    }
}

fn service(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": format!("web-{number}") },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": format!("web-{number}") },
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
        },
    })
}

async fn until(published: &mut watch::Receiver<usize>, count: usize) -> Result<()> {
    let progress = Progress::new("Services have an address", count);
    loop {
        let now = *published.borrow_and_update();
        progress.set(now);
        if now >= count {
            return Ok(());
        }
        let change = tokio::time::timeout(crate::PATIENCE, published.changed()).await;
        match change {
            Ok(Ok(())) => {}
            Ok(Err(_)) => bail!("the watch of Services ended"),
            Err(_) => bail!("{now} of {count} Services have an address"),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Service {
    metadata: Metadata,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    load_balancer: LoadBalancer,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Value>,
}

/// Says how many Services have an address.
async fn follow(changes: Changes, published: watch::Sender<usize>) -> Result<()> {
    let mut done = BTreeSet::new();
    let each = |service: Service| {
        if !service.status.load_balancer.ingress.is_empty() && done.insert(service.metadata.name) {
            published.send_replace(done.len());
        }
    };
    changes.follow(each).await
}

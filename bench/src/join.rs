//! Many nodes are initialised at once, on an API server that has them already.
//!
//! ```text
//!  register ─▶ floor ─▶ remove ─▶ register ─▶ start the program ─▶ it leads ─▶ last taint gone ─▶ events written
//!                                              └── start-up ─────┘└── measured ──────────────┘
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::SimulatorKind;

use crate::clouds::Cloud;
use crate::counts::Counts;
use crate::floor::{self, Floor};
use crate::heartbeats::Heartbeats;
use crate::nodes::{self, Follower, Seen, follow};
use crate::plane::{self, Plane, Where};
use crate::process::{Process, Program, Usage};
use crate::progress::say;
use crate::results::{Row, Run, What};

/// Between two looks whether events are still being written.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks without a new one: they are all written.
const QUIET_LOOKS: usize = 3;

/// What is to be measured.
pub(crate) struct Join<'a> {
    pub(crate) kind: &'static SimulatorKind,
    pub(crate) nodes: usize,
    pub(crate) rounds: usize,
    pub(crate) program: &'a Program,
    pub(crate) peer: Option<&'a Program>,
    /// What follows with the nodes of the last round at rest.
    pub(crate) rest: Option<&'a Heartbeats>,
}

/// One round: the floor, and each program's run.
struct Round {
    floor: Floor,
    run: Run,
    peer: Option<Run>,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.run.seconds / self.floor.seconds
    }
}

/// A cluster and a cloud that know the same machines.
pub(crate) struct Site {
    pub(crate) plane: Plane,
    pub(crate) cloud: Cloud,
    /// Of the manager's account.
    pub(crate) kubeconfig: PathBuf,
}

impl Site {
    pub(crate) async fn set_up(
        place: Where,
        kind: &'static SimulatorKind,
        machines: usize,
    ) -> Result<Self> {
        let plane = Plane::start(place).await?;
        say(&format!("Kubernetes {} serves", plane.version));
        let cloud = Cloud::start(&plane.world, kind, machines).await?;
        let kubeconfig = plane.account(kind).await?;
        Ok(Self {
            plane,
            cloud,
            kubeconfig,
        })
    }
}

impl Join<'_> {
    /// Measures it; of several rounds, the one with the median ratio. Gives the server's version, too.
    pub(crate) async fn measure(&self, place: Where) -> Result<(String, Vec<Row>)> {
        let site = Site::set_up(place, self.kind, self.nodes).await?;
        let mut rounds = Vec::new();
        for number in 1..=self.rounds.max(1) {
            if self.rounds > 1 {
                say(&format!("round {number} of {}", self.rounds));
            }
            rounds.push(self.round(&site).await?);
        }
        let rest = match self.rest {
            Some(heartbeats) => Some(self.rest(&site, heartbeats).await?),
            None => None,
        };
        let version = site.plane.version.clone();
        site.plane.shutdown().await;
        rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
        let median = rounds.swap_remove(rounds.len() / 2);
        let row = |what, round: Round| Row {
            what,
            cloud: self.kind.server.name.to_owned(),
            count: self.nodes,
            floor: round.floor.seconds,
            floor_cpu: round.floor.cpu,
            run: round.run,
            peer: round.peer,
        };
        let mut rows = vec![row(What::Join, median)];
        rows.extend(rest.map(|round| row(What::Rest, round)));
        Ok((version, rows))
    }

    async fn round(&self, site: &Site) -> Result<Round> {
        let Site { plane, cloud, .. } = site;
        nodes::register(plane, &cloud.kubelets).await?;
        let client = plane::client(&site.kubeconfig).await?;
        let floor = floor::measure(plane, &client, &cloud.kubelets).await?;
        say(&format!("floor {:.2} s", floor.seconds));
        nodes::remove(plane, &cloud.kubelets).await?;
        let run = joined(site, self.program).await?;
        let peer = match self.peer {
            Some(program) => Some(joined(site, program).await?),
            None => None,
        };
        Ok(Round { floor, run, peer })
    }

    /// The same nodes at rest, once more initialised; there is no floor.
    async fn rest(&self, site: &Site, heartbeats: &Heartbeats) -> Result<Round> {
        let mut runs = Vec::new();
        for program in [Some(self.program), self.peer].into_iter().flatten() {
            nodes::register(&site.plane, &site.cloud.kubelets).await?;
            let (_, process) = initialise(site, program).await?;
            runs.push(heartbeats.measure(site, &process).await?);
            process.kill().await?;
            nodes::remove(&site.plane, &site.cloud.kubelets).await?;
        }
        let peer = (runs.len() > 1).then(|| runs.remove(1));
        let (floor, run) = (Floor::default(), runs.remove(0));
        Ok(Round { floor, run, peer })
    }
}

/// Lets a program initialise new Nodes, and removes them.
async fn joined(site: &Site, program: &Program) -> Result<Run> {
    nodes::register(&site.plane, &site.cloud.kubelets).await?;
    let (run, process) = initialise(site, program).await?;
    process.kill().await?;
    nodes::remove(&site.plane, &site.cloud.kubelets).await?;
    Ok(run)
}

/// Starts the program and measures until all nodes are initialised and it is quiet.
pub(crate) async fn initialise(site: &Site, program: &Program) -> Result<(Run, Process)> {
    let plane = &site.plane;
    let before = plane.counts().await?;
    let mut follower = follow(&plane.admin).await?;
    let begun = tokio::time::Instant::now();
    let mut process = Process::start(program, &site.cloud, &site.kubeconfig)?;
    let (nodes, id) = (site.cloud.kubelets.len(), process.id()?);
    let seen = tokio::select! {
        seen = watched(&mut follower, nodes, id) => seen,
        error = process.ended() => Err(error),
    };
    let Watched {
        seen,
        at_lead,
        at_end,
    } = seen?;
    drop(follower);
    let counts = quiet(plane, before).await?;
    let after = process.usage()?;
    let led = seen.led.or(seen.first).context("nobody led")?;
    let last = seen.last.context("no node was initialised")?;
    let times = ((led - begun).as_secs_f64(), (last - led).as_secs_f64());
    let run = Run::of(times, &at_lead, at_end, &after, counts);
    Ok((run, process))
}

struct Watched {
    seen: Seen,
    /// When it led.
    at_lead: Usage,
    /// CPU time when all nodes were initialised.
    at_end: Duration,
}

async fn watched(follower: &mut Follower, nodes: usize, process: u32) -> Result<Watched> {
    let leads = follower
        .seen
        .wait_for(|seen| seen.led.is_some() || seen.first.is_some());
    let leads = tokio::time::timeout(crate::PATIENCE, leads).await;
    leads.context("the program does not lead")??;
    let at_lead = Usage::of(process)?;
    let seen = follower.until(nodes).await?;
    let at_end = Usage::of(process)?.cpu;
    Ok(Watched {
        seen,
        at_lead,
        at_end,
    })
}

/// Waits until no more events are written; gives all that was written since then.
pub(crate) async fn quiet(plane: &Plane, before: Counts) -> Result<Counts> {
    let (mut counts, mut looks) = (plane.counts().await?, 0);
    while looks < QUIET_LOOKS {
        tokio::time::sleep(LOOK).await;
        let now = plane.counts().await?;
        looks = if now.events == counts.events {
            looks + 1
        } else {
            0
        };
        counts = now;
    }
    Ok(counts.since(before))
}

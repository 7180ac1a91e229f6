//! Waiting, and letting time pass.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use jiff::Timestamp;
use tokio::sync::watch::Receiver;

use super::{PATIENCE, REAL_PATIENCE, TestCluster};
use crate::run::is_real;

/// How long nothing is watched to happen on the real clock. What Bowline does by itself it does
/// within a minute, but for the address round, whose period a scenario sets.
const LONG_ENOUGH: Duration = Duration::from_secs(70);
/// How much later than promised something may be on the real clock, where many share two cores.
const SLACK: Duration = Duration::from_secs(20);
/// How long after a change of which no call tells it is noticed on the real clock.
const TICK: Duration = Duration::from_secs(1);
/// In this time, whatever a change causes at once has begun; in memory it costs nothing to be generous.
const SETTLING: Duration = Duration::from_secs(30);
/// The same on the real clock: a change of nodes is acted upon after a second.
const REAL_SETTLING: Duration = Duration::from_secs(4);

impl TestCluster {
    /// Waits until `done` holds: it is asked after every call, every question to a cloud, and, on
    /// a real server, every change of a node or event.
    pub async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let wait = async {
            loop {
                self.until_noticed(&mut done).await;
                // A journal that tells of a write is ahead of the watch that tells of the node.
                self.cluster.catch_up().await;
                if !is_real() || done(self) {
                    return;
                }
            }
        };
        let patience = if is_real() { REAL_PATIENCE } else { PATIENCE };
        if tokio::time::timeout(patience, wait).await.is_err() {
            let transcript = self.world.journal.transcript();
            let lines: Vec<&str> = transcript.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            let asked: Vec<String> = self
                .clouds
                .iter()
                .flat_map(|it| it.balancers().calls())
                .collect();
            let asked = asked.join("\n");
            panic!("it never came to this: {what}; the last calls were\n{last}\n{asked}");
        }
    }

    async fn until_noticed(&self, done: &mut impl FnMut(&Self) -> bool) {
        let mut calls = self.world.journal.subscribe();
        let mut changes = self.cluster.subscribe();
        let mut looks: Vec<_> = self.clouds.iter().map(|cloud| cloud.subscribe()).collect();
        loop {
            calls.mark_unchanged();
            changes.as_mut().map(Receiver::mark_unchanged);
            looks.iter_mut().for_each(Receiver::mark_unchanged);
            if done(self) {
                return;
            }
            let never = futures::future::pending().boxed();
            let looks = looks.iter_mut().map(|it| it.changed().boxed());
            let asked = select_all(looks.chain([never]));
            let changed = match &mut changes {
                Some(changes) => changes.changed().map(|_| ()).boxed(),
                None => std::future::pending().boxed(),
            };
            // A metric changes without a call; in memory calls never cease for long.
            let tick = async {
                if is_real() {
                    tokio::time::sleep(TICK).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                _ = calls.changed() => {}
                _ = asked => {}
                () = changed => {}
                () = tick => {}
            }
        }
    }

    /// Waits until a node is initialised and people are told.
    pub async fn until_initialized(&self, name: &str) {
        let what = format!("node {name} is initialised and that is reported");
        self.until(&what, |bench| {
            bench.is_initialized(name) && bench.event_count(name, "Synced") > 0
        })
        .await;
    }

    /// Waits until something of that reason is reported about an object.
    pub async fn until_event(&self, name: &str, reason: &str) {
        let what = format!("{reason} is reported about {name}");
        self.until(&what, |bench| bench.event_count(name, reason) > 0)
            .await;
    }

    /// Waits until there is no such node.
    pub async fn until_deleted(&self, name: &str) {
        self.until(&format!("node {name} is deleted"), |bench| {
            bench.find(name).is_none()
        })
        .await;
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.cluster.catch_up().await;
    }

    /// Waits until what happened so far can be read.
    pub async fn catch_up(&self) {
        self.cluster.catch_up().await;
    }

    /// Lets seconds pass.
    pub async fn seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// Lets a long time pass in which nothing should happen. On the real clock it is cut down to a
    /// bit more than a minute, since there is nothing that Bowline would begin by itself later.
    pub async fn long(&self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        let time = if is_real() {
            time.min(LONG_ENOUGH)
        } else {
            time
        };
        self.pass(time).await;
    }

    /// Lets what a change causes at once happen, before it is said that no more happens. Wait with
    /// [`TestCluster::until`] for what must happen.
    pub async fn settle(&self) {
        self.pass(if is_real() { REAL_SETTLING } else { SETTLING })
            .await;
    }

    /// Lets a node live on: so many reports of an unchanged status, five minutes apart. On the real
    /// clock it is a few seconds, which is the same to whoever watches.
    pub async fn live(&self, name: &str, reports: usize) {
        for _ in 0..reports {
            self.seconds(if is_real() { 6 } else { 300 }).await;
            self.heartbeat(name).await;
        }
    }

    /// How much later than promised something may be: not at all under the paused clock.
    pub fn slack(&self) -> Duration {
        if is_real() { SLACK } else { Duration::ZERO }
    }

    /// Checks that these moments are so many seconds apart: to the second under the paused clock,
    /// and not sooner nor much later on the real one.
    pub fn assert_apart(&self, moments: &[Timestamp], seconds: &[u64]) {
        let apart = moments
            .windows(2)
            .map(|pair| pair[1].duration_since(pair[0]));
        let apart: Vec<Duration> = apart.map(Duration::try_from).map(Result::unwrap).collect();
        let fits = |(apart, seconds): (&Duration, &u64)| {
            let latest = Duration::from_secs(seconds + 1) + self.slack();
            (Duration::from_secs(*seconds)..latest).contains(apart)
        };
        let all_fit = apart.len() == seconds.len() && apart.iter().zip(seconds).all(fits);
        assert!(all_fit, "{apart:?} apart and not {seconds:?}");
    }

    /// Time since then.
    pub fn since(&self, then: Timestamp) -> Duration {
        self.world.clock.since(then)
    }
}

/// Checks that what happens while another cloud is like that takes no longer than it usually does.
pub fn assert_not_later(
    usual: &[(&str, Duration)],
    meanwhile: &[(&str, Duration)],
    other: impl std::fmt::Debug,
) {
    let slack = Duration::from_secs(if is_real() { 20 } else { 0 });
    for ((what, usual), (_, now)) in usual.iter().zip(meanwhile) {
        assert!(
            *now <= *usual + slack,
            "{what}: {now:?} and not {usual:?} while the other cloud is {other:?}"
        );
    }
}

//! A soak: months of an ordinary cluster, with churn every day. Nothing may grow.

use std::time::Duration;

use anyhow::{Context, Result};
use bowline_scenarios::log::Log;
use bowline_simulator_kubernetes::{fleet, monitor};
use tokio::time::Instant;

use crate::act::{Act, Machine};
use crate::clouds::Kind;
use crate::storm::{Pace, Storm};
use crate::story::Story;
use crate::tell::{Told, in_simulated_time};

/// One of each that is a cloud of its own.
const CLOUDS: [Kind; 5] = [
    Kind::Cloudscale,
    Kind::Exoscale,
    Kind::Talos,
    Kind::Triton,
    Kind::Xenorchestra,
];
/// Machines of each.
const MACHINES: u8 = 40;
/// Services, of the two clouds that have load balancers here.
const SERVICES: u8 = 50;
/// Machines of each cloud that are replaced in a day: fewer than the deletion guard lets go in ten minutes.
const REPLACED: u8 = 2;
/// Services that are made anew in a day.
const MADE_ANEW: u8 = 5;
const HOUR: Duration = Duration::from_secs(3600);
/// Of the memory after the first day.
const MOST_GROWTH: f64 = 1.1;

/// What one day left behind.
#[derive(Clone, Copy, Debug)]
pub struct Day {
    pub number: u64,
    /// Resident memory of this process: the manager, the simulated clouds and the API server.
    pub megabytes: f64,
}

/// Lets so many days pass, and tells about each. Memory may be a tenth larger at the end than after the first day.
pub fn soak(days: u64, mut tell: impl FnMut(Day)) -> Result<Told> {
    in_simulated_time(async |log| pass(days, &mut tell, log).await)
}

async fn pass(days: u64, tell: &mut impl FnMut(Day), log: Log) -> Result<Told> {
    let begun = Instant::now();
    let story = Story {
        seed: 1,
        clouds: CLOUDS.to_vec(),
        has_selectors: true,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: Vec::new(),
    };
    let mut storm = Storm::set_up(&story, pace(), log).await?;
    for cloud in 0..storm.clouds.len() {
        for number in 0..MACHINES {
            let machine = Machine(u8::try_from(cloud)?, number);
            storm.play(&Act::Boot(machine)).await?;
        }
    }
    for number in 0..SERVICES {
        storm.play(&create(number)).await?;
    }
    let (mut first, mut last) = (None, 0.0);
    for number in 1..=days {
        storm.churn(number).await?;
        for _ in 0..24 {
            storm.pass(HOUR).await;
            // What was said is of no use any more.
            storm.transcript.clear();
            if !storm.invariants.broken().is_empty() {
                break;
            }
        }
        if let Some(simulated) = storm.cluster.cluster.simulated() {
            simulated.api().compact();
        }
        last = resident()?;
        first.get_or_insert(last);
        tell(Day {
            number,
            megabytes: last,
        });
    }
    storm.rest().await;
    if let Some(first) = first.filter(|first| last > first * MOST_GROWTH) {
        let text = format!("memory grew from {first:.1} to {last:.1} MB");
        storm.invariants.find([text]);
    }
    Ok(Told {
        broken: storm.invariants.broken().to_vec(),
        simulated: begun.elapsed(),
        ..Told::default()
    })
}

impl Storm {
    /// What happens in a day.
    async fn churn(&mut self, day: u64) -> Result<()> {
        for cloud in 0..self.clouds.len() {
            for at in 0..REPLACED {
                let number = nth(day, REPLACED, at, MACHINES)?;
                let machine = Machine(u8::try_from(cloud)?, number);
                // Nobody says that a machine of Talos is gone: those are restarted.
                if self.clouds[cloud].kind.simulator().knows_power {
                    self.play(&Act::Destroy(machine)).await?;
                } else {
                    self.play(&Act::PowerOff(machine)).await?;
                }
                self.pass(HOUR / 12).await;
                self.play(&Act::Boot(machine)).await?;
                self.play(&Act::PowerOn(machine)).await?;
            }
        }
        for at in 0..MADE_ANEW {
            let number = nth(day, MADE_ANEW, at, SERVICES)?;
            self.play(&Act::DeleteService(number)).await?;
            let other = (number + 1) % SERVICES;
            let ports = u8::try_from(1 + day % 3)?;
            self.play(&Act::Ports(other, ports)).await?;
            self.pass(HOUR / 12).await;
            self.play(&create(number)).await?;
        }
        self.play(&Act::Reload(None)).await
    }
}

/// The so-many-eth of those whose turn it is on that day, if it is `a_day` of all each day.
fn nth(day: u64, a_day: u8, at: u8, all: u8) -> Result<u8> {
    let number = day * u64::from(a_day) + u64::from(at);
    Ok(u8::try_from(number % u64::from(all))?)
}

/// A Service of one of the two clouds that have load balancers here.
fn create(number: u8) -> Act {
    Act::CreateService(number, number % 2, 1)
}

/// Kubelets, the API server's own controllers and the manager's lease are slow, so that a month is not spent on leases.
fn pace() -> Pace {
    let slow = |minutes: u64| Duration::from_secs(60 * minutes);
    Pace {
        look: slow(1),
        kubelets: fleet::Settings {
            renew_interval: slow(20),
            report_interval: slow(60),
            check_interval: slow(20),
            ..fleet::Settings::default()
        },
        monitor: monitor::Settings {
            grace_period: slow(50),
            startup_grace_period: slow(50),
        },
        lease: [
            "--leader-elect-lease-duration=180s",
            "--leader-elect-renew-deadline=120s",
            "--leader-elect-retry-period=60s",
        ],
    }
}

/// The resident memory of this process, in MB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes
        .context("no VmRSS in /proc/self/status")?
        .parse()?;
    Ok(kilobytes / 1000.0)
}

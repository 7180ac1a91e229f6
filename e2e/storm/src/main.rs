//! `storm`: tells the stories of many seeds, and makes one that fails as small as it can be.

#![expect(
    clippy::print_stdout,
    reason = "printing what happened is what it is for"
)]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline_storm::{Day, KINDS, Kind, Story, Told, shrink, soak, tell};
use clap::Parser;
use tokio::time::Instant;

/// Everything that can happen to a cluster happens at once, in simulated time
///
/// A seed draws a story: machines come and go, tenants change Services, calls go wrong in every way, processes die, the
/// configuration changes. Invariants are checked all along, and once everything has come to rest. The same seed gives the
/// same story. The first one that fails is printed as a test, as small as it can be made; the exit code is then 1.
#[derive(Parser)]
#[command(name = "storm")]
struct Arguments {
    /// Tell the story of this seed alone
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Tell the stories of these seeds, the last one left out
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// Draw from these clouds, separated by commas; default: all
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    clouds: Vec<String>,
    /// Simulated minutes in which things happen
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Print every act and every call of the story of --seed
    #[arg(long, requires = "seed")]
    transcript: bool,
    /// Tell the others, too, when one fails
    #[arg(long)]
    keep_going: bool,
    /// Do not make a story that fails smaller
    #[arg(long)]
    no_shrink: bool,
    /// Let so many simulated days of an ordinary cluster pass instead (five clouds, 200 nodes, 50 Services, churn every day),
    /// and see whether memory grows
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["seed", "seeds", "clouds", "minutes"])]
    soak: Option<u64>,
}

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

fn seeds(text: &str) -> Result<Range<u64>> {
    let (first, last) = text
        .split_once("..")
        .context("two numbers with .. between them")?;
    let range = first.trim().parse()?..last.trim().parse()?;
    ensure!(!range.is_empty(), "there is no seed in {text}");
    Ok(range)
}

/// Lets days pass, and says how it went.
fn let_pass(days: u64) -> Result<ExitCode> {
    let begun = Instant::now();
    let (days_sent, passed) = std::sync::mpsc::channel();
    // On a thread of its own: time is simulated there.
    let soaking = std::thread::spawn(move || {
        soak(days, |day| {
            let _ = days_sent.send(day);
        })
    });
    for Day { number, megabytes } in passed {
        let seconds = begun.elapsed().as_secs();
        println!("  … day {number} of {days}: {megabytes:.1} MB resident, after {seconds} s");
    }
    let told = soaking.join();
    let told = told.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    let hours = told.simulated.as_secs_f64() / 3600.0;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{hours:.0} simulated hours in {seconds:.0} s");
    for broken in &told.broken {
        println!("{broken}");
    }
    Ok(ExitCode::from(u8::from(!told.broken.is_empty())))
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(days) = arguments.soak {
        return let_pass(days);
    }
    let clouds = arguments.clouds.iter().map(|it| Kind::named(it));
    let mut clouds: Vec<Kind> = clouds.collect::<Result<_>>()?;
    if clouds.is_empty() {
        clouds.extend(KINDS);
    }
    if let (Some(seed), true) = (arguments.seed, arguments.transcript) {
        let story = Story::of(seed, &clouds, arguments.minutes);
        print!("{}", tell(&story)?.transcript);
    }
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.seeds.clone(),
    };
    let storms = Storms {
        next: AtomicU64::new(seeds.start),
        seeds,
        clouds,
        minutes: arguments.minutes,
        keep_going: arguments.keep_going,
        so_far: Mutex::default(),
    };
    let begun = Instant::now();
    storms.tell_all()?;
    let mut so_far = storms
        .so_far
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} seeds, {} failed; {:.0} simulated hours in {:.0} s",
        so_far.told,
        so_far.failed.len(),
        so_far.simulated.as_secs_f64() / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    so_far.failed.sort_by_key(|(story, _)| story.seed);
    let Some((story, first)) = so_far.failed.first() else {
        return Ok(ExitCode::SUCCESS);
    };
    if !arguments.no_shrink {
        println!("making the story of seed {} smaller …", story.seed);
        let small = shrink(story, |it| tell(it).is_ok_and(|it| fails_alike(&it, first)));
        println!(
            "the smallest story of seed {} that still fails:\n\n{}",
            story.seed,
            small.as_test()
        );
    }
    Ok(ExitCode::FAILURE)
}

/// Whether two stories fail in the same way: with the same words, whatever they name.
fn fails_alike(one: &Told, other: &Told) -> bool {
    let way = |it: &Told| {
        let first = it.broken.first()?;
        let is_word = |it: &&str| it.chars().all(|it| it.is_ascii_lowercase());
        Some(first.split(' ').filter(is_word).take(3).collect::<String>())
    };
    way(one).is_some() && way(one) == way(other)
}

/// The stories of many seeds.
struct Storms {
    seeds: Range<u64>,
    next: AtomicU64,
    clouds: Vec<Kind>,
    minutes: u64,
    keep_going: bool,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    told: u64,
    failed: Vec<(Story, Told)>,
    simulated: Duration,
    said: Option<Instant>,
}

impl Storms {
    /// Tells them all, one on each core at a time.
    fn tell_all(&self) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..cores).map(|_| scope.spawn(|| self.work())).collect();
            let ended = all.into_iter().map(|it| {
                let panicked = |_| anyhow::anyhow!("a thread panicked");
                it.join().map_err(panicked)?
            });
            ended.collect()
        })
    }

    fn work(&self) -> Result<()> {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            let has_failed = || !self.lock().failed.is_empty();
            if seed >= self.seeds.end || (!self.keep_going && has_failed()) {
                return Ok(());
            }
            let story = Story::of(seed, &self.clouds, self.minutes);
            let told = tell(&story)?;
            let count = self.seeds.end - self.seeds.start;
            self.lock().note(story, told, count);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SoFar {
    fn note(&mut self, story: Story, told: Told, of: u64) {
        self.told += 1;
        self.simulated += told.simulated;
        if !told.broken.is_empty() {
            println!("seed {}: {}", story.seed, told.broken.join("; "));
            self.failed.push((story, told));
        }
        let said = *self.said.get_or_insert_with(Instant::now);
        if said.elapsed() >= PROGRESS {
            self.said = Some(Instant::now());
            println!("  … {} of {of} seeds", self.told);
        }
    }
}

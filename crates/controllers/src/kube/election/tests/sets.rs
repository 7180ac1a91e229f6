//! Several Leases of one process: its own, and those of controller managers that it replaces.

use super::*;
use tokio_util::sync::CancellationToken;

/// The Leases of two originals, in the order in which they are acquired, and not that of their creation.
const ORIGINALS: [&str; 2] = ["cloudscale", "talos"];

impl World {
    /// A process that wants `manager` and the originals' Leases.
    fn set(&self, name: &str, line: &Arc<Mutex<Line>>, observer: &Arc<Notes>) -> LeaseSet {
        let elector = |lease: &str| {
            let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
            self.observed(name, lease, line.clone(), clock, observer.clone())
        };
        let [first, second] = ORIGINALS;
        let others = vec![
            elector(second),
            elector("manager"),
            elector(first),
            elector(second),
        ];
        LeaseSet::new(elector("manager"), others)
    }

    /// Starts one that renews until it loses.
    fn start_set(&self, name: &str) -> Process {
        let line = Arc::new(Mutex::new(Line::default()));
        let set = self.set(name, &line, &Arc::default());
        Process::live(set.fence(), line, async move {
            let stop = CancellationToken::new();
            match set.acquire(&stop).await {
                Ok(mut held) => held.renew().await,
                Err(Interrupted::Lost(lost)) => lost,
                Err(Interrupted::Stopped(_)) => unreachable!("nobody stops it"),
            }
        })
    }

    /// Starts an original, which knows one Lease.
    fn start_original(&self, name: &str, lease: &str) -> Process {
        let line = Arc::new(Mutex::new(Line::default()));
        let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
        let elector = self.elector(name, lease, line.clone(), clock);
        let life = async move |elector: Elector| elector.acquire().await.renew().await;
        Process::live(elector.fence(), line, life(elector))
    }

    fn holders(&self) -> Vec<String> {
        let names = ["manager"].into_iter().chain(ORIGINALS);
        names.map(|name| self.lease_of(name).holder).collect()
    }
}

async fn held(set: LeaseSet, stop: &CancellationToken) -> HeldSet {
    match set.acquire(stop).await {
        Ok(held) => held,
        Err(Interrupted::Lost(lost)) => panic!("{lost}"),
        Err(Interrupted::Stopped(_)) => panic!("it was stopped"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_held_as_a_whole_and_lost_as_a_whole() {
    let world = World::new(13);
    let stop = CancellationToken::new();
    let set = world.set("a", &Arc::default(), &Arc::default());
    let fence = set.fence();
    let mut all = held(set, &stop).await;
    fence.check().unwrap();
    assert_eq!(world.holders(), ["a", "a", "a"]);
    let other = world.start_set("b");
    tokio::select! {
        biased;
        lost = all.renew() => panic!("{lost}"),
        () = sleep(seconds(60)) => {}
    }
    assert!(!other.leads());
    let calls = world.calls("b");
    assert!(calls.iter().all(|method| method == "GET"), "{calls:?}");
    assert!(
        calls.len() < 3 * 40,
        "once in a retry period at each lease: {}",
        calls.len()
    );
    world.write_to("talos", &held_by("thief"));
    let lost = all.renew().await;
    assert_eq!(lost.lease.name, "talos");
    assert_eq!(lost.loss, Loss::Taken("thief".to_owned()));
    assert!(fence.check().is_err() && all.fence().check().is_err());
    all.release().await.unwrap();
    assert_eq!(
        world.holders(),
        ["", "", "thief"],
        "what is lost is not given back"
    );
}

#[tokio::test(start_paused = true)]
async fn all_are_given_back_the_last_one_first() {
    let world = World::new(14);
    let stop = CancellationToken::new();
    let notes = Arc::new(Notes::default());
    let all = held(world.set("a", &Arc::default(), &notes), &stop).await;
    notes.0.lock().unwrap().clear();
    all.release().await.unwrap();
    let heard = notes.0.lock().unwrap().clone();
    let ends = heard.into_iter().filter(|line| line.contains("stopped"));
    let ends: Vec<String> = ends.collect();
    let expected =
        ["talos", "manager", "cloudscale"].map(|name| format!("{name}: a stopped leading"));
    assert_eq!(ends, expected);
    assert_eq!(world.holders(), ["", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_live_original_says_so_and_gives_back_what_it_has_when_it_is_stopped() {
    let world = World::new(15);
    let original = world.start_original("original_1", "talos");
    original.until_leading().await;
    let stop = CancellationToken::new();
    let notes = Arc::new(Notes::default());
    let set = world.set("a", &Arc::default(), &notes);
    let fence = set.fence();
    let stopping = stop.clone();
    let waiting = tokio::spawn(async move { set.acquire(&stopping).await });
    sleep(seconds(300)).await;
    assert!(original.leads() && fence.check().is_err());
    assert_eq!(
        world.holders(),
        ["", "", "original_1"],
        "who waits for long keeps nothing from others"
    );
    let heard = notes.0.lock().unwrap().clone();
    let reported = "talos waits: it is held by original_1 (Some(\"talos\"))";
    assert!(heard.iter().any(|line| line == reported), "{heard:?}");
    stop.cancel();
    let Err(Interrupted::Stopped(some)) = waiting.await.unwrap() else {
        panic!("it was stopped");
    };
    assert!(some.is_empty());
    assert_eq!(world.holders(), ["", "", "original_1"]);
    assert!(original.leads());
}

#[tokio::test(start_paused = true)]
async fn the_leases_of_several_dead_originals_run_out_at_the_same_time() {
    for seed in 0..20 {
        let world = World::new(seed);
        for name in ORIGINALS {
            world.write_to(name, &held_by("dead"));
        }
        let from = Instant::now();
        let process = world.start_set("a");
        let waited = process.until_leading().await - from;
        assert!(waited >= seconds(15) && waited <= seconds(20), "{waited:?}");
        assert!(process.fence.may_follow_unfinished_writes());
    }
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_killed_leader_waits_once_and_not_for_every_lease() {
    for seed in 0..20 {
        let world = World::new(seed);
        let leader = world.start_set("a");
        leader.until_leading().await;
        let standby = world.start_set("b");
        sleep(Duration::from_millis(30_000 + seed * 97)).await;
        leader.task.abort();
        let killed = Instant::now();
        let waited = standby.until_leading().await - killed;
        assert!(waited >= seconds(13) && waited <= seconds(25), "{waited:?}");
        assert!(standby.fence.may_follow_unfinished_writes());
    }
}

#[tokio::test(start_paused = true)]
async fn the_word_about_a_dead_leader_counts_for_it_alone() {
    let world = World::new(16);
    world.write(&held_by("dead"));
    world.write_to("cloudscale", &held_by("dead"));
    let original = world.start_original("alive", "talos");
    original.until_leading().await;
    let process = world.start_set("a");
    sleep(seconds(60)).await;
    assert!(original.leads() && !process.leads());
    assert_eq!(world.holders(), ["", "", "alive"]);
}

#[tokio::test(start_paused = true)]
async fn losing_one_lease_while_waiting_for_another_ends_the_wait() {
    let world = World::new(17);
    world.write_to("talos", &held_by("x"));
    let process = world.start_set("a");
    while world.lease().holder != "a" {
        sleep(Duration::from_millis(10)).await;
    }
    world.write(&held_by("thief"));
    let lost = process.task.await.unwrap();
    assert_eq!(lost.lease.name, "manager");
    assert!(process.fence.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn proof_case_41_who_goes_by_another_order_ends_no_wait_for_ever() {
    for seed in 0..20 {
        let world = World::new(seed);
        // It has the last one, and waits for the first: an older release, or another program.
        let line = Arc::new(Mutex::new(Line::default()));
        let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
        let elector = |lease| world.elector("other", lease, line.clone(), clock.clone());
        let (last, first) = (elector("talos"), elector("cloudscale"));
        let mut last = last.acquire().await;
        let process = world.start_set("a");
        while world.lease().holder != "a" {
            sleep(Duration::from_millis(10)).await;
        }
        let begun = Instant::now();
        tokio::select! {
            biased;
            lost = last.renew() => panic!("{lost}"),
            _held = first.acquire() => {}
        }
        assert!(begun.elapsed() <= seconds(30), "{:?}", begun.elapsed());
        assert!(!process.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_hears_nothing_of_its_own_leader_and_all_of_strangers() {
    let world = World::new(18);
    let stop = CancellationToken::new();
    let mut leader = held(world.set("a", &Arc::default(), &Arc::default()), &stop).await;
    let notes = Arc::new(Notes::default());
    let standby = world.set("b", &Arc::default(), &notes);
    tokio::select! {
        biased;
        lost = leader.renew() => panic!("{lost}"),
        _ = standby.acquire(&stop) => panic!("it is held"),
        () = sleep(seconds(60)) => {}
    }
    let heard = notes.0.lock().unwrap().clone();
    assert!(
        !heard.iter().any(|line| line.contains("waits")),
        "{heard:?}"
    );
}

/// One adventure of two processes that want all Leases and two originals that want one each. At no
/// moment may two be past their fences that share a Lease.
async fn adventure(seed: u64) -> (u64, u64) {
    let world = World::new(seed);
    let luck = world.random.fork();
    let start = |index: usize, life: u64| match index {
        0 | 1 => world.start_set(&format!("p{index}-{life}")),
        _ => world.start_original(&format!("o{index}-{life}"), ORIGINALS[index - 2]),
    };
    let mut processes: Vec<Process> = (0..4).map(|index| start(index, 0)).collect();
    let (mut ours, mut theirs) = (0, 0);
    for tick in 1..2400_u64 {
        sleep(Duration::from_millis(250)).await;
        let leads: Vec<bool> = processes.iter().map(Process::leads).collect();
        let sets = leads[..2].iter().filter(|leads| **leads).count();
        let originals = leads[2..].iter().filter(|leads| **leads).count();
        assert!(
            sets == 0 || (sets == 1 && originals == 0),
            "seed {seed}, tick {tick}: {leads:?}"
        );
        ours += u64::from(sets == 1);
        theirs += u64::from(originals > 0);
        let index = usize::try_from(luck.below(4)).unwrap();
        let process = &mut processes[index];
        process.suffer(&luck);
        if process.task.is_finished() && luck.below(20) == 0 {
            *process = start(index, tick);
        }
    }
    (ours, theirs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_set_and_an_original_of_one_of_its_leases_never_work_together(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (ours, theirs) = runtime.block_on(adventure(seed));
        prop_assert!(ours + theirs > 0, "somebody led at some time");
    }
}

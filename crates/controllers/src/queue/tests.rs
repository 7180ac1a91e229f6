use std::time::Duration;

use bowline_core::CloudName;
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::metrics::Metrics;

fn queue(backoff: Backoff<&'static str>) -> (WorkQueue<&'static str>, Arc<Metrics>) {
    let metrics = Metrics::new();
    (WorkQueue::new("Nodes", backoff, &metrics.queues), metrics)
}

#[test]
fn vector_3_the_delays_of_the_nodes_queue() {
    let expected = [
        0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96,
        81.92, 163.84, 327.68, 655.36, 1000.0, 1000.0,
    ];
    let now = Instant::now();
    let mut backoff = Backoff::nodes();
    for (failure, seconds) in expected.into_iter().enumerate() {
        let delay = backoff.next(&"n1", now);
        assert_eq!(delay, Duration::from_secs_f64(seconds), "failure {failure}");
    }
    for _ in 0..100 {
        assert_eq!(
            backoff
                .next(&"n1", now)
                .max(Duration::from_secs(1000))
                .as_secs(),
            1000
        );
    }
    backoff.forget(&"n1");
    assert_eq!(backoff.failures(&"n1"), 0);
}

#[test]
fn services_wait_from_5_to_300_seconds() {
    let now = Instant::now();
    let mut backoff = Backoff::services();
    let delays: Vec<u64> = (0..8).map(|_| backoff.next(&1, now).as_secs()).collect();
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn the_shared_bucket_spreads_what_exceeds_its_burst() {
    let now = Instant::now();
    let mut backoff = Backoff::nodes();
    for key in 0..100 {
        assert_eq!(backoff.next(&key, now), Duration::from_millis(5), "{key}");
    }
    assert_eq!(backoff.next(&100, now), Duration::from_millis(100));
    assert_eq!(backoff.next(&101, now), Duration::from_millis(200));
    let later = now + Duration::from_secs(3600);
    assert_eq!(backoff.next(&102, later), Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_order_is_kept() {
    let (queue, metrics) = queue(Backoff::nodes());
    for key in ["b", "a", "b", "c"] {
        assert!(queue.add(key));
    }
    assert_eq!(queue.len(), 3);
    assert!(
        metrics
            .text()
            .contains("workqueue_depth{name=\"Nodes\"} 3\n")
    );
    for expected in ["b", "a", "c"] {
        let work = queue.next().await.unwrap();
        assert_eq!(*work.key(), expected);
        work.succeeded();
    }
    assert!(queue.is_empty());
    let text = metrics.text();
    assert!(
        text.contains("workqueue_adds_total{name=\"Nodes\"} 3\n"),
        "{text}"
    );
    assert!(text.contains("workqueue_work_duration_seconds_count{name=\"Nodes\"} 3\n"));
    assert!(
        text.contains("workqueue_queue_duration_seconds_bucket{name=\"Nodes\",le=\"1e-08\"} 3\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_runs_once_more_and_never_twice_at_once() {
    let (queue, _metrics) = queue(Backoff::nodes());
    queue.add("a");
    let first = queue.next().await.unwrap();
    queue.add("a");
    queue.add("a");
    let second = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
    assert!(second.is_err(), "the key was handed out to a second worker");
    drop(first);
    assert_eq!(queue.next().await.map(|work| *work.key()), Some("a"));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_comes_back_after_its_delay_and_a_waiting_worker_sees_it() {
    let (queue, metrics) = queue(Backoff::services());
    let start = Instant::now();
    queue.add("a");
    for (seconds, sum) in [(5, 5), (10, 15), (20, 35)] {
        let delay = queue.next().await.unwrap().failed();
        assert_eq!(delay, Duration::from_secs(seconds));
        let work = queue.next().await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(sum));
        drop(work);
        queue.add("a");
    }
    assert_eq!(queue.failures(&"a"), 3);
    assert!(
        metrics
            .text()
            .contains("workqueue_retries_total{name=\"Nodes\"} 3\n")
    );
}

#[tokio::test(start_paused = true)]
async fn an_add_during_the_delay_runs_at_once_and_leaves_the_count() {
    let (queue, _metrics) = queue(Backoff::services());
    queue.add("a");
    queue.next().await.unwrap().failed();
    queue.add("a");
    let start = Instant::now();
    let work = queue.next().await.unwrap();
    assert_eq!((start.elapsed(), queue.failures(&"a")), (Duration::ZERO, 1));
    work.succeeded();
    assert_eq!(queue.failures(&"a"), 0);
    let idle = tokio::time::timeout(Duration::from_secs(600), queue.next()).await;
    assert!(idle.is_err(), "the old delay is void");
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_shorter_counts() {
    let (queue, _metrics) = queue(Backoff::nodes());
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(30));
    queue.add_after("a", Duration::from_secs(10));
    queue.add_after("a", Duration::from_secs(20));
    queue.next().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_hands_out_nothing_and_waits_for_the_workers() {
    let (queue, metrics) = queue(Backoff::nodes());
    queue.add("a");
    queue.add("b");
    let work = queue.next().await.unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    let text = metrics.text();
    assert!(
        text.contains("workqueue_unfinished_work_seconds{name=\"Nodes\"} 7"),
        "{text}"
    );
    assert!(text.contains("workqueue_longest_running_processor_seconds{name=\"Nodes\"} 7"));
    let draining = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.drain().await })
    };
    tokio::task::yield_now().await;
    assert!(queue.next().await.is_none());
    assert!(!queue.add("c") && !queue.add_after("d", Duration::from_secs(1)));
    assert!(!draining.is_finished());
    drop(work);
    draining.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_workers_share_many_keys() {
    let (queue, _metrics) = queue(Backoff::nodes());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, seen) = (queue.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                while let Some(work) = queue.next().await {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    seen.lock().unwrap().push(*work.key());
                    work.succeeded();
                }
            })
        })
        .collect();
    let start = Instant::now();
    for (delay, key) in ["a", "b", "c", "d", "e", "f", "g", "h"]
        .into_iter()
        .enumerate()
    {
        queue.add_after(key, Duration::from_millis(delay as u64));
    }
    while seen.lock().unwrap().len() < 8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        start.elapsed() < Duration::from_millis(2200),
        "four at a time"
    );
    queue.drain().await;
    for worker in workers {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_refuses_further_keys() {
    let metrics = Metrics::new();
    let queue = WorkQueue::new("Nodes", Backoff::nodes(), &metrics.queues);
    for key in 0..KEYS_LIMIT {
        assert!(queue.add(key));
    }
    assert!(!queue.add(KEYS_LIMIT), "one too many");
    assert!(queue.add(7), "a known key is no further one");
}

/// A queue with lanes for the clouds a and b: a key is of the cloud that is written down, or that its name
/// begins with.
struct Sorted {
    queue: WorkQueue<&'static str>,
    moved: Arc<Mutex<BTreeMap<&'static str, &'static str>>>,
    metrics: Arc<Metrics>,
}

const A: usize = 0;
const B: usize = 1;
const COMMON: usize = 2;

fn sorted(backoff: Backoff<&'static str>) -> Sorted {
    let metrics = Metrics::new();
    let moved = Arc::new(Mutex::new(BTreeMap::new()));
    let names = ["a", "b"].map(|it| CloudName::parse(it).unwrap());
    let known = Arc::clone(&moved);
    let lanes = Lanes::of_clouds(names, move |key: &&'static str| {
        let cloud = known.lock().unwrap().get(key).copied();
        CloudName::parse(cloud.unwrap_or(&key[..1])).ok()
    });
    let queue = WorkQueue::with_lanes("Nodes", backoff, &metrics.queues, lanes);
    Sorted {
        queue,
        moved,
        metrics,
    }
}

/// The key that the lane hands out now, if any.
async fn now(queue: &WorkQueue<&'static str>, lane: usize) -> Option<Work<&'static str>> {
    let next = tokio::time::timeout(Duration::ZERO, queue.next_in(lane));
    next.await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn each_cloud_has_a_lane_and_what_is_nobodys_a_common_one() {
    let Sorted { queue, metrics, .. } = sorted(Backoff::nodes());
    assert_eq!(queue.lanes(), 3);
    for key in ["b1", "x1", "a1", "b2"] {
        queue.add(key);
    }
    let depth = |n: usize| format!("workqueue_depth{{name=\"Nodes\"}} {n}\n");
    assert!(
        metrics.text().contains(&depth(4)),
        "all lanes are one queue"
    );
    for (lane, expected) in [(B, "b1"), (A, "a1"), (B, "b2"), (COMMON, "x1")] {
        let work = now(&queue, lane).await.unwrap();
        assert_eq!((*work.key(), work.lane()), (expected, lane));
    }
    assert!(metrics.text().contains(&depth(0)));
    assert!(now(&queue, A).await.is_none());
}

#[test]
fn one_cloud_has_one_lane() {
    let cloud = CloudName::parse("a").unwrap();
    assert_eq!(Lanes::<u8>::of_clouds([cloud], |_| None).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_cloud_that_hangs_hold_up_no_other() {
    let Sorted { queue, .. } = sorted(Backoff::nodes());
    for key in ["a1", "a2", "a3", "b1", "b2", "x1"] {
        queue.add(key);
    }
    let stop = CancellationToken::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let (serving, stopping, recorded) = (queue.clone(), stop.clone(), Arc::clone(&seen));
    let serving = tokio::spawn(async move {
        let reconcile = |work: Work<&'static str>| {
            let recorded = Arc::clone(&recorded);
            async move {
                let takes = if work.lane() == A { 120 } else { 1 };
                tokio::time::sleep(Duration::from_secs(takes)).await;
                let at = start.elapsed().as_secs();
                recorded.lock().unwrap().push((at, *work.key()));
                work.succeeded();
            }
        };
        serving.serve(1, &stopping, reconcile).await;
    });
    tokio::time::sleep(Duration::from_secs(300)).await;
    let expected = [(1, "b1"), (1, "x1"), (2, "b2"), (120, "a1"), (240, "a2")];
    assert_eq!(*seen.lock().unwrap(), expected);
    stop.cancel();
    serving.await.unwrap();
    assert_eq!(seen.lock().unwrap().last(), Some(&(360, "a3")), "finished");
    assert!(!queue.add("b3"), "it is shut down");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_costs_no_worker() {
    let (queue, _metrics) = queue(Backoff::nodes());
    queue.add("a");
    queue.add("b");
    let stop = CancellationToken::new();
    let reconcile = |work: Work<&'static str>| {
        let stop = stop.clone();
        async move {
            assert_eq!(*work.key(), "b", "the first one fails");
            stop.cancel();
        }
    };
    queue.serve(1, &stop, reconcile).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_moves_to_another_lane_waits_there_and_is_never_with_two_workers() {
    let Sorted { queue, moved, .. } = sorted(Backoff::nodes());
    queue.add("a1");
    queue.add("a2");
    let first = now(&queue, A).await.unwrap();
    moved.lock().unwrap().extend([("a1", "b"), ("a2", "b")]);
    assert!(now(&queue, B).await.is_none(), "nobody asked for it again");
    queue.add("a1");
    queue.add("a2");
    assert_eq!(queue.len(), 1, "one is being worked on");
    let second = now(&queue, B).await.unwrap();
    assert_eq!((*first.key(), *second.key()), ("a1", "a2"));
    assert!(now(&queue, B).await.is_none(), "the other lane has it");
    assert!(now(&queue, A).await.is_none());
    drop(first);
    assert_eq!(*now(&queue, B).await.unwrap().key(), "a1");
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stays_in_its_lane_keeps_its_place() {
    let Sorted { queue, .. } = sorted(Backoff::nodes());
    queue.add("a1");
    queue.add("a2");
    assert!(now(&queue, B).await.is_none(), "all is sorted");
    queue.add("a1");
    for expected in ["a1", "a2"] {
        assert_eq!(*now(&queue, A).await.unwrap().key(), expected);
    }
    assert!(now(&queue, A).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn urgent_keys_come_first_in_their_order_also_those_that_wait_already() {
    let Sorted { queue, .. } = sorted(Backoff::nodes());
    for key in ["a1", "a2", "a3", "b1"] {
        queue.add(key);
    }
    assert!(now(&queue, COMMON).await.is_none(), "all is sorted");
    queue.add_urgent("a3");
    assert!(now(&queue, COMMON).await.is_none(), "and again");
    queue.add_urgent("a4");
    queue.add("a3");
    let working = now(&queue, A).await.unwrap();
    assert_eq!(*working.key(), "a3");
    queue.add_urgent("a3");
    queue.add_urgent("b2");
    drop(working);
    for (lane, expected) in [
        (A, "a4"),
        (A, "a3"),
        (A, "a1"),
        (A, "a2"),
        (B, "b2"),
        (B, "b1"),
    ] {
        assert_eq!(*now(&queue, lane).await.unwrap().key(), expected);
    }
    queue.add("a1");
    queue.add("a3");
    assert_eq!(*now(&queue, A).await.unwrap().key(), "a1", "urgent once");
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_cloud_use_up_no_retries_of_another() {
    let Sorted { queue, .. } = sorted(Backoff::nodes());
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        queue.add("a1");
        longest = now(&queue, A).await.unwrap().failed();
        queue.forget(&"a1");
    }
    assert!(longest > Duration::from_secs(9), "{longest:?}");
    queue.add("b1");
    let delay = now(&queue, B).await.unwrap().failed();
    assert_eq!(delay, Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_wakes_the_workers_of_its_lane() {
    let Sorted { queue, .. } = sorted(Backoff::nodes());
    let start = Instant::now();
    let idle = queue.clone();
    let idle = tokio::spawn(async move { idle.next_in(A).await.map(|it| *it.key()) });
    queue.add_after("b1", Duration::from_secs(10));
    assert_eq!(*queue.next_in(B).await.unwrap().key(), "b1");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    queue.shut_down();
    assert_eq!(idle.await.unwrap(), None);
}

/// What somebody does with a queue.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u8),
    AddUrgent(u8),
    AddAfter(u8, u64),
    Take(usize),
    Move(u8),
    Finish(usize),
    Fail(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..5_u8).prop_map(Step::Add),
        (0..5_u8).prop_map(Step::AddUrgent),
        (0..5_u8, 0..50_u64).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        (0..3_usize).prop_map(Step::Take),
        (0..3_usize).prop_map(Step::Take),
        (0..5_u8).prop_map(Step::Move),
        (0..3_usize).prop_map(Step::Finish),
        (0..3_usize).prop_map(Step::Fail),
        (0..100_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

/// Plays the steps; then finishes everything and says which keys still owe a run.
async fn play(steps: Vec<Step>) -> BTreeSet<u8> {
    let metrics = Metrics::new();
    let names = ["a", "b"].map(|it| CloudName::parse(it).unwrap());
    let moves = Arc::new(Mutex::new([0_usize; 5]));
    let (clouds, known) = (names.clone(), Arc::clone(&moves));
    let lanes = Lanes::of_clouds(names, move |key: &u8| {
        let moved = known.lock().unwrap()[usize::from(*key)];
        clouds.get((usize::from(*key) + moved) % 3).cloned()
    });
    let queue = WorkQueue::with_lanes("Nodes", Backoff::nodes(), &metrics.queues, lanes);
    let mut owed = BTreeSet::new();
    let mut held: Vec<Work<u8>> = Vec::new();
    for step in steps {
        match step {
            Step::Add(key) => {
                queue.add(key);
                owed.insert(key);
            }
            Step::AddUrgent(key) => {
                queue.add_urgent(key);
                owed.insert(key);
            }
            Step::AddAfter(key, delay) => {
                queue.add_after(key, Duration::from_millis(delay));
                owed.insert(key);
            }
            Step::Move(key) => moves.lock().unwrap()[usize::from(key)] += 1,
            Step::Take(lane) => {
                let next = tokio::time::timeout(Duration::ZERO, queue.next_in(lane)).await;
                let Ok(Some(work)) = next else { continue };
                assert!(
                    held.iter().all(|other| other.key() != work.key()),
                    "two workers"
                );
                owed.remove(work.key());
                held.push(work);
            }
            Step::Finish(index) if index < held.len() => held.remove(index).succeeded(),
            Step::Fail(index) if index < held.len() => {
                let work = held.remove(index);
                owed.insert(*work.key());
                work.failed();
            }
            Step::Wait(delay) => tokio::time::advance(Duration::from_millis(delay)).await,
            Step::Finish(_) | Step::Fail(_) => {}
        }
    }
    held.clear();
    tokio::time::advance(Duration::from_secs(2000)).await;
    for lane in 0..queue.lanes() {
        let next = || tokio::time::timeout(Duration::ZERO, queue.next_in(lane));
        while let Ok(Some(work)) = next().await {
            owed.remove(work.key());
            work.succeeded();
        }
    }
    owed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_key_is_with_two_workers_and_every_wish_is_met(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        prop_assert!(runtime.block_on(play(steps)).is_empty());
    }
}

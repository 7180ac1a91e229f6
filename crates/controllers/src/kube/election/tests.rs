//! Elections between several candidates over a store that behaves like the API server's, on a
//! paused clock: crashes, freezes, slow and lost answers, clocks that disagree.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_http::{Clock, Random};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Client;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::BoxError;

use super::*;

mod sets;

const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Leases with optimistic concurrency, and a list of the requests that were made.
#[derive(Default)]
struct Store {
    leases: BTreeMap<String, Lease>,
    version: u64,
    calls: Vec<(String, String)>,
}

impl Store {
    fn handle(&mut self, caller: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        self.calls.push((caller.to_owned(), method.to_owned()));
        let key = path.rsplit('/').next().unwrap_or_default().to_owned();
        match method {
            "GET" => match self.leases.get(&key) {
                Some(lease) => (StatusCode::OK, json!(lease)),
                None => refuse(StatusCode::NOT_FOUND, "NotFound"),
            },
            "POST" => {
                let lease: Lease = serde_json::from_slice(body).unwrap();
                let key = lease.metadata.name.clone().unwrap();
                if self.leases.contains_key(&key) {
                    return refuse(StatusCode::CONFLICT, "AlreadyExists");
                }
                self.put(key, lease)
            }
            "PUT" => {
                let lease: Lease = serde_json::from_slice(body).unwrap();
                match self.leases.get(&key) {
                    None => refuse(StatusCode::NOT_FOUND, "NotFound"),
                    Some(old)
                        if old.metadata.resource_version != lease.metadata.resource_version =>
                    {
                        refuse(StatusCode::CONFLICT, "Conflict")
                    }
                    Some(_) => self.put(key, lease),
                }
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }

    fn put(&mut self, key: String, mut lease: Lease) -> Answer {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        let answer = json!(lease);
        self.leases.insert(key, lease);
        (StatusCode::OK, answer)
    }
}

type Answer = (StatusCode, serde_json::Value);

fn refuse(status: StatusCode, reason: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": reason, "code": status.as_u16(),
    });
    (status, body)
}

/// How one candidate reaches the store.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Nothing gets through; callers wait for ever.
    cut: bool,
    /// Longest delay of a request, and again of its answer.
    delay: Duration,
    /// Of a thousand answers, how many never arrive although the request was served.
    lost: u64,
}

#[derive(Clone)]
struct World {
    store: Arc<Mutex<Store>>,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            store: Arc::default(),
            random: Random::seeded(seed),
        }
    }

    fn client(&self, name: &str, line: Arc<Mutex<Line>>) -> Client {
        let (world, name) = (self.clone(), name.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (world, name, line) = (world.clone(), name.clone(), line.clone());
            async move {
                let line = line.lock().unwrap().clone();
                if line.cut {
                    return std::future::pending().await;
                }
                let pause = |limit: Duration| limit.mul_f64(world.random.unit());
                sleep(pause(line.delay)).await;
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let (method, path) = (parts.method.as_str(), parts.uri.path());
                let (status, answer) = world
                    .store
                    .lock()
                    .unwrap()
                    .handle(&name, method, path, &body);
                sleep(pause(line.delay)).await;
                if world.random.below(1000) < line.lost {
                    return Err("connection reset".into());
                }
                let body = http_body_util::Full::new(bytes::Bytes::from(answer.to_string()));
                Ok::<_, BoxError>(Response::builder().status(status).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    fn lease(&self) -> Record {
        self.lease_of("manager")
    }

    fn lease_of(&self, name: &str) -> Record {
        let store = self.store.lock().unwrap();
        let lease = store.leases.get(name);
        Record::from_spec(lease.and_then(|lease| lease.spec.as_ref()))
    }

    fn write(&self, record: &Record) {
        self.write_to("manager", record);
    }

    fn write_to(&self, name: &str, record: &Record) {
        let mut store = self.store.lock().unwrap();
        let mut lease = store.leases.get(name).cloned().unwrap_or_default();
        lease.metadata.name = Some(name.to_owned());
        record.write_to(lease.spec.get_or_insert(LeaseSpec::default()));
        store.put(name.to_owned(), lease);
    }

    fn calls(&self, name: &str) -> Vec<String> {
        let store = self.store.lock().unwrap();
        let calls = store.calls.iter().filter(|(caller, _)| caller == name);
        calls.map(|(_, method)| method.clone()).collect()
    }

    fn elector(&self, name: &str, lease: &str, line: Arc<Mutex<Line>>, clock: Clock) -> Elector {
        self.observed(name, lease, line, clock, Arc::new(()))
    }

    fn observed(
        &self,
        name: &str,
        lease: &str,
        line: Arc<Mutex<Line>>,
        clock: Clock,
        observer: Arc<dyn Observer>,
    ) -> Elector {
        Elector::new(LeaseCandidate {
            client: self.client(name, line),
            lease: LeaseName {
                namespace: "kube-system".to_owned(),
                name: lease.to_owned(),
            },
            identity: name.to_owned(),
            timing: TIMING,
            clock,
            random: self.random.fork(),
            observer,
            notes: LeaseNotes::default(),
        })
    }

    /// Starts a candidate that competes and then renews until it loses.
    fn start(&self, name: &str) -> Process {
        self.start_with(name, date("2026-01-01T00:00:00Z"))
    }

    fn start_with(&self, name: &str, today: Timestamp) -> Process {
        let line = Arc::new(Mutex::new(Line::default()));
        let elector = self.elector(name, "manager", line.clone(), Clock::simulated(today));
        let fence = elector.fence();
        Process::live(
            fence,
            line,
            async move { elector.acquire().await.renew().await },
        )
    }
}

fn date(text: &str) -> Timestamp {
    text.parse().unwrap()
}

struct Process {
    fence: Fence,
    line: Arc<Mutex<Line>>,
    thaw: Arc<Mutex<Instant>>,
    task: JoinHandle<Lost>,
}

impl Process {
    fn live(
        fence: Fence,
        line: Arc<Mutex<Line>>,
        life: impl Future<Output = Lost> + Send + 'static,
    ) -> Self {
        let thaw = Arc::new(Mutex::new(Instant::now()));
        let frozen = Freezable {
            life: Box::pin(life),
            thaw: thaw.clone(),
            timer: None,
        };
        Self {
            fence,
            line,
            thaw,
            task: tokio::spawn(frozen),
        }
    }

    /// Something happens to it, or nothing.
    fn suffer(&self, luck: &Random) {
        match luck.below(100) {
            0 => self.freeze(seconds(luck.below(40))),
            1 => self.line.lock().unwrap().cut = true,
            2 => *self.line.lock().unwrap() = Line::default(),
            3 => {
                let delay = seconds(luck.below(7));
                *self.line.lock().unwrap() = Line {
                    cut: false,
                    delay,
                    lost: luck.below(500),
                };
            }
            4 => self.task.abort(),
            _ => {}
        }
    }

    fn leads(&self) -> bool {
        !self.task.is_finished() && self.fence.check().is_ok()
    }

    /// What SIGSTOP does: nothing runs, the clocks go on.
    fn freeze(&self, duration: Duration) {
        *self.thaw.lock().unwrap() = Instant::now() + duration;
    }

    async fn until_leading(&self) -> Instant {
        while !self.leads() {
            sleep(Duration::from_millis(10)).await;
        }
        Instant::now()
    }
}

struct Freezable {
    life: Pin<Box<dyn Future<Output = Lost> + Send>>,
    thaw: Arc<Mutex<Instant>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Future for Freezable {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let thaw = *self.thaw.lock().unwrap();
        if Instant::now() < thaw {
            let mut timer = Box::pin(sleep_until(thaw));
            let pending = timer.as_mut().poll(context).is_pending();
            self.timer = Some(timer);
            if pending {
                return Poll::Pending;
            }
        }
        self.life.as_mut().poll(context)
    }
}

fn held_by(holder: &str) -> Record {
    Record {
        holder: holder.to_owned(),
        duration_seconds: 15,
        acquired: Some(date("2025-01-01T00:00:00Z")),
        renewed: Some(date("2025-01-01T00:00:00Z")),
        transitions: 3,
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_118_a_standby_takes_over_from_a_killed_leader() {
    for seed in 0..20 {
        let world = World::new(seed);
        let leader = world.start("a");
        leader.until_leading().await;
        let standby = world.start("b");
        sleep(Duration::from_millis(61_000 + seed * 97)).await;
        assert!(leader.leads() && !standby.leads());
        assert_eq!(world.lease().transitions, 0);
        leader.task.abort();
        let killed = Instant::now();
        let waited = standby.until_leading().await - killed;
        assert!(
            waited >= seconds(13) && waited <= seconds(24),
            "seed {seed}: {waited:?}"
        );
        let lease = world.lease();
        assert_eq!((lease.holder.as_str(), lease.transitions), ("b", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_118_a_released_lease_is_taken_within_five_seconds() {
    let world = World::new(1);
    let line = Arc::new(Mutex::new(Line::default()));
    let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let mut held = world.elector("a", "manager", line, clock).acquire().await;
    let fence = held.fence();
    let standby = world.start("b");
    tokio::select! {
        biased;
        lost = held.renew() => panic!("{lost}"),
        () = sleep(seconds(31)) => {}
    }
    held.release().await.unwrap();
    assert!(fence.check().is_err(), "the fence shuts with the release");
    let released = world.lease();
    assert_eq!(
        (released.holder.as_str(), released.duration_seconds),
        ("", 1)
    );
    assert_eq!(released.transitions, 0);
    let from = Instant::now();
    assert!(standby.until_leading().await - from < seconds(5));
    assert_eq!(world.lease().transitions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fence_knows_whether_the_leader_before_gave_its_lease_back() {
    for (gives_back, may_follow) in [(true, false), (false, true)] {
        let world = World::new(3);
        let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
        let elector = |name| {
            let line = Arc::new(Mutex::new(Line::default()));
            world.elector(name, "manager", line, clock.clone())
        };
        let held = elector("a").acquire().await;
        assert!(!held.fence().may_follow_unfinished_writes(), "nobody led");
        if gives_back {
            held.release().await.unwrap();
        } else {
            drop(held);
        }
        let next = elector("b").acquire().await;
        assert_eq!(next.fence().may_follow_unfinished_writes(), may_follow);
    }
    assert!(Fence::open().may_follow_unfinished_writes(), "nobody knows");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_a_renewal_that_was_cut_off_still_works() {
    let world = World::new(2);
    let line = Arc::new(Mutex::new(Line::default()));
    let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let held = world.elector("a", "manager", line, clock).acquire().await;
    // The server saw one renewal more than we did.
    let mut renewed = world.lease();
    renewed.renewed = Some(date("2026-01-01T00:00:09Z"));
    world.write(&renewed);
    held.release().await.unwrap();
    assert_eq!(world.lease().holder, "");
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_a_lease_alone_that_somebody_else_took() {
    let world = World::new(3);
    let line = Arc::new(Mutex::new(Line::default()));
    let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let held = world.elector("a", "manager", line, clock).acquire().await;
    world.write(&held_by("thief"));
    held.release().await.unwrap();
    assert_eq!(world.lease(), held_by("thief"));
}

#[tokio::test(start_paused = true)]
async fn framework_case_120_a_lease_that_somebody_renews_is_respected() {
    let world = World::new(4);
    world.write(&held_by("old"));
    let ours = world.start("new");
    for second in 0..120 {
        let mut record = held_by("old");
        record.renewed = Some(date("2025-01-01T00:00:00Z") + seconds(second));
        world.write(&record);
        sleep(seconds(2)).await;
        assert!(!ours.leads());
    }
    assert!(world.calls("new").iter().all(|method| method == "GET"));
}

#[tokio::test(start_paused = true)]
async fn framework_case_136_a_new_process_waits_a_lease_from_its_own_start() {
    for seed in 0..20 {
        let world = World::new(seed);
        world.write(&held_by("dead"));
        sleep(seconds(25)).await;
        let started = Instant::now();
        let waited = world.start("new").until_leading().await - started;
        assert!(
            waited >= seconds(15) && waited <= seconds(20),
            "seed {seed}: {waited:?}"
        );
        assert_eq!(world.lease().transitions, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_136_an_empty_holder_is_replaced_at_the_first_try() {
    let world = World::new(5);
    world.write(&held_by(""));
    let started = Instant::now();
    let waited = world.start("new").until_leading().await - started;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    assert_eq!(world.calls("new"), ["GET", "PUT"]);
    assert_eq!(world.lease().transitions, 4);
}

#[tokio::test(start_paused = true)]
async fn framework_case_149_a_frozen_leader_is_fenced_when_it_wakes() {
    let world = World::new(6);
    let frozen = world.start("frozen");
    frozen.until_leading().await;
    let standby = world.start("standby");
    sleep(seconds(30)).await;
    frozen.freeze(seconds(27));
    let calls = world.calls("frozen").len();
    sleep(Duration::from_millis(26_900)).await;
    assert!(standby.leads(), "the other replica took over");
    assert!(frozen.fence.check().is_err());
    let lost = frozen.task.await.unwrap();
    assert_eq!(lost.loss, Loss::Deadline);
    assert!(frozen.fence.check().is_err());
    // A renewal may have been on its way when it froze; after it woke it wrote nothing.
    assert!(
        world.calls("frozen").len() <= calls + 1,
        "{:?}",
        world.calls("frozen")
    );
    assert_eq!(world.lease().holder, "standby");
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_from_the_server_gives_up_at_its_deadline() {
    let world = World::new(7);
    let leader = world.start("a");
    leader.until_leading().await;
    sleep(seconds(60)).await;
    leader.line.lock().unwrap().cut = true;
    let from = Instant::now();
    let lost = leader.task.await.unwrap();
    assert_eq!(
        lost.to_string(),
        "lost lease kube-system/manager: it was not renewed within the deadline"
    );
    let waited = Instant::now() - from;
    assert!(waited > seconds(7) && waited <= seconds(10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_holder_stops_at_once() {
    let world = World::new(8);
    let leader = world.start("a");
    leader.until_leading().await;
    world.write(&held_by("thief"));
    let from = Instant::now();
    let lost = leader.task.await.unwrap();
    assert_eq!(lost.loss, Loss::Taken("thief".to_owned()));
    assert!(Instant::now() - from <= seconds(3));
    assert_eq!(world.lease(), held_by("thief"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_leader() {
    let world = World::new(9);
    let leader = world.start("a");
    leader.until_leading().await;
    world.store.lock().unwrap().leases.clear();
    sleep(seconds(5)).await;
    assert!(leader.leads());
    assert_eq!(world.lease().holder, "a");
}

#[tokio::test(start_paused = true)]
async fn a_leader_notices_that_its_lease_went_back_in_time() {
    let (world, notes) = (World::new(12), Arc::new(Notes::default()));
    let today = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let line = Arc::new(Mutex::new(Line::default()));
    let elector = world.observed("a", "manager", line.clone(), today, notes.clone());
    let fence = elector.fence();
    let life = async move { elector.acquire().await.renew().await };
    let leader = Process::live(fence, line, life);
    leader.until_leading().await;
    let backup = world.store.lock().unwrap().leases.clone();
    sleep(seconds(5)).await;
    // Somebody else's write is later than ours.
    world.write(&held_by("a"));
    sleep(seconds(5)).await;
    let went_back = || {
        let heard = notes.0.lock().unwrap();
        heard.iter().filter(|it| it.ends_with("went back")).count()
    };
    assert_eq!(went_back(), 0);
    world.store.lock().unwrap().leases = backup;
    sleep(seconds(5)).await;
    assert!(leader.leads());
    assert_eq!(went_back(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_survives_a_server_that_does_not_answer() {
    let world = World::new(10);
    let ours = world.start("a");
    ours.line.lock().unwrap().cut = true;
    sleep(seconds(600)).await;
    assert!(!ours.leads() && !ours.task.is_finished());
    ours.line.lock().unwrap().cut = false;
    let from = Instant::now();
    assert!(ours.until_leading().await - from < seconds(10));
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_the_date_of_acquisition_and_never_patch() {
    let world = World::new(11);
    let leader = world.start("a");
    leader.until_leading().await;
    let first = world.lease();
    sleep(seconds(60)).await;
    let later = world.lease();
    assert_eq!((later.acquired, later.transitions), (first.acquired, 0));
    assert!(later.renewed > first.renewed);
    let calls = world.calls("a");
    assert_eq!(&calls[..2], ["GET", "POST"]);
    assert_eq!(calls.len(), 2 + 30, "one PUT every two seconds");
    assert!(calls[2..].iter().all(|method| method == "PUT"));
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn leading(&self, lease: &LeaseName, leading: bool) {
        let name = &lease.name;
        self.0.lock().unwrap().push(format!("{name} {leading}"));
    }

    fn waiting(&self, lease: &LeaseName, seen: Option<&Lease>, wait: &Wait<'_>) {
        let uid = seen.map(|seen| seen.metadata.name.clone().unwrap());
        let name = &lease.name;
        let line = format!("{name} waits: {wait} ({uid:?})");
        let mut lines = self.0.lock().unwrap();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }

    fn slow_path(&self, lease: &LeaseName) {
        let name = &lease.name;
        self.0.lock().unwrap().push(format!("{name} slow"));
    }

    fn went_back(&self, lease: &LeaseName) {
        let name = &lease.name;
        self.0.lock().unwrap().push(format!("{name} went back"));
    }

    fn event(&self, lease: &Lease, message: &str) {
        let name = lease.metadata.name.clone().unwrap_or_default();
        self.0.lock().unwrap().push(format!("{name}: {message}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_leading_slow_paths_and_events() {
    let world = World::new(12);
    let notes = Arc::new(Notes::default());
    let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let elector = world.observed("a", "manager", Arc::default(), clock, notes.clone());
    let mut held = elector.acquire().await;
    world.write(&held_by("thief"));
    held.renew().await;
    let heard = notes.0.lock().unwrap().clone();
    let expected = [
        "manager false",
        "manager true",
        "manager: a became leader",
        "manager slow",
        "manager false",
    ];
    assert_eq!(heard, expected, "who lost the lease writes no event");

    world.store.lock().unwrap().leases.clear();
    notes.0.lock().unwrap().clear();
    let clock = Clock::simulated(date("2026-01-01T00:00:00Z"));
    let elector = world.observed("a", "manager", Arc::default(), clock, notes.clone());
    elector.acquire().await.release().await.unwrap();
    let heard = notes.0.lock().unwrap().clone();
    let expected = [
        "manager false",
        "manager true",
        "manager: a became leader",
        "manager false",
        "manager: a stopped leading",
    ];
    assert_eq!(heard, expected);
}

/// One adventure: candidates crash, freeze, lose their line or get slow ones, and nothing agrees
/// about the date. At no moment may two of them be past their fences.
async fn adventure(seed: u64) -> u64 {
    let world = World::new(seed);
    let luck = world.random.fork();
    let today = |index: u64| date("2026-01-01T00:00:00Z") + seconds(index * 86_400);
    let start = |name: usize, life: u64| {
        world.start_with(&format!("p{name}-{life}"), today(luck.below(400)))
    };
    let mut processes: Vec<Process> = (0..3).map(|name| start(name, 0)).collect();
    let mut led = 0;
    for tick in 1..2400_u64 {
        sleep(Duration::from_millis(250)).await;
        let leaders = processes.iter().filter(|process| process.leads()).count();
        assert!(leaders <= 1, "seed {seed}, tick {tick}: {leaders} leaders");
        led += u64::from(leaders == 1);
        let name = usize::try_from(luck.below(3)).unwrap();
        let process = &mut processes[name];
        process.suffer(&luck);
        if process.task.is_finished() && luck.below(20) == 0 {
            *process = start(name, tick);
        }
    }
    let methods: std::collections::BTreeSet<String> = world
        .store
        .lock()
        .unwrap()
        .calls
        .iter()
        .map(|(_, method)| method.clone())
        .collect();
    assert!(
        methods
            .iter()
            .all(|method| ["GET", "POST", "PUT"].contains(&method.as_str()))
    );
    led
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_unfenced_leaders(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let led = runtime.block_on(adventure(seed));
        prop_assert!(led > 0, "somebody led at some time");
    }
}

#[test]
fn an_identity_is_the_host_and_a_random_part() {
    let name = identity("host-1", &Random::seeded(1));
    assert!(
        name.starts_with("host-1_") && name.len() == "host-1_".len() + 36,
        "{name}"
    );
    assert_ne!(name, identity("host-1", &Random::seeded(2)));
    assert!(!hostname().is_empty());
}

//! Does the in-memory Kubernetes API server answer as a real one does?
//!
//! `stories/` holds requests, `records/` what a real server of version 1.36 answered to them, and
//! `differences.yaml` the differences that have a reason. Plain `cargo test` plays the stories on the
//! in-memory server. With `BOWLINE_CONFORMANCE_KUBECONFIG`, the kubeconfig of an administrator of a
//! real server that nobody needs, they are played there too; with `BOWLINE_WRITE_RECORDS=1` as well,
//! what it answers becomes the records.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod compare;
mod normal;
mod page;
mod play;
mod server;
mod story;

use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator_kubernetes::cluster::Cluster;
use serde_json::Value;

use compare::{Answering, Known};
use server::Server;
use story::{Story, folder};

/// Names the kubeconfig of a real server.
const KUBECONFIG: &str = "BOWLINE_CONFORMANCE_KUBECONFIG";
/// Writes the records instead of comparing with them.
const WRITE: &str = "BOWLINE_WRITE_RECORDS";
/// Writes the page of simulators instead of comparing it.
const WRITE_DOCS: &str = "BOWLINE_WRITE_DOCS";
/// The minor version that the records are of.
const RECORDED_MINOR: u32 = 36;
/// Fewer requests than this would be a suite that lost something.
const LEAST_REQUESTS: usize = 200;

/// The records of the stories; every record has a story.
fn recorded(stories: &[Story]) -> Vec<Vec<Value>> {
    for entry in std::fs::read_dir(folder().join("records")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let reported = stories.iter().any(|story| story.name == name);
        assert!(reported, "{}: a record without a story", path.display());
    }
    let read = |story: &Story| {
        let path = folder()
            .join("records")
            .join(format!("{}.jsonl", story.name));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    };
    stories.iter().map(read).collect()
}

fn write(stories: &[Story], answers: &[Vec<Value>]) {
    let records = folder().join("records");
    for entry in std::fs::read_dir(&records).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (story, answers) in stories.iter().zip(answers) {
        let lines: Vec<String> = answers.iter().map(ToString::to_string).collect();
        let text = lines.join("\n") + "\n";
        std::fs::write(records.join(format!("{}.jsonl", story.name)), text).unwrap();
    }
}

/// Plays the stories on a server and holds its answers against the records. Returns a report, and
/// whether all is well.
async fn judge(
    server: &Server,
    stories: &[Story],
    table: &[Known],
    simulated: bool,
) -> (String, bool) {
    let version = server.version().await;
    let minor = version.split('.').nth(1).unwrap().parse().unwrap();
    let answering = if simulated {
        Answering::InMemory
    } else {
        Answering::Real(minor)
    };
    let run = format!("r{}", &Random::from_system().uuid()[..6]);
    let started = tokio::time::Instant::now();
    let answers = play::play(server, stories, &run).await;
    let seconds = started.elapsed().as_secs_f32();
    if !simulated && std::env::var_os(WRITE).is_some() {
        assert_eq!(minor, RECORDED_MINOR, "records are of another version");
        write(stories, &answers);
    }
    let outcome = compare::compare(stories, &recorded(stories), &answers, table, answering);
    let mut lines: Vec<String> = outcome
        .unexplained
        .iter()
        .map(ToString::to_string)
        .collect();
    let stale = outcome.stale.iter();
    lines.extend(stale.map(|step| format!("listed, but no difference any more: {step}")));
    lines.push(format!(
        "{} {version}: {} stories, {} requests, {} differences explained, {} unexplained, {seconds:.1} s",
        if simulated { "in memory" } else { "real" },
        stories.len(),
        requests(stories),
        outcome.explained,
        outcome.unexplained.len(),
    ));
    let good = outcome.unexplained.is_empty() && outcome.stale.is_empty();
    (lines.join("\n"), good)
}

fn requests(stories: &[Story]) -> usize {
    stories.iter().map(Story::requests).sum()
}

#[tokio::test]
async fn every_server_answers_as_recorded() {
    let stories = story::all();
    let table = compare::table(&stories);
    let count = requests(&stories);
    assert!(count >= LEAST_REQUESTS, "only {count} requests");
    let mut good = true;
    match std::env::var(KUBECONFIG) {
        Ok(path) => {
            let kubeconfig = std::fs::read_to_string(path).unwrap();
            let server = Server::of(&kubeconfig).await;
            let (report, real) = judge(&server, &stories, &table, false).await;
            println!("{report}");
            good &= real;
        }
        Err(_) => assert!(
            std::env::var_os(WRITE).is_none(),
            "records are written from a real server: set {KUBECONFIG}"
        ),
    }
    let world = World::with(Clock::system(), Random::seeded(1));
    let cluster = Cluster::on_socket(&world, "127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let server = Server::of(&cluster.admin_kubeconfig().unwrap()).await;
    let (report, simulated) = judge(&server, &stories, &table, true).await;
    println!("{report}");
    cluster.shutdown().await;
    assert!(
        good && simulated,
        "answers are not those recorded, see above"
    );
}

#[test]
fn the_page_of_simulators_shows_stories_and_differences() {
    let stories = story::all();
    let table = compare::table(&stories);
    let path = folder().join("../../../../docs/simulators.md");
    let found = std::fs::read_to_string(&path).unwrap();
    let wanted = page::with(&found, &page::tables(&stories, &table));
    if std::env::var_os(WRITE_DOCS).is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "docs/simulators.md is not what the suite says; write it anew with \
         {WRITE_DOCS}=1 cargo test -p bowline-simulator-kubernetes --test conformance"
    );
}

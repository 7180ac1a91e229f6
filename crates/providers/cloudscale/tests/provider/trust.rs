//! Tokens, and what the canary proves about them.

use std::time::Duration;

use bowline_cloudscale::TOKEN_POLL;
use bowline_core::Lookup;
use bowline_simulator::journal::Filter;
use bowline_simulator_cloudscale::DEFAULT_TOKEN;

use crate::harness::{A, B, Harness, found, gone, node};

#[tokio::test(start_paused = true)]
async fn the_canary_reads_the_project_anew() {
    let test = Harness::new();
    let fleet = test.fleet("w", 10);
    test.ask(&fleet).await;
    test.wait(Duration::from_secs(1)).await;
    test.calls();
    test.canary().await.unwrap();
    assert_eq!(test.calls(), ["GET /v1/servers 200"]);
    test.world.faults.fail_reads("cloudscale", true);
    test.wait(Duration::from_secs(1)).await;
    let text = test.canary().await.unwrap_err().chain();
    assert!(text.contains("answered 500"), "{text}");
}

/// Whether the project is the cluster's is decided for all clouds alike, and no business of the
/// check read: the last server of a project may go.
#[tokio::test(start_paused = true)]
async fn an_empty_project_answers_the_canary() {
    let test = Harness::new();
    let last = node("worker-a", Some(A));
    test.sim.destroy(A).unwrap();
    test.sim.destroy(B).unwrap();
    gone(test.ask_one(&last).await);
    test.canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_is_used_and_has_an_account_of_its_own_to_prove() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, DEFAULT_TOKEN).unwrap();
    let test = Harness::with(&[("CLOUDSCALE_ACCESS_TOKEN_FILE", path.to_str().unwrap())]);
    let worker = node("worker-a", Some(A));
    found(test.ask_one(&worker).await);
    let first = test.account();
    assert_eq!(test.account(), first, "it stays the same");
    std::fs::write(&path, "other-token-of-the-project\n").unwrap();
    test.wait(TOKEN_POLL * 2).await;
    test.canary().await.unwrap();
    let second = test.account();
    assert_ne!(second, first, "it has to show that it is the same project");
    std::fs::write(&path, "token-of-another-project").unwrap();
    test.wait(TOKEN_POLL * 2).await;
    gone(test.ask_one(&worker).await);
    assert!(![first.clone(), second].contains(&test.account()));
    test.canary().await.unwrap();
    let elsewhere = Filter::any().caller("elsewhere");
    assert_eq!(test.world.journal.count(&elsewhere), 2);
    std::fs::write(&path, DEFAULT_TOKEN).unwrap();
    test.wait(TOKEN_POLL * 2).await;
    test.canary().await.unwrap();
    assert_eq!(test.account(), first);
}

#[tokio::test(start_paused = true)]
async fn a_list_for_the_old_token_does_not_answer_for_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, DEFAULT_TOKEN).unwrap();
    let test = Harness::with(&[("CLOUDSCALE_ACCESS_TOKEN_FILE", path.to_str().unwrap())]);
    let worker = node("worker-a", None);
    test.wait(TOKEN_POLL.mul_f64(0.8)).await;
    found(test.ask_one(&worker).await);
    std::fs::write(&path, "token-of-another-project").unwrap();
    test.wait(Duration::from_secs(2)).await;
    let answer = test.ask_one(&worker).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_usable_token_file_the_variable_serves_or_there_is_no_cloud() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("token");
    let file = ("CLOUDSCALE_ACCESS_TOKEN_FILE", missing.to_str().unwrap());
    let test = Harness::with(&[file]);
    test.canary().await.unwrap();
    let config = crate::harness::config("http://x", &[file, ("CLOUDSCALE_ACCESS_TOKEN", "")]);
    let built = bowline_cloudscale::build(&config, test.seams("cloudscale"));
    let Err(error) = built else {
        panic!("a cloud without a token");
    };
    assert!(error.to_string().contains("CLOUDSCALE_ACCESS_TOKEN_FILE"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_denied_and_shown_nowhere() {
    let test = Harness::with(&[("CLOUDSCALE_ACCESS_TOKEN", "hunter2-hunter2")]);
    let error = test.canary().await.unwrap_err();
    let text = format!("{} {error:?}", error.chain());
    assert!(text.contains("answered 401"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

//! From a user and a password to a token.

use std::time::Duration;

use bowline_simulator_xenorchestra::{DEFAULT_PASSWORD, DEFAULT_USER, Quirks, Release, User};
use bowline_xenorchestra::Config;

use crate::harness::{AUTHORITY, Harness, cannot_tell, found, w1, wait};

fn config(user: &str, password: &str) -> Config {
    let file = format!("url: http://xo.sim\nusername: {user}\npassword: {password}\nevents: no\n");
    Config::of_file(&file).unwrap()
}

/// `METHOD target-path` of requests about who we are.
fn sign_ins(test: &Harness) -> Vec<String> {
    let heard = test.sim.heard().into_iter();
    let about_us = heard.filter(|it| {
        it.target.contains("authentication_tokens")
            || it.target.contains("ping")
            || it.target.starts_with("/api")
    });
    about_us
        .map(|it| format!("{} {}", it.method, it.target))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_17_a_password_is_sent_for_a_token_and_never_again() {
    let test = Harness::raw(
        &config(DEFAULT_USER, DEFAULT_PASSWORD),
        Quirks::default(),
        AUTHORITY,
    );
    test.settle().await;
    found(test.ask_one(&w1()).await);
    let heard = test.sim.heard();
    let with_password: Vec<_> = heard
        .iter()
        .filter(|it| it.header("authorization").is_some())
        .collect();
    assert_eq!(
        with_password.len(),
        2,
        "the same to where `me` leads: {heard:?}"
    );
    assert_eq!(
        with_password[0].target,
        "/rest/v0/users/me/authentication_tokens"
    );
    assert!(with_password[1].target.starts_with("/rest/v0/users/"));
    for request in with_password {
        assert_eq!(request.method, "POST");
        assert_eq!(request.header("cookie"), None);
    }
    let others = heard
        .iter()
        .filter(|it| it.header("authorization").is_none());
    assert!(others.clone().count() > 0);
    for request in others {
        let cookie = request.header("cookie").unwrap();
        assert!(cookie.starts_with("authenticationToken="), "{cookie}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_ends_and_is_one_token_all_the_time() {
    let test = Harness::raw(
        &config(DEFAULT_USER, DEFAULT_PASSWORD),
        Quirks::default(),
        AUTHORITY,
    );
    test.settle().await;
    let tokens = test.sim.tokens().len();
    let day = Duration::from_secs(24 * 3600);
    wait(day * 23).await;
    found(test.ask_one(&w1()).await);
    let posts = |test: &Harness| {
        sign_ins(test)
            .iter()
            .filter(|it| it.starts_with("POST"))
            .count()
    };
    assert_eq!(posts(&test), 2, "23 of 30 days are not four fifths");
    wait(day * 2).await;
    found(test.ask_one(&w1()).await);
    assert!(posts(&test) >= 2 + 2, "25 days are more");
    assert_eq!(test.sim.tokens().len(), tokens, "it is prolonged");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_within_the_call() {
    let test = Harness::raw(
        &config(DEFAULT_USER, DEFAULT_PASSWORD),
        Quirks::default(),
        AUTHORITY,
    );
    test.settle().await;
    wait(Duration::from_secs(60)).await;
    test.sim.revoke_tokens();
    found(test.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_71_older_servers_make_tokens_elsewhere() {
    for release in [Release::Old, Release::Ancient] {
        let quirks = Quirks {
            release,
            ..Quirks::default()
        };
        let test = Harness::raw(&config(DEFAULT_USER, DEFAULT_PASSWORD), quirks, AUTHORITY);
        test.settle().await;
        found(test.ask_one(&w1()).await);
        let all = sign_ins(&test);
        assert_eq!(
            all.iter()
                .filter(|it| **it == "POST /rest/v0/users/authentication_tokens")
                .count(),
            1,
            "{all:?}"
        );
        assert!(all.iter().any(|it| it == "GET /rest/v0/ping"), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_72_a_wrong_password_is_not_tried_again_at_once() {
    let test = Harness::raw(&config(DEFAULT_USER, "wrong"), Quirks::default(), AUTHORITY);
    let error = cannot_tell(test.presence(&w1()).await);
    assert!(error.contains("invalid credentials"), "{error}");
    let posts = |test: &Harness| {
        sign_ins(test)
            .iter()
            .filter(|it| it.starts_with("POST"))
            .count()
    };
    let before = posts(&test);
    for _ in 0..5 {
        wait(Duration::from_millis(300)).await;
        cannot_tell(test.presence(&w1()).await);
    }
    assert_eq!(posts(&test), before, "not within two seconds");
    wait(Duration::from_secs(600)).await;
    let later = posts(&test);
    assert!((1..=20).contains(&(later - before)), "{}", later - before);
    // It was only set too late.
    test.sim.set_user(DEFAULT_USER, User::admin("wrong"));
    wait(Duration::from_secs(600)).await;
    found(test.presence(&w1()).await);
    assert_eq!(test.cloud.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_73_the_path_of_a_proxy_is_put_in_front_of_the_server_s_own() {
    let quirks = Quirks {
        path_prefix: Some("/base".into()),
        ..Quirks::default()
    };
    let file = format!(
        "url: http://xo.sim/base/\nusername: {DEFAULT_USER}\npassword: {DEFAULT_PASSWORD}\nevents: no\n"
    );
    let test = Harness::of(&file, quirks).await;
    let all = sign_ins(&test);
    assert_eq!(all[0], "POST /base/rest/v0/users/me/authentication_tokens");
    assert!(all[1].starts_with("POST /base/rest/v0/users/"), "{all:?}");
    assert!(all[1].ends_with("/authentication_tokens"), "{all:?}");
    found(test.ask_one(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn a_password_with_a_colon_goes_over_the_socket() {
    for release in [Release::Current, Release::Old] {
        let quirks = Quirks {
            release,
            ..Quirks::default()
        };
        let user = "svc-k8s@corp.lan";
        let test = Harness::raw(&config(user, "\"s3cret:x\""), quirks, AUTHORITY);
        test.sim.set_user(user, User::admin("s3cret:x"));
        test.settle().await;
        found(test.ask_one(&w1()).await);
        let all = sign_ins(&test);
        assert!(all.iter().all(|it| !it.starts_with("POST")), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_else_is_known_the_socket_is_the_last_way() {
    let quirks = Quirks {
        release: Release::Old,
        no_deprecated_tokens: true,
        ..Quirks::default()
    };
    let test = Harness::raw(&config(DEFAULT_USER, DEFAULT_PASSWORD), quirks, AUTHORITY);
    test.settle().await;
    found(test.ask_one(&w1()).await);
}

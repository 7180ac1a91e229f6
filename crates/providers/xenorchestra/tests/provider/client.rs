//! How the server is spoken to.

use bowline_http::{Connector, ProxyRules, Tls};
use bowline_simulator::World;
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator_xenorchestra::{DEFAULT_TOKEN, Quirks};
use bowline_xenorchestra::{Config, Gauges, Seams, build};

use crate::harness::{AUTHORITY, Harness, VM1, cannot_tell, cloud, found, orchestra, w1, wait};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_14_every_request_carries_the_cookie_and_nothing_else() {
    let test = Harness::configured("").await;
    found(test.ask_one(&w1()).await);
    wait(Duration::from_secs(10)).await;
    let heard = test.sim.heard();
    assert!(heard.len() > 5, "{heard:?}");
    for request in heard {
        let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
        assert_eq!(
            request.header("cookie"),
            Some(cookie.as_str()),
            "{request:?}"
        );
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("accept-encoding"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_11_requests_go_below_the_path_of_the_url() {
    let quirks = Quirks {
        path_prefix: Some("/base".into()),
        ..Quirks::default()
    };
    let file = format!("url: http://xo.sim/base/\ntoken: {DEFAULT_TOKEN}\nevents: no\n");
    let test = Harness::of(&file, quirks).await;
    found(test.ask_one(&w1()).await);
    let heard = test.sim.heard();
    assert!(
        heard
            .iter()
            .all(|it| it.target.starts_with("/base/rest/v0/")),
        "{heard:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_15_a_server_that_wants_tls_gets_the_cookie_there() {
    let world = World::simulated(7);
    let redirecting = orchestra(
        &world,
        Quirks {
            redirect_to_https: Some(443),
            ..Quirks::default()
        },
    );
    let serving = orchestra(&world, Quirks::default());
    let _plain = Server::builder(&world, redirecting.clone()).pipe(AUTHORITY);
    let _secure = Server::builder(&world, serving.clone()).pipe("xo.sim:443");
    let file = format!("url: http://xo.sim\ntoken: {DEFAULT_TOKEN}\nevents: no\n");
    let cloud = cloud(&world, &Config::of_file(&file).unwrap());
    let node = [Arc::new(w1())];
    found(cloud.instances().unwrap().lookup(&node).await.remove(0));
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    let heard = serving.heard();
    assert!(!heard.is_empty());
    assert!(heard.iter().all(|it| it.header("cookie") == Some(&cookie)));
}

/// The answer of a server with a certificate of its own.
async fn over_tls(insecure: bool) -> Result<(), String> {
    let world = World::real();
    let sim = orchestra(&world, Quirks::default());
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = own.signing_key.serialize_pem();
    let identity = Identity::from_pem(&own.cert.pem(), &key, None).unwrap();
    let server = Server::builder(&world, sim);
    let server = server
        .tls("127.0.0.1:0".parse().unwrap(), identity)
        .await
        .unwrap();
    let port = server.local_addr().unwrap().port();
    let file = format!(
        "url: https://localhost:{port}\ntoken: {DEFAULT_TOKEN}\nevents: no\ninsecure: {insecure}\n"
    );
    let seams = Seams {
        name: bowline_core::CloudName::parse("xenorchestra").unwrap(),
        connector: Connector::real(Tls::new().build().unwrap(), ProxyRules::default()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: None,
    };
    let config = Config::of_file(&file).unwrap();
    let cloud = build(&config, &seams, &Gauges::default()).unwrap();
    let node = [Arc::new(w1())];
    let answer = cloud.instances().unwrap().lookup(&node).await.remove(0);
    match answer {
        bowline_core::Lookup::Found(_) => Ok(()),
        other => Err(cannot_tell(other)),
    }
}

#[tokio::test]
async fn xenorchestra_case_16_a_self_signed_certificate_is_accepted_only_on_request() {
    let error = over_tls(false).await.unwrap_err();
    assert!(error.contains("not trusted"), "{error}");
    over_tls(true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_12_white_space_around_a_token_is_not_sent() {
    let variable = |name: &str| match name {
        "XOA_URL" => Some(" http://xo.sim\n".to_owned()),
        "XOA_TOKEN" => Some(format!("{DEFAULT_TOKEN}\n")),
        _ => None,
    };
    let config = Config::read(variable, None).unwrap();
    let test = Harness::raw(&config, Quirks::default(), AUTHORITY);
    found(test.ask_one(&w1()).await);
}

/// A test whose configuration is in a file, with that token.
async fn in_file(folder: &std::path::Path, token: &str) -> (Harness, std::path::PathBuf) {
    let path = folder.join("config.yaml");
    std::fs::write(&path, content(token)).unwrap();
    let config = Config::of_file(&content(token)).unwrap().following(&path);
    let test = Harness::raw(&config, Quirks::default(), AUTHORITY);
    wait(Duration::from_secs(1)).await;
    (test, path)
}

fn content(token: &str) -> String {
    format!("url: http://xo.sim\ntoken: {token}\nevents: no\n")
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_18_a_refused_token_is_an_error_and_the_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (test, path) = in_file(folder.path(), DEFAULT_TOKEN).await;
    found(test.presence(&w1()).await);
    test.sim.revoke_token(DEFAULT_TOKEN);
    test.sim.destroy(VM1).unwrap();
    let error = cannot_tell(test.presence(&w1()).await);
    assert!(error.contains("401"), "{error}");
    // The next question finds the new one, without waiting for the next look at the file.
    let token = "a-new-token-of-the-same-user";
    test.sim
        .set_token(token, bowline_simulator_xenorchestra::DEFAULT_USER);
    std::fs::write(&path, content(token)).unwrap();
    crate::harness::gone(test.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_used_and_one_that_is_wrong_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (test, path) = in_file(folder.path(), DEFAULT_TOKEN).await;
    let new = "a-new-token-of-the-same-user";
    test.sim
        .set_token(new, bowline_simulator_xenorchestra::DEFAULT_USER);
    // Not a file at all, then a half written one: nothing changes.
    std::fs::remove_file(&path).unwrap();
    wait(Duration::from_secs(30)).await;
    std::fs::write(&path, "url: http://xo.sim\ntok").unwrap();
    wait(Duration::from_secs(30)).await;
    found(test.presence(&w1()).await);
    std::fs::write(&path, content(new)).unwrap();
    wait(Duration::from_secs(30)).await;
    test.sim.heard();
    found(test.presence(&w1()).await);
    let last = test.sim.heard().pop().unwrap();
    assert_eq!(
        last.header("cookie"),
        Some(format!("authenticationToken={new}").as_str())
    );
}

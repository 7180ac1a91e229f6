//! Time, faults and repeatability.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_cloud_can_be_slow_to_show_what_happened() {
    let scenery = Scenery::new();
    let second = Duration::from_secs(1);
    scenery.cloud.set_visibility_lag(10 * second, 30 * second);
    let made = scenery
        .post("/v1/servers", server("a", json!({})))
        .await
        .json();
    let path = path_of(&made);
    let seen = async || {
        let listed = scenery.get("/v1/servers").await.as_array().unwrap().len() == 1;
        assert_eq!(
            listed,
            scenery.client.get(&path).await.status == 200,
            "list and item agree"
        );
        listed
    };
    assert!(!seen().await);
    tokio::time::sleep(9 * second).await;
    assert!(!seen().await);
    tokio::time::sleep(second).await;
    assert!(seen().await);
    assert_eq!(scenery.delete(&path).await.status, 204);
    assert_eq!(
        scenery.power(&made),
        None,
        "the machine itself is gone at once"
    );
    assert_refused(&scenery.delete(&path).await, 404, "Not found.");
    tokio::time::sleep(29 * second).await;
    assert!(seen().await);
    tokio::time::sleep(second).await;
    assert!(!seen().await);
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_stale() {
    let scenery = Scenery::with("machines: [{name: a, uuid: u1}, {name: b, uuid: u2}]");
    let both = scenery.get("/v1/servers").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    scenery.cloud.destroy("u1").unwrap();
    let age = Duration::from_secs(30);
    let stale = Rule::new(Action::StaleList { age })
        .on("GET", "/v1/servers")
        .times(1);
    scenery.world.faults.add(stale).unwrap();
    assert_eq!(scenery.get("/v1/servers").await, both);
    assert_eq!(
        scenery.client.get("/v1/servers/u1").await.status,
        404,
        "items are not stale"
    );
    assert_eq!(
        scenery.get("/v1/servers").await.as_array().unwrap().len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_server_made() {
    let scenery = Scenery::new();
    scenery
        .world
        .faults
        .add(Rule::new(Action::LostAnswer).on("POST", "/v1/servers"))
        .unwrap();
    let body = server("a", json!({})).to_string();
    assert!(
        scenery
            .client
            .attempt("POST", "/v1/servers", &body)
            .await
            .is_err()
    );
    assert_eq!(
        scenery.get("/v1/servers").await.as_array().unwrap().len(),
        1
    );
    let lost = scenery.world.journal.matching(&Filter::any().mutating());
    assert_eq!((lost[0].status, lost[0].caller.as_str()), (0, "default"));
}

/// One scripted run under a paused clock.
async fn story(seed: u64) -> String {
    let world = World::simulated(seed);
    let cloud = Cloudscale::new(&world, Config::default());
    let _server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
    let client = Client::new(Place::Pipe(world.clone(), AUTHORITY), Some(DEFAULT_TOKEN));
    for rule in [
        Rule::new(Action::Reset)
            .on("GET", "*")
            .probability(0.3)
            .named("cut"),
        Rule::new(Action::Delay {
            least: Duration::ZERO,
            most: Duration::from_secs(5),
        })
        .named("slow"),
        Rule::new(Action::LostAnswer)
            .on("POST", "*")
            .probability(0.3)
            .named("lost"),
    ] {
        world.faults.add(rule).unwrap();
    }
    let callers = (0..4).map(|number| {
        let client = client.clone();
        async move {
            for step in 0..5 {
                let body = server(&format!("w-{number}-{step}"), json!({})).to_string();
                let _ = client.attempt("POST", "/v1/servers", &body).await;
                let list = client.attempt("GET", "/v1/servers", "").await;
                let list = list.map(|reply| reply.json()).unwrap_or_default();
                for found in list.as_array().cloned().unwrap_or_default() {
                    let _ = client.attempt("GET", &path_of(&found), "").await;
                }
            }
        }
    });
    futures::future::join_all(callers).await;
    format!("{}{}", world.journal.transcript(), cloud.state())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_transcript() {
    let first = story(42).await;
    assert!(
        first.lines().count() > 50 && first.contains("fault=cut") && first.contains("fault=lost")
    );
    assert_eq!(first, story(42).await);
    assert_ne!(first, story(43).await);
}

/// Any JSON that a careless caller might send, mostly of attributes that exist.
fn anything(random: &bowline_http::Random, depth: u32) -> Value {
    const KEYS: [&str; 22] = [
        "name",
        "flavor",
        "image",
        "zone",
        "tags",
        "interfaces",
        "addresses",
        "network",
        "subnet",
        "address",
        "cidr",
        "ip_version",
        "server",
        "dns_servers",
        "load_balancer",
        "pool",
        "algorithm",
        "protocol",
        "protocol_port",
        "type",
        "http",
        "vip_addresses",
    ];
    const TEXTS: [&str; 15] = [
        "",
        "a",
        "flex-4-2",
        "debian-11",
        "rma1",
        "public",
        "n1",
        "s1",
        "10.0.0.5",
        "10.1.0.0/24",
        "b1",
        "p1",
        "tcp",
        "round_robin",
        "lb-standard",
    ];
    let pick = |list: &[&'static str]| {
        let index = usize::try_from(random.below(list.len() as u64)).unwrap();
        list[index]
    };
    match random.below(if depth == 0 { 4 } else { 8 }) {
        0 => Value::Null,
        1 => random.below(9).into(),
        2 | 3 => pick(&TEXTS).into(),
        4 => (0..random.below(3))
            .map(|_| anything(random, depth - 1))
            .collect(),
        _ => {
            let members =
                (0..random.below(6)).map(|_| (pick(&KEYS).to_owned(), anything(random, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_whatever_breaks_the_cloud() {
    let scenery = Scenery::with(
        "networks: [{name: n, uuid: n1, subnets: [{cidr: 10.0.0.0/28, uuid: s1}]}]\n\
         machines: [{name: a, uuid: u1}]\nfloating_ips: [{address: 203.0.113.77}]\n\
         load_balancers: [{name: b, uuid: b1, pools: [{name: p, uuid: p1, members: [\
         {address: 10.0.0.3, protocol_port: 80, uuid: m1}], listeners: [\
         {protocol_port: 80, uuid: l1}], monitor: {type: http, uuid: h1}}]}]",
    );
    let paths = [
        "/v1/servers",
        "/v1/servers/u1",
        "/v1/servers/u1/stop",
        "/v1/networks",
        "/v1/networks/n1",
        "/v1/subnets",
        "/v1/subnets/s1",
        "/v1/server-groups",
        "/v1/floating-ips",
        "/v1/floating-ips/203.0.113.77",
        "/v1/load-balancers",
        "/v1/load-balancers/b1",
        "/v1/load-balancers/pools",
        "/v1/load-balancers/pools/p1",
        "/v1/load-balancers/pools/p1/members",
        "/v1/load-balancers/pools/p1/members/m1",
        "/v1/load-balancers/listeners",
        "/v1/load-balancers/listeners/l1",
        "/v1/load-balancers/health-monitors",
        "/v1/load-balancers/health-monitors/h1",
        "/v1/%ff%00",
        "/v1//",
    ];
    let random = bowline_http::Random::seeded(5);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..8_000 {
        let path = paths[usize::try_from(random.below(paths.len() as u64)).unwrap()];
        // Mostly writes, and few deletions, so that there is something left to break.
        let method = match random.below(20) {
            0 => "DELETE",
            1..=3 => "GET",
            4..=9 => "PATCH",
            _ => "POST",
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {DEFAULT_TOKEN}"));
        let body = anything(&random, 3).to_string();
        let (response, _) = scenery.cloud.respond(&request.body(body.into()).unwrap());
        *seen.entry(response.status().as_u16()).or_insert(0_u32) += 1;
    }
    assert!(seen.keys().all(|status| *status < 500), "{seen:?}");
    for status in [200, 201, 204, 400, 404, 405] {
        assert!(
            seen.contains_key(&status),
            "{status} is missing in {seen:?}"
        );
    }
}

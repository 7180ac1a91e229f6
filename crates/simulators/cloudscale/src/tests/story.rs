//! Time, faults and repeatability.

use bowline_simulator::control::Control as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_cloud_can_be_slow_to_show_what_happened() {
    let sim = Harness::new();
    let second = Duration::from_secs(1);
    sim.cloud.set_visibility_lag(10 * second, 30 * second);
    let made = sim.post("/v1/servers", server("a", json!({}))).await.json();
    let path = path_of(&made);
    let seen = async || {
        let listed = sim.get("/v1/servers").await.as_array().unwrap().len() == 1;
        assert_eq!(
            listed,
            sim.client.get(&path).await.status == 200,
            "list and item agree"
        );
        listed
    };
    assert!(!seen().await);
    tokio::time::sleep(9 * second).await;
    assert!(!seen().await);
    tokio::time::sleep(second).await;
    assert!(seen().await);
    assert_eq!(sim.delete(&path).await.status, 204);
    assert_eq!(sim.power(&made), None, "the machine itself is gone at once");
    assert_refused(&sim.delete(&path).await, 404, "Not found.");
    tokio::time::sleep(29 * second).await;
    assert!(seen().await);
    tokio::time::sleep(second).await;
    assert!(!seen().await);
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_stale() {
    let sim = Harness::with("machines: [{name: a, uuid: u1}, {name: b, uuid: u2}]");
    let both = sim.get("/v1/servers").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    sim.cloud.destroy("u1").unwrap();
    let age = Duration::from_secs(30);
    let stale = Rule::new(Action::StaleList { age })
        .on("GET", "/v1/servers")
        .times(1);
    sim.world.faults.add(stale).unwrap();
    assert_eq!(sim.get("/v1/servers").await, both);
    assert_eq!(
        sim.client.get("/v1/servers/u1").await.status,
        404,
        "items are not stale"
    );
    assert_eq!(sim.get("/v1/servers").await.as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_server_made() {
    let sim = Harness::new();
    sim.world
        .faults
        .add(Rule::new(Action::LostAnswer).on("POST", "/v1/servers"))
        .unwrap();
    let body = server("a", json!({})).to_string();
    assert!(
        sim.client
            .attempt("POST", "/v1/servers", &body)
            .await
            .is_err()
    );
    assert_eq!(sim.get("/v1/servers").await.as_array().unwrap().len(), 1);
    let lost = sim.world.journal.matching(&Filter::any().mutating());
    assert_eq!((lost[0].status, lost[0].caller.as_str()), (0, "default"));
}

/// One scripted run under a paused clock.
async fn story(seed: u64) -> String {
    let world = World::simulated(seed);
    let cloud = Cloudscale::new(&world, Config::default());
    let _server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
    let client = Client::new(
        ServerAddress::Pipe(world.clone(), AUTHORITY),
        Some(DEFAULT_TOKEN),
    );
    cloud
        .add_balancer(&BalancerSpec::named("b").uuid("b1"))
        .unwrap();
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
                // All write to the same load balancer, and wait for each other.
                let body = json!({"name": format!("p-{number}-{step}"), "load_balancer": "b1",
                    "algorithm": "source_ip", "protocol": "udp"});
                let pools = "/v1/load-balancers/pools";
                let _ = client.attempt("POST", pools, &body.to_string()).await;
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

/// A load balancer whose parts have known uuids.
fn fixed_balancer() -> BalancerSpec {
    let spec = json!({"name": "b", "uuid": "b1", "pools": [{"name": "p", "uuid": "p1",
        "members": [{"address": "10.0.0.3", "protocol_port": 80, "uuid": "m1"}],
        "listeners": [{"protocol_port": 80, "uuid": "l1"}],
        "monitor": {"type": "http", "uuid": "h1"}}]});
    serde_json::from_value(spec).unwrap()
}

/// A body that would do, so that careless callers are sometimes right.
fn plausible(random: &bowline_http::Random, path: &str) -> Value {
    let port = 1 + random.below(20);
    match path {
        "/v1/servers" => server("a", json!({"interfaces": [{"network": "n1"}]})),
        "/v1/networks" => json!({"name": "n"}),
        "/v1/subnets" => json!({"network": "n1", "cidr": format!("10.{port}.0.0/24")}),
        "/v1/server-groups" => json!({"name": "g", "type": "anti-affinity"}),
        "/v1/floating-ips" => json!({"ip_version": 4}),
        "/v1/load-balancers" if random.below(2) == 0 => {
            json!({"name": "b", "flavor": "lb-standard", "vip_addresses": [{"subnet": "s1"}]})
        }
        "/v1/load-balancers" => json!({"name": "b", "flavor": "lb-standard"}),
        "/v1/load-balancers/pools" => json!({"name": "p", "load_balancer": "b1",
            "algorithm": "round_robin", "protocol": "tcp"}),
        "/v1/load-balancers/pools/p1/members" => json!({"name": "m", "subnet": "s1",
            "address": format!("10.0.0.{port}"), "protocol_port": port}),
        "/v1/load-balancers/listeners" => json!({"name": "l", "pool": "p1", "protocol": "tcp",
            "protocol_port": port}),
        "/v1/load-balancers/health-monitors" => json!({"pool": "p1", "type": "http"}),
        _ => json!({}),
    }
}

/// What must be true of every project, whatever was asked of it.
fn assert_whole(cloud: &Cloudscale) {
    let cloud = cloud.lock();
    for project in cloud.projects.values() {
        let mut taken = std::collections::BTreeSet::new();
        for pool in project.pools.all() {
            assert!(project.balancers.get(&pool.balancer).is_some());
            for member in pool.members.all() {
                assert!(project.subnets.get(&member.subnet).is_some());
            }
        }
        for listener in project.listeners.all() {
            let pool = listener.pool.as_ref().map(|pool| project.pools.get(pool));
            let balancers = pool.map(|pool| pool.map(|pool| &pool.balancer));
            assert_eq!(balancers, Some(Some(&listener.balancer)));
            let place = (
                &listener.balancer,
                &listener.protocol,
                listener.protocol_port,
            );
            assert!(taken.insert(place), "one listener per port");
        }
        let mut watched = std::collections::BTreeSet::new();
        for monitor in project.monitors.all() {
            assert!(project.pools.get(&monitor.pool).is_some());
            assert!(watched.insert(&monitor.pool), "one monitor per pool");
            assert!(monitor.timeout_s <= monitor.delay_s);
        }
        // A subnet's addresses are those of its servers and load balancers, and no others.
        let servers = project.servers.all().flat_map(model::Server::addresses);
        let vips = project.balancers.all().flat_map(|balancer| &balancer.vips);
        let used: Vec<_> = servers.chain(vips).collect();
        for subnet in project.subnets.all() {
            let here = used.iter().filter(|address| address.subnet == subnet.uuid);
            let here: std::collections::BTreeSet<_> = here.map(|a| a.address).collect();
            assert_eq!(here, subnet.taken);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_whatever_breaks_the_cloud() {
    let sim = Harness::with(
        "networks: [{name: n, uuid: n1, subnets: [{cidr: 10.0.0.0/28, uuid: s1}]}]\n\
         machines: [{name: a, uuid: u1}]\nfloating_ips: [{address: 203.0.113.77}]",
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
    sim.cloud.add_balancer(&fixed_balancer()).unwrap();
    sim.cloud.set_balancer_timings(BalancerTimings::INSTANT);
    let mut seen = std::collections::BTreeMap::new();
    let mut made = std::collections::BTreeMap::new();
    for number in 0..8_000 {
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
        let mut body = anything(&random, 3);
        if random.below(2) == 0 {
            let mut better = plausible(&random, path);
            // One mistake at most.
            let mistake = body.as_object().and_then(|body| body.iter().next());
            if let Some((key, value)) = mistake.filter(|_| random.below(2) == 0) {
                better[key] = value.clone();
            }
            body = better;
        }
        let body = body.to_string();
        let response = sim
            .cloud
            .respond(&request.body(body.into()).unwrap())
            .response;
        *seen.entry(response.status().as_u16()).or_insert(0_u32) += 1;
        if response.status() == 201 {
            *made.entry(path).or_insert(0_u32) += 1;
        }
        if random.below(4) == 0 {
            // What was deleted by name comes back, and what is being made is ready.
            let _ = sim.cloud.add_balancer(&fixed_balancer());
        }
        // Looking at everything every time would take seconds.
        if number % 10 == 0 {
            assert_whole(&sim.cloud);
        }
    }
    assert_eq!(made.len(), 10, "one of every kind was made: {made:?}");
    assert!(seen.keys().all(|status| *status < 500), "{seen:?}");
    for status in [200, 201, 204, 400, 404, 405] {
        assert!(
            seen.contains_key(&status),
            "{status} is missing in {seen:?}"
        );
    }
}

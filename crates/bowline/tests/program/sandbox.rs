//! `bowline sandbox`, from its first line to its last.

use crate::process::{Running, bowline, run};

/// Takes about a minute of real time: the guard deletes no node that is younger than that, and the
/// story has one deleted.
#[test]
fn the_story_is_told_to_its_end() {
    let in_order = [
        "Bowline sandbox",
        "Kubernetes API   https://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 registered, tainted as uninitialized",
        "worker-1 initialised: cloudscale://144bea5c-2c48-4944-a05e-c132843fd935 (flex-8-4, rma1",
        "every node is Ready: pods can be scheduled",
        "the foreign node still waits for its own cloud",
        "2. A Service of type LoadBalancer is created: web",
        "Service web wants a load balancer",
        "is being made",
        "is ready",
        "Service web got its address: 198.18.0.",
        "every node is a member of its load balancer; the foreign one is not",
        "3. worker-1 is powered off",
        "worker-1 got the shutdown taint",
        "worker-1 lost the shutdown taint",
        "4. worker-1 is replaced by a new machine",
        "worker-4 initialised: cloudscale://",
        "got member worker-4",
        "lost member worker-1",
        "worker-1 is no member any more, and the address is the same",
        "5. worker-3 is destroyed",
        "on proof only",
        "worker-3 is gone",
        "lost member worker-3",
        "worker-3 is no longer behind the load balancer",
        "the foreign node is NotReady, and nobody touched it",
        "6. The Service is deleted",
        "Service web is to go, and waits for its load balancer",
        "load balancer k8s-service-",
        "is gone",
        "Service web is gone",
        "the load balancer goes, and the Service after it",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    let somewhere = [
        "got pool tcp/http",
        "got listener tcp/80",
        "got health monitor tcp",
        "event UpdatedLoadBalancer: Updated load balancer with new hosts",
    ];
    tells(&[], &in_order, &somewhere);
}

/// The same at Exoscale, whose load balancers follow instance pools.
#[test]
fn the_story_of_exoscale_is_told_to_its_end() {
    let in_order = [
        "Exoscale API     http://127.0.0.1:",
        "worker-1 initialised: exoscale://",
        "(standard.medium, ch-gva-2, ExternalIP ",
        "makes a network load balancer for it that sends to the instance pool of the nodes",
        "is being made",
        "got service tcp/80",
        "got members worker-1, worker-2, worker-3",
        "Service web got its address: 203.0.113.",
        "The load balancer follows the pool by itself",
        "got member worker-4",
        "lost member worker-1",
        "lost member worker-3",
        "worker-3 is gone",
        "network load balancer k8s-",
        "lost service tcp/80",
        "Service web is gone",
        "everything happened as expected",
    ];
    tells(&["--cloud", "exoscale"], &in_order, &[]);
}

/// The same with Xen Orchestra, which has no load balancers, and machines that move.
#[test]
fn the_story_of_xenorchestra_is_told_to_its_end() {
    let in_order = [
        "Xen Orchestra    http://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 initialised: xenorchestra://",
        "(2vCPU-4GB, ",
        "the foreign node still waits for its own cloud",
        "2. worker-1 migrates to another host",
        "the zone of worker-1 is its new host",
        "3. worker-1 is powered off",
        "worker-1 lost the shutdown taint",
        "4. worker-1 is replaced by a new machine",
        "5. The cloud loses the connection to the pool, and worker-2 is powered off",
        "nothing is deleted, and nothing tainted",
        "times that there is no such thing",
        "once the pool is back, the node is tainted as shut down",
        "worker-2 is Ready again",
        "6. worker-3 is destroyed",
        "worker-3 is gone",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    let changed = "event NodeZoneChanged: Node worker-1 zone changed (node VM host changed)";
    tells_of(
        &["--cloud", "xenorchestra"],
        &in_order,
        &[changed, "event DeletingNode: Deleting node worker-3"],
    );
}

/// The same at Triton: a DNS name, a Service with a machine of its own, routes to pods, metrics of machines.
#[test]
fn the_story_of_triton_is_told_to_its_end() {
    let in_order = [
        "CloudAPI         http://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 initialised: triton://",
        "(g4-highcpu-1G, eg-1, InternalIP 10.20.0.",
        "2. A Service of type LoadBalancer is created: web",
        "makes a load balancer for it that is a DNS name of all nodes",
        "Service web got its address: web.default.svc.",
        "every node is a member of its load balancer; the foreign one is not",
        "its name is answered with 3 addresses: dig @127.0.0.1 -p ",
        "3. A Service of the class cloud.tritoncompute/clb is created: shop",
        "load balancer machine kubernetes-clb-",
        "Service shop got its address: 203.0.113.",
        "the machine sends to every node",
        "4. Machines of the fabric learn where pods are",
        "there is one route for each node, and somebody else's is still there",
        "5. Prometheus asks where to find metrics of machines",
        "/sd/triton names the 3 machines of nodes",
        "Secret triton-cmon-client and ConfigMap triton-cmon-scrape are there for it",
        "6. worker-1 is powered off",
        "worker-1 lost the shutdown taint",
        "7. worker-1 is replaced by a new machine",
        "route to 10.244.",
        "worker-1 is no member any more, and the address is the same",
        "8. worker-3 is destroyed",
        "worker-3 is no longer behind the load balancer",
        "routes have followed the nodes",
        "9. The Service shop is deleted",
        "the machine goes, and the Service after it",
        "10. The Service is deleted",
        "the load balancer goes, and the Service after it",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    tells(&["--cloud", "triton"], &in_order, &[]);
}

/// Plays a story with a Service and looks for these lines: in this order, and anywhere.
fn tells(arguments: &[&str], in_order: &[&str], somewhere: &[&str]) {
    let always = [
        "event EnsuringLoadBalancer: Ensuring load balancer",
        "event EnsuredLoadBalancer: Ensured load balancer",
        "event DeletingNode: Deleting node worker-3",
        "event DeletedLoadBalancer: Deleted load balancer",
    ];
    tells_of(arguments, in_order, &[&always, somewhere].concat());
}

/// Plays the story and looks for these lines: in this order, and anywhere.
fn tells_of(arguments: &[&str], in_order: &[&str], somewhere: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let all = [&["sandbox", "--once", "--seed", "7"], arguments].concat();
    let mut command = bowline(&all);
    command.env("TMPDIR", folder.path());
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    let mut rest = ended.stdout.as_str();
    for line in in_order {
        let at = rest.find(line);
        let at = at.unwrap_or_else(|| panic!("{line:?} is not in its place:\n{}", ended.stdout));
        rest = &rest[at + line.len()..];
    }
    for line in somewhere {
        assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    }
    assert!(
        !ended.stdout.contains('✗') && !ended.stdout.contains('\x1b'),
        "{}",
        ended.stdout
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

/// Takes as long as the story, beside which it runs.
#[tokio::test]
async fn without_once_it_stays_for_kubectl_until_ctrl_c() {
    use k8s_openapi::api::core::v1::{Node, Service};
    use kube::runtime::wait::await_condition;

    let folder = tempfile::tempdir().unwrap();
    let mut command = bowline(&["sandbox", "--nodes", "2"]);
    command.env("TMPDIR", folder.path());
    let mut running = Running::start(command);
    running.says("everything happened as expected");
    running.says("The sandbox stays up until Ctrl-C");
    let line = running.says("get nodes -o wide");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..2], ["kubectl", "--kubeconfig"]);
    let config = bowline_controllers::clients::load_config(words[2], "")
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let nodes: kube::Api<Node> = kube::Api::all(client.clone());
    let nodes = nodes.list(&kube::api::ListParams::default()).await.unwrap();
    let names: Vec<String> = nodes
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect();
    assert_eq!(names, ["stranger", "worker-3"], "the others had to go");

    let example = running.says("create service");
    assert!(example.ends_with("create service loadbalancer shop --tcp=80:8080\n"));
    let services: kube::Api<Service> = kube::Api::default_namespaced(client);
    let shop = serde_json::json!({
        "metadata": { "name": "shop" },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": "shop" },
            "ports": [{ "name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080 }],
        },
    });
    let shop = serde_json::from_value(shop).unwrap();
    let parameters = kube::api::PostParams::default();
    services.create(&parameters, &shop).await.unwrap();
    let told = running.says("Service shop got its address: ");
    let has_address = |service: Option<&Service>| {
        let status = service.and_then(|it| it.status.as_ref()?.load_balancer.as_ref());
        status.is_some_and(|it| it.ingress.iter().flatten().count() == 2)
    };
    let served = await_condition(services, "shop", has_address).await;
    let served = served.unwrap().unwrap().status.unwrap();
    for entrance in served.load_balancer.unwrap().ingress.unwrap() {
        assert!(told.contains(&entrance.ip.unwrap()), "{told}");
    }
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended
            .stdout
            .contains("stopped cleanly: work finished, lease released")
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn an_interrupted_story_is_taken_down_cleanly() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = bowline(&["sandbox", "--nodes", "2"]);
        command.env("TMPDIR", folder.path());
        let mut running = Running::start(command);
        running.says("worker-2 initialised");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        running.signal(signal);
        running.says("Interrupted before the story was over");
        let ended = running.end();
        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert!(
            ended
                .stdout
                .contains("stopped cleanly: work finished, lease released")
        );
        assert_eq!(ended.stderr, "");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }
}

#[test]
fn bad_arguments_of_the_sandbox_are_told() {
    for (arguments, words) in [
        (
            &["sandbox", "--nodes", "1"][..],
            &["'1'", "--nodes", "2..=2000"][..],
        ),
        (&["sandbox", "--nodes", "many"], &["'many'", "--nodes"]),
        (&["sandbox", "--seed", "-1"], &["-1"]),
        (
            &["sandbox", "--cloud", "bigcorp"],
            &["'bigcorp'", "possible values: cloudscale"],
        ),
        (&["sandbox", "--onec"], &["--onec", "--once"]),
        (&["sandbox", "now"], &["'now'"]),
    ] {
        let ended = run(bowline(arguments));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
        for word in words {
            assert!(
                ended.stderr.contains(word),
                "{word} is not in {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_folder_or_port_that_cannot_be_had_is_named() {
    let ended = run(bowline(&["sandbox", "--once", "--folder", "/dev/null/x"]));
    ended.failed_with(&["/dev/null/x", "Not a directory"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = run(bowline(&["sandbox", "--once", "--port", &port.to_string()]));
    assert_eq!(ended.code, Some(1));
    let address = format!("127.0.0.1:{port}");
    assert!(ended.error().contains(&address), "{}", ended.error());
    assert!(
        ended.error().contains("another program already does"),
        "{}",
        ended.error()
    );
}

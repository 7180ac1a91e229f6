//! `bowline sandbox`, from its first line to its last.

use std::path::Path;

use super::process::{Running, bowline, program, run};

/// All clouds in one cluster, and one manager with one configuration. Takes half a minute of real time:
/// a kubelet's silence, and the guard's two looks.
#[test]
fn the_story_of_several_clouds_is_told_to_its_end() {
    let in_order = [
        "Bowline sandbox: a simulated cluster and clouds, and the real controller manager",
        "zurich           http://127.0.0.1:",
        "(cloudscale API, simulated)",
        "partner          http://127.0.0.1:",
        "metal            https://127.0.0.1:",
        "rack             http://127.0.0.1:",
        "(file of machines, simulated)",
        "Bowline          as service account kube-system/bowline",
        "1. One manager, one configuration, 6 clouds",
        "$ cat ",
        "- name: zurich\n",
        "provider: cloudscale\n",
        "nodeSelector: site=zurich\n",
        "accessToken: {file: ",
        "- name: rack\n",
        "provider: static\n",
        "rack.machines.yaml\n",
        "defaultCloud: zurich\n",
        "2. 2 machines boot in each cloud, and 3 nodes join that no cloud owns",
        "zurich (cloudscale) has initialised zurich-1, zurich-2, zurich-3; they are Ready",
        "geneva (exoscale) has initialised geneva-1, geneva-2; they are Ready",
        "metal (talos) has initialised metal-1, metal-2; they are Ready",
        "lab (xenorchestra) has initialised lab-1, lab-2; they are Ready",
        "campus (triton) has initialised campus-1, campus-2; they are Ready",
        "rack (static) has initialised rack-1, rack-2; they are Ready",
        "zurich-3 was described by metal, with the provider ID that zurich gave it",
        "partner-1, partner-2 stay uninitialized, too",
        "elsewhere, mainframe, under-the-desk stay uninitialized: no configured cloud owns them",
        "Bowline wrote to none of them",
        "3. partner, a second account, is added to the file; the manager is not restarted",
        "apiSecret: {fiel: ",
        "ConfigurationRefused: The configuration stays as it is: ",
        "clouds[2].settings.global.apiSecret.fiel: is no key here",
        "apiSecret: {file: ",
        "event ConfigurationChanged: Generation 2: added partner",
        "partner-1 initialised: exoscale://",
        "partner (exoscale) has initialised partner-1, partner-2; they are Ready",
        "4. Which cloud owns zurich-3, and why?",
        "$ bowline explain node zurich-3 --config ",
        "owned by zurich, by its provider id",
        "addresses and labels: described by metal",
        "zurich owns it, and metal describes it",
        "5. Services: one for each cloud",
        "web-zurich has a load balancer at zurich with exactly the targets zurich-1, zurich-2, zurich-3",
        "web-geneva has a network load balancer at geneva with exactly the targets geneva-1, geneva-2",
        "web-partner has a network load balancer at partner with exactly the targets partner-1, partner-2",
        "web-campus has a load balancer at campus with exactly the targets campus-1, campus-2",
        "web has a load balancer at zurich with exactly the targets zurich-1, zurich-2, zurich-3",
        "no cloud has a load balancer for a Service of another cloud",
        "web-inside was left alone",
        "6. zurich fails: its API answers 503 to everything",
        "/readyz: [!]cloud-zurich unhappy",
        "/readyz: [+]cloud-geneva ok",
        "/readyz reports zurich, and no other cloud",
        "campus (triton) has initialised campus-1, campus-2, campus-3; they are Ready",
        "rack (static) has initialised rack-1, rack-2, rack-3; they are Ready",
        "late-geneva has a network load balancer at geneva with exactly the targets geneva-2, geneva-3",
        "the Node geneva-1 is deleted, on proof from geneva",
        "zurich-4 stays uninitialized; nodes and load balancers of zurich are unchanged",
        "Bowline wrote to none of them",
        "7. zurich answers again",
        "zurich (cloudscale) has initialised zurich-1 to zurich-4; they are Ready",
        "web has a load balancer at zurich with exactly the targets zurich-1, zurich-2, zurich-3, zurich-4",
        "/readyz reports that all clouds are ok",
        "calls to clouds: zurich ",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    let somewhere = [
        "zurich-1 initialised: cloudscale://",
        "geneva-1 initialised: exoscale://",
        "metal-1 initialised: talos://metal/10.30.0.2 (metal-16, hall-1, ",
        "lab-1 initialised: xenorchestra://",
        "campus-1 initialised: triton://",
        "rack-1 initialised: static://rack-1 (r640, row-a, InternalIP 10.50.0.1)",
        "Service web-geneva got its address: 203.0.113.1",
        "Service web-partner got its address: 203.0.113.2",
        "Service web-campus got its address: web-campus.default.svc.",
        "event DeletingNode: Deleting node geneva-1",
    ];
    tells_of(&[], &in_order, &somewhere);
}

/// One that is told as its original is. Takes about a minute of real time: the guard deletes no node
/// that is younger than that, and the story has one deleted.
#[test]
fn the_story_of_cloudscale_is_told_to_its_end() {
    let in_order = [
        "Bowline sandbox: a simulated cluster and cloud, and",
        "Kubernetes API   https://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 registered, tainted as uninitialized",
        "worker-1 initialised: cloudscale://144bea5c-2c48-4944-a05e-c132843fd935 (flex-8-4, rma1",
        "every node is Ready: pods can be scheduled",
        "the foreign node stays uninitialized: its cloud is not configured",
        "2. A Service of type LoadBalancer is created: web",
        "Service web asks for a load balancer",
        "is being created",
        "is ready",
        "Service web got its address: 198.18.0.",
        "every node is a target of its load balancer; the foreign one is not",
        "3. worker-1 is powered off",
        "worker-1 got the shutdown taint",
        "worker-1 lost the shutdown taint",
        "4. worker-1 is replaced by a new machine",
        "worker-4 initialised: cloudscale://",
        "got target worker-4",
        "lost target worker-1",
        "worker-1 is no longer a target, and the address is the same",
        "5. worker-3 is destroyed",
        "on proof only",
        "worker-3 is gone",
        "lost target worker-3",
        "worker-3 is no longer behind the load balancer",
        "the foreign node is NotReady, and Bowline has not changed it",
        "6. The Service is deleted",
        "Service web is being deleted, and waits for its load balancer",
        "load balancer k8s-service-",
        "is gone",
        "Service web is gone",
        "the load balancer is deleted, and then the Service",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    let somewhere = [
        "got pool tcp/http",
        "got listener tcp/80",
        "got health monitor tcp",
        "event UpdatedLoadBalancer: Updated load balancer with new hosts",
    ];
    tells(&["--cloud", "cloudscale"], &in_order, &somewhere);
}

/// The same at Exoscale, whose load balancers follow instance pools.
#[test]
fn the_story_of_exoscale_is_told_to_its_end() {
    let in_order = [
        "Exoscale API     http://127.0.0.1:",
        "worker-1 initialised: exoscale://",
        "(standard.medium, ch-gva-2, ExternalIP ",
        "creates a network load balancer that sends to the instance pool of the nodes",
        "is being created",
        "got service tcp/80",
        "got targets worker-1, worker-2, worker-3",
        "Service web got its address: 203.0.113.",
        "The load balancer follows the pool by itself",
        "got target worker-4",
        "lost target worker-1",
        "lost target worker-3",
        "worker-3 is gone",
        "network load balancer k8s-",
        "lost service tcp/80",
        "Service web is gone",
        "everything happened as expected",
    ];
    tells(&["--cloud", "exoscale"], &in_order, &[]);
}

/// The same with Talos, whose machines are asked themselves: nobody knows when they cannot be.
#[test]
fn the_story_of_talos_is_told_to_its_end() {
    let in_order = [
        "Talos API        https://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 initialised: talos://metal/10.30.0.2 (metal-16, hall-1, InternalIP 10.30.0.2)",
        "the foreign node stays uninitialized: its cloud is not configured",
        "2. worker-1 is replaced by a new machine",
        "worker-4 joins, and is Ready",
        "worker-1 is gone from the cluster",
        "3. worker-2 is powered off, and on again",
        "worker-2 is NotReady",
        "it was kept, and is Ready again",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    tells_of(&["--cloud", "talos"], &in_order, &[]);
}

/// The same with Xen Orchestra, which has no load balancers, and machines that move.
#[test]
fn the_story_of_xenorchestra_is_told_to_its_end() {
    let in_order = [
        "Xen Orchestra    http://127.0.0.1:",
        "1. 3 machines boot",
        "worker-1 initialised: xenorchestra://",
        "(2vCPU-4GB, ",
        "the foreign node stays uninitialized: its cloud is not configured",
        "2. worker-1 migrates to another host",
        "the zone of worker-1 is its new host",
        "3. worker-1 is powered off",
        "worker-1 lost the shutdown taint",
        "4. worker-1 is replaced by a new machine",
        "5. The cloud loses the connection to the pool, and worker-2 is powered off",
        "nothing is deleted, and nothing tainted",
        "although the cloud answered 404 ",
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
        "creates a load balancer that is a DNS name of all nodes",
        "Service web got its address: web.default.svc.",
        "every node is a target of its load balancer; the foreign one is not",
        "its name is answered with 3 addresses: dig @127.0.0.1 -p ",
        "3. A Service of the class cloud.tritoncompute/clb is created: shop",
        "load balancer machine kubernetes-clb-",
        "Service shop got its address: 203.0.113.",
        "the machine forwards to every node",
        "4. The fabric network gets routes to pods",
        "there is one route for each node, and somebody else's is still there",
        "5. Prometheus asks where to find metrics of machines",
        "/sd/triton lists the 3 machines of nodes",
        "Secret triton-cmon-client and ConfigMap triton-cmon-scrape exist",
        "6. worker-1 is powered off",
        "worker-1 lost the shutdown taint",
        "7. worker-1 is replaced by a new machine",
        "route to 10.244.",
        "worker-1 is no longer a target, and the address is the same",
        "8. worker-3 is destroyed",
        "worker-3 is no longer behind the load balancer",
        "routes have followed the nodes",
        "9. The Service shop is deleted",
        "the machine is deleted, and then the Service",
        "10. The Service is deleted",
        "the load balancer is deleted, and then the Service",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    tells(&["--cloud", "triton"], &in_order, &[]);
}

/// The same with machines from a file: what happens to them is an edit of it.
#[test]
fn the_story_of_static_is_told_to_its_end() {
    let in_order = [
        "file of machines http://127.0.0.1:",
        "Bowline          as service account kube-system/bowline",
        "1. 3 machines boot",
        "worker-1 initialised: static://worker-1 (r640, row-a, InternalIP 10.50.0.1)",
        "the foreign node stays uninitialized: its cloud is not configured",
        "2. worker-1 is powered off",
        "worker-1 got the shutdown taint",
        "worker-1 lost the shutdown taint",
        "3. worker-1 is replaced by a new machine",
        "worker-4 joins, and is Ready",
        "worker-1 is gone from the cluster",
        "4. worker-3 is destroyed",
        "worker-3 is gone",
        "the foreign node is NotReady, and Bowline has not changed it",
        "all other nodes are as they were",
        "0 calls to the cloud",
        "everything happened as expected",
        "stopped cleanly: work finished, lease released",
    ];
    let deleted = "event DeletingNode: Deleting node worker-3";
    tells_of(&["--cloud", "static"], &in_order, &[deleted]);
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
    let mut command = bowline(&["sandbox", "--cloud", "cloudscale", "--nodes", "2"]);
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
    let reported = running.says("Service shop got its address: ");
    let has_address = |service: Option<&Service>| {
        let status = service.and_then(|it| it.status.as_ref()?.load_balancer.as_ref());
        status.is_some_and(|it| it.ingress.iter().flatten().count() == 2)
    };
    let served = await_condition(services, "shop", has_address).await;
    let served = served.unwrap().unwrap().status.unwrap();
    for entrance in served.load_balancer.unwrap().ingress.unwrap() {
        assert!(reported.contains(&entrance.ip.unwrap()), "{reported}");
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

/// The commands that it proposes after the story of several clouds. Takes as long as that story, beside
/// which it runs.
#[test]
fn what_is_proposed_after_the_story_of_several_clouds_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bowline(&["sandbox"]);
    command.env("TMPDIR", folder.path());
    let mut running = Running::start(command);
    running.says("everything happened as expected");
    running.says("The sandbox stays up until Ctrl-C");
    let line = running.says("get nodes --label-columns site");
    assert!(line.trim_start().starts_with("kubectl --kubeconfig "));
    for (words, codes, reported) in [
        (
            "explain node under-the-desk --config",
            &[2][..],
            "left alone: no configured cloud has a machine for it",
        ),
        // Something may be to do: a load balancer may still be at work on its new member.
        (
            "plan --all --config",
            &[0, 2],
            "web-partner, in cloud partner: nothing to do",
        ),
    ] {
        let line = running.says(words);
        let mut words = line.split_whitespace();
        let path = Path::new(words.next().unwrap());
        let words: Vec<&str> = words.collect();
        let ended = run(program(path, &words));
        let code = ended.code.unwrap();
        assert!(codes.contains(&code), "{line}: {ended:?}");
        assert!(ended.stdout.contains(reported), "{line}: {}", ended.stdout);
    }
    running.says("curl --insecure https://127.0.0.1:");
    let line = running.says("edit ");
    let file = line
        .split_whitespace()
        .nth(1)
        .unwrap()
        .trim_end_matches(':');
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, text.replace("nodeAge: 10s", "nodeAge: 1m")).unwrap();
    running.says("event ConfigurationChanged: Generation 3");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_story_is_taken_down_cleanly() {
    for (signal, arguments, line) in [
        (
            "INT",
            &["--cloud", "cloudscale"][..],
            "worker-2 initialised",
        ),
        ("TERM", &[], "lab-2 initialised"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = bowline(&["sandbox", "--nodes", "2"]);
        command.args(arguments).env("TMPDIR", folder.path());
        let mut running = Running::start(command);
        running.says(line);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        running.signal(signal);
        running.says("Interrupted before the end");
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
        (
            &["sandbox", "--nodes", "301"],
            &["at most 300", "--nodes", "--cloud"],
        ),
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

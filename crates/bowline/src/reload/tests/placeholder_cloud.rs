//! One cloud cannot be built at the start: the others work, nothing of its is touched, and it joins them later.

use bowline_simulator_exoscale::{
    Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, PoolSpec,
};

use super::*;

struct Scenery {
    world: World,
    cluster: Cluster,
    cloudscale: Arc<Cloudscale>,
    exoscale: Arc<Exoscale>,
    servers: Vec<Server>,
    fleet: Fleet,
    folder: TempDir,
}

impl Scenery {
    /// A cloudscale that answers, and an Exoscale that does not; its secret is not there either.
    fn new() -> Self {
        let world = World::simulated(7);
        let cluster = Cluster::on_pipe(&world).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), DEFAULT_TOKEN).unwrap();
        let cloudscale = Cloudscale::from_fixture(&world, Fixture::default()).unwrap();
        let exoscale = Exoscale::new(&world, Config::default());
        exoscale.add_pool(&PoolSpec::named("nodes", 1)).unwrap();
        let server = Server::builder(&world, cloudscale.clone()).named("a");
        Self {
            servers: vec![server.pipe("a.sim:80")],
            fleet: Fleet::new(&world, cluster.admin().unwrap(), Settings::default()),
            cloudscale,
            exoscale,
            folder,
            cluster,
            world,
        }
    }

    fn give_secret(&self) {
        std::fs::write(self.folder.path().join("secret"), DEFAULT_SECRET).unwrap();
    }

    fn begin_to_answer(&mut self) {
        let server = Server::builder(&self.world, self.exoscale.clone()).named("exo");
        self.servers.push(server.pipe("exo.localhost:80"));
    }

    fn text(&self, more: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "clouds:\n- name: a\n  provider: cloudscale\n  nodeSelector: site=a\n  settings:\n    \
             accessToken: {{file: {folder}/token}}\n    apiUrl: http://a.sim/\n\
             - name: exo\n  provider: exoscale\n  nodeSelector: site=exo\n  settings:\n    global:\n      \
             zone: {DEFAULT_ZONE}\n      apiEndpoint: http://exo.localhost/v2\n      apiKey: {DEFAULT_KEY}\n      \
             apiSecret: {{file: {folder}/secret}}\n{more}services: {{defaultCloud: a}}\n"
        )
    }

    fn write(&self, text: &str) -> std::path::PathBuf {
        let path = self.folder.path().join("bowline.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A node and a Service of each cloud, and a node of Exoscale's whose machine is not there.
    fn populate(&self) {
        let label = |site: &str| BTreeMap::from([("site".to_owned(), site.to_owned())]);
        let uuid = self.cloudscale.add_server(&MachineSpec::named("a-1"));
        let kubelet = KubeletSpec {
            node_name: "a-1".to_owned(),
            machine_id: format!("cloudscale://{}", uuid.unwrap()),
            labels: label("a"),
            ..KubeletSpec::default()
        };
        self.fleet.join(kubelet).unwrap();
        let machine = self.exoscale.instances().remove(0);
        let kubelet = KubeletSpec {
            node_name: "exo-1".to_owned(),
            labels: label("exo"),
            ..self.exoscale.kubelet(&machine.id).unwrap()
        };
        self.fleet.join(kubelet).unwrap();
        let id = "exoscale://5b1e2d3c-0000-4000-8000-000000000001";
        let mut gone = foreign("exo-gone", Some(id));
        gone["metadata"]["labels"] = json!({ "site": "exo" });
        self.cluster.install([gone]).unwrap();
        for (cloud, port) in [("a", 30_001), ("exo", 30_002)] {
            let service = json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "namespace": "default", "name": format!("of-{cloud}"),
                    "uid": self.world.random.uuid(),
                },
                "spec": {
                    "type": "LoadBalancer",
                    "loadBalancerClass": format!("bowline.dev/{cloud}"),
                    "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080,
                                "nodePort": port }],
                },
            });
            self.cluster.install([service]).unwrap();
        }
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let namespace = if kind == "Service" { "default" } else { "" };
        let kind = kinds::by_kind("", "v1", kind).unwrap();
        self.cluster.api().get(kind, namespace, name)
    }

    fn is_initialized(&self, node: &str) -> bool {
        let node = self.object("Node", node).unwrap();
        let taints = node["spec"]["taints"].to_string();
        node["spec"]["providerID"].is_string() && !taints.contains(UNINITIALIZED)
    }

    fn has_ingress(&self, service: &str) -> bool {
        let service = self.object("Service", service).unwrap();
        service["status"]["loadBalancer"]["ingress"].is_array()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_whose_api_does_not_answer_at_the_start_holds_up_no_other_and_joins_later() {
    let mut scenery = Scenery::new();
    scenery.give_secret();
    let path = scenery.write(&scenery.text(""));
    let (manager, mut reload, _metrics) = start(&scenery.world, &scenery.cluster, &path).await;
    let readiness = reload.parts.factory.clouds[1].cloud.ready();
    let why = readiness.unwrap_err();
    assert!(why.contains("zone api endpoint"), "{why}");
    scenery.populate();
    let stop = CancellationToken::new();
    let manager = tokio::spawn(manager.run(stop.clone()));

    sleep(Duration::from_secs(120)).await;
    assert_eq!(reload.look(false).await, Looked::Same);
    sleep(Duration::from_secs(3600)).await;
    assert!(scenery.is_initialized("a-1") && scenery.has_ingress("of-a"));
    assert!(!scenery.is_initialized("exo-1") && !scenery.has_ingress("of-exo"));
    let mine = Filter::any()
        .server("kubernetes")
        .caller(MANAGER)
        .mutating();
    for name in ["exo-1", "exo-gone"] {
        let filter = mine.clone().path(&format!("/api/v1/nodes/{name}*"));
        let touched = scenery.world.journal.matching(&filter);
        assert!(touched.is_empty(), "{touched:?}");
    }
    let waiting = scenery.object("Service", "of-exo").unwrap().to_string();
    assert!(waiting.contains("cannot be built yet"), "{waiting}");

    scenery.begin_to_answer();
    assert_eq!(reload.look(false).await, Looked::Changed);
    let present = reload.parts.changer.present();
    assert_eq!((present.generation, &*present.summary), (2, "built exo"));
    assert_eq!(present.clouds[1].ready(), Ok(()));
    sleep(Duration::from_secs(1800)).await;
    assert!(scenery.is_initialized("exo-1") && scenery.has_ingress("of-exo"));
    assert!(scenery.has_ingress("of-a"));
    assert_eq!(reload.look(true).await, Looked::Same);
    stop.cancel();
    manager.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_its_secret_waits_for_it_whatever_else_is_changed() {
    let mut scenery = Scenery::new();
    scenery.begin_to_answer();
    let path = scenery.write(&scenery.text(""));
    let (_manager, mut reload, _metrics) = start(&scenery.world, &scenery.cluster, &path).await;
    let placeholder = reload.parts.factory.clouds[1].cloud.clone();
    let why = placeholder.ready().unwrap_err();
    assert!(
        why.contains("apiSecret") && why.contains("No such file"),
        "{why}"
    );
    assert_eq!(reload.look(true).await, Looked::Same);

    // What else is changed is used.
    let text = scenery.text("manager: {concurrent-service-syncs: 3}\n");
    scenery.write(&text);
    assert_eq!(reload.look(false).await, Looked::Changed);
    let present = reload.parts.changer.present();
    assert_eq!(present.generation, 2);
    assert!(Arc::ptr_eq(&present.clouds[1], &placeholder));

    // A cloud that is new has to be right, and one that is changed, too.
    let other =
        "- name: b\n  provider: cloudscale\n  settings: {accessToken: {file: /not/there}}\n";
    for bad in [
        scenery.text(other),
        text.replace("/secret}", "/other-secret}"),
    ] {
        scenery.write(&bad);
        assert_eq!(reload.look(false).await, Looked::Refused, "{bad}");
        assert_eq!(reload.look(false).await, Looked::Same);
    }

    // The text in the file is still refused, and what is in use can be mended nevertheless.
    scenery.give_secret();
    assert_eq!(reload.look(false).await, Looked::Changed);
    let present = reload.parts.changer.present();
    assert_eq!((present.generation, &*present.summary), (3, "built exo"));
    assert_eq!(present.clouds[1].ready(), Ok(()));
    scenery.write(&text);
    assert_eq!(reload.look(false).await, Looked::Same);

    // What was read once stays good while it cannot be read.
    std::fs::remove_file(scenery.folder.path().join("secret")).unwrap();
    assert_eq!(reload.look(true).await, Looked::Same);
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_wrong_end_the_start() {
    let scenery = Scenery::new();
    let path = scenery.write(&scenery.text(""));
    let (_manager, reload, _metrics) = start(&scenery.world, &scenery.cluster, &path).await;
    let options = reload.parts.changer.present().options.clone();
    // A file that is there, and holds no key.
    let triton = format!(
        "- name: t\n  provider: triton\n  settings: {{global: {{tritonEndpoint: 'https://t.test', \
         tritonAccount: me, tritonPrivateKey: {{file: {}/token}}}}}}\n",
        scenery.folder.path().display()
    );
    for (wrong, said) in [
        (
            scenery.text("").replace("http://a.sim/", "a.sim"),
            "a (cloudscale)",
        ),
        (
            scenery.text("").replace("http://exo.localhost/v2", "'%'"),
            "exo (exoscale)",
        ),
        (scenery.text(&triton), "t (triton)"),
    ] {
        let configuration = config::read(&wrong).unwrap();
        let begun = reload.parts.factory.begin(&configuration, &options).await;
        let Err(error) = begun else {
            panic!("begun with {wrong}");
        };
        let error = error_chain(error.as_ref());
        assert!(error.contains(said), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn proof_case_44_a_file_that_cannot_be_parsed_keeps_no_placeholder_from_being_built() {
    let mut scenery = Scenery::new();
    scenery.give_secret();
    let path = scenery.write(&scenery.text(""));
    let (_manager, mut reload, _metrics) = start(&scenery.world, &scenery.cluster, &path).await;
    scenery.write("clouds: [");
    assert_eq!(reload.look(false).await, Looked::Refused);
    for _ in 0..60 {
        sleep(LOOK_EVERY).await;
        assert_ne!(reload.look(false).await, Looked::Changed);
    }
    scenery.begin_to_answer();
    sleep(LOOK_EVERY).await;
    assert_eq!(reload.look(false).await, Looked::Changed);
    let present = reload.parts.changer.present();
    assert_eq!(present.summary, "built exo");
    assert_eq!(present.clouds[1].ready(), Ok(()));
}

//! Several servers: each for itself.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, Lookup};
use bowline_simulator::World;
use bowline_simulator::serve::Server;
use bowline_simulator_xenorchestra::{
    DEFAULT_TOKEN, Fixture, HostSpec, PoolSpec, Quirks, VmSpec, XenOrchestra,
};
use bowline_xenorchestra::Config;

use crate::harness::{
    AUTHORITY, VM1, cannot_tell, cloud, found, fresh, gone, known, orchestra, w1, wait,
};

const PC: &str = "5a5a5a5a-3c1d-4f55-9d0a-6f1f6c3b7a10";
const VM3: &str = "3b3b3b3b-4e7f-4a63-9b1d-0f2e3d4c5b6a";

struct Two {
    _world: World,
    main: Arc<XenOrchestra>,
    lyon: Arc<XenOrchestra>,
    cloud: Arc<dyn Cloud>,
    servers: Vec<Server>,
}

fn two() -> Two {
    let world = World::simulated(7);
    let main = orchestra(&world, Quirks::default());
    let scene = Fixture {
        pools: vec![PoolSpec::named("lyon pool").id(PC)],
        hosts: vec![HostSpec::named("lyon-1", PC)],
        vms: vec![VmSpec::named("worker-3").id(VM3)],
        ..Fixture::default()
    };
    let lyon = XenOrchestra::from_fixture(&world, scene).unwrap();
    let servers = vec![
        Server::builder(&world, main.clone()).pipe(AUTHORITY),
        Server::builder(&world, lyon.clone()).pipe("lyon.sim:80"),
    ];
    let file = format!(
        "url: http://xo.sim\ntoken: {DEFAULT_TOKEN}\nevents: no\nservers:\n\
         - {{name: lyon, url: http://lyon.sim, token: {DEFAULT_TOKEN}}}\n"
    );
    let cloud = cloud(&world, &Config::of_file(&file).unwrap());
    Two {
        _world: world,
        main,
        lyon,
        cloud,
        servers,
    }
}

impl Two {
    async fn presence(&self, node: bowline_core::Node) -> Lookup {
        let node = [Arc::new(node)];
        self.cloud
            .instances()
            .unwrap()
            .presence(&node)
            .await
            .remove(0)
    }
}

fn w3() -> bowline_core::Node {
    known("w3", &format!("xenorchestra://{PC}/{VM3}"))
}

#[tokio::test(start_paused = true)]
async fn each_node_is_found_where_it_is() {
    let two = two();
    for (node, region) in [
        (w1(), crate::harness::PA),
        (w3(), PC),
        (fresh("w3", VM3), PC),
    ] {
        let nodes = [Arc::new(node)];
        let mut answers = two.cloud.instances().unwrap().lookup(&nodes).await;
        assert_eq!(found(answers.remove(0)).region, region);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_concerns_its_own_nodes_only() {
    let mut two = two();
    wait(Duration::from_secs(2)).await;
    assert_eq!(two.cloud.ready(), Ok(()));
    two.servers.pop().unwrap().shutdown().await;
    found(two.presence(w1()).await);
    cannot_tell(two.presence(w3()).await);
    // Its pool is at the one that answers.
    two.main.destroy(VM1).unwrap();
    gone(two.presence(w1()).await);
    two.cloud.instances().unwrap().canary().await.unwrap();
    // The owner of a new node is unknown as long as one server does not answer.
    let new = [Arc::new(fresh("w9", crate::harness::NOBODY))];
    let mut answers = two.cloud.instances().unwrap().lookup(&new).await;
    cannot_tell(answers.remove(0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_gone_when_the_server_with_its_pool_says_so() {
    let two = two();
    two.lyon.destroy(VM3).unwrap();
    gone(two.presence(w3()).await);
    two.lyon.disconnect_pool(PC).unwrap();
    cannot_tell(two.presence(w3()).await);
}

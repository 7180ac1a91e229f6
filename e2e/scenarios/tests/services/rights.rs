//! Who the controller of Services is, and whether it runs. What it may do is in the target `rights`.

use std::collections::BTreeSet;

use bowline_scenarios::objects::service;
use bowline_scenarios::{Setup, Sharing, TestCluster, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::auth::framework;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use crate::services::harness::{self, ALONE};

#[scenario]
async fn framework_case_143_services_are_written_by_the_account_of_the_service_controller() {
    // The account of the controller has a fixed name, so nobody else can be on that server.
    let mut bench = harness::set_up(Setup {
        flags: &["--use-service-account-credentials"],
        sharing: Sharing::Alone,
        ..Setup::default()
    })
    .await;
    let objects = framework("manager", true);
    let granted = bench.cluster.grant("manager", &objects).await;
    bench.act_as(granted.config);
    bench.start();
    bench.ensured("web").await;
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(bench.admin(), "kube-system");
    accounts.get("service-controller").await.unwrap();
    let writes = bench.all_service_writes().into_iter();
    let writers: BTreeSet<String> = writes.map(|it| it.caller).collect();
    let account = "system:serviceaccount:kube-system:service-controller".to_owned();
    assert_eq!(writers, BTreeSet::from([account]));
    let refused = bench.matching(&Filter::any().status(403));
    assert_eq!(refused, [], "its own role is enough");
}

#[scenario]
async fn framework_case_142_without_load_balancers_the_controller_does_not_start() {
    let story = async |offers: bool| {
        let mut bench = TestCluster::idle(&[ALONE]).await;
        if offers {
            bench.cloud().offer_balancers();
        }
        bench.create_service(service("web")).await;
        bench.start();
        if offers {
            bench.until_event("web", "EnsuredLoadBalancer").await;
        }
        bench.settle().await;
        let series = "running_managed_controllers{manager=\"cloud-controller-manager\",\
                          name=\"service\"}";
        assert_eq!(bench.metric(series), offers.then_some(1.0));
        assert_eq!(bench.finalizers("web").is_empty(), !offers);
    };
    join_all([true, false].map(story)).await;
}

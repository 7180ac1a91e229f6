//! A process that dies between the creation of a load balancer and the note of it.

use std::time::Duration;

use bowline_scenarios::objects::annotated;
use bowline_scenarios::triton::section;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use super::balancers::appliances;
use super::harness::{BALANCING, Field, on};
use crate::many::harness::EXOSCALE;
use crate::triton::service_harness::{PREFIX, ServiceHarness};

/// Longer than a process needs to start and to make a load balancer.
const LATE: Duration = Duration::from_secs(60);

fn creation(cloud: &str) -> &'static str {
    match cloud {
        EXOSCALE => "/v2/load-balancer",
        _ => "/v1/load-balancers",
    }
}

impl Field {
    fn balancers_of(&self, cloud: &str) -> usize {
        match cloud {
            EXOSCALE => self.exoscale.balancers().len(),
            _ => self.east.balancers().len(),
        }
    }

    async fn until_balancers(&self, cloud: &str, count: usize) {
        let what = format!("{cloud} has {count} load balancers");
        let is = |_: &TestCluster| self.balancers_of(cloud) == count;
        self.until(&what, is).await;
    }

    /// Orders a Service in a cloud that makes its load balancer and never says so, and kills the manager then.
    async fn die_during_creation(&mut self, cloud: &str) {
        let silent = Rule::new(Action::Silence).server(cloud);
        self.fault(silent.on("POST", creation(cloud)).times(1));
        self.order(&on(cloud), cloud).await;
        self.until_balancers(cloud, 1).await;
        self.kill().await;
        assert_eq!(self.entrances(&on(cloud)), [""; 0]);
    }
}

/// kubernetes/kubernetes#53451 and others: a process that died after the cloud had made a load balancer, and before
/// anything was written down, left it behind and made another. Now the next process finds it, and nothing is left after
/// the Service.
#[scenario]
async fn what_a_process_made_before_it_died_is_found_by_the_next_one() {
    let story = async |cloud: &'static str| {
        let mut field = Field::new(2).await;
        field.die_during_creation(cloud).await;
        field.start().await;
        field.is_serving(cloud).await;
        assert_eq!(field.balancers_of(cloud), 1, "{cloud}");
        field.delete_service(&on(cloud)).await;
        field.until_service_gone(&on(cloud)).await;
        field.settle().await;
        assert_eq!(field.balancers_of(cloud), 0, "{cloud}");
    };
    join_all(BALANCING.map(story)).await;
}

/// The same, and the Service is deleted while nobody runs.
#[scenario]
async fn what_a_process_made_before_it_died_goes_with_a_service_that_goes_meanwhile() {
    let story = async |cloud: &'static str| {
        let mut field = Field::new(2).await;
        field.die_during_creation(cloud).await;
        field.delete_service(&on(cloud)).await;
        field.start().await;
        field.until_service_gone(&on(cloud)).await;
        field.settle().await;
        assert_eq!(field.balancers_of(cloud), 0, "{cloud}");
    };
    join_all(BALANCING.map(story)).await;
}

/// The same, and the cloud comes to the call only after the next process has made a load balancer. Names are unique at
/// Exoscale, so that there is one and none after the Service; `proof_case_29` shows it at cloudscale.ch, where there are two
/// for a moment.
#[scenario]
async fn what_a_dead_process_asked_for_and_comes_late_is_not_left_over() {
    let mut field = Field::new(2).await;
    let late = Action::Delay {
        least: LATE,
        most: LATE,
    };
    let late = Rule::new(late).server(EXOSCALE);
    let asked = late.on("POST", creation(EXOSCALE)).times(1).named("late");
    field.world.faults.add(asked).unwrap();
    field.order(&on(EXOSCALE), EXOSCALE).await;
    field.world.faults.struck("late", 1).await;
    field.kill().await;
    field.start().await;
    field.is_serving(EXOSCALE).await;
    field.pass(2 * LATE).await;
    assert_eq!(field.balancers_of(EXOSCALE), 1);
    field.is_serving(EXOSCALE).await;
    field.delete_service(&on(EXOSCALE)).await;
    field.until_service_gone(&on(EXOSCALE)).await;
    field.settle().await;
    assert_eq!(field.balancers_of(EXOSCALE), 0);
}

/// The same at Triton, where a load balancer is a machine: with the Service alive, and deleted meanwhile.
#[scenario]
async fn a_machine_that_a_process_asked_for_before_it_died_is_found_by_the_next_one() {
    let story = async |is_deleted: bool| {
        let lines = [("clb-package", "lb1.small")];
        let mut test = ServiceHarness::configured(&section("LoadBalancer", &lines)).await;
        let silent = Rule::new(Action::Silence).server("triton");
        test.fault(silent.on("POST", "/acme/machines").times(1));
        let mode = format!("{PREFIX}mode");
        test.create_service(annotated("web", &[(&*mode, "clb")]))
            .await;
        let cloud = test.cloud.clone();
        let is_made = |_: &TestCluster| appliances(&cloud).len() == 1;
        test.until("a machine is made", is_made).await;
        test.kill().await;
        if is_deleted {
            test.delete_service("web").await;
        }
        test.start().await;
        if !is_deleted {
            test.until_published("web").await;
            test.settle().await;
            assert_eq!(appliances(&test.cloud).len(), 1);
            test.delete_service("web").await;
        }
        test.until_service_gone("web").await;
        test.settle().await;
        assert_eq!(appliances(&test.cloud), [""; 0]);
        test.end().await;
    };
    futures::join!(story(false), story(true));
}

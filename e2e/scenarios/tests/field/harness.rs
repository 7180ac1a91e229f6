//! A cluster in which every cloud that can say of a machine that it is gone has nodes and a proven account.

use bowline_scenarios::{TestCluster, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, Key};
use bowline_simulator_triton::{DEFAULT_ACCOUNT, DEFAULT_PUBLIC_KEY};
use bowline_simulator_xenorchestra::{DEFAULT_TOKEN, DEFAULT_USER};
use serde_json::{Value, json};

use crate::many::harness::{EAST, EXOSCALE, Harness, TRITON, Telling, XEN};
use crate::many::machines::Machine;

/// The clouds that can say of a machine that it is gone. The other account of cloudscale.ch has nothing to do here.
pub(crate) const CLOUDS: [&str; 4] = [EAST, EXOSCALE, XEN, TRITON];
/// Those with load balancers whose targets do not depend on readiness.
pub(crate) const BALANCING: [&str; 2] = [EAST, EXOSCALE];
/// Longer than any proof, budget or back-off of the guard takes.
pub(crate) const A_WHILE: u64 = 1800;

/// Everything that is up.
pub(crate) struct Field {
    test: Harness,
    machines: Vec<Machine>,
}

bowline_scenarios::wrapper!(Field, test: Harness);

impl Field {
    /// So many nodes in each cloud, Ready and initialised long ago, and a manager that has seen their machines.
    pub(crate) async fn new(count: u8) -> Self {
        let mut test = Harness::idle(Telling::Selectors).await;
        let mut machines = Vec::new();
        for (cloud, tens) in CLOUDS.into_iter().zip(1..) {
            for number in 0..count {
                let machine = test.machine(cloud, 10 * tens + number);
                test.put(machine.old_node("True")).await;
                machines.push(machine);
            }
        }
        test.start().await;
        let field = Self { test, machines };
        for cloud in CLOUDS {
            field.until_account(cloud, "proven").await;
        }
        field
    }

    /// The same, with a Service `on-<cloud>` in each cloud with load balancers.
    pub(crate) async fn serving(count: u8) -> Self {
        let field = Self::new(count).await;
        for cloud in BALANCING {
            field.order(&on(cloud), cloud).await;
        }
        for cloud in BALANCING {
            field.is_serving(cloud).await;
        }
        field
    }

    /// The machines of a cloud.
    pub(crate) fn of(&self, cloud: &str) -> Vec<&Machine> {
        let all = self.machines.iter();
        all.filter(|it| it.owner == cloud).collect()
    }

    /// Every machine of every cloud whose place among those of its cloud fits.
    pub(crate) fn each(&self, fits: impl Fn(usize) -> bool) -> Vec<&Machine> {
        let of_cloud = |cloud| {
            let all = self.of(cloud).into_iter().enumerate();
            all.filter(|(place, _)| fits(*place)).map(|(_, it)| it)
        };
        CLOUDS.into_iter().flat_map(of_cloud).collect()
    }

    /// Waits until the Service of that cloud has its load balancer and all nodes of the cloud behind it.
    pub(crate) async fn is_serving(&self, cloud: &str) {
        self.served(&on(cloud), cloud, &self.machines).await;
    }

    /// The kubelets of these machines fall silent.
    pub(crate) async fn silence<'a>(&self, machines: impl IntoIterator<Item = &'a Machine>) {
        for machine in machines {
            self.set_ready(&machine.name, "Unknown").await;
        }
    }

    /// Powers a machine off.
    pub(crate) fn power_off(&self, machine: &Machine) {
        let id = &machine.id;
        match machine.owner {
            EXOSCALE => self.exoscale.stop(id).unwrap(),
            XEN => self.xen.halt(id).unwrap(),
            TRITON => self.triton.stop(id).unwrap(),
            account => self.account(account).stop(id).unwrap(),
        }
    }

    /// No cloud takes the manager's credentials any more.
    pub(crate) fn expire(&self) {
        // This one keeps its tokens for ever.
        let refused = Rule::new(status(401)).server(EAST);
        self.fault(refused.named("expired"));
        assert!(self.exoscale.remove_key(DEFAULT_KEY));
        assert!(self.xen.revoke_token(DEFAULT_TOKEN));
        self.triton.remove_keys(DEFAULT_ACCOUNT).unwrap();
    }

    /// All take them again.
    pub(crate) fn renew(&self) {
        self.world.faults.remove("expired");
        self.exoscale.set_key(DEFAULT_KEY, Key::new(DEFAULT_SECRET));
        self.xen.set_token(DEFAULT_TOKEN, DEFAULT_USER);
        self.triton
            .add_key(DEFAULT_ACCOUNT, DEFAULT_PUBLIC_KEY)
            .unwrap();
    }

    /// Lists of machines are answered like that, in every cloud.
    pub(crate) fn lists(&self, answer: impl Fn(&str) -> Action) {
        for cloud in CLOUDS {
            let rule = Rule::new(answer(cloud)).server(cloud);
            self.fault(rule.on("GET", list_path(cloud)));
        }
    }

    /// Every machine is answered with 404, as the cloud says it of one that it does not have.
    pub(crate) fn hide_machines(&self) {
        for machine in &self.machines {
            let id = &machine.id;
            let body = match machine.owner {
                XEN => Some(json!({ "error": format!("no such VM {id}") })),
                _ => None,
            };
            let missing = Action::Status {
                code: 404,
                headers: [].into(),
                body,
            };
            let path = format!("{}/{id}", list_path(machine.owner));
            let rule = Rule::new(missing).server(machine.owner);
            self.fault(rule.on("GET", &path));
        }
    }

    /// Load balancers are not listed any more, and each is answered with 404.
    pub(crate) fn hide_balancers(&self) {
        for (cloud, list, one, empty) in [
            (
                EAST,
                "/v1/load-balancers",
                "/v1/load-balancers/*",
                json!([]),
            ),
            (
                EXOSCALE,
                "/v2/load-balancer",
                "/v2/load-balancer/*",
                json!({ "load-balancers": [] }),
            ),
        ] {
            let missing = Rule::new(status(404)).server(cloud);
            self.fault(missing.on("*", one));
            let empty = Rule::new(answered(empty)).server(cloud);
            self.fault(empty.on("GET", list));
        }
    }

    pub(crate) async fn until_account(&self, cloud: &str, state: &str) {
        let series = format!("bowline_account_state{{cloud=\"{cloud}\",state=\"{state}\"}}");
        let what = format!("the account of {cloud} is {state}");
        self.until(&what, |it| it.metric(&series) == Some(1.0))
            .await;
    }

    /// Waits until the metric says that a cloud is in trouble.
    pub(crate) async fn until_in_trouble(&self, cloud: &str) {
        let series = format!("bowline_cloud_ready{{cloud=\"{cloud}\"}}");
        let what = format!("{cloud} is reported to be in trouble");
        self.until(&what, |it| it.metric(&series) == Some(0.0))
            .await;
    }

    /// Checks that every node is there, and that nobody ever asked for the end of one.
    #[track_caller]
    pub(crate) fn assert_all_kept(&self) {
        for machine in &self.machines {
            assert!(self.find(&machine.name).is_some(), "{}", machine.name);
        }
        assert_eq!(node_deletions(self), [""; 0]);
    }
}

/// The Service of a cloud.
pub(crate) fn on(cloud: &str) -> String {
    format!("on-{cloud}")
}

/// Where a cloud lists its machines.
pub(crate) fn list_path(cloud: &str) -> &'static str {
    match cloud {
        EXOSCALE => "/v2/instance",
        XEN => "/rest/v0/vms",
        TRITON => "/acme/machines",
        _ => "/v1/servers",
    }
}

/// A list without machines, in the words of a cloud.
pub(crate) fn nothing(cloud: &str) -> Action {
    answered(match cloud {
        EXOSCALE => json!({ "instances": [] }),
        _ => json!([]),
    })
}

/// This instead of the cloud's answer.
fn answered(body: Value) -> Action {
    Action::Status {
        code: 200,
        headers: [].into(),
        body: Some(body),
    }
}

/// The nodes whose end the manager asked for.
fn node_deletions(bench: &TestCluster) -> Vec<String> {
    let filter = Filter::any().server("kubernetes").method("DELETE");
    let all = bench.matching(&filter.path("/api/v1/nodes*")).into_iter();
    all.map(|it| it.path).collect()
}

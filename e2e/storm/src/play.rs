//! What people, kubelets, clouds and processes do in a storm.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use bowline_core::EXCLUSION_LABEL;
use bowline_scenarios::cache::Cache;
use bowline_scenarios::certificates::Ask;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, finalizers, fresh, service, text};
use bowline_simulator::faults::{Action, Rule};
use serde_json::{Value, json};

use crate::act::{Act, CLAIMS, Claim, Machine, Names, Server, rule};
use crate::clouds::{Cloud, Configured};
use crate::invariants::{
    Asked, FOREIGN, addresses, balancers_of, is_of, published, wants_balancer,
};
use crate::managers::SITE;
use crate::storm::{Incarnation, Storm};

/// Seconds that it takes to restore an API server: less than leases last, so that managers go on, and their watches could
/// resume at versions that the server has reached a second time.
const RESTORING: u8 = 3;

/// Machines of others: a page of Triton has a thousand.
const CROWD: usize = 998;

/// The state of the API server at some time.
pub(crate) struct Saved {
    revision: u64,
    caches: [Cache; 2],
}

impl Storm {
    /// Lets that happen.
    pub(crate) async fn play(&mut self, act: &Act) -> Result<()> {
        if self.saved.is_none() {
            self.save().await;
        }
        match *act {
            Act::Boot(machine) => self.boot(machine)?,
            Act::PowerOff(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().stop(&name)?;
                }
            }
            Act::PowerOn(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().start(&name)?;
                }
            }
            Act::Destroy(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().destroy(&name)?;
                }
            }
            Act::Crowd(cloud) => {
                if self.crowded.insert(cloud) {
                    let cloud = &self.clouds[usize::from(cloud)];
                    cloud.simulated().crowd(CROWD)?;
                }
            }
            Act::Exclude(machine, is_excluded) => self.exclude(machine, is_excluded).await,
            Act::Impersonate(machine) => self.impersonate(machine).await,
            Act::Certify(machine, names) => self.certify(machine, names).await,
            Act::Misreport(machine) => self.misreport(machine).await,
            Act::CreateService(number, cloud, ports) => {
                self.create(number, cloud.into(), ports).await;
            }
            Act::WantBalancer(number, wants) => self.want(number, wants).await,
            Act::Ports(number, count) => {
                if self.living(number).is_some_and(|it| wants_balancer(&it)) {
                    let change = |it: &mut Value| it["spec"]["ports"] = ports(count);
                    let name = service_name(number);
                    self.cluster.change_service(&name, change).await;
                }
            }
            Act::Annotate(number, key, value) => self.annotate(number, key, value).await,
            Act::Claim(number, claim) => self.claim(number, claim).await,
            Act::DeleteService(number) => self.delete_service(number).await,
            Act::RemoveBalancer(number) => self.remove_balancer(number)?,
            Act::Fault {
                server,
                method,
                wrong,
                times,
                percent,
            } => {
                let server = self.server(server);
                self.cluster
                    .fault(rule(&server, method, wrong, times, percent));
            }
            Act::ClearFaults => self.clear_faults(),
            Act::BreakWatches => self.cluster.cluster.break_watches(),
            Act::Save => self.save().await,
            Act::Restore => self.restore().await,
            Act::OldCache {
                seconds,
                says_new,
                restarts,
            } => self.serve_cache(seconds, says_new, restarts).await,
            Act::Compact => {
                self.cluster.cluster.forget_history().await;
                self.cluster.cluster.break_watches();
                // There is no way back to what is forgotten.
                self.saved = None;
            }
            Act::Restart(seconds) => self.be_away(seconds).await,
            Act::Kill(number, seconds) => self.kill(number, seconds).await,
            Act::KillAtCall {
                replica,
                server,
                method,
                after,
                is_done,
            } => self.kill_at(replica, server, method, after, is_done),
            Act::Stop(number, seconds) => {
                if let Some(replica) = self.end(number, seconds) {
                    // Whatever it says: it may have lost the lease meanwhile.
                    let _ = replica.stop().await;
                }
            }
            Act::Freeze(seconds) => tokio::time::advance(Duration::from_secs(seconds.into())).await,
            Act::SetClock(seconds) => self.cluster.world.clock.set_by(seconds.into()),
            Act::Reload(None) => self.configure_all()?,
            Act::Reload(Some(cloud)) => self.configure(cloud.into(), Configured::Not)?,
            Act::Swap(cloud) => self.configure(cloud.into(), Configured::Swapped)?,
            Act::Rename(cloud) => self.configure(cloud.into(), Configured::Renamed)?,
            Act::Break(cloud, how) => self.break_configuration(cloud.into(), how)?,
        }
        Ok(())
    }

    fn server(&self, server: Server) -> String {
        match server {
            Server::Kubernetes(at) => self.slots[usize::from(at)].name.clone(),
            Server::Cloud(at) => self.clouds[usize::from(at)].server().to_owned(),
        }
    }

    fn clear_faults(&mut self) {
        self.cluster.world.faults.clear();
        self.deadly.clear();
    }

    fn kill_at(&mut self, replica: u8, server: Server, method: &str, after: u8, is_done: bool) {
        let action = if is_done {
            Action::Silence
        } else {
            Action::Hang
        };
        let name = format!("kill-{}", self.deadly.len());
        let rule = Rule::new(action).server(&self.server(server)).times(1);
        let rule = rule.on(method, "*").after(after.into()).named(&name);
        self.cluster.fault(rule);
        self.deadly.insert(name, replica);
    }

    // The API server.

    async fn save(&mut self) {
        let Some(simulated) = self.cluster.cluster.simulated() else {
            return;
        };
        self.saved = Some(Saved {
            revision: simulated.api().store().revision(),
            caches: [
                Cache::of_nodes(&self.cluster).await,
                Cache::of_services(&self.cluster).await,
            ],
        });
    }

    async fn restore(&mut self) {
        let Some(saved) = self.saved.take() else {
            return;
        };
        let (before, wanted) = (self.uids(|_| true), self.uids(wants_balancer));
        let Some(simulated) = self.cluster.cluster.simulated() else {
            return;
        };
        if !simulated.api().restore(saved.revision) {
            return;
        }
        let lost: BTreeSet<String> = before.difference(&self.uids(|_| true)).cloned().collect();
        let seen = self.seen();
        // Nothing is destroyed for what the server lacks now.
        let in_use = lost.intersection(&wanted);
        let left = in_use.flat_map(|uid| {
            balancers_of(uid, &seen)
                .map(|(cloud, id)| ((cloud.to_owned(), id.to_owned()), uid.clone()))
        });
        self.invariants.left.extend(left.collect::<Vec<_>>());
        self.invariants.forget(simulated.api().store(), lost);
        // Nor does anything tell of the load balancers of these, where the account is exchanged, too.
        let mut silent = self.services();
        silent.retain(|_| self.configured.contains(&Configured::Swapped));
        let silent = silent.iter().filter(|it| published(it).is_empty());
        let silent = silent.map(|it| text(&it["metadata"]["uid"]).to_owned());
        self.invariants.lost.extend(silent.collect::<Vec<_>>());
        // Whoever saw that these want no load balancer any more may be about to delete it.
        for revived in self.uids(wants_balancer).difference(&wanted) {
            let own = balancers_of(revived, &seen);
            self.invariants
                .removed
                .extend(own.map(|(_, id)| id.to_owned()));
        }
        // The controller manager begins anew, too.
        let monitor = self.cluster.cluster.monitor(self.pace.monitor);
        self.monitor = monitor;
        self.be_away(RESTORING).await;
    }

    /// The uids of such Services.
    fn uids(&self, such: fn(&Value) -> bool) -> BTreeSet<String> {
        let all = self.services().into_iter().filter(such);
        all.map(|it| text(&it["metadata"]["uid"]).to_owned())
            .collect()
    }

    async fn serve_cache(&mut self, seconds: u8, says_new: bool, restarts: bool) {
        let Some(saved) = &self.saved else {
            return;
        };
        let mut caches = saved.caches.clone();
        if says_new {
            let [nodes, services] = caches;
            caches = [
                nodes.that_says_it_is_new(&self.cluster).await,
                services.that_says_it_is_new(&self.cluster).await,
            ];
        }
        let lagging: Vec<_> = caches
            .iter()
            .flat_map(|cache| {
                let slots = self.slots.iter();
                slots.map(|it| cache.answer_at(&it.name, &self.cluster))
            })
            .collect();
        if restarts {
            self.kill_all().await;
        }
        self.pass(Duration::from_secs(seconds.into())).await;
        drop(lagging);
    }

    async fn be_away(&mut self, seconds: u8) {
        let rules: Vec<String> = self
            .slots
            .iter()
            .map(|slot| {
                let name = format!("away-{}", slot.name);
                let rule = Rule::new(Action::Reset).server(&slot.name).named(&name);
                self.cluster.fault(rule);
                name
            })
            .collect();
        self.cluster.cluster.break_watches();
        self.pass(Duration::from_secs(seconds.into())).await;
        for rule in rules {
            self.cluster.world.faults.remove(&rule);
        }
    }

    // Machines and Nodes.

    /// A machine that exists: its cloud and its name, which is also that of its Node.
    fn existing(&self, machine: Machine) -> Option<(&Cloud, String)> {
        let cloud = self.clouds.get(usize::from(machine.0))?;
        let name = name(cloud, machine, *self.machines.get(&machine)?);
        let id = self.invariants.machines.get(&name)?;
        self.cluster.world.machines.power(id)?;
        Some((cloud, name))
    }

    fn boot(&mut self, machine: Machine) -> Result<()> {
        if self.existing(machine).is_some() {
            return Ok(());
        }
        let last = self.machines.entry(machine).or_default();
        *last += 1;
        let cloud = &self.clouds[usize::from(machine.0)];
        let name = name(cloud, machine, *last);
        let mut kubelet = cloud.simulated().boot(&name)?;
        let site = (SITE.to_owned(), cloud.name.to_string());
        kubelet.labels.extend([site]);
        let id = kubelet.machine_id.clone();
        self.invariants.machines.insert(name, id);
        self.cluster.cluster.join_as(&self.fleet, kubelet);
        Ok(())
    }

    async fn exclude(&mut self, machine: Machine, is_excluded: bool) {
        let Some((_, name)) = self.existing(machine) else {
            return;
        };
        if self.cluster.find(&name).is_none() {
            return;
        }
        if is_excluded {
            self.invariants.unwanted.insert(name.clone());
        }
        self.cluster
            .change(&name, |node| {
                let labels = &mut node["metadata"]["labels"];
                if is_excluded {
                    labels[EXCLUSION_LABEL] = "true".into();
                } else if let Some(labels) = labels.as_object_mut() {
                    labels.remove(EXCLUSION_LABEL);
                }
            })
            .await;
    }

    async fn impersonate(&mut self, machine: Machine) {
        let Some((cloud, victim)) = self.existing(machine) else {
            return;
        };
        let Some(node) = self.cluster.find(&victim) else {
            return;
        };
        let (id, name) = (
            text(&node["spec"]["providerID"]),
            format!("twin-of-{victim}"),
        );
        if id.is_empty() || self.cluster.find(&name).is_some() {
            return;
        }
        let mut twin = fresh(&name);
        twin["spec"]["providerID"] = id.into();
        twin["metadata"]["labels"] = json!({ SITE: cloud.name.as_str() });
        self.cluster.create(twin).await;
        let since = |name: &str| {
            let node = self.cluster.find(name);
            node.map(|it| text(&it["metadata"]["creationTimestamp"]).to_owned())
        };
        // Dates say which of two is the newer one; not if the clock was set back in between.
        if since(&name) < since(&victim) {
            self.cluster.delete(&name).await;
            return;
        }
        self.invariants.twins.insert(name, victim);
    }

    // Certificates.

    /// Another machine of the same cloud: its name, and the addresses of its Node.
    fn neighbour(&self, of: Machine) -> Option<(String, Vec<String>)> {
        let others = self.machines.keys();
        let mut others = others.filter(|it| it.0 == of.0 && **it != of);
        others.find_map(|it| {
            let (_, name) = self.existing(*it)?;
            let addresses = addresses(&self.cluster.find(&name)?);
            (!addresses.is_empty()).then_some((name, addresses))
        })
    }

    async fn certify(&mut self, machine: Machine, names: Names) {
        let Some((cloud, name)) = self.existing(machine) else {
            return;
        };
        let (Some(node), true) = (self.cluster.find(&name), cloud.kind.certifies()) else {
            return;
        };
        let own = addresses(&node);
        if own.is_empty() || self.misreported.contains_key(&name) {
            return;
        }
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let mut ask = Ask::new(&format!("csr-{}", self.invariants.asked.len()), &name, &own);
        match (names, self.neighbour(machine)) {
            (Names::Own, _) => {}
            (Names::NeighboursAddress, Some((_, addresses))) => ask.addresses.extend(addresses),
            (Names::NeighboursName, Some((name, _))) => ask.dns_names.push(name),
            (Names::ApiServer, _) => ask.dns_names.push("kubernetes.default.svc".to_owned()),
            (_, None) => return,
        }
        self.cluster.put_request(&ask).await;
        let asked = Asked {
            by: name,
            is_own: names == Names::Own,
        };
        self.invariants.asked.insert(ask.name, asked);
    }

    async fn misreport(&mut self, machine: Machine) {
        let (Some((_, name)), Some((_, theirs))) =
            (self.existing(machine), self.neighbour(machine))
        else {
            return;
        };
        let Some(node) = self.cluster.find(&name) else {
            return;
        };
        let said = &node["metadata"]["annotations"][PROVIDED_NODE_IP];
        self.invariants.unwanted.insert(name.clone());
        let before = self.misreported.entry(name.clone());
        before.or_insert_with(|| said.clone());
        self.report(&name, &theirs.join(",").into()).await;
    }

    /// Lets the kubelet of that Node report these addresses; null if none.
    async fn report(&self, name: &str, addresses: &Value) {
        let change = |node: &mut Value| match node["metadata"]["annotations"].as_object_mut() {
            Some(annotations) if addresses.is_null() => drop(annotations.remove(PROVIDED_NODE_IP)),
            _ => node["metadata"]["annotations"][PROVIDED_NODE_IP] = addresses.clone(),
        };
        self.cluster.change(name, change).await;
    }

    // Services.

    /// That Service, unless it is being deleted.
    fn living(&self, number: u8) -> Option<Value> {
        let there = self.cluster.find_service(&service_name(number));
        there.filter(|it| it["metadata"]["deletionTimestamp"].is_null())
    }

    async fn create(&mut self, number: u8, cloud: usize, count: u8) {
        let name = service_name(number);
        if !self.clouds[cloud].kind.has_balancers() || self.cluster.find_service(&name).is_some() {
            return;
        }
        self.classes.insert(number, cloud);
        let mut it = service(&name);
        it["spec"]["ports"] = ports(count);
        it["spec"]["loadBalancerClass"] = class(&self.clouds[cloud]).into();
        self.cluster.create_service(it).await;
    }

    async fn delete_service(&mut self, number: u8) {
        let Some(service) = self.living(number) else {
            return;
        };
        // A restored one may lack what keeps it until its load balancer is gone.
        if self.invariants.is_restored && finalizers(&service).is_empty() {
            let uid = text(&service["metadata"]["uid"]);
            self.invariants.lost.insert(uid.to_owned());
        }
        self.cluster.delete_service(&service_name(number)).await;
    }

    async fn want(&self, number: u8, wants: bool) {
        let (Some(there), Some(cloud)) = (self.living(number), self.classes.get(&number)) else {
            return;
        };
        if wants_balancer(&there) == wants {
            return;
        }
        let class = class(&self.clouds[*cloud]);
        let change = |it: &mut Value| {
            if wants {
                it["spec"]["type"] = "LoadBalancer".into();
                it["spec"]["loadBalancerClass"] = class.as_str().into();
                return;
            }
            it["spec"]["type"] = "ClusterIP".into();
            let Some(spec) = it["spec"].as_object_mut() else {
                return;
            };
            for key in [
                "allocateLoadBalancerNodePorts",
                "externalTrafficPolicy",
                "loadBalancerClass",
            ] {
                spec.remove(key);
            }
            let ports = spec["ports"].as_array_mut().into_iter().flatten();
            for port in ports.filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        };
        self.cluster
            .change_service(&service_name(number), change)
            .await;
    }

    async fn annotate(&self, number: u8, key: u8, value: u8) {
        let (Some(cloud), Some(_)) = (self.classes.get(&number), self.living(number)) else {
            return;
        };
        let all = self.clouds[*cloud].kind.annotations();
        let (key, values) = all[usize::from(key) % all.len()];
        let value = values[usize::from(value) % values.len()];
        let name = service_name(number);
        self.cluster.annotate(&name, key, Some(value)).await;
    }

    async fn claim(&self, number: u8, claim: Claim) {
        let (Some(cloud), Some(service)) = (self.classes.get(&number), self.living(number)) else {
            return;
        };
        let cloud = &self.clouds[*cloud];
        let all = cloud.simulated().balancers();
        let (uid, seen) = (text(&service["metadata"]["uid"]), self.seen());
        let named = all.iter().find(|(_, it)| match claim {
            Claim::NeighboursId | Claim::TakeOverNeighbours => {
                it.name != FOREIGN && !is_of(it, uid)
            }
            Claim::Id | Claim::Name | Claim::TakeOver => it.name == FOREIGN,
        });
        let (Some(key), Some((id, _))) = (cloud.kind.claim(claim), named) else {
            return;
        };
        // One that exists may be renamed; only a new one is looked for by name.
        let has_own = balancers_of(uid, &seen).count() > 0;
        if claim == Claim::Name && (has_own || !published(&service).is_empty()) {
            return;
        }
        let value = match claim {
            Claim::Name => FOREIGN,
            _ => id,
        };
        let name = service_name(number);
        self.cluster.annotate(&name, key, Some(value)).await;
    }

    fn remove_balancer(&mut self, number: u8) -> Result<()> {
        let Some(service) = self.living(number) else {
            return Ok(());
        };
        let seen = self.seen();
        let uid = text(&service["metadata"]["uid"]);
        for cloud in &self.clouds {
            let own = balancers_of(uid, &seen).filter(|(name, _)| *name == cloud.name.as_str());
            for (_, id) in own {
                cloud.simulated().remove_balancer(id)?;
                self.invariants.removed.insert(id.to_owned());
            }
        }
        Ok(())
    }

    // The end.

    /// Nothing goes wrong any more, and everything that is asked for can be had.
    pub(crate) async fn calm_down(&mut self) -> Result<()> {
        self.clear_faults();
        self.configure_all()?;
        for twin in std::mem::take(&mut self.invariants.twins).into_keys() {
            if self.cluster.find(&twin).is_some() {
                self.cluster.delete(&twin).await;
            }
        }
        for cloud in 0..self.clouds.len() {
            let machine = Machine(u8::try_from(cloud)?, 0);
            self.boot(machine)?;
            self.play(&Act::PowerOn(machine)).await?;
            self.exclude(machine, false).await;
        }
        // A kubelet whose Node is lost registers when it starts.
        for machine in self.machines.keys().copied().collect::<Vec<_>>() {
            let lost = self.existing(machine);
            let lost = lost.filter(|(_, name)| self.cluster.find(name).is_none());
            if let Some((cloud, name)) = lost {
                cloud.simulated().stop(&name)?;
                self.pass(Duration::from_secs(60)).await;
                self.play(&Act::PowerOn(machine)).await?;
            }
        }
        for (name, addresses) in std::mem::take(&mut self.misreported) {
            if self.cluster.find(&name).is_some() {
                self.report(&name, &addresses).await;
            }
        }
        for machine in self.machines.keys().copied().collect::<Vec<_>>() {
            self.certify(machine, Names::Own).await;
        }
        for (number, cloud) in self.classes.clone() {
            let kind = self.clouds[cloud].kind;
            let claims = CLAIMS.into_iter().filter_map(|it| kind.claim(it));
            let keys = kind.annotations().iter().map(|(key, _)| *key);
            for key in keys.chain(claims) {
                if self.living(number).is_some() {
                    let name = service_name(number);
                    self.cluster.annotate(&name, key, None).await;
                }
            }
        }
        Ok(())
    }
}

fn name(cloud: &Cloud, machine: Machine, incarnation: Incarnation) -> String {
    format!("{}.{}-{incarnation}", cloud.name, machine.1)
}

fn service_name(number: u8) -> String {
    format!("web-{number}")
}

fn class(cloud: &Cloud) -> String {
    format!("bowline.dev/{}", cloud.name)
}

fn ports(count: u8) -> Value {
    let ports = (0..u16::from(count)).map(|number| {
        json!({ "name": format!("p{number}"), "protocol": "TCP", "port": 80 + number, "targetPort": 8080 })
    });
    ports.collect()
}

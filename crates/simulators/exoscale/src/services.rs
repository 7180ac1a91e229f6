//! Services of load balancers: which port goes to which pool, and how its members are checked.

use serde_json::Value;

use super::Exoscale;
use super::balancers::{DESCRIPTION, changeable, described, find};
use super::fields::Fields;
use super::model::{Balancer, Cloud, Healthcheck, Service, Zone};
use super::refusals::{OrRefusal, Refusal};
use super::routes::Asked;

/// What a body may say about a new service; `instance-pool` cannot be changed later.
pub(super) const NEW: &str =
    "name description instance-pool protocol strategy port target-port healthcheck";
const CHANGED: &str = "name description protocol strategy port target-port healthcheck";
const REQUIRED: &str = "name instance-pool protocol strategy port target-port healthcheck";
const CHECK: &str = "mode port uri interval timeout retries tls-sni";
const PROTOCOLS: [&str; 2] = ["tcp", "udp"];
const STRATEGIES: [&str; 3] = ["round-robin", "source-hash", "maglev-hash"];
const MODES: [&str; 3] = ["tcp", "http", "https"];
const PORTS: std::ops::RangeInclusive<u64> = 1..=65535;

/// What a body says about a service; what it leaves out is none.
#[derive(Debug, Default)]
struct Requested {
    name: Option<String>,
    description: Option<String>,
    protocol: Option<&'static str>,
    strategy: Option<&'static str>,
    port: Option<u16>,
    target_port: Option<u16>,
    healthcheck: Option<Healthcheck>,
}

fn port(fields: &Fields, name: &str) -> Option<u16> {
    let number = fields.number(name, PORTS)?;
    u16::try_from(number).ok()
}

impl Requested {
    fn read(fields: &Fields) -> Self {
        Self {
            name: fields.text("name", 1..=255),
            description: fields.text("description", DESCRIPTION),
            protocol: fields.word("protocol", &PROTOCOLS),
            strategy: fields.word("strategy", &STRATEGIES),
            port: port(fields, "port"),
            target_port: port(fields, "target-port"),
            healthcheck: healthcheck(fields),
        }
    }

    fn apply(self, service: &mut Service) {
        if let Some(name) = self.name {
            service.name = name;
        }
        if self.description.is_some() {
            service.description = described(self.description);
        }
        service.protocol = self.protocol.unwrap_or(service.protocol);
        service.strategy = self.strategy.unwrap_or(service.strategy);
        service.port = self.port.unwrap_or(service.port);
        service.target_port = self.target_port.unwrap_or(service.target_port);
        // As a whole: what it leaves out is gone.
        if let Some(healthcheck) = self.healthcheck {
            service.healthcheck = healthcheck;
        }
    }
}

/// The health check of a body, with its mistakes noted.
fn healthcheck(fields: &Fields) -> Option<Healthcheck> {
    let inner = fields.inner("healthcheck", "healthcheck.", CHECK)?;
    inner.need("mode port");
    let check = Healthcheck {
        mode: inner.word("mode", &MODES).unwrap_or("tcp"),
        port: port(&inner, "port").unwrap_or_default(),
        uri: inner.text("uri", 0..=255).filter(|uri| !uri.is_empty()),
        interval: inner.number("interval", 5..=300).unwrap_or(10),
        timeout: inner.number("timeout", 2..=60).unwrap_or(5),
        retries: inner.number("retries", 1..=20).unwrap_or(1),
        tls_sni: inner
            .text("tls-sni", 0..=255)
            .filter(|name| !name.is_empty()),
    };
    if check.interval < check.timeout {
        inner.wrong("interval must not be less than timeout");
    }
    if check.mode != "tcp" && check.uri.is_none() {
        inner.wrong("uri is missing");
    }
    if check.mode != "https" && check.tls_sni.is_some() {
        inner.wrong("tls-sni is only for https");
    }
    fields.include(&inner);
    Some(check)
}

/// Whether a port is free on a load balancer.
fn check_port(balancer: &Balancer, (port, protocol): (u16, &str), own: &str) -> OrRefusal {
    let mut all = balancer.services.iter();
    if all.any(|it| it.port == port && it.protocol == protocol && it.id != own) {
        let text = format!("Port {port}/{protocol} is already used by another service");
        return Err(Refusal::conflict(text));
    }
    Ok(())
}

/// The load balancer and the service that a call is about.
fn found<'a>(
    zone: &'a Zone,
    asked: &Asked<'_>,
    now: jiff::Timestamp,
) -> OrRefusal<(&'a Balancer, &'a Service)> {
    let balancer = find(zone, asked.id(), now)?;
    let mut all = balancer.services.iter();
    let service = all.find(|it| it.id == asked.second());
    Ok((balancer, service.ok_or_else(Refusal::not_found)?))
}

impl Exoscale {
    /// The service that a body describes, if the load balancer can take it.
    pub(super) fn new_service(
        &self,
        cloud: &Cloud,
        (zone, balancer): (&str, &str),
        fields: &Fields,
    ) -> OrRefusal<Service> {
        fields.need(REQUIRED);
        let requested = Requested::read(fields);
        let pool = fields.reference("instance-pool").unwrap_or_default();
        fields.finish()?;
        let zone = cloud.zone(zone)?;
        let balancer = zone
            .balancers
            .get(balancer)
            .ok_or_else(Refusal::not_found)?;
        if zone.pools.get(&pool).is_none() {
            return Err(Refusal::no_such("Instance pool", &pool));
        }
        let (port, protocol) = (
            requested.port.unwrap_or_default(),
            requested.protocol.unwrap_or("tcp"),
        );
        check_port(balancer, (port, protocol), "")?;
        let most = cloud.quirks.most_services;
        if balancer.services.len() >= most {
            let text = format!("A load balancer has at most {most} services");
            return Err(Refusal::forbidden(text).with_status(cloud.quirks.full_status));
        }
        let missing = || Refusal::invalid(vec!["healthcheck is missing".to_owned()]);
        Ok(Service {
            id: self.world.random.uuid(),
            name: requested.name.unwrap_or_default(),
            description: described(requested.description),
            protocol,
            port,
            target_port: requested.target_port.unwrap_or_default(),
            strategy: requested.strategy.unwrap_or_default(),
            pool,
            healthcheck: requested.healthcheck.ok_or_else(missing)?,
            state: "running",
        })
    }

    pub(super) fn add_service_of(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        changeable(find(zone, asked.id(), self.now())?)?;
        if let Some(refused) = self.busy_balancer(cloud, asked)? {
            return Ok(refused);
        }
        let fields = Fields::parse(asked.body, NEW)?;
        let mut service = self.new_service(cloud, (asked.zone, asked.id()), &fields)?;
        service.state = "creating";
        let id = service.id.clone();
        let zone = cloud.zone_mut(asked.zone)?;
        if let Some(balancer) = zone.balancers.get_mut(asked.id()) {
            balancer.services.push(service);
        }
        let made = id.clone();
        let done = move |balancer: &mut Balancer| {
            if let Some(service) = balancer.service_mut(&made) {
                service.state = "running";
            }
        };
        let undone = move |balancer: &mut Balancer| balancer.services.retain(|it| it.id != id);
        self.change_balancer_or(cloud, asked, done, undone)
    }

    pub(super) fn update_service(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        let (balancer, service) = found(zone, asked, self.now())?;
        changeable(balancer)?;
        let fields = Fields::parse(asked.body, CHANGED)?;
        let requested = Requested::read(&fields);
        fields.finish()?;
        let port = requested.port.unwrap_or(service.port);
        let protocol = requested.protocol.unwrap_or(service.protocol);
        check_port(balancer, (port, protocol), &service.id)?;
        self.change_service(cloud, asked, |service| requested.apply(service))
    }

    pub(super) fn reset_service(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        let (balancer, _) = found(zone, asked, self.now())?;
        changeable(balancer)?;
        if asked.ids.get(2) != Some(&"description") {
            return Err(Refusal::not_found());
        }
        self.change_service(cloud, asked, |service| service.description = None)
    }

    fn change_service(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        change: impl FnOnce(&mut Service) + Send + 'static,
    ) -> OrRefusal<Value> {
        self.turn_service(cloud, asked, "updating", |balancer, id| {
            if let Some(service) = balancer.service_mut(id) {
                change(service);
                service.state = "running";
            }
        })
    }

    pub(super) fn delete_service(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        found(cloud.zone(asked.zone)?, asked, self.now())?;
        self.turn_service(cloud, asked, "deleting", |balancer, id| {
            balancer.services.retain(|it| it.id != id);
        })
    }

    /// Begins an operation on a service, which is in that state meanwhile.
    fn turn_service(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        meanwhile: &'static str,
        change: impl FnOnce(&mut Balancer, &str) + Send + 'static,
    ) -> OrRefusal<Value> {
        if let Some(refused) = self.busy_balancer(cloud, asked)? {
            return Ok(refused);
        }
        let id = asked.second().to_owned();
        let zone = cloud.zone_mut(asked.zone)?;
        let balancer = zone.balancers.get_mut(asked.id());
        if let Some(service) = balancer.and_then(|it| it.service_mut(&id)) {
            service.state = meanwhile;
        }
        let same = id.clone();
        let undone = move |balancer: &mut Balancer| {
            if let Some(service) = balancer.service_mut(&same) {
                service.state = "running";
            }
        };
        let done = move |balancer: &mut Balancer| change(balancer, &id);
        self.change_balancer_or(cloud, asked, done, undone)
    }
}

//! Everything that can be wrong with options that parsed.

use bowline_core::{nearest, quote};

use super::controllers::{CONTROLLERS, ControllerSet};
use super::settings::{
    ClientOptions, ControllerOptions, ElectionOptions, Mode, Options, ShowOwners,
};
use super::tls;

/// Acquire attempts are spread over this much more than the retry period, so a renewal deadline
/// must leave room for one of them.
const JITTER_FACTOR: f64 = 1.2;

/// Leases that can be held besides the own one. Each is renewed every retry period of 2 s: with 16 that is 8
/// requests a second, within the 20 that a client may send by default. There are five originals.
const MOST_HELD: usize = 16;

/// The problems, in the order in which they are reported. Its text is one bare problem, or several in
/// brackets on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOptions(pub Vec<String>);

impl std::fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0[..] {
            [problem] => f.write_str(problem),
            problems => write!(f, "[{}]", problems.join(", ")),
        }
    }
}

impl std::error::Error for InvalidOptions {}

impl Options {
    /// Checks everything that can be checked without looking at files or the network.
    ///
    /// The originals' own checks come first and in their order; then those that they forget to
    /// call, or that make them crash later.
    pub fn validate(&self) -> Result<(), InvalidOptions> {
        let mut problems = Vec::new();
        if self.election.enabled && self.election.resource_lock != "leases" {
            problems.push(r#"resourceLock value must be "leases""#.to_owned());
        }
        for name in ControllerSet::unknown(&self.controllers.selection) {
            let names = CONTROLLERS.iter().flat_map(|it| [it.alias, it.name]);
            let meant = nearest(&name, names);
            let meant = meant.map_or_else(String::new, |it| format!("; did you mean {it}?"));
            problems.push(format!(
                "{} is not in the list of known controllers{meant}",
                quote(&name)
            ));
        }
        self.check_ports(&mut problems);
        if self.cloud.provider.is_empty() && self.cloud.config.is_empty() {
            problems.push("--cloud-provider cannot be empty".to_owned());
        }
        if self.serving.port != 0 {
            let tls = &self.serving.tls;
            problems.extend(tls::problems(
                &tls.cipher_suites,
                &tls.curve_preferences,
                &tls.min_version,
            ));
        }
        check_client(&self.client, &mut problems);
        check_election(&self.election, &mut problems);
        check_concurrency(&self.controllers, &mut problems);
        check_periods(&self.controllers, &mut problems);
        if let Mode::Unknown(mode) = &self.controllers.mode {
            let mode = quote(mode);
            problems.push(format!("--mode is {mode}; it must be manage or observe"));
        }
        if let ShowOwners::Unknown(how) = &self.controllers.show_owners {
            let how = quote(how);
            problems.push(format!(
                "--show-owners is {how}; it must be none, annotation or label"
            ));
        }
        if !matches!(self.logging.format.as_str(), "text" | "json") {
            let format = quote(&self.logging.format);
            problems.push(format!(
                "format: Invalid value: {format}: Unsupported log format"
            ));
        }
        if self.ipam.service_range.split(',').count() > 2 {
            // The original's words, and it says so whether the controller runs or not.
            problems.push("NodeIPAM controller values are not properly set.".to_owned());
        }
        let mut seen = std::collections::BTreeSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        if problems.is_empty() {
            Ok(())
        } else {
            Err(InvalidOptions(problems))
        }
    }

    fn check_ports(&self, problems: &mut Vec<String>) {
        let (port, webhook) = (self.serving.port, &self.webhook);
        if !is_port(port) {
            problems.push(format!(
                "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
            ));
        }
        for item in &webhook.selection {
            let name = item.strip_prefix('-').unwrap_or(item);
            if name != "*" {
                problems.push(format!(
                    "{} is not in the list of known webhooks",
                    quote(name)
                ));
            }
        }
        if !is_port(webhook.port) {
            problems.push(format!(
                "--webhook-secure-port {} must be between 0 and 65535, inclusive. A value of 0 disables the webhook endpoint entirely.",
                webhook.port
            ));
        }
        if webhook.port == port && port != 0 {
            problems
                .push("--webhook-secure-port cannot be the same value as --secure-port".to_owned());
        }
    }
}

fn is_port(number: i64) -> bool {
    (0..=65535).contains(&number)
}

fn check_client(client: &ClientOptions, problems: &mut Vec<String>) {
    if client.qps > 0.0 && client.burst <= 0 {
        problems.push(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
                .to_owned(),
        );
    }
}

fn check_election(election: &ElectionOptions, problems: &mut Vec<String>) {
    let held = election.held_leases().len();
    if held > MOST_HELD {
        problems.push(format!(
            "--hold-leases names {held} leases; at most {MOST_HELD} can be held"
        ));
    }
    if !election.enabled {
        if held > 0 {
            problems.push(
                "--hold-leases needs leader election: it cannot be given with --leader-elect=false"
                    .to_owned(),
            );
        }
        return;
    }
    if election.lease_duration <= election.renew_deadline {
        problems.push("leaseDuration must be greater than renewDeadline".to_owned());
    }
    if election.renew_deadline <= election.retry_period.mul_f64(JITTER_FACTOR) {
        problems.push("renewDeadline must be greater than retryPeriod*JitterFactor".to_owned());
    }
    if election.lease_duration.as_secs() == 0 {
        // The Lease holds whole seconds.
        problems.push("leaseDuration must be at least one second".to_owned());
    }
    for (value, name) in [
        (election.renew_deadline, "renewDeadline"),
        (election.retry_period, "retryPeriod"),
    ] {
        if value.is_zero() {
            problems.push(format!("{name} must be greater than zero"));
        }
    }
}

fn check_concurrency(controllers: &ControllerOptions, problems: &mut Vec<String>) {
    for (number, name) in [
        // None means that it adapts.
        (
            controllers.node_syncs().unwrap_or(1),
            "concurrent-node-syncs",
        ),
        (controllers.service_syncs, "concurrent-service-syncs"),
        (
            controllers.lifecycle_syncs,
            "concurrent-node-lifecycle-syncs",
        ),
    ] {
        if number <= 0 {
            problems.push(format!("{name} must be a positive number"));
        }
    }
    if controllers.node_status_updates < 0 {
        problems.push("concurrent-node-status-updates cannot be a negative number".to_owned());
    }
}

/// A loop without a pause would ask the cloud without end.
fn check_periods(controllers: &ControllerOptions, problems: &mut Vec<String>) {
    for (period, name) in [
        (
            controllers.node_status_update_frequency,
            "node-status-update-frequency",
        ),
        (controllers.node_monitor_period, "node-monitor-period"),
        (
            controllers.route_reconciliation_period,
            "route-reconciliation-period",
        ),
    ] {
        if period.is_zero() {
            problems.push(format!("--{name} must be greater than zero"));
        }
    }
}

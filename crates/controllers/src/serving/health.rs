//! Health checks, added while the process runs: `/healthz`, `/livez` and `/readyz`.
//!
//! A check answers from memory: it never asks a cloud or the API server.
//!
//! Clouds count together. A process with several clouds works for all but one while that one is unhappy, and being
//! taken out of readiness for it would help nobody: a rollout would wait for an account that somebody locked, and the
//! metrics that tell about it would be gone from their Service. So `/readyz` fails because of clouds only when none of
//! them has what it needs to work; a process with one cloud is not ready without it. Calls that fail never count: the
//! process is as good as any that would take its place. All of it is said by name in any case, and `/readyz/cloud-<name>`
//! answers for one cloud.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clouds::cloud_health::CloudCondition;

/// Everybody may ask; only those who may ask about one thing alone see why it is wrong.
const WITHHELD: &str = "reason withheld";

/// Looks at one thing; an error says what is wrong with it.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Looks at a cloud.
pub type CloudCheck = Arc<dyn Fn() -> CloudCondition + Send + Sync>;

#[derive(Clone)]
enum HealthCheck {
    Plain(Check),
    Cloud(CloudCheck),
}

/// Which of the three questions is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz`: the watchdog of the lease and every started controller.
    Healthz,
    /// `/livez`: the process answers and its lease is watched over.
    Livez,
    /// `/readyz`: what was started has what it needs. A standby is ready.
    Readyz,
}

impl Endpoint {
    /// As it stands in paths, answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

#[derive(Clone)]
struct Named {
    name: String,
    healthz: bool,
    livez: bool,
    readyz: bool,
    check: HealthCheck,
}

/// The checks of the process; clones share them.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Vec<Named>>>);

/// Whether one thing is ready; it is not until `ready` is called.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Mutex<Option<String>>>);

impl Readiness {
    /// It is ready now.
    pub fn ready(&self) {
        *lock(&self.0) = None;
    }

    /// It is not, or no more, for that reason.
    pub fn not_ready(&self, reason: impl Into<String>) {
        *lock(&self.0) = Some(reason.into());
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The check's name.
    pub name: String,
    /// What is wrong, if anything; none also when excluded.
    pub error: Option<String>,
    /// Left out on request.
    pub excluded: bool,
    /// What is wrong is shown, and the answer to the whole is good all the same. What everybody may see of it.
    pub tolerated: Option<String>,
}

impl CheckResult {
    fn new(name: String, excluded: bool) -> Self {
        Self {
            name,
            error: None,
            excluded,
            tolerated: None,
        }
    }

    /// Whether it makes the answer to the whole a bad one.
    pub fn is_fatal(&self) -> bool {
        self.error.is_some() && self.tolerated.is_none()
    }
}

impl Health {
    /// Adds the watchdog of a lease, for `/healthz` and `/livez`.
    pub fn add_watchdog(&self, name: impl Into<String>, check: Check) {
        self.push(Named {
            name: name.into(),
            healthz: true,
            livez: true,
            readyz: false,
            check: HealthCheck::Plain(check),
        });
    }

    /// Adds a check of `/healthz`: one for each started controller, by its canonical name.
    pub fn add(&self, name: impl Into<String>, check: Check) {
        self.push(Named {
            name: name.into(),
            healthz: true,
            livez: false,
            readyz: false,
            check: HealthCheck::Plain(check),
        });
    }

    /// Adds a controller whose check is that it was started.
    pub fn add_controller(&self, name: impl Into<String>) {
        self.add(name, Arc::new(|| Ok(())));
    }

    /// Adds a condition of `/readyz`, such as `caches` or `cloud-<name>`; not ready at first.
    pub fn add_readiness(&self, name: impl Into<String>) -> Readiness {
        let readiness = Readiness(Arc::new(Mutex::new(Some("not yet".to_owned()))));
        let state = readiness.clone();
        self.push(Named {
            name: name.into(),
            healthz: false,
            livez: false,
            readyz: true,
            check: HealthCheck::Plain(Arc::new(move || lock(&state.0).clone().map_or(Ok(()), Err))),
        });
        readiness
    }

    /// Adds a cloud to `/readyz`.
    pub fn add_cloud(&self, name: impl Into<String>, check: CloudCheck) {
        self.push(Named {
            name: name.into(),
            healthz: false,
            livez: false,
            readyz: true,
            check: HealthCheck::Cloud(check),
        });
    }

    /// Takes away all checks of that name.
    pub fn remove(&self, name: &str) {
        lock(&self.0).retain(|check| check.name != name);
    }

    /// Makes the checks of that endpoint, in the order in which they were added; a single `ping`
    /// if there are none (and before the others except on `/healthz`).
    pub fn examine(&self, endpoint: Endpoint, excluded: &[String]) -> Vec<CheckResult> {
        let mut checks: Vec<Named> = lock(&self.0)
            .iter()
            .filter(|check| match endpoint {
                Endpoint::Healthz => check.healthz,
                Endpoint::Livez => check.livez,
                Endpoint::Readyz => check.readyz,
            })
            .cloned()
            .collect();
        if checks.is_empty() || endpoint != Endpoint::Healthz {
            let ping = Named {
                name: "ping".to_owned(),
                healthz: true,
                livez: true,
                readyz: true,
                check: HealthCheck::Plain(Arc::new(|| Ok(()))),
            };
            checks.insert(0, ping);
        }
        let mut findings: Vec<CheckResult> = Vec::new();
        let (mut lacking, mut working) = (Vec::new(), false);
        for check in checks {
            let excluded = excluded.contains(&check.name);
            let mut finding = CheckResult::new(check.name, excluded);
            match check.check {
                _ if excluded => {}
                HealthCheck::Plain(check) => finding.error = check().err(),
                HealthCheck::Cloud(check) => match check() {
                    CloudCondition::Well => working = true,
                    CloudCondition::Failing { kinds, text } => {
                        (finding.error, finding.tolerated) = (Some(text), Some(kinds));
                        working = true;
                    }
                    CloudCondition::Lacking(lack) => {
                        finding.error = Some(lack);
                        lacking.push(findings.len());
                    }
                },
            }
            findings.push(finding);
        }
        if working {
            for index in lacking {
                findings[index].tolerated = Some(WITHHELD.to_owned());
            }
        }
        findings
    }

    /// A check of the same name takes the place of the former.
    fn push(&self, named: Named) {
        let mut checks = lock(&self.0);
        let same = |check: &&mut Named| check.name == named.name && check.readyz == named.readyz;
        match checks.iter_mut().find(same) {
            Some(former) => *former = named,
            None => checks.push(named),
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks = lock(&self.0);
        f.debug_list()
            .entries(checks.iter().map(|check| &check.name))
            .finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to the whole endpoint: whether it is good, and the text.
pub(super) fn report(
    endpoint: Endpoint,
    findings: &[CheckResult],
    excluded: &[String],
    verbose: bool,
) -> (bool, String) {
    let good = !findings.iter().any(CheckResult::is_fatal);
    let all_well = findings.iter().all(|finding| finding.error.is_none());
    if all_well && !verbose {
        return (true, "ok".to_owned());
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    for finding in findings {
        let name = &finding.name;
        let _ = match finding {
            CheckResult { excluded: true, .. } => writeln!(text, "[+]{name} excluded: ok"),
            CheckResult { error: None, .. } => writeln!(text, "[+]{name} ok"),
            CheckResult {
                tolerated: Some(what),
                ..
            } => writeln!(text, "[!]{name} unhappy: {what}"),
            CheckResult { .. } => writeln!(text, "[-]{name} failed: {WITHHELD}"),
        };
    }
    let unknown: Vec<String> = (excluded.iter())
        .filter(|name| !findings.iter().any(|finding| &finding.name == *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        let _ = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {unknown}"
        );
    }
    let verdict = if good { "passed" } else { "failed" };
    let _ = writeln!(text, "{} check {verdict}", endpoint.name());
    (good, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        health: &Health,
        endpoint: Endpoint,
        excluded: &[&str],
        verbose: bool,
    ) -> (bool, String) {
        let excluded: Vec<String> = excluded.iter().map(|name| (*name).to_owned()).collect();
        report(
            endpoint,
            &health.examine(endpoint, &excluded),
            &excluded,
            verbose,
        )
    }

    #[test]
    fn without_checks_there_is_a_ping() {
        let health = Health::default();
        let verbose = "[+]ping ok\nhealthz check passed\n".to_owned();
        assert_eq!(said(&health, Endpoint::Healthz, &[], true), (true, verbose));
        assert_eq!(
            said(&health, Endpoint::Healthz, &[], false),
            (true, "ok".to_owned())
        );
    }

    #[test]
    fn a_failure_is_shown_without_its_reason_and_can_be_excluded() {
        let health = Health::default();
        health.add_watchdog("leaderElection", Arc::new(|| Err("secret".to_owned())));
        health.add_controller("cloud-node-controller");
        let (good, text) = said(&health, Endpoint::Healthz, &[], false);
        let expected = "[-]leaderElection failed: reason withheld\n[+]cloud-node-controller ok\n\
                        healthz check failed\n";
        assert_eq!((good, text.as_str()), (false, expected));
        let (good, text) = said(
            &health,
            Endpoint::Healthz,
            &["leaderElection", "bogus"],
            true,
        );
        let expected = "[+]leaderElection excluded: ok\n[+]cloud-node-controller ok\n\
                        warn: some health checks cannot be excluded: no matches for \"bogus\"\n\
                        healthz check passed\n";
        assert_eq!((good, text.as_str()), (true, expected));
        let (good, text) = said(&health, Endpoint::Livez, &[], true);
        let expected =
            "[+]ping ok\n[-]leaderElection failed: reason withheld\nlivez check failed\n";
        assert_eq!((good, text.as_str()), (false, expected));
    }

    #[test]
    fn readiness_comes_and_goes_and_a_standby_is_ready() {
        let health = Health::default();
        health.add_watchdog("leaderElection", Arc::new(|| Ok(())));
        assert!(said(&health, Endpoint::Readyz, &[], false).0, "standby");
        let caches = health.add_readiness("caches");
        assert!(!said(&health, Endpoint::Readyz, &[], false).0);
        assert!(said(&health, Endpoint::Healthz, &[], false).0);
        caches.ready();
        assert!(said(&health, Endpoint::Readyz, &[], false).0);
        caches.not_ready("watch broken");
        assert!(!said(&health, Endpoint::Readyz, &[], false).0);
        health.remove("caches");
        assert!(said(&health, Endpoint::Readyz, &[], false).0);
    }

    fn cloud(health: &Health, name: &str, condition: CloudCondition) {
        health.add_cloud(name, Arc::new(move || condition.clone()));
    }

    #[test]
    fn one_unhappy_cloud_of_several_is_named_and_the_rest_goes_on() {
        let health = Health::default();
        cloud(&health, "cloud-a", CloudCondition::Well);
        assert_eq!(said(&health, Endpoint::Readyz, &[], false).1, "ok");
        let failing = CloudCondition::Failing {
            kinds: "Denied (machines)".to_owned(),
            text: "machines for 5s: listing servers at 10.0.0.1".to_owned(),
        };
        cloud(&health, "cloud-b", failing);
        cloud(
            &health,
            "cloud-c",
            CloudCondition::Lacking("secret".to_owned()),
        );
        for verbose in [false, true] {
            let (good, text) = said(&health, Endpoint::Readyz, &[], verbose);
            let expected = "[+]ping ok\n[+]cloud-a ok\n[!]cloud-b unhappy: Denied (machines)\n\
                            [!]cloud-c unhappy: reason withheld\nreadyz check passed\n";
            assert_eq!((good, text.as_str()), (true, expected));
        }
        assert_eq!(said(&health, Endpoint::Healthz, &[], false).1, "ok");
        let findings = health.examine(Endpoint::Readyz, &[]);
        let errors: Vec<&str> = findings
            .iter()
            .filter_map(|it| it.error.as_deref())
            .collect();
        assert_eq!(
            errors,
            ["machines for 5s: listing servers at 10.0.0.1", "secret"]
        );
    }

    #[test]
    fn without_any_cloud_that_has_what_it_needs_the_process_is_not_ready() {
        let lacking = || CloudCondition::Lacking("secret".to_owned());
        let health = Health::default();
        cloud(&health, "cloud-a", lacking());
        let (good, text) = said(&health, Endpoint::Readyz, &[], false);
        let expected = "[+]ping ok\n[-]cloud-a failed: reason withheld\nreadyz check failed\n";
        assert_eq!((good, text.as_str()), (false, expected));
        cloud(&health, "cloud-b", lacking());
        assert!(!said(&health, Endpoint::Readyz, &[], false).0, "both");
        assert!(
            !said(&health, Endpoint::Readyz, &["cloud-a"], false).0,
            "the other"
        );
        let all = ["cloud-a", "cloud-b"];
        assert!(said(&health, Endpoint::Readyz, &all, false).0, "asked for");
        let failing = CloudCondition::Failing {
            kinds: "Unavailable (machines)".to_owned(),
            text: String::new(),
        };
        cloud(&health, "cloud-b", failing);
        assert!(said(&health, Endpoint::Readyz, &[], false).0, "an outage");
    }
}

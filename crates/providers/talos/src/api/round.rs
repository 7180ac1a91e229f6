//! One round of endpoints for one question: who does not answer is passed over, and set aside if
//! another one does.
//!
//! ```text
//!  first ──▶ answers ──▶ done
//!    │ an error, or silent for a second
//!    └──▶ the second is asked, too ──▶ answers ──▶ done; the first is set aside, and that is reported
//! ```
//!
//! A machine that is dead makes every endpoint silent. So silence counts against an endpoint only
//! if another one answers the same question meanwhile.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_core::Regarding;
use bowline_talos_api::resource::Resource;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::timeout;
use tracing::debug;

use super::endpoints::{REST, SET_ASIDE};
use super::error::ApiError;
use super::{Api, Attempt, Question};
use crate::endpoint::Endpoint;

/// How many endpoints are asked about a machine that one of them cannot reach.
const OPINIONS: usize = 2;
/// How long an endpoint may be silent before another one is asked as well. Machines answer in
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// What came of the endpoints that were asked so far.
#[derive(Default)]
struct Round {
    /// Asked, in this order, without an answer.
    silent: Vec<Endpoint>,
    /// Asked in vain, and why.
    failed: Vec<(Endpoint, ApiError)>,
    /// How many have answered with an error of their own.
    opinions: usize,
}

impl Round {
    fn error(self) -> ApiError {
        ApiError::of_all(self.failed.into_iter().map(|(_, error)| error).collect())
    }
}

impl Api {
    /// Asks endpoints until one has an answer; `asked` are noted there.
    pub(super) async fn round(
        &self,
        question: &Question,
        machine: Option<IpAddr>,
        asked: &Mutex<Vec<Endpoint>>,
    ) -> Result<Vec<Resource>, ApiError> {
        let credentials = self.keyring.current();
        let credentials = credentials.map_err(|why| ApiError::NoCredentials(why.to_string()))?;
        let order = self.endpoints.order(&credentials, machine.is_some());
        self.lines.keep(&order);
        let (mut further, mut round) = (order.into_iter(), Round::default());
        let mut asking = FuturesUnordered::new();
        loop {
            let answer = if further.len() == 0 {
                asking.next().await
            } else {
                // Nobody has been asked yet, or whoever was takes too long.
                timeout(PATIENCE, asking.next()).await.unwrap_or(None)
            };
            match answer {
                Some((endpoint, Ok(answer))) => {
                    self.endpoints.answered(&endpoint);
                    self.set_aside(&round, &endpoint);
                    return Ok(answer);
                }
                Some((endpoint, Err(attempt))) => {
                    round.silent.retain(|it| *it != endpoint);
                    self.failed(&mut round, endpoint, attempt, question, machine)?;
                }
                None => {}
            }
            if let Some(endpoint) = further.next() {
                round.silent.push(endpoint.clone());
                note(asked, &endpoint);
                let credentials = &credentials;
                asking.push(async move {
                    let attempt = self.through(credentials, &endpoint, question, machine);
                    let attempt = attempt.await;
                    (endpoint, attempt)
                });
            } else if asking.is_empty() {
                return Err(round.error());
            }
        }
    }

    /// Notes why an endpoint has no answer that counts; an error if nobody else will have a better
    /// one.
    fn failed(
        &self,
        round: &mut Round,
        endpoint: Endpoint,
        attempt: Attempt,
        question: &Question,
        machine: Option<IpAddr>,
    ) -> Result<(), ApiError> {
        let error = match attempt {
            Attempt::Lost(error) => {
                self.endpoints.is_lost(&endpoint, REST);
                error
            }
            Attempt::Stranger(error) => {
                self.endpoints.is_lost(&endpoint, SET_ASIDE);
                error
            }
            Attempt::Worker(error) => {
                self.endpoints.is_a_worker(&endpoint);
                error
            }
            Attempt::Answered(error) => {
                self.endpoints.answered(&endpoint);
                round.opinions += 1;
                if round.opinions >= OPINIONS || !another_may_know(question, machine, &error) {
                    return Err(error);
                }
                error
            }
        };
        debug!(%endpoint, %error, "trying the next endpoint");
        round.failed.push((endpoint, error));
        Ok(())
    }

    /// Another one has answered: those that were asked before it and are silent come last for a
    /// while. Who failed or is silent is reported, once until it answers again.
    fn set_aside(&self, round: &Round, answering: &Endpoint) {
        let silent = round.silent.iter().take_while(|it| *it != answering);
        for endpoint in silent {
            self.endpoints.is_lost(endpoint, SET_ASIDE);
            self.report(endpoint, answering, "it does not answer");
        }
        for (endpoint, error) in &round.failed {
            if error.is_the_endpoints() {
                self.report(endpoint, answering, &error.to_string());
            }
        }
    }

    fn report(&self, endpoint: &Endpoint, answering: &Endpoint, why: &str) {
        if self.endpoints.is_news(endpoint) {
            self.outbox.warn(
                Regarding::manager(),
                "EndpointSetAside",
                format!(
                    "the endpoint {endpoint} of the Talos API is set aside: {why}; {answering} answers"
                ),
            );
        }
    }
}

fn note(asked: &Mutex<Vec<Endpoint>>, endpoint: &Endpoint) {
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    if !asked.contains(endpoint) {
        asked.push(endpoint.clone());
    }
}

/// Whether another endpoint may have a better answer: it may reach a machine that this one does
/// not, and only one of the control plane knows the cluster's ranges.
fn another_may_know(question: &Question, machine: Option<IpAddr>, error: &ApiError) -> bool {
    let about_the_cluster = machine.is_none() && matches!(question, Question::Get(_));
    error.is_unavailable() || (about_the_cluster && error.is_not_found())
}

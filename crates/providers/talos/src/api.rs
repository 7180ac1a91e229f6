//! The machines' API: typed questions, and one way to ask them. Nothing here decides about nodes.
//!
//! ```text
//!  question ─▶ a permit ▶ endpoints in order ─▶ line (HTTP/2, TLS) ─▶ apid ─▶ the machine of `node`
//!                ▲           │ nobody there, a worker: the next        │
//!                └── once ◀──┴── lost or refused: read the talosconfig ◀┘
//! ```
//!
//! Only machines of the control plane pass a question on, and only they are called: the machine
//! that is meant stands in a header. All questions travel on one connection to each endpoint.

mod endpoints;
mod error;
mod line;
mod reading;
mod round;

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_core::ProviderEvent;
use bowline_core::ipam::ClusterRanges;
use bowline_http::Random;
use bowline_provider::EventOutbox;
use bowline_talos_api::machine::machine_service_client::MachineServiceClient;
use bowline_talos_api::resource::state_client::StateClient;
use bowline_talos_api::resource::{GetRequest, ListRequest, Resource};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, MemberSpec, NodenameSpec, PlatformMetadataSpec,
    SystemInformationSpec,
};
use bowline_talos_api::{Kind, Single as _};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};
use tracing::debug;

use crate::credentials::{Credentials, Keyring};
use crate::endpoint::Endpoint;
use crate::instances::machine::{MachineAddress, PlatformMetadata, SystemInformation};
use endpoints::Endpoints;
pub(crate) use error::ApiError;
use line::{Line, Lines};

/// How long a question may take, endpoints that do not answer included. A machine answers in
/// milliseconds; an endpoint would wait for a dead one for twenty seconds.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// How many questions are on their way at once. One of them waits up to [`CALL_DEADLINE`] for a
/// dead machine, so that it takes as many dead ones to hold up the others.
pub(crate) const CALLS: usize = 256;
/// What one answer may hold, as the official client allows it.
const LARGEST_MESSAGE: usize = 32 * 1024 * 1024;
/// Resources in one list: the addresses of a machine with a thousand pods, several times over.
const LONGEST_LIST: usize = 16 * 1024;

#[derive(Clone, Debug)]
enum Question {
    Get(GetRequest),
    List(ListRequest),
    Version,
}

pub(crate) struct Api {
    pub(crate) keyring: Keyring,
    endpoints: Endpoints,
    lines: Lines,
    permits: Semaphore,
    outbox: EventOutbox,
    /// Notified of answers, so that more can be learnt while something answers.
    answered: Notify,
}

/// Why an endpoint gave no answer that counts.
enum Attempt {
    /// There is no connection, or it is gone.
    Lost(ApiError),
    /// It is not of the control plane.
    Worker(ApiError),
    /// What answers there is no machine's API.
    Stranger(ApiError),
    Answered(ApiError),
}

impl Api {
    pub(crate) fn new(keyring: Keyring, random: Random) -> Self {
        Self {
            keyring,
            endpoints: Endpoints::new(random),
            lines: Lines::default(),
            permits: Semaphore::new(CALLS),
            outbox: EventOutbox::default(),
            answered: Notify::new(),
        }
    }

    /// Whether questions can be asked, or why not. Asks nobody.
    pub(crate) fn ready(&self) -> Result<(), String> {
        self.keyring.ready()
    }

    /// The cluster's name, as far as the credentials know it.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.keyring.current().ok()?.cluster.clone()
    }

    pub(crate) async fn platform_metadata(
        &self,
        machine: IpAddr,
    ) -> Result<PlatformMetadata, ApiError> {
        let question = Question::Get(PlatformMetadataSpec::get_single());
        let found = self.ask(&question, Some(machine)).await?;
        Ok(reading::one::<PlatformMetadataSpec>(&found)?.into())
    }

    pub(crate) async fn node_name(&self, machine: IpAddr) -> Result<String, ApiError> {
        let question = Question::Get(NodenameSpec::get_single());
        let found = self.ask(&question, Some(machine)).await?;
        Ok(reading::one::<NodenameSpec>(&found)?.nodename)
    }

    /// A machine's firmware facts; none where there is no firmware.
    pub(crate) async fn system_information(
        &self,
        machine: IpAddr,
    ) -> Result<SystemInformation, ApiError> {
        let question = Question::Get(SystemInformationSpec::get_single());
        match self.ask(&question, Some(machine)).await {
            Ok(found) => Ok(reading::one::<SystemInformationSpec>(&found)?.into()),
            Err(error) if error.is_not_found() => Ok(SystemInformation::default()),
            Err(error) => Err(error),
        }
    }

    /// A machine's addresses, in its order. One that cannot be read is left out.
    pub(crate) async fn addresses(&self, machine: IpAddr) -> Result<Vec<MachineAddress>, ApiError> {
        let question = Question::List(AddressStatusSpec::list());
        let found = self.ask(&question, Some(machine)).await?;
        Ok(reading::addresses(&found))
    }

    /// The ranges that the cluster was made with. Only a control plane knows them.
    pub(crate) async fn cluster_ranges(&self) -> Result<ClusterRanges, ApiError> {
        let question = Question::Get(ControllerManagerConfigSpec::get_single());
        let found = self.ask(&question, None).await?;
        reading::ranges(&reading::one::<ControllerManagerConfigSpec>(&found)?)
    }

    /// Whether an endpoint answers and the credentials hold.
    pub(crate) async fn version(&self) -> Result<(), ApiError> {
        self.ask(&Question::Version, None).await.map(drop)
    }

    /// Finds out which machines are of the control plane, for when none of the named endpoints
    /// answers.
    pub(crate) async fn learn(&self) {
        let question = Question::List(MemberSpec::list());
        match self.ask_quietly(&question, None).await {
            Ok(found) => self.endpoints.learnt(reading::control_planes(&found)),
            Err(error) => debug!(%error, "the members of the cluster are not known"),
        }
    }

    pub(crate) async fn next_event(&self) -> ProviderEvent {
        self.outbox.next().await
    }

    /// Ends after the next answer.
    pub(crate) async fn answered(&self) {
        self.answered.notified().await;
    }

    /// Asks `machine`, or an endpoint itself.
    async fn ask(
        &self,
        question: &Question,
        machine: Option<IpAddr>,
    ) -> Result<Vec<Resource>, ApiError> {
        let answer = self.ask_quietly(question, machine).await?;
        self.answered.notify_one();
        Ok(answer)
    }

    async fn ask_quietly(
        &self,
        question: &Question,
        machine: Option<IpAddr>,
    ) -> Result<Vec<Resource>, ApiError> {
        // Nobody closes it.
        let _permit = self.permits.acquire().await;
        let asked = Mutex::default();
        let asking = timeout(CALL_DEADLINE, self.insist(question, machine, &asked));
        let answer = asking.await;
        answer.unwrap_or_else(|_| {
            let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            Err(ApiError::timed_out(CALL_DEADLINE, &asked, machine))
        })
    }

    /// Asks, and once more if the connection did not hold: the credentials may have changed. With
    /// TLS 1.3 a refusal looks like any other loss.
    async fn insist(
        &self,
        question: &Question,
        machine: Option<IpAddr>,
        asked: &Mutex<Vec<Endpoint>>,
    ) -> Result<Vec<Resource>, ApiError> {
        match self.round(question, machine, asked).await {
            Err(error) if error.may_be_the_credentials() => {
                self.keyring.look().await;
                self.round(question, machine, asked).await
            }
            answer => answer,
        }
    }

    async fn through(
        &self,
        credentials: &Credentials,
        endpoint: &Endpoint,
        question: &Question,
        machine: Option<IpAddr>,
    ) -> Result<Vec<Resource>, Attempt> {
        let line = self.lines.to(credentials, endpoint).await;
        let line = line.map_err(Attempt::Lost)?;
        let answer = send(line.clone(), credentials, endpoint, question, machine).await;
        answer.map_err(|status| {
            if std::error::Error::source(&status).is_some() {
                return Attempt::Lost(line.loss(endpoint, &status));
            }
            if let Some(error) = ApiError::not_an_api(endpoint, &status) {
                return Attempt::Stranger(error);
            }
            let error = ApiError::answered(endpoint, &status);
            if error.is_a_workers() {
                Attempt::Worker(error)
            } else {
                Attempt::Answered(error)
            }
        })
    }
}

/// Sends a question on a line and reads all of the answer.
async fn send(
    line: Line,
    credentials: &Credentials,
    endpoint: &Endpoint,
    question: &Question,
    machine: Option<IpAddr>,
) -> Result<Vec<Resource>, Status> {
    let origin = endpoint.uri();
    match question {
        Question::Version => {
            let mut client = MachineServiceClient::with_origin(line, origin)
                .max_decoding_message_size(LARGEST_MESSAGE);
            let request = addressed((), credentials, machine)?;
            reading::version(client.version(request).await?.into_inner())?;
            Ok(Vec::new())
        }
        Question::Get(get) => {
            let mut client =
                StateClient::with_origin(line, origin).max_decoding_message_size(LARGEST_MESSAGE);
            let request = addressed(get.clone(), credentials, machine)?;
            let answer = client.get(request).await?.into_inner();
            Ok(answer.resource.into_iter().collect())
        }
        Question::List(list) => {
            let mut client =
                StateClient::with_origin(line, origin).max_decoding_message_size(LARGEST_MESSAGE);
            let request = addressed(list.clone(), credentials, machine)?;
            let mut stream = client.list(request).await?.into_inner();
            let mut resources = Vec::new();
            while let Some(next) = stream.message().await? {
                if resources.len() >= LONGEST_LIST {
                    let text = format!("the list is longer than {LONGEST_LIST}");
                    return Err(Status::resource_exhausted(text));
                }
                resources.extend(next.resource);
            }
            Ok(resources)
        }
    }
}

fn addressed<T>(
    message: T,
    credentials: &Credentials,
    machine: Option<IpAddr>,
) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_DEADLINE);
    let headers = request.metadata_mut();
    headers.insert("runtime", MetadataValue::from_static("Talos"));
    let value = |text: &str| {
        let value = MetadataValue::try_from(text);
        value.map_err(|_| Status::invalid_argument("a header of the call cannot be sent"))
    };
    if let Some(machine) = machine {
        headers.insert("node", value(&machine.to_string())?);
    }
    if let Some(cluster) = &credentials.cluster {
        headers.insert("context", value(cluster)?);
    }
    if let Some(authorization) = &credentials.authorization {
        let mut sensitive = value(authorization.reveal())?;
        sensitive.set_sensitive(true);
        headers.insert("authorization", sensitive);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_core::Secret;
    use bowline_http::{Connector, Pipes};

    #[test]
    fn a_question_names_its_machine_and_says_who_asks() {
        let connector = Connector::simulated(Pipes::default());
        let mut credentials = Credentials::of(1, Vec::new(), connector);
        let headers = |credentials: &Credentials, machine: Option<&str>| {
            let machine = machine.map(|it| it.parse().unwrap());
            let request = addressed((), credentials, machine).unwrap();
            request.metadata().clone().into_headers()
        };
        let plain = headers(&credentials, None);
        assert_eq!(plain["runtime"], "Talos");
        for absent in ["node", "nodes", "context", "authorization"] {
            assert!(!plain.contains_key(absent), "{absent}");
        }
        assert_eq!(headers(&credentials, Some("10.0.0.5"))["node"], "10.0.0.5");
        credentials.cluster = Some("prod-eu".to_owned());
        credentials.authorization = Some(Secret::new("Basic b3BzOnMzY3JldA=="));
        let whole = headers(&credentials, Some("fd00:0::5"));
        assert_eq!(whole["node"], "fd00::5");
        assert_eq!(whole["context"], "prod-eu");
        assert_eq!(whole["authorization"], "Basic b3BzOnMzY3JldA==");
        assert!(whole["authorization"].is_sensitive());
        credentials.cluster = Some("a\nb".to_owned());
        assert!(addressed((), &credentials, None).is_err());
    }
}

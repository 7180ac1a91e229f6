//! What can happen. An act is a value: a story can be printed, told again, and told with some of it left out.
//!
//! Any part of a story is a story: an act that finds nothing to act on does nothing.

use std::time::Duration;

use bowline_http::Random;
use bowline_simulator::faults::{Action, Rule};

/// A machine: of which cloud of the story, and which of its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine(pub u8, pub u8);

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The API server, by that replica.
    Kubernetes(u8),
    /// A cloud of the story.
    Cloud(u8),
}

/// What goes wrong with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Status(u16),
    /// 429 with that `Retry-After`, in seconds.
    Throttled(u8),
    Reset,
    LostAnswer,
    Truncated,
    /// They are done twice.
    Twice,
    /// Lists have nothing in them.
    EmptyList,
    Html(u16),
    Hang,
    Silence,
    /// By up to so many seconds.
    Slow(u16),
    /// Lists as they were so many seconds ago.
    Stale(u16),
    /// Watches are cut after so many seconds.
    CutStream(u8),
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// A machine is made, and its kubelet registers.
    Boot(Machine),
    PowerOff(Machine),
    PowerOn(Machine),
    Destroy(Machine),
    /// Somebody else makes so many machines in the account of that cloud that lists have a second page, which shifts
    /// whenever a machine of the first one goes.
    Crowd(u8),
    /// A person sets or removes the exclusion label of a Node.
    Exclude(Machine, bool),
    /// A tenant asks for a load balancer of that cloud, with so many ports.
    CreateService(u8, u8, u8),
    /// The tenant wants no load balancer any more, or one again.
    WantBalancer(u8, bool),
    Ports(u8, u8),
    /// Sets that annotation of the cloud to that value; both count modulo what there is.
    Annotate(u8, u8, u8),
    DeleteService(u8),
    /// A tenant names the load balancer of somebody else, which may be another tenant's.
    Claim(u8, Claim),
    /// Somebody deletes the load balancer of a Service in the cloud.
    RemoveBalancer(u8),
    /// A stolen kubelet registers a Node with the provider ID of that machine.
    Impersonate(Machine),
    /// The kubelet of that machine asks for a serving certificate.
    Certify(Machine, Names),
    /// The kubelet of that machine reports the address of a neighbour as its own.
    Misreport(Machine),
    /// Calls of that method go wrong: at most so many, with a chance of so many percent.
    Fault {
        server: Server,
        method: &'static str,
        wrong: Wrong,
        times: u8,
        percent: u8,
    },
    ClearFaults,
    BreakWatches,
    /// Somebody saves the state of the API server, or of its cache.
    Save,
    /// It is restored to what was saved.
    Restore,
    /// Lists that may be old are answered from the cache for so many seconds, as that was when it was saved. It may say that
    /// it is of now. Managers may start meanwhile.
    OldCache {
        seconds: u8,
        says_new: bool,
        restarts: bool,
    },
    /// The API server forgets its history, and watches end.
    Compact,
    /// The API server is away for so many seconds.
    Restart(u8),
    /// The process of that replica dies, and is started again after so many seconds.
    Kill(u8, u8),
    /// The same when somebody is called with that method, for the so-many-eth time: before that is done, or after.
    KillAtCall {
        replica: u8,
        server: Server,
        method: &'static str,
        after: u8,
        is_done: bool,
    },
    /// It is asked to stop, and started again after so many seconds.
    Stop(u8, u8),
    /// Everything stands still for so many seconds.
    Freeze(u8),
    /// The clocks of all machines are set, by up to so many seconds.
    SetClock(i8),
    /// The configuration is read again; without that cloud, if there is one.
    Reload(Option<u8>),
    /// The configuration is read again, with the credentials of another account for that cloud.
    Swap(u8),
    /// The configuration is read again, and that cloud has another name.
    Rename(u8),
    /// Somebody breaks the configuration, or what it says about that cloud.
    Break(u8, Broken),
}

/// How a configuration is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Syntax,
    UnknownKey,
    /// The file with credentials is away.
    NoSecret,
    /// Something else is in it.
    OtherSecret,
}

/// How a tenant names a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Id,
    Name,
    TakeOver,
    /// By the id of another tenant's.
    NeighboursId,
    /// The same to take it over.
    TakeOverNeighbours,
}

/// All ways.
pub(crate) const CLAIMS: [Claim; 5] = [
    Claim::Id,
    Claim::Name,
    Claim::TakeOver,
    Claim::NeighboursId,
    Claim::TakeOverNeighbours,
];

/// For what a certificate is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Own,
    /// Also for the address of a neighbour.
    NeighboursAddress,
    /// Also for the name of a neighbour.
    NeighboursName,
    /// Also for the API server.
    ApiServer,
}

impl Act {
    /// Draws one.
    pub fn draw(random: &Random, clouds: u8, replicas: u8) -> Self {
        let one_of = |bound: u64| u8::try_from(random.below(bound)).unwrap_or(0);
        let cloud = one_of(clouds.into());
        let machine = Machine(cloud, one_of(MACHINES));
        let (service, replica) = (one_of(SERVICES), one_of(replicas.into()));
        match random.below(69) {
            0..5 => Self::Boot(machine),
            5..7 => Self::PowerOff(machine),
            7..9 => Self::PowerOn(machine),
            9..11 => Self::Destroy(machine),
            11 => Self::Exclude(machine, random.below(2) == 0),
            12..16 => Self::CreateService(service, cloud, 1 + one_of(3)),
            16 => Self::WantBalancer(service, random.below(2) == 0),
            17 => Self::Ports(service, 1 + one_of(3)),
            18..20 => Self::Annotate(service, one_of(250), one_of(250)),
            20..22 => Self::DeleteService(service),
            22 => Self::RemoveBalancer(service),
            23..33 => Self::fault(random, clouds, replicas),
            33..35 => Self::ClearFaults,
            35 => Self::BreakWatches,
            36 => Self::Compact,
            37 => Self::Restart(1 + one_of(30)),
            38..40 => Self::Kill(replica, one_of(60)),
            40..43 => Self::KillAtCall {
                replica,
                server: server(random, clouds, replicas),
                method: METHODS[usize::from(one_of(METHODS.len() as u64))],
                after: one_of(6),
                is_done: random.below(2) == 0,
            },
            43 => Self::Stop(replica, one_of(60)),
            44 => Self::Freeze(1 + one_of(120)),
            45 => Self::SetClock(i8::try_from(random.below(120)).unwrap_or(0) - 60),
            46 => Self::Reload(Some(cloud)),
            47 => Self::Reload(None),
            48..50 => Self::Swap(cloud),
            50 => Self::Rename(cloud),
            51..53 => Self::Save,
            53 => Self::Restore,
            54..56 => Self::OldCache {
                seconds: 10 + one_of(120),
                says_new: random.below(2) == 0,
                restarts: random.below(4) == 0,
            },
            56..58 => {
                let how = CLAIMS[usize::from(one_of(CLAIMS.len() as u64))];
                Self::Claim(service, how)
            }
            58..60 => Self::Impersonate(machine),
            60..65 => {
                let all = [
                    Names::Own,
                    Names::NeighboursAddress,
                    Names::NeighboursName,
                    Names::ApiServer,
                ];
                Self::Certify(machine, all[usize::from(one_of(4))])
            }
            65 => Self::Misreport(machine),
            66..68 => {
                let all = [
                    Broken::Syntax,
                    Broken::UnknownKey,
                    Broken::NoSecret,
                    Broken::OtherSecret,
                ];
                Self::Break(cloud, all[usize::from(one_of(4))])
            }
            _ => Self::Crowd(cloud),
        }
    }

    fn fault(random: &Random, clouds: u8, replicas: u8) -> Self {
        let one_of = |bound: u64| u8::try_from(random.below(bound)).unwrap_or(0);
        let server = server(random, clouds, replicas);
        let is_kubernetes = matches!(server, Server::Kubernetes(_));
        let method = METHODS[usize::from(one_of(METHODS.len() as u64))];
        let wrong = match random.below(21) {
            0 => Wrong::Status(500),
            1 => Wrong::Status(503),
            2 => Wrong::Status(403),
            3 => Wrong::Status(401),
            4 => Wrong::Status(409),
            5 => Wrong::Status(429),
            // What the API server does not find is not there.
            6 if !is_kubernetes => Wrong::Status(404),
            7 => Wrong::Throttled(1 + one_of(20)),
            8 => Wrong::Reset,
            9 | 10 => Wrong::LostAnswer,
            11 => Wrong::Truncated,
            12 => Wrong::Html(if random.below(2) == 0 { 404 } else { 200 }),
            13 => Wrong::Slow(1 + u16::from(one_of(200))),
            14 | 15 if !is_kubernetes => Wrong::Stale(10 + u16::from(one_of(240))),
            16 if method != "*" && method != "GET" => Wrong::Silence,
            18 => Wrong::Twice,
            19 | 20 if !is_kubernetes => Wrong::EmptyList,
            17 if is_kubernetes => Wrong::CutStream(1 + one_of(20)),
            _ if is_kubernetes => Wrong::Status(503),
            _ => Wrong::Hang,
        };
        Self::Fault {
            server,
            method,
            wrong,
            times: 1 + one_of(40),
            // Nobody can see through a cloud that denies now this machine, now that one.
            percent: match wrong {
                Wrong::Status(404) => 100,
                _ => [20, 50, 100][usize::from(one_of(3))],
            },
        }
    }
}

/// Any; a cloud more often than not.
fn server(random: &Random, clouds: u8, replicas: u8) -> Server {
    let one_of = |bound: u8| u8::try_from(random.below(bound.into())).unwrap_or(0);
    match random.below(3) {
        0 => Server::Kubernetes(one_of(replicas)),
        _ => Server::Cloud(one_of(clouds)),
    }
}

/// Methods of calls; `*` is any.
const METHODS: [&str; 7] = ["*", "*", "GET", "POST", "PATCH", "PUT", "DELETE"];
/// Machines of a cloud, at most.
const MACHINES: u64 = 5;
/// Services, at most.
const SERVICES: u64 = 4;

/// What makes those calls to that server go wrong.
pub(crate) fn rule(server: &str, method: &str, wrong: Wrong, times: u8, percent: u8) -> Rule {
    let seconds = |it: u16| Duration::from_secs(it.into());
    let status = |code: u16, headers: &[(&str, String)]| Action::Status {
        code,
        headers: headers
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        body: None,
    };
    let action = match wrong {
        Wrong::Status(code) => status(code, &[]),
        Wrong::Throttled(after) => status(429, &[("retry-after", after.to_string())]),
        Wrong::Reset => Action::Reset,
        Wrong::LostAnswer => Action::LostAnswer,
        Wrong::Truncated => Action::Truncated,
        Wrong::Twice => Action::Twice,
        Wrong::EmptyList => Action::EmptyList,
        Wrong::Html(code) => Action::Html { code },
        Wrong::Hang => Action::Hang,
        Wrong::Silence => Action::Silence,
        Wrong::Slow(most) => Action::Delay {
            least: Duration::ZERO,
            most: seconds(most),
        },
        Wrong::Stale(age) => Action::StaleList { age: seconds(age) },
        Wrong::CutStream(after) => Action::CutStream {
            after: seconds(after.into()),
        },
    };
    let mut rule = Rule::new(action).server(server).times(u64::from(times));
    rule.probability = f64::from(percent) / 100.0;
    rule.on(method, "*")
}

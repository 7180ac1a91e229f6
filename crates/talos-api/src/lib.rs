//! The part of the Talos machine API that Bowline speaks.
//!
//! # What
//!
//! A Talos machine is asked through gRPC: the State service reads its resources, the machine service
//! says who answers. This crate has the messages and both halves of the two services, generated from
//! `proto/` when it is built: a client for the Talos provider, a server for the simulator.
//!
//! # How
//!
//! The clients work over any [`tonic::client::GrpcService`]: who calls brings the connection. The
//! servers are plain services of HTTP requests. Neither half knows sockets, TLS or time.
//!
//! A resource is an envelope ([`resource::Resource`]) whose specification travels as bytes. Which
//! message these are, says its type: [`Kind`] ties the two together.
//!
//! ```text
//!  state_client ── Get, List, Watch ──▶ state_server      resource::Resource
//!  machine_service_client ── Version ──▶ …_server           ├─ metadata: namespace, type, id, version, phase
//!                                                           └─ spec: bytes ◀── Kind ──▶ specs::PlatformMetadataSpec, …
//! ```

mod address;
mod kind;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from proto/, where the comments are"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

pub use generated::cosi::resource;
pub use generated::{common, google, machine};
pub use kind::{Kind, Single, SpecError};

/// What resources say, by type.
pub mod specs {
    pub use crate::generated::talos::resource::definitions::cluster::{
        ControlPlane, MachineType, MemberSpec,
    };
    pub use crate::generated::talos::resource::definitions::hardware::SystemInformationSpec;
    pub use crate::generated::talos::resource::definitions::k8s::{
        ControllerManagerConfigSpec, NodenameSpec,
    };
    pub use crate::generated::talos::resource::definitions::network::{
        AddressStatusSpec, Family, Scope,
    };
    pub use crate::generated::talos::resource::definitions::runtime::PlatformMetadataSpec;

    /// The bit of [`AddressStatusSpec::flags`] that marks an address which does not expire.
    pub const PERMANENT: u32 = 128;

    /// The link on which a machine shows the public addresses that its platform supplied.
    pub const EXTERNAL_LINK: &str = "external";
}

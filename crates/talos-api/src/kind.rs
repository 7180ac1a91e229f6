//! Which message a resource of a type carries, and where resources of the type are.

use std::error::Error;
use std::fmt;

use prost::Message;

use crate::resource::{GetOptions, GetRequest, ListOptions, ListRequest, Resource, Spec};
use crate::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, MemberSpec, NodenameSpec, PlatformMetadataSpec,
    SystemInformationSpec,
};

/// The specification of a type of resource.
pub trait Kind: Message + Default {
    /// The namespace that resources of the type are in.
    const NAMESPACE: &'static str;
    /// The type's full name.
    const TYPE: &'static str;

    /// Asks for the resource with an id.
    fn get(id: &str) -> GetRequest {
        GetRequest {
            namespace: Self::NAMESPACE.to_owned(),
            r#type: Self::TYPE.to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        }
    }

    /// Asks for all resources of the type.
    fn list() -> ListRequest {
        ListRequest {
            namespace: Self::NAMESPACE.to_owned(),
            r#type: Self::TYPE.to_owned(),
            options: Some(ListOptions::default()),
        }
    }
}

/// A type of which a machine has at most one resource.
pub trait Single: Kind {
    const ID: &'static str;

    /// Asks for that one.
    fn get_single() -> GetRequest {
        Self::get(Self::ID)
    }
}

macro_rules! kinds {
    ($($spec:ty: $namespace:literal, $type:literal $(, $id:literal)?;)+) => {$(
        impl Kind for $spec {
            const NAMESPACE: &'static str = $namespace;
            const TYPE: &'static str = $type;
        }
        $(impl Single for $spec {
            const ID: &'static str = $id;
        })?
    )+};
}

kinds! {
    PlatformMetadataSpec: "runtime", "PlatformMetadatas.talos.dev", "platformmetadata";
    SystemInformationSpec: "hardware", "SystemInformations.hardware.talos.dev", "systeminformation";
    AddressStatusSpec: "network", "AddressStatuses.net.talos.dev";
    ControllerManagerConfigSpec:
        "controlplane", "ControllerManagerConfigs.kubernetes.talos.dev", "kube-controller-manager";
    NodenameSpec: "k8s", "Nodenames.kubernetes.talos.dev", "nodename";
    MemberSpec: "cluster", "Members.cluster.talos.dev";
}

/// Why what a resource says cannot be read.
#[derive(Debug)]
pub enum SpecError {
    /// The resource has no metadata.
    NoMetadata,
    /// The resource has no specification.
    NoSpec,
    /// The resource is of another type than the one that was asked for.
    OtherType {
        /// The type it is of.
        found: String,
        /// The type it should be of.
        wanted: &'static str,
    },
    /// The bytes are not the message.
    Decode(prost::DecodeError),
}

impl fmt::Display for SpecError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMetadata => to.write_str("the resource has no metadata"),
            Self::NoSpec => to.write_str("the resource has no specification"),
            Self::OtherType { found, wanted } => {
                write!(to, "the resource is of the type {found:?}, not {wanted:?}")
            }
            Self::Decode(_) => to.write_str("the resource's specification cannot be decoded"),
        }
    }
}

impl Error for SpecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Decode(source) => Some(source),
            Self::NoMetadata | Self::NoSpec | Self::OtherType { .. } => None,
        }
    }
}

impl Resource {
    /// What the resource says, if it is of that type.
    pub fn read<K: Kind>(&self) -> Result<K, SpecError> {
        let metadata = self.metadata.as_ref().ok_or(SpecError::NoMetadata)?;
        if metadata.r#type != K::TYPE {
            return Err(SpecError::OtherType {
                found: metadata.r#type.clone(),
                wanted: K::TYPE,
            });
        }
        let spec = self.spec.as_ref().ok_or(SpecError::NoSpec)?;
        K::decode(spec.proto_spec.as_slice()).map_err(SpecError::Decode)
    }
}

impl Spec {
    /// The bytes of a specification, with its text for people.
    pub fn of<K: Kind>(spec: &K, yaml: String) -> Self {
        Self {
            proto_spec: spec.encode_to_vec(),
            yaml_spec: yaml,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Metadata;

    fn resource(of: &str, proto_spec: Vec<u8>) -> Resource {
        Resource {
            metadata: Some(Metadata {
                r#type: of.to_owned(),
                ..Metadata::default()
            }),
            spec: Some(Spec {
                proto_spec,
                yaml_spec: String::new(),
            }),
        }
    }

    #[test]
    fn a_resource_is_read_as_its_own_type_only() {
        let spec = NodenameSpec {
            nodename: "n1".to_owned(),
            ..NodenameSpec::default()
        };
        let found = resource(NodenameSpec::TYPE, spec.encode_to_vec());
        assert_eq!(found.read::<NodenameSpec>().unwrap(), spec);
        assert!(matches!(
            found.read::<MemberSpec>(),
            Err(SpecError::OtherType { .. })
        ));
    }

    #[test]
    fn fields_that_nobody_knows_are_skipped() {
        // Field 100, a text; then field 1.
        let bytes = [&[0xa2, 0x06, 0x01, b'x'][..], &[0x0a, 0x02, b'n', b'1']].concat();
        let read = resource(NodenameSpec::TYPE, bytes).read::<NodenameSpec>();
        assert_eq!(read.unwrap().nodename, "n1");
    }

    #[test]
    fn what_is_missing_or_broken_is_told() {
        let no_metadata = Resource::default();
        assert!(matches!(
            no_metadata.read::<NodenameSpec>(),
            Err(SpecError::NoMetadata)
        ));
        let mut no_spec = resource(NodenameSpec::TYPE, Vec::new());
        no_spec.spec = None;
        assert!(matches!(
            no_spec.read::<NodenameSpec>(),
            Err(SpecError::NoSpec)
        ));
        let broken = resource(NodenameSpec::TYPE, vec![0x0a, 0xff]);
        assert!(matches!(
            broken.read::<NodenameSpec>(),
            Err(SpecError::Decode(_))
        ));
    }
}

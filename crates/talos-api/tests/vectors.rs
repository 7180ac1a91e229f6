//! What must be on the wire, byte by byte: the vectors V1 to V6, encoded and decoded.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::net::IpAddr;

use bowline_talos_api::resource::{GetRequest, GetResponse, ListRequest, Metadata, Resource, Spec};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, EXTERNAL_LINK, Family, PERMANENT,
    PlatformMetadataSpec,
};
use bowline_talos_api::{Kind, Single};
use prost::Message;
use prost_types::Timestamp;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// The message encodes to these bytes, and these bytes decode to it.
fn same<M: Message + Default + PartialEq + std::fmt::Debug>(message: &M, hex: &str) {
    assert_eq!(message.encode_to_vec(), bytes(hex));
    assert_eq!(&M::decode(bytes(hex).as_slice()).unwrap(), message);
}

const V2: &str = "0a0668636c6f756412057765622d311a0466736e31220966736e312d646331342a056361783231\
    3204343731313a0d68636c6f75643a2f2f3437313140015a0c0a047465616d1204636f7265";

fn platform_metadata() -> PlatformMetadataSpec {
    PlatformMetadataSpec {
        platform: "hcloud".to_owned(),
        hostname: "web-1".to_owned(),
        region: "fsn1".to_owned(),
        zone: "fsn1-dc14".to_owned(),
        instance_type: "cax21".to_owned(),
        instance_id: "4711".to_owned(),
        provider_id: "hcloud://4711".to_owned(),
        spot: true,
        tags: [("team".to_owned(), "core".to_owned())].into(),
        ..PlatformMetadataSpec::default()
    }
}

#[test]
fn talos_vector_v1_asking_for_platform_metadata() {
    let request: GetRequest = PlatformMetadataSpec::get_single();
    assert_eq!(request.encoded_len(), 58);
    same(
        &request,
        "0a0772756e74696d65121b506c6174666f726d4d65746164617461732e74616c6f732e6465761a10706c61\
         74666f726d6d657461646174612200",
    );
}

#[test]
fn talos_vector_v2_platform_metadata() {
    assert_eq!(platform_metadata().encoded_len(), 76);
    same(&platform_metadata(), V2);
}

fn address(text: &str, length: u8, family: Family, link: &str) -> AddressStatusSpec {
    AddressStatusSpec {
        address: Some((text.parse::<IpAddr>().unwrap(), length).into()),
        link_name: link.to_owned(),
        family: family.into(),
        ..AddressStatusSpec::default()
    }
}

#[test]
fn talos_vector_v3_addresses() {
    same(
        &address("203.0.113.10", 32, Family::Inet4, EXTERNAL_LINK),
        "0a080a04cb00710a10203a0865787465726e616c4002",
    );
    let permanent = AddressStatusSpec {
        link_index: 7,
        flags: PERMANENT,
        ..address("2001:db8:4::10", 64, Family::Inet6, "eth0")
    };
    same(
        &permanent,
        "0a140a1020010db8000400000000000000000010104030073a0465746830400a508001",
    );
}

#[test]
fn talos_vector_v4_asking_for_all_addresses() {
    let request: ListRequest = AddressStatusSpec::list();
    same(
        &request,
        "0a076e6574776f726b121d4164647265737353746174757365732e6e65742e74616c6f732e6465761a00",
    );
}

#[test]
fn talos_vector_v5_an_answer_with_platform_metadata() {
    let at = |seconds| Timestamp { seconds, nanos: 0 };
    let answer = GetResponse {
        resource: Some(Resource {
            metadata: Some(Metadata {
                namespace: PlatformMetadataSpec::NAMESPACE.to_owned(),
                r#type: PlatformMetadataSpec::TYPE.to_owned(),
                id: PlatformMetadataSpec::ID.to_owned(),
                version: "2".to_owned(),
                owner: "network.PlatformConfigApplyController".to_owned(),
                phase: "running".to_owned(),
                created: Some(at(1_700_000_000)),
                updated: Some(at(1_700_000_060)),
                ..Metadata::default()
            }),
            spec: Some(Spec::of(
                &platform_metadata(),
                "platform: hcloud\n".to_owned(),
            )),
        }),
    };
    assert_eq!(answer.encoded_len(), 227);
    let wanted = [
        "0ae0010a7b0a0772756e74696d65121b506c6174666f726d4d65746164617461732e74616c6f732e6465761a\
         10706c6174666f726d6d657461646174612201322a256e6574776f726b2e506c6174666f726d436f6e666967\
         4170706c79436f6e74726f6c6c6572320772756e6e696e673a060880e2cfaa06420608bce2cfaa0612610a4c",
        V2,
        "1211706c6174666f726d3a2068636c6f75640a",
    ]
    .concat();
    same(&answer, &wanted);
    let read = answer.resource.unwrap().read::<PlatformMetadataSpec>();
    assert_eq!(read.unwrap(), platform_metadata());
}

#[test]
fn talos_vector_v6_configuration_of_the_controller_manager() {
    let texts = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    same(
        &ControllerManagerConfigSpec {
            enabled: true,
            image: "registry.example/kube-controller-manager:v1.36.0".to_owned(),
            pod_cidrs: texts(["10.32.0.0/12", "fd00:10:32::/64"]),
            service_cidrs: texts(["10.200.0.0/22", "fd40:10:200::/108"]),
            ..ControllerManagerConfigSpec::default()
        },
        "0801123072656769737472792e6578616d706c652f6b7562652d636f6e74726f6c6c65722d6d616e616765723a\
         76312e33362e30220c31302e33322e302e302f3132220f666430303a31303a33323a3a2f36342a0d31302e3230\
         302e302e302f32322a11666434303a31303a3230303a3a2f313038",
    );
}

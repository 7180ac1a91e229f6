//! What a cloud contains where its fixture says nothing: one account, two networks, sizes and images.

use super::config::{DEFAULT_ACCOUNT, DEFAULT_ACCOUNT_ID, DEFAULT_PUBLIC_KEY};
use super::fixture::{AccountSpec, Fixture, ImageSpec, NetworkSpec, PackageSpec};

/// The id of the public network.
pub const EXTERNAL: &str = "11111111-1111-4111-8111-111111111111";
/// The id of the fabric network.
pub const FABRIC: &str = "22222222-2222-4222-8222-222222222222";
/// The id of the image of load balancers.
pub const BALANCER_IMAGE: &str = "33333333-3333-4333-8333-333333333333";
/// The id of the image of ordinary machines.
pub const MACHINE_IMAGE: &str = "44444444-4444-4444-8444-444444444444";

/// The zone of private networks.
const PRIVATE_ZONE: &str = "int.eg-1.example.com";
const COMPUTE_NODES: [&str; 3] = [
    "c0000000-0000-4000-8000-000000000001",
    "c0000000-0000-4000-8000-000000000002",
    "c0000000-0000-4000-8000-000000000003",
];

impl Fixture {
    /// The same fixture with everything that it leaves out.
    pub(super) fn completed(mut self) -> Self {
        if self.accounts.is_empty() {
            self.accounts.push(AccountSpec {
                login: DEFAULT_ACCOUNT.to_owned(),
                id: Some(DEFAULT_ACCOUNT_ID.to_owned()),
                cns: true,
                keys: vec![DEFAULT_PUBLIC_KEY.to_owned()],
                ..AccountSpec::default()
            });
        }
        if self.networks.is_empty() {
            self.networks = networks();
            self.wildcard_zone
                .get_or_insert_with(|| PRIVATE_ZONE.to_owned());
        }
        if self.packages.is_empty() {
            self.packages = packages();
        }
        if self.images.is_empty() {
            self.images = images();
        }
        if self.compute_nodes.is_empty() {
            self.compute_nodes = COMPUTE_NODES.map(str::to_owned).to_vec();
        }
        self
    }
}

fn networks() -> Vec<NetworkSpec> {
    vec![
        NetworkSpec {
            name: "external".to_owned(),
            id: Some(EXTERNAL.to_owned()),
            description: Some("Public addresses".to_owned()),
            public: true,
            subnet: "203.0.113.0/24".parse().ok(),
            provision_start_ip: "203.0.113.10".parse().ok(),
            gateway: "203.0.113.1".parse().ok(),
            zones: vec!["eg-1.cns.example.com".to_owned()],
            ..NetworkSpec::default()
        },
        NetworkSpec {
            name: "My-Fabric".to_owned(),
            id: Some(FABRIC.to_owned()),
            subnet: "10.20.0.0/24".parse().ok(),
            gateway: "10.20.0.1".parse().ok(),
            resolvers: "8.8.8.8".parse().into_iter().collect(),
            vlan_id: Some(2),
            internet_nat: true,
            default: true,
            ..NetworkSpec::default()
        },
    ]
}

fn packages() -> Vec<PackageSpec> {
    let package = |name: &str, memory: u64, vcpus: u64, brand: Option<&str>| PackageSpec {
        name: name.to_owned(),
        memory: Some(memory),
        vcpus,
        brand: brand.map(str::to_owned),
        ..PackageSpec::default()
    };
    vec![
        package("g4-highcpu-1G", 1024, 1, Some("bhyve")),
        package("g4-highcpu-4G", 4096, 2, Some("bhyve")),
        package("g4-general-8G", 8192, 4, Some("bhyve")),
        package("lb1.small", 512, 1, None),
    ]
}

fn images() -> Vec<ImageSpec> {
    vec![
        ImageSpec {
            name: "debian-12".to_owned(),
            id: Some(MACHINE_IMAGE.to_owned()),
            version: Some("20260601".to_owned()),
            published_at: "2026-06-01T00:00:00Z".parse().ok(),
            ..ImageSpec::default()
        },
        ImageSpec {
            name: "cloud-load-balancer".to_owned(),
            id: Some(BALANCER_IMAGE.to_owned()),
            version: Some("1.5.1".to_owned()),
            os: Some("smartos".to_owned()),
            kind: Some("zone-dataset".to_owned()),
            published_at: "2026-05-01T00:00:00Z".parse().ok(),
            ..ImageSpec::default()
        },
    ]
}

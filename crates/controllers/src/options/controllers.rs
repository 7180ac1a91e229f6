//! Which controllers run: the table of their names, and the rules of `--controllers`.

use std::collections::BTreeMap;

/// One controller that can be named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownController {
    /// Its canonical name: health check, `/configz`, leader migration.
    pub name: &'static str,
    /// Its short name.
    pub alias: &'static str,
    /// Names it had in older releases; leader-migration files may still hold them.
    pub former: &'static [&'static str],
    /// Whether `*` starts it.
    pub on_by_default: bool,
    /// The identity of its client: user agent, service account.
    pub identity: &'static str,
}

/// The controller that initialises nodes and keeps their addresses.
pub const CLOUD_NODE: &str = "cloud-node-controller";
/// The controller that taints and deletes nodes.
pub const CLOUD_NODE_LIFECYCLE: &str = "cloud-node-lifecycle-controller";
/// The controller that makes load balancers.
pub const SERVICE: &str = "service-lb-controller";
/// The controller that makes routes to pods.
pub const ROUTES: &str = "node-route-controller";
/// The controller that gives nodes their pod ranges.
pub const NODE_IPAM: &str = "node-ipam-controller";
/// The controller that approves serving certificates of kubelets.
pub const CERTIFICATES: &str = "certificatesigningrequest-approving-controller";

/// The controller by which labels follow machines.
pub const LABEL_SYNC: &str = "cloud-node-label-sync-controller";
/// The controller that runs what a cloud does beside what every cloud does.
pub const CHORES: &str = "cloud-chores-controller";

/// All controllers, whatever the provider: naming one that a provider lacks is no error.
pub const CONTROLLERS: &[KnownController] = &[
    KnownController {
        name: CLOUD_NODE,
        alias: "cloud-node",
        former: &[],
        on_by_default: true,
        identity: "node-controller",
    },
    KnownController {
        name: CLOUD_NODE_LIFECYCLE,
        alias: "cloud-node-lifecycle",
        former: &[],
        on_by_default: true,
        identity: "node-controller",
    },
    KnownController {
        name: SERVICE,
        alias: "service",
        former: &["service-controller"],
        on_by_default: true,
        identity: "service-controller",
    },
    KnownController {
        name: ROUTES,
        alias: "route",
        former: &["route-controller"],
        on_by_default: true,
        identity: "route-controller",
    },
    KnownController {
        name: NODE_IPAM,
        alias: "nodeipam",
        former: &[],
        on_by_default: false,
        identity: "node-controller",
    },
    KnownController {
        name: CERTIFICATES,
        alias: "node-csr-approval",
        former: &[],
        on_by_default: false,
        identity: "node-csr-approval",
    },
    KnownController {
        name: LABEL_SYNC,
        alias: "cloud-node-label-sync",
        former: &[],
        on_by_default: true,
        identity: "node-controller",
    },
    KnownController {
        name: CHORES,
        alias: "cloud-chores",
        former: &[],
        on_by_default: true,
        identity: "cloud-chores",
    },
];

/// The controller of that name or alias.
pub fn known_controller(name: &str) -> Option<&'static KnownController> {
    CONTROLLERS
        .iter()
        .find(|known| known.name == name || known.alias == name)
}

/// An evaluated `--controllers` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSet(BTreeMap<&'static str, bool>);

impl ControllerSet {
    /// Applies the rules to every known controller. Unknown items say nothing here; see
    /// [`unknown`](Self::unknown).
    pub fn evaluate(items: &[String]) -> Self {
        let items = canonical(items);
        Self(
            CONTROLLERS
                .iter()
                .map(|known| (known.name, runs(&items, known.name, known.on_by_default)))
                .collect(),
        )
    }

    /// Whether the controller of that canonical name shall run.
    pub fn enabled(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }

    /// Whether these items say that the controller of that canonical name shall not run, whatever
    /// would else start it.
    pub fn forbids(items: &[String], name: &str) -> bool {
        let items = canonical(items);
        let mut said = items
            .iter()
            .filter(|item| item.strip_prefix('-').unwrap_or(item) == name);
        said.next().is_some_and(|item| item.starts_with('-'))
    }

    /// The controllers that shall run, in the table's order.
    pub fn names(&self) -> Vec<&'static str> {
        CONTROLLERS
            .iter()
            .map(|known| known.name)
            .filter(|name| self.enabled(name))
            .collect()
    }

    /// Items that name no controller, without their dash, in list order.
    pub fn unknown(items: &[String]) -> Vec<String> {
        items
            .iter()
            .map(|item| item.strip_prefix('-').unwrap_or(item))
            .filter(|name| *name != "*" && known_controller(name).is_none())
            .map(str::to_owned)
            .collect()
    }
}

/// The list with aliases replaced by canonical names.
pub(super) fn canonical(items: &[String]) -> Vec<String> {
    let translate = |item: &String| {
        let (dash, name) = match item.strip_prefix('-') {
            Some(name) => ("-", name),
            None => ("", item.as_str()),
        };
        let name = known_controller(name).map_or(name, |known| known.name);
        format!("{dash}{name}")
    };
    items.iter().map(translate).collect()
}

/// The first item that names the controller decides; without one, `*` anywhere does.
fn runs(items: &[String], name: &str, on_by_default: bool) -> bool {
    for item in items {
        if item == name {
            return true;
        }
        if item.strip_prefix('-') == Some(name) {
            return false;
        }
    }
    on_by_default && items.iter().any(|item| item == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let items: Vec<String> = list
            .split(',')
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect();
        ControllerSet::evaluate(&items).names()
    }

    const NODE: &str = "cloud-node-controller";
    const LIFECYCLE: &str = "cloud-node-lifecycle-controller";
    const ROUTE: &str = ROUTES;
    const LABELS: &str = "cloud-node-label-sync-controller";
    const CSR: &str = "certificatesigningrequest-approving-controller";

    #[test]
    fn framework_case_112_exactly_the_named_controllers_are_on() {
        assert_eq!(names("cloud-node,cloud-node-lifecycle"), [NODE, LIFECYCLE]);
    }

    #[test]
    fn framework_case_113_a_dash_turns_one_off_and_without_a_star_all() {
        assert_eq!(
            names("*,-service"),
            [NODE, LIFECYCLE, ROUTE, LABELS, CHORES]
        );
        assert!(names("-service").is_empty());
        assert_eq!(ControllerSet::unknown(&["bogus".to_owned()]), ["bogus"]);
    }

    #[test]
    fn the_first_item_that_names_a_controller_decides() {
        for (list, expected) in [
            ("", vec![]),
            ("*", vec![NODE, LIFECYCLE, SERVICE, ROUTE, LABELS, CHORES]),
            ("service,-service", vec![SERVICE]),
            ("-service,service", vec![]),
            (
                "-service,*,service-lb-controller",
                vec![NODE, LIFECYCLE, ROUTE, LABELS, CHORES],
            ),
            (
                "-service-lb-controller,*",
                vec![NODE, LIFECYCLE, ROUTE, LABELS, CHORES],
            ),
            ("node-csr-approval", vec![CSR]),
            (
                "*,node-csr-approval",
                vec![NODE, LIFECYCLE, SERVICE, ROUTE, CSR, LABELS, CHORES],
            ),
        ] {
            assert_eq!(names(list), expected, "{list}");
        }
    }

    #[test]
    fn only_a_dash_forbids_what_a_cloud_switches_on() {
        for (list, forbids) in [
            ("*", false),
            ("", false),
            ("service", false),
            ("-service", false),
            ("*,-node-csr-approval", true),
            ("-certificatesigningrequest-approving-controller", true),
            ("node-csr-approval,-node-csr-approval", false),
        ] {
            let items: Vec<String> = list.split(',').map(str::to_owned).collect();
            assert_eq!(ControllerSet::forbids(&items, CSR), forbids, "{list}");
        }
    }

    #[test]
    fn names_are_canonical_and_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for known in CONTROLLERS {
            assert!(known.name.ends_with("-controller"), "{}", known.name);
            let letters = known
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(letters, "{}", known.name);
            for name in [known.name, known.alias].iter().chain(known.former) {
                assert!(seen.insert(*name), "{name} twice");
            }
        }
    }
}

//! The reference pages are what the tables in the source say, and every numbered case of the
//! specifications has a test or a reason.
//!
//! To write the pages anew: `BOWLINE_WRITE_DOCS=1 cargo test -p bowline --test docs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Writes the pages instead of comparing them.
const WRITE: &str = "BOWLINE_WRITE_DOCS";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn compare(page: &str, wanted: &str) {
    let path = workspace().join("docs/reference").join(page);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/reference/{page} is not what the source says; write it anew with \
         {WRITE}=1 cargo test -p bowline --test docs"
    );
}

#[test]
fn the_page_of_cloudscale_is_what_its_table_says() {
    let table = bowline_cloudscale::config::reference();
    let annotations = bowline_cloudscale::annotations::reference();
    compare(
        "cloudscale.md",
        &format!(
            "# cloudscale.ch\n\n\
             Written from the table in the source; do not edit by hand.\n\n\
             The provider is chosen with `--cloud-provider=cloudscale`, or by starting the program\n\
             as `cloudscale-cloud-controller-manager`. It is configured by environment variables\n\
             alone; `--cloud-config` is accepted and ignored with a warning.\n\n\
             A variable that is unset or empty has its default. A value that is not allowed stops\n\
             the start with a message that names the variable, except where the meaning says\n\
             otherwise.\n\n{table}\n\
             ## Annotations of Services\n\n\
             All keys begin with `k8s.cloudscale.ch/`. An absent key has its default. An invalid value is\n\
             reported as event `InvalidLoadBalancerConfig`; until it is fixed, no new load balancer is\n\
             created; targets of an existing one stay up to date.\n\n\
             {annotations}\n\
             `bowline.dev/take-over: <uuid>` says that the load balancer with that uuid is this\n\
             Service's, although its tag `k8s-service-uid` names another.\n"
        ),
    );
}

#[test]
fn the_page_of_exoscale_is_what_its_tables_say() {
    let tables = bowline_exoscale::config::reference();
    let annotations = bowline_exoscale::annotations::reference();
    let (prefix, remembered) = (
        bowline_exoscale::annotations::PREFIX,
        bowline_exoscale::annotations::OWNED_SERVICES,
    );
    let record = bowline_exoscale::RECORD;
    let (few, most) = (bowline_exoscale::FEW, bowline_exoscale::CONFIRMATIONS);
    let age = bowline_exoscale::LIST_AGE.as_secs();
    compare(
        "exoscale.md",
        &format!(
            "# Exoscale\n\n\
             Written from the tables in the source; do not edit by hand.\n\n\
             The provider is chosen with `--cloud-provider=exoscale`, or by starting the program as\n\
             `exoscale-cloud-controller-manager`. It serves one zone.\n\n\
             Environment variables and the file of `--cloud-config` configure the provider; what is\n\
             unset has its default, and all that cannot be used is reported at start-up.\n\n{tables}\
             ## Reads about nodes\n\n\
             Up to {few} instances are read one by one, more from one list, which answers for {age} s\n\
             (with more than 5,000 instances a millisecond for each, at most a minute). The list has every\n\
             field that is used (id, name, state, addresses, private networks, type), so that none needs a\n\
             read of its own. Read by themselves are instances that the list does not show, or shows without\n\
             name or type, or as destroyed: at most {most} in one look. The name of\n\
             an instance type is read once and kept: by itself, or from a list where several are new.\n\n\
             Where the role of the API key denies `list-instances` or `list-instance-types`, each instance\n\
             or type is read by itself, and the lists are tried again ten minutes later.\n\n\
             ## Annotations of Services\n\n\
             All keys begin with `{prefix}`. An absent or\n\
             empty one has its default. All are checked before the cloud is asked anything. An invalid\n\
             value is reported as event `InvalidLoadBalancerConfig`; nothing changes until it is fixed.\n\n\
             {annotations}\n\
             `bowline.dev/take-over: <id>` asks for the load balancer with that id. Its owner must hand it\n\
             over (`bowline.dev/hand-over: <namespace>/<name>` on the owning Service), or the operator must\n\
             allow adoption in the namespace (`loadBalancers.adoption`).\n\n\
             The condition `{record}` in the Service's status records what\n\
             annotations cannot prove: load balancers of others that the Service is attached to, owned NLB\n\
             services whose names do not begin with its uid, and which descriptions annotations have set.\n\
             `{remembered}`, which earlier versions wrote, is emptied.\n"
        ),
    );
}

#[test]
fn the_page_of_talos_is_what_its_tables_say() {
    let tables = bowline_talos::config::reference();
    let poll = bowline_talos::POLL.as_secs();
    let deadline = bowline_talos::CALL_DEADLINE.as_secs();
    compare(
        "talos.md",
        &format!(
            "# Talos Linux\n\n\
             Written from the tables in the source; do not edit by hand.\n\n\
             The provider is chosen with `--cloud-provider=talos`, or by starting the program as\n\
             `talos-cloud-controller-manager`. Machines are asked about themselves, wherever they run.\n\n\
             Environment variables, the talosconfig and the file of `--cloud-config` configure the provider.\n\
             Files are read again every {poll} s; an invalid change is reported, and the old content stays.\n\n\
             {tables}\n\
             ## Credentials\n\n\
             The talosconfig is the first that exists of `$TALOSCONFIG`, `$TALOS_HOME/config` (or\n\
             `$HOME/.talos/config`) and `/var/run/secrets/talos.dev/config`. It is never written. The role\n\
             `os:reader` is enough. Without a usable one there is no start, unless no controller runs that asks\n\
             machines: approval of certificates alone needs none.\n\n\
             Of a context `endpoints`, `target`, `ca`, `crt`, `key`, `cluster`, `auth.basic` and `proxy-url`\n\
             (`direct`, or an http or https proxy) count; without `proxy-url`, `HTTPS_PROXY` and `NO_PROXY` do.\n\
             `auth.siderov1` (Omni) is not supported.\n\n\
             ## Endpoints\n\n\
             Without a port an endpoint is at 50000, or at 443 if it is an https URL. All are used in turn; one that\n\
             cannot be reached, and a worker, which passes no questions on, is asked last. When none answers, the\n\
             machines of the control plane are tried that were learnt while one did. A question is given up after\n\
             {deadline} s, and a machine after twice that.\n\n\
             ## Metrics\n\n\
             | Metric | Labels | Meaning |\n|---|---|---|\n\
             | `talosccm_api_request_duration_seconds` | `request` | Time from the beginning of a look at a machine to the end of the call. |\n\
             | `talosccm_api_request_errors_total` | `request` | Calls to machines that failed. |\n\
             | `talosccm_transformer_duration_seconds` | `type` | Time that rules take for one machine. |\n\
             | `talosccm_transformer_errors_total` | `type` | Machines whose rules failed. |\n\
             | `talosccm_csr_approval_count` | `status` | Requests for serving certificates: `approve` or `deny`. |\n\
             | `talosccm_config_findings` | `severity` | What is wrong or odd in the cloud config in force. |\n\
             | `talosccm_config_reloads_total` | `result` | Changes of the cloud config: `taken` or `refused`. |\n"
        ),
    );
}

#[test]
fn the_page_of_xenorchestra_is_what_its_tables_say() {
    let tables = bowline_xenorchestra::config::reference();
    let (few, most) = (
        bowline_xenorchestra::FEW,
        bowline_xenorchestra::CONFIRMATIONS,
    );
    let (list, names) = (
        bowline_xenorchestra::LIST_AGE.as_secs(),
        bowline_xenorchestra::NAMES_AGE.as_secs() / 60,
    );
    compare(
        "xenorchestra.md",
        &format!(
            "# Xen Orchestra\n\n\
             Written from the tables in the source; do not edit by hand.\n\n\
             The provider is chosen with `--cloud-provider=xenorchestra`, or by starting the program as\n\
             `xenorchestra-cloud-controller-manager`. It serves all pools of one Xen Orchestra, or of\n\
             several.\n\n\
             It is configured by the file of `--cloud-config`, or, without that flag, by environment\n\
             variables. Where there is a file, the variables are not looked at. White space around values\n\
             does not matter. Texts need no quotes, whatever they look like. Only the first document of the\n\
             file counts; keys that are not known mean nothing; a key given twice is an error.\n\n\
             The file is read again every few seconds, and at once when the server does not know us any\n\
             more: a new token, password or URL is used without a restart. Other settings count from the\n\
             next start on.\n\n{tables}\
             ## Reads about nodes\n\n\
             While a server's events are followed, what they say answers, and nothing is asked. Otherwise up\n\
             to {few} VMs are read one by one, more from lists, which answer for {list} s: of a whole pool where\n\
             many of its VMs are nodes, by id otherwise. Names of hosts and pools are kept for {names} minutes.\n\
             Before a node is tainted or deleted, its VM is read by itself: at most {most} in one look.\n\n\
             A VM is gone when the server says so about that very VM while every pool it can be in, by the\n\
             node's provider id and by its label `topology.k8s.xenorchestra/pool_id`, is there with its VMs,\n\
             twice. Nodes of a pool that was removed from Xen Orchestra for good are therefore never deleted:\n\
             do that by hand.\n\n\
             The user needs to read VMs, hosts and pools; to read servers helps for nodes whose provider id\n\
             names no pool.\n"
        ),
    );
}

/// What the page of Triton says about metrics of machines.
fn metrics_of_triton() -> String {
    let (secret, config_map) = (
        bowline_triton::cmon::SECRET,
        bowline_triton::cmon::CONFIG_MAP,
    );
    let (sd, metrics) = (
        bowline_triton::cmon::DISCOVERY_PAGE,
        bowline_triton::cmon::METRICS_PAGE,
    );
    let every = bowline_triton::cmon::EVERY.as_secs();
    let patience = bowline_triton::cmon::PATIENCE.as_secs();
    let at_once = bowline_triton::cmon::AT_ONCE;
    let prefix = bowline_triton::PREFIX;
    format!(
        "\
         ## Metrics of machines\n\n\
         Triton measures its machines itself (CMON); this is about those of nodes and of the cluster's load balancer\n\
         machines. `[Metrics] mode` says what is done for them, by the controller `cloud-chores`; where the metrics service is\n\
         says CloudAPI, or `cmon-endpoint`.\n\n\
         | Mode | |\n|---|---|\n\
         | `off` | nothing |\n\
         | `discovery` | Prometheus is led to the metrics service, which is never called from here |\n\
         | `export` | the same, and the metrics are fetched every {every} s ({at_once} machines at a time, {patience} s each) and shown |\n\n\
         - `{sd}triton` on the metrics port is the list of machines that run, for Prometheus' `http_sd_configs`. A process\n\
           that does not lead answers 503, upon which Prometheus keeps the list that it has.\n\
         - Machines are in the group `k8s-<cluster-name>` (tag `triton.cmon.groups`; groups of others stay), for Prometheus'\n\
           `triton_sd_configs`. A machine that leaves the cluster leaves the group after a minute; mode `off` takes nobody out.\n\
         - The Secret `{secret}` in the namespace of the lease holds a client certificate for the metrics service,\n\
           signed with the key in use; of 90 days, renewed after 60. It is good for nothing else.\n\
         - The ConfigMap `{config_map}` there holds `scrape_configs` for either way: `http-sd.yaml` and `triton-sd.yaml`.\n\
         - `{metrics}triton`, in mode `export`, is everything that the service has about these machines: names begin with `triton_`,\n\
           labels `node`, `machine`, `brand` and `compute_node` are added; Prometheus needs neither certificate nor DNS names.\n\
           `triton_cmon_up` tells whose metrics could be read. Series that cannot be read are left out and counted\n\
           (`triton_cmon_series_dropped_total` at `/metrics`). A process that does not lead shows nothing.\n\n\
         Both pages are for those who have the permission to get their path (`nonResourceURLs`), as `/metrics` is. The manager asks the\n\
         API server who a caller is only with `--authentication-kubeconfig` (and `--authorization-kubeconfig`): without them every\n\
         caller is anonymous and gets 403, an administrator too. In the two pages' paths,\n\
         `triton` is the name of the cloud. An object of one of these names without the label\n\
         `app.kubernetes.io/managed-by: bowline` is somebody else's: it is left alone.\n\n\
         | Event | |\n|---|---|\n\
         | `CMONKeyNotUsable` on the Secret | the metrics service takes no certificate that is signed with this key: an Ed25519 key, or one that is neither on the account itself nor of a member of its role `administrator` |\n\
         | `CMONObjectNotOurs` on the Secret or ConfigMap | somebody else has made it |\n\
         | `CMONTagPending` on a Node | the tag of its machine does not show; it is tried again every minute |\n\
         | `CMONTagRefused`, `BadCMONTag` on a Node | CloudAPI does not take the tag, or what is there cannot be understood and is left alone |\n\
         | `MachineOwnedByOtherCluster` on a Node | its machine bears the mark of another cluster; the annotation `{prefix}take_over: \"true\"` takes it over |\n\n"
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is one page")]
fn the_page_of_triton_is_what_its_tables_say() {
    let tables = bowline_triton::config::reference();
    let credentials = bowline_triton::config::table::CREDENTIALS_SECRET.name;
    let (loaded, rejected) = (bowline_triton::LOADED, bowline_triton::REJECTED);
    let annotations = bowline_triton::annotations::reference();
    let (prefix, instance_id) = (bowline_triton::PREFIX, bowline_triton::INSTANCE_ID);
    let (confirmed, names) = (bowline_triton::CONFIRMATIONS, bowline_triton::NAMES_READ);
    let (spoofing, no_nic) = (bowline_triton::NEED_SPOOFING, bowline_triton::NO_FABRIC_NIC);
    let (overlaps, outside) = (
        bowline_triton::OVERLAPS_SUBNET,
        bowline_triton::OUTSIDE_CLUSTER,
    );
    let (shared, too_many) = (bowline_triton::SHARED, bowline_triton::TOO_MANY);
    let (ipv6, entries) = (bowline_triton::IPV6_IGNORED, bowline_triton::MOST_ENTRIES);
    let measured = metrics_of_triton();
    compare(
        "triton.md",
        &format!(
            "# Triton\n\n\
             Written from the tables in the source; do not edit by hand.\n\n\
             The provider is chosen with `--cloud-provider=triton`, or by starting the program as\n\
             `triton-cloud-controller-manager`. It serves one data center.\n\n\
             Each value comes from the first of these that has it: a flag, the Secret, the environment,\n\
             the file of `--cloud-config`. The file is either in the original's form (`[Section]` and\n\
             `key = value`) or YAML (`section:` and camelCase keys: `tritonKeyId`). Unknown keys are\n\
             reported and ignored; all that cannot be used is reported at start-up. A change of the Secret or of the\n\
             file is taken on without a restart, once CloudAPI accepts it; flags, environment and behaviour\n\
             need one.\n\n{tables}\n\
             ## The Secret\n\n\
             `--{credentials}=<namespace>/<name>` names it; it is followed from the start of the\n\
             process on, by standbys too. The permission to `list` and `watch` that one Secret is enough. While it cannot\n\
             be read, the start waits, since it goes before environment and file; where it does not exist, these\n\
             count, and the start waits only if something is missing. The log says so.\n\n\
             On the Secret the manager that leads writes an event `{loaded}` with the fingerprint of the\n\
             key in use, at its start and after every change, and `{rejected}` if a change cannot be\n\
             used: the old credentials then stay.\n\n\
             ## Several data centers\n\n\
             Each data center is a cloud of its own in `bowline.yaml` (`--config`); `bowline config migrate --into`\n\
             adds one after the other. A file with `profiles` is refused.\n\n\
             ## Nodes\n\n\
             A node is its machine's by its provider id, `triton://<uuid>`. Without one: by its annotation\n\
             `{instance_id}`, by its name, by its DNS name, by what its firmware\n\
             calls it, by its addresses. More than one fitting machine is none.\n\n\
             Nodes get the labels `{prefix}brand`, `{prefix}compute-node` and\n\
             `{prefix}image`, and `tag.{prefix}<key>` for the tags that\n\
             `labels-from-tags` names, within seconds of a change; they go with what they are made of. The instance\n\
             type follows a machine that is resized; region and zone do not change.\n\n\
             Events on nodes: `AmbiguousInstance`, several machines fit; `InvalidProviderID`, the id has the scheme\n\
             but is none. If more than half of the nodes' machines, and at least 3, are gone at once, nothing is\n\
             concluded for ten minutes, and one event `MassDisappearance` on the manager's lease tells it.\n\n\
             One list of all machines serves every question; it is read anew every `resync`, and when the\n\
             change feed tells of a change. Machines that it does not show are read by themselves, at most\n\
             {confirmed} in one look; so are the DNS names of machines, at most {names} in one look, the\n\
             others with the next.\n\n\
             ## Services\n\n\
             A Service of type LoadBalancer is served in one of two modes. Its `loadBalancerClass`\n\
             (`{prefix}cns` or `{prefix}clb`) says which, else its annotation `mode`, else\n\
             `mode` of the configuration. All is in the first data center.\n\n\
             In mode `cns` the name service (CNS) has a name for all nodes that are Ready, by the tag\n\
             `triton.cns.services` of their machines. Entries of others in it stay; ours are recorded in\n\
             `bowline.cns`, and `bowline.node` says whose node a machine is. Tools that replace all tags, such as\n\
             Terraform, should ignore changes of tags. CNS checks nothing: when a physical server dies, its machines\n\
             stay in DNS for more than an hour, because their tags cannot be changed either. Use mode `clb` where\n\
             that matters. Port mode `direct` must not be used with kube-proxy in IPVS mode.\n\n\
             In mode `clb` load balancer machines of their own stand before the nodes.\n\n\
             All annotations begin with `{prefix}`.\n\n{annotations}\n\
             ## Routes\n\n\
             With `[Routes] enabled`, the route controller keeps a route to the pods of each node on the account's\n\
             fabric networks: those that nodes are on, or those of `networks`. It needs `--cluster-cidr`. All routes of\n\
             a network are one write; what is not inside the cluster's range stays as it is. Machines take on routes\n\
             when they boot, so that this is for everybody else on the network: load balancers, databases, new nodes.\n\
             Nodes route to each other by themselves, or by their CNI. With an overlay network (VXLAN, Geneve, WireGuard)\n\
             none of it is needed.\n\n\
             Packets from pods are dropped as long as the network cards of nodes may only send from their own\n\
             addresses. Only an operator of the data center can change that (`allow_ip_spoofing`, or `allowed_ips`); the\n\
             event `{spoofing}`, on the manager's own Pod if `POD_NAME` and `POD_NAMESPACE` are set, tells so.\n\n\
             | Event on a Node | The route cannot be, because |\n|---|---|\n\
             | `{no_nic}` | its machine has no address on a network that gets routes |\n\
             | `{overlaps}` | its pods would have addresses of the network |\n\
             | `{outside}` | its range is no part of `--cluster-cidr` |\n\
             | `{shared}` | an older node has the same range |\n\
             | `{too_many}` | a network holds {entries} routes at most |\n\
             | `{ipv6}` | fabric networks have no IPv6; the node's other ranges have their routes |\n\n\
             `triton_route_entries` (`network`) is the number of routes of a network, those of others included. Where\n\
             fabric networks are switched off (501), `/readyz` and the log tell so and nothing is done; it is looked at\n\
             again every five minutes.\n\n\
             {measured}\
             ## Rights of a sub-user\n\n\
             The role should be a default role of the sub-user, with a policy of these actions: `CAN getaccount,\n\
             listmachines, getmachine, listnics, listnetworks, getnetwork, listdatacenters, changefeed`; for\n\
             the limits of the account also `getprovisioninglimits`; for Services also `listmachinetags,\n\
             addmachinetags, deletemachinetag`, and `updateaccount` for `cns-enable-account`; for firewall rules\n\
             also `listfirewallrules, createfirewallrule, updatefirewallrule, deletefirewallrule`; for mode `clb`\n\
             also `createmachine, deletemachine, startmachine, renamemachine, enablemachinefirewall,\n\
             disablemachinefirewall, enable_deletion_protectionmachine, disable_deletion_protectionmachine,\n\
             listmachinemetadata, addmachinemetadata, deletemachinemetadata, listpackages, getpackage, listimages,\n\
             getimage`; for routes also `getfabricnetwork,\n\
             updatefabricnetwork`; for metrics of machines also `listservices, addmachinetags, deletemachinetag`, and the key must be\n\
             the account's own, or its user in the role `administrator`.\n\n\
             ## Storing credentials\n\n\
             `bowline triton credentials` proves a key and stores it as a Secret; `--rotate` makes a new one, waits\n\
             until a manager reports that it uses it, and removes the old one if this command made it. A key with another\n\
             name may be somebody's own and stays, with a warning, unless `--remove-old-key` is given. `--help` tells the rest.\n"
        ),
    );
}

/// The numbers of the cases that have a test, for one specification.
fn tested(specification: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut folders = ["crates", "e2e/scenarios"]
        .map(|it| workspace().join(it))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let start = format!("fn {specification}_case_");
                let names = text.split(start.as_str()).skip(1);
                found.extend(names.flat_map(numbers));
            }
        }
    }
    found
}

/// The numbers at the beginning of a name: `8_and_9_the_zone…`.
fn numbers(name: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in name.split("_and_") {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        numbers.extend(digits.parse::<u32>());
        if digits.len() < part.len() {
            break;
        }
    }
    numbers
}

/// The numbers that docs/compatibility.md lists as not tested yet: rows such as
/// `| framework 58–94, 139 | … |`.
fn listed(specification: &str) -> BTreeSet<u32> {
    let page = std::fs::read_to_string(workspace().join("docs/compatibility.md")).unwrap();
    let mut listed = BTreeSet::new();
    let start = format!("| {specification} ");
    for row in page
        .lines()
        .filter_map(|line| line.strip_prefix(start.as_str()))
    {
        let (numbers, _) = row.split_once(" |").unwrap();
        for part in numbers.split(", ") {
            let (first, last) = part.split_once('–').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            listed.extend(first..=last);
        }
    }
    listed
}

#[test]
fn every_case_has_a_test_or_a_reason() {
    for (specification, last) in [
        ("framework", 149),
        ("cloudscale", 91),
        ("exoscale", 112),
        ("talos", 99),
        ("xenorchestra", 87),
        ("triton", 84),
    ] {
        let (tested, listed) = (tested(specification), listed(specification));
        let missing: Vec<u32> = (1..=last)
            .filter(|case| !tested.contains(case) && !listed.contains(case))
            .collect();
        assert_eq!(
            missing, [0; 0],
            "{specification}: neither tested nor listed"
        );
        let stale: Vec<&u32> = tested.intersection(&listed).collect();
        assert_eq!(
            stale, [&0; 0],
            "{specification}: tested now, but still listed"
        );
    }
}

/// The pages that people read: those at the root, and all below `docs`.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![workspace().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                pages.push(path);
            }
        }
    }
    for entry in std::fs::read_dir(workspace()).unwrap() {
        let path = entry.unwrap().path();
        pages.extend(
            path.extension()
                .is_some_and(|it| it == "md")
                .then_some(path),
        );
    }
    pages.sort();
    pages
}

/// The anchors of a page, one for each heading.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(slug).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut followed = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1) {
            let Some((target, _)) = link.split_once(')') else {
                continue;
            };
            if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            let is_there = path.exists();
            let has_anchor = || {
                let text = std::fs::read_to_string(&path).unwrap();
                anchor.is_empty() || anchors(&text).contains(anchor)
            };
            if !is_there || (path.is_file() && !has_anchor()) {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(followed > 50, "only {followed} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `docs/writing-a-provider.md` shows the source as it is: each block after a comment that names a file is in that file.
#[test]
fn the_guide_shows_the_source_as_it_is() {
    let page = std::fs::read_to_string(workspace().join("docs/writing-a-provider.md")).unwrap();
    let mut shown = 0;
    for part in page.split("<!-- ").skip(1) {
        let (path, rest) = part.split_once(" -->\n```").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let (excerpt, _) = rest.split_once("\n```\n").unwrap();
        let source = std::fs::read_to_string(workspace().join(path)).unwrap();
        assert!(source.contains(excerpt), "{path} no longer has:\n{excerpt}");
        shown += 1;
    }
    assert!(shown >= 10, "only {shown} excerpts were found");
}

/// The example of the page is a file that the provider takes.
#[test]
fn the_example_of_the_page_of_static_is_right() {
    let page = std::fs::read_to_string(workspace().join("docs/reference/static.md")).unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machines.yaml");
    std::fs::write(&path, example).unwrap();
    let kind = bowline_static::KIND;
    let findings = (kind.check)(&(kind.input)(&serde_json::json!({"file": path})));
    assert_eq!(findings, []);
}

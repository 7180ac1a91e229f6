//! Every value from every place it can come from, and what is said about those that cannot be used.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::table::{ROWS, Section};
use super::*;
use crate::keys::examples::{RSA_FINGERPRINT, RSA_OPENSSH, RSA_PKCS1, V4_FINGERPRINT, p256_of_v4};

#[derive(Clone, Default)]
struct Harness {
    flags: BTreeMap<String, String>,
    secret: Option<SecretContent>,
    environment: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    file: Option<String>,
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// The four values that the original's environment has.
const ORIGINAL: [(&str, &str); 4] = [
    ("SDC_ENDPOINT", "https://a"),
    ("SDC_ACCOUNT", "acme"),
    ("SDC_KEY_ID", RSA_FINGERPRINT),
    ("SDC_PRIVATE_KEY", RSA_PKCS1),
];

impl Harness {
    fn environment(pairs: &[(&str, &str)]) -> Self {
        let environment = texts(pairs);
        Self {
            environment,
            ..Self::default()
        }
    }

    fn working() -> Self {
        Self::environment(&ORIGINAL)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    fn file(mut self, text: &str) -> Self {
        self.file = Some(text.to_owned());
        self
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.insert(name.to_owned(), value.to_owned());
        self
    }

    fn secret(mut self, pairs: &[(&str, &str)]) -> Self {
        self.secret = Some(SecretContent::new(texts(pairs)));
        self
    }

    fn disk(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

    fn read(&self) -> Result<Config, ConfigErrors> {
        let files = |path: &Path| {
            let text = self.files.get(path.to_str().unwrap_or_default()).cloned();
            text.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        };
        Config::read(&Given {
            flags: &self.flags,
            secret: self.secret.as_ref(),
            environment: &|name| self.environment.get(name).cloned(),
            file: self.file.as_deref(),
            read: &files,
            cluster_name: "kubernetes",
        })
    }

    #[track_caller]
    fn config(&self) -> Config {
        self.read().unwrap()
    }

    #[track_caller]
    fn connection(&self) -> Connection {
        self.config().connection
    }

    #[track_caller]
    fn account(&self) -> String {
        self.connection().owner.account
    }

    /// The fingerprint of the key.
    #[track_caller]
    fn key(&self) -> String {
        self.connection().key.fingerprint().md5()
    }

    #[track_caller]
    fn host(&self) -> String {
        let connection = self.connection();
        connection.endpoint.url().host_str().unwrap().to_owned()
    }

    /// Whether the messages have all these words.
    #[track_caller]
    fn complains(&self, words: &[&str]) {
        let wrong = self.wrong();
        assert!(words.iter().all(|it| wrong.contains(it)), "{wrong}");
    }

    #[track_caller]
    fn complains_first(&self, words: &str) {
        let wrong = self.wrong();
        assert!(wrong.starts_with(words), "{wrong}");
    }

    #[track_caller]
    fn wrong(&self) -> String {
        let errors = self.read().unwrap_err();
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        texts.join("\n")
    }
}

#[test]
fn without_anything_each_missing_value_is_named_with_where_to_give_it() {
    let wrong = Harness::default().wrong();
    let lines: Vec<&str> = wrong.lines().collect();
    assert_eq!(
        lines,
        [
            "the URL of CloudAPI is missing: give --triton-endpoint, SDC_ENDPOINT, triton-endpoint \
             in the file",
            "the account is missing: give --triton-account, TRITON_ACCOUNT, triton-account in the \
             file",
            "the private key is missing: give SDC_PRIVATE_KEY, triton-private-key in the file, \
             --triton-private-key-file, TRITON_KEY_FILE, triton-private-key-file in the file",
        ]
    );
}

#[test]
fn triton_case_03_a_key_id_of_another_key_is_refused_with_both_fingerprints() {
    let other = Harness::working().with("SDC_KEY_ID", V4_FINGERPRINT);
    other.complains(&[V4_FINGERPRINT, RSA_FINGERPRINT]);
    other.complains_first("SDC_KEY_ID is ");
    let none = Harness::working().with("SDC_KEY_ID", "my key");
    none.complains_first("SDC_KEY_ID: \"my key\" is no fingerprint");
    // Not given at all it is derived.
    let derived = Harness::working().without("SDC_KEY_ID");
    assert_eq!(derived.key(), RSA_FINGERPRINT);
}

#[test]
fn triton_case_10_the_originals_own_name_wins_then_triton_then_sdc() {
    let all = Harness::working()
        .with("TRITON_URL", "https://b")
        .with("SDC_URL", "https://c");
    assert_eq!(all.host(), "a");
    let two = all.without("SDC_ENDPOINT");
    assert_eq!(two.host(), "b");
    assert_eq!(two.clone().with("TRITON_URL", "").host(), "c");
    let account = Harness::working().with("TRITON_ACCOUNT", "other");
    assert_eq!(account.account(), "other");
    let key = p256_of_v4();
    let keys = Harness::working()
        .without("SDC_KEY_ID")
        .with("TRITON_KEY_MATERIAL", &key);
    assert_eq!(keys.key(), RSA_FINGERPRINT);
    assert_eq!(keys.without("SDC_PRIVATE_KEY").key(), V4_FINGERPRINT);
}

#[test]
fn triton_case_11_the_originals_file_is_read_and_the_environment_wins_over_it() {
    let key = RSA_PKCS1.replace('\n', "\\n");
    let file = format!(
        "# The original's\n[Global]\ntriton-endpoint = https://a/prefix/ ; with a path\n\
         triton-account = \"acme\"\nTRITON-KEY-ID = {RSA_FINGERPRINT}\n\
         triton-private-key = \"{key}\"\n"
    );
    let test = Harness::default().file(&file);
    let endpoint = test.connection().endpoint.to_string();
    assert_eq!(endpoint, "https://a/prefix");
    assert_eq!(
        (test.account(), test.key()),
        ("acme".into(), RSA_FINGERPRINT.into())
    );
    let unquoted = file.replace(&format!("\"{key}\""), &key);
    assert_eq!(Harness::default().file(&unquoted).key(), RSA_FINGERPRINT);
    let connection = test.with("SDC_ACCOUNT", "other").connection();
    assert_eq!(connection.owner.account, "other");
    assert_eq!(connection.endpoint.to_string(), "https://a/prefix");
}

#[test]
fn triton_case_80_a_sub_user_and_act_as_exclude_each_other() {
    let both = Harness::working().with("TRITON_USER", "bowline");
    let both = both.flag("triton-act-as", "shop");
    both.complains(&[
        "triton-user (TRITON_USER)",
        "triton-act-as (--triton-act-as)",
    ]);
    let act_as = Harness::working()
        .with("TRITON_ACT_AS", "shop")
        .connection();
    assert_eq!(act_as.login(), "shop");
    assert_eq!(act_as.owner.account, "acme");
    let user = Harness::working().with("SDC_USER", "bowline").connection();
    assert_eq!(user.login(), "acme");
    assert_eq!(user.owner.user.as_deref(), Some("bowline"));
}

#[test]
fn flags_win_over_the_secret_that_over_the_environment_and_that_over_the_file() {
    let file = "[Global]\ntriton-account = file\ntriton-endpoint = https://file\nqps = 7\n";
    let test = Harness::environment(&[("SDC_PRIVATE_KEY", RSA_PKCS1)]).file(file);
    assert_eq!(test.account(), "file");
    let test = test.with("SDC_ACCOUNT", "environment");
    assert_eq!(test.account(), "environment");
    let test = test.secret(&[("triton-account", "secret"), ("triton-url", "https://s")]);
    assert_eq!(test.account(), "secret");
    assert_eq!(test.host(), "s");
    let test = test.flag("triton-account", "flag");
    assert_eq!(test.account(), "flag");
    assert_eq!(test.config().calls.qps, 7);
    // Blanks count as unset.
    assert_eq!(test.flag("triton-account", " ").account(), "secret");
}

#[test]
fn every_name_of_every_value_is_read() {
    let secret_order = Harness::working().secret(&[
        ("SDC_URL", "https://second"),
        ("TRITON_URL", "https://third"),
        ("triton-url", "https://last"),
    ]);
    assert_eq!(secret_order.host(), "second");
    let key = p256_of_v4();
    let base = Harness::environment(&[("SDC_ENDPOINT", "https://a"), ("SDC_ACCOUNT", "acme")]);
    let in_secret = base.clone().secret(&[("triton-key", &key)]);
    assert_eq!(in_secret.key(), V4_FINGERPRINT);
    for name in ["TRITON_KEY_FILE", "SDC_KEY_FILE"] {
        let test = base.clone().with(name, "/keys/id").disk("/keys/id", &key);
        assert_eq!(test.key(), V4_FINGERPRINT);
    }
    // Only these may name a file, and what names none is taken for a key.
    for name in ["TRITON_KEY_MATERIAL", "SDC_KEY_MATERIAL"] {
        let test = base.clone().with(name, "/keys/id");
        let there = test.clone().disk("/keys/id", &key);
        assert_eq!(there.key(), V4_FINGERPRINT);
        test.complains(&["this is no private key"]);
    }
    let path = base.clone().with("SDC_PRIVATE_KEY", "/keys/id");
    let path = path.disk("/keys/id", &key);
    path.complains_first("SDC_PRIVATE_KEY: this is no private key");
    let missing = base.clone().with("SDC_KEY_FILE", "/keys/id");
    missing.complains_first("SDC_KEY_FILE: the file /keys/id cannot be read");
    // A text wins over a file, wherever it stands.
    let both = base.with("SDC_KEY_FILE", "/keys/none").file(&format!(
        "global:\n  tritonPrivateKey: \"{}\"\n",
        RSA_OPENSSH.replace('\n', "\\n")
    ));
    assert_eq!(both.key(), RSA_FINGERPRINT);
}

#[test]
fn an_encrypted_key_needs_its_passphrase() {
    let encrypted = include_str!("../keys/examples/p256.encrypted");
    let test = Harness::working()
        .without("SDC_KEY_ID")
        .with("SDC_PRIVATE_KEY", encrypted);
    test.complains(&["SDC_PRIVATE_KEY", "TRITON_KEY_PASSPHRASE"]);
    let (name, right) = ("TRITON_KEY_PASSPHRASE", "correct horse");
    test.clone().with(name, right).config();
    test.clone().secret(&[(name, right)]).config();
    let wrong = test.with(name, "hunter2").wrong();
    assert!(!wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn certificates_are_skipped_as_the_official_tools_read_it() {
    for (name, value, wanted) in [
        ("TRITON_TLS_INSECURE", "1", true),
        ("SDC_TLS_INSECURE", "0", false),
        ("SDC_TESTING", "false", false),
        ("SDC_TESTING", "no", false),
        ("SDC_TESTING", "anything", true),
        ("TRITON_SKIP_TLS_VERIFY", "0", true),
        ("SDC_SKIP_TLS_VERIFY", "false", true),
        ("SDC_SKIP_TLS_VERIFY", "", false),
    ] {
        let test = Harness::working().with(name, value);
        assert_eq!(test.connection().insecure, wanted, "{name}={value}");
    }
    // The first one that is set wins.
    let test = Harness::working()
        .with("TRITON_TLS_INSECURE", "0")
        .with("SDC_TESTING", "1");
    assert!(!test.connection().insecure);
    let flag = Harness::working().flag("triton-tls-insecure", "maybe");
    flag.complains(&["--triton-tls-insecure: \"maybe\""]);
    let file = Harness::working()
        .with("TRITON_CA_FILE", "/ca.pem")
        .disk("/ca.pem", "PEM");
    assert_eq!(file.connection().authorities.unwrap().pem, "PEM");
    let secret = Harness::working().secret(&[("ca.crt", "PEM")]).connection();
    let origin = secret.authorities.unwrap().origin;
    assert_eq!(origin, "key ca.crt of the Secret");
}

#[test]
fn the_defaults_are_those_of_the_reference() {
    let config = Harness::working().config();
    assert_eq!(
        config.calls,
        CallConfig {
            api_version: "~9||~8".to_owned(),
            request_timeout: Duration::from_secs(60),
            qps: 5,
            burst: 15,
            sign_request_target: true,
        }
    );
    assert_eq!(config.cluster_name, "kubernetes");
    assert!(config.changefeed && config.nodes.name_match);
    assert_eq!(config.resync, Duration::from_secs(60));
    let balancer = config.load_balancer;
    assert_eq!(balancer.mode, BalancerMode::Cns);
    assert_eq!(balancer.cns_label_style, LabelStyle::Dotted);
    assert_eq!(balancer.clb_image, "cloud-load-balancer");
    assert_eq!(balancer.clb_replicas, 1);
    assert_eq!(balancer.provision_timeout, Duration::from_secs(300));
    assert!(balancer.firewall && !balancer.adopt_legacy && !balancer.cns_enable_account);
    assert!(!config.routes.enabled && config.routes.networks.is_empty());
    assert_eq!(config.metrics.mode, MetricsMode::Off);
}

#[test]
fn behaviour_is_read_from_both_forms_of_the_file() {
    let gcfg = "[Global]\ncluster-name = prod\nqps = 2\nburst = 3\nchangefeed = off\nresync = 30s\n\
        sign-request-target = no\nrequest-timeout = 10\napi-version = ~8\n\
        [Nodes]\nname-match = false\nlabels-from-tags = env, team\n\
        [LoadBalancer]\nmode = clb\nclb-package = lb1.small\nclb-replicas = 8\nadopt-legacy\n\
        public-network = external\ncns-suffix-public = eg-1.cns.example.com.\n\
        cns-label-style = flat\nfirewall = never\nprovision-timeout = 1m30s\n\
        [Routes]\nenabled = true\nnetworks = My-Fabric\n[Metrics]\nmode = export\n\
        cmon-endpoint = https://cmon.eg-1.cns.example.com:9163\n";
    let yaml = "global:\n  clusterName: prod\n  qps: 2\n  burst: 3\n  changefeed: off\n  resync: 30s\n\
        \x20 signRequestTarget: no\n  requestTimeout: 10\n  apiVersion: ~8\n\
        nodes:\n  nameMatch: false\n  labelsFromTags: [env, team]\n\
        loadBalancer:\n  mode: clb\n  clbPackage: lb1.small\n  clbReplicas: 8\n  adoptLegacy: true\n\
        \x20 publicNetwork: external\n  cnsSuffixPublic: eg-1.cns.example.com.\n\
        \x20 cnsLabelStyle: flat\n  firewall: never\n  provisionTimeout: 1m30s\n\
        routes:\n  enabled: true\n  networks: [My-Fabric]\nmetrics:\n  mode: export\n\
        \x20 cmonEndpoint: https://cmon.eg-1.cns.example.com:9163\n";
    for file in [gcfg, yaml] {
        let config = Harness::working().file(file).config();
        assert_eq!(config.warnings, [""; 0], "{file}");
        assert_eq!(config.cluster_name, "prod");
        let calls = &config.calls;
        assert_eq!((calls.qps, calls.burst, &*calls.api_version), (2, 3, "~8"));
        assert!(!calls.sign_request_target && !config.changefeed && !config.nodes.name_match);
        assert_eq!(calls.request_timeout, Duration::from_secs(10));
        assert_eq!(config.resync, Duration::from_secs(30));
        assert_eq!(config.nodes.labels_from_tags, ["env", "team"]);
        let balancer = &config.load_balancer;
        assert_eq!(balancer.mode, BalancerMode::Clb);
        assert_eq!(balancer.clb_replicas, 8);
        let suffix = balancer.cns_suffix_public.as_deref();
        assert_eq!(suffix, Some("eg-1.cns.example.com"));
        assert_eq!(balancer.provision_timeout, Duration::from_secs(90));
        assert!(balancer.adopt_legacy && !balancer.firewall);
        assert!(config.routes.enabled);
        assert_eq!(config.routes.networks, ["My-Fabric"]);
        assert_eq!(config.metrics.mode, MetricsMode::Export);
        assert!(config.metrics.cmon_endpoint.is_some());
    }
    let environment = Harness::working()
        .file(gcfg)
        .with("TRITON_LB_IMAGE", "clb-2")
        .with("TRITON_LB_PACKAGE", "g4")
        .with("TRITON_PROVISION_TIMEOUT", "60")
        .with("TRITON_DELETE_TIMEOUT", "61");
    let balancer = environment.config().load_balancer;
    assert_eq!(balancer.clb_image, "clb-2");
    assert_eq!(balancer.clb_package.as_deref(), Some("g4"));
    assert_eq!(balancer.provision_timeout, Duration::from_secs(60));
    assert_eq!(balancer.delete_timeout, Duration::from_secs(61));
}

#[test]
fn every_wrong_value_is_named() {
    for (section, key, value) in [
        ("Global", "cluster-name", "Prod"),
        ("Global", "cluster-name", "a-"),
        (
            "Global",
            "cluster-name",
            "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddx",
        ),
        ("Global", "request-timeout", "0"),
        ("Global", "resync", "soon"),
        ("Global", "qps", "0"),
        ("Global", "burst", "-1"),
        ("Global", "sign-request-target", "maybe"),
        ("Global", "changefeed", "on"),
        ("Global", "triton-datacenter", "a b"),
        ("Global", "region", "-"),
        ("Global", "zone", "a b"),
        ("Global", "triton-user", "a/b"),
        ("Nodes", "name-match", "2"),
        ("Nodes", "labels-from-tags", "a b"),
        ("LoadBalancer", "mode", "nlb"),
        ("LoadBalancer", "cns-label-style", "round"),
        ("LoadBalancer", "cns-suffix-public", "a b"),
        ("LoadBalancer", "firewall", "off"),
        ("LoadBalancer", "clb-replicas", "9"),
        ("LoadBalancer", "delete-timeout", "25h"),
        ("Routes", "enabled", "perhaps"),
        ("Metrics", "mode", "push"),
    ] {
        let test = Harness::working().file(&format!("[{section}]\n{key} = {value}\n"));
        let words = format!("configuration [{section}] {key}: {value:?} is not allowed");
        test.complains_first(&words);
    }
    for account in ["aaaaaaaa-0000-4000-8000-00000000000a", "a/b", "my", "a\"b"] {
        let test = Harness::working().with("SDC_ACCOUNT", account);
        test.complains_first("configuration SDC_ACCOUNT: ");
    }
    let test = Harness::working().with("SDC_ENDPOINT", "https://u:hunter2@a");
    test.complains_first("SDC_ENDPOINT: the URL holds");
    let test = Harness::working().file("[LoadBalancer]\nmode = clb\n");
    test.complains(&["TRITON_LB_PACKAGE"]);
    let test = Harness::working().file("[Metrics]\ncmon-endpoint = nowhere\n");
    test.complains_first("[Metrics] cmon-endpoint: ");
}

#[test]
fn what_is_not_known_is_a_warning_and_what_cannot_be_read_an_error() {
    let gcfg = "[Global]\ntriton-acount = acme\n[Elsewhere]\nkey = value\n";
    let warnings = Harness::working().file(gcfg).config().warnings;
    assert_eq!(
        warnings,
        [
            "line 2: key triton-acount of [Global] is not known",
            "line 3: section [Elsewhere] is not known",
        ]
    );
    let yaml = "global:\n  tritonAcount: acme\n  tritonUser: ~\nelsewhere: {a: [b]}\nnodes:\n";
    let warnings = Harness::working().file(yaml).config().warnings;
    let known = ["key global.tritonAcount", "section elsewhere"];
    assert_eq!(warnings, known.map(|it| format!("{it} is not known")));
    for (file, words) in [
        ("[Global\n", "line 1: the section has no ]"),
        (
            "[Global]\ntriton-private-key = \"hunter2\n",
            "line 2: a quote is not closed",
        ),
        (
            "[Global]\ntriton-account = \"a\\x\"\n",
            "line 2: a backslash",
        ),
        ("global: [hunter2]\n", "line 1"),
        ("global: {tritonAccount: [hunter2]}\n", "line 1"),
        ("global: {a: b\n", "line"),
    ] {
        let test = Harness::working().file(file);
        test.complains_first("the cloud config file cannot be read: ");
        test.complains(&[words]);
        assert!(!test.wrong().contains("hunter2"), "{words}");
    }
    for empty in ["", "\n # nothing\n", "---\n"] {
        Harness::working().file(empty).config();
    }
}

#[test]
fn what_is_written_in_yaml_is_not_guessed_about() {
    let yaml = "global:\n  tritonAccount: 0123\n  tritonUser: no\n  tritonRoles: ops\n";
    let test = Harness::working().without("SDC_ACCOUNT");
    let connection = test.file(yaml).connection();
    assert_eq!(connection.owner.account, "0123");
    assert_eq!(connection.owner.user.as_deref(), Some("no"));
    assert_eq!(connection.roles, ["ops"]);
}

#[test]
fn several_data_centers_are_several_clouds() {
    for file in [
        "profiles: [{name: east}]\n",
        "global: {qps: 7}\nprofiles:\n",
    ] {
        assert_eq!(
            Harness::default().file(file).wrong(),
            "profiles: a Triton cloud is one data center; write each of them as a cloud of its own \
             in bowline.yaml (--config)"
        );
    }
}

#[test]
fn no_secret_is_shown() {
    let content = SecretContent::new(texts(&[("SDC_PRIVATE_KEY", "hunter2")]));
    assert_eq!(format!("{content:?}"), r#"{"SDC_PRIVATE_KEY"}"#);
    let config = Harness::working().config();
    assert!(!format!("{config:?}").contains("MIIEpAIBAAKCAQEAr"));
}

#[test]
fn the_table_has_every_row_once() {
    let mut keys: Vec<(Section, &str)> = ROWS.iter().map(|row| (row.section, row.key())).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
    let page = reference();
    let row = "| `triton-key-id` | `--triton-key-id` | `TRITON_KEY_ID`, `SDC_KEY_ID` |";
    assert!(page.contains(row));
    assert_eq!(table::KEY_ID.yaml_key(), "tritonKeyId");
}

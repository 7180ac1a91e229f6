use super::*;

const SECRET: &str = "{secret: {name: s, key: k}}";

fn problems(text: &str) -> Vec<String> {
    let problems = read(text).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// A cloud of cloudscale with that name.
fn cloudscale(name: &str) -> String {
    format!("- {{name: {name}, provider: cloudscale, settings: {{accessToken: {SECRET}}}}}\n")
}

#[test]
fn the_example_of_the_reference_page_is_right() {
    let configuration = read(publish::EXAMPLE).unwrap();
    let names: Vec<&str> = configuration
        .clouds
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["geneva", "rented"]);
    assert_eq!(
        configuration.default_cloud,
        Some(CloudName::parse("geneva").unwrap())
    );
    assert_eq!(configuration.clouds[1].guard.budget_percent, 5);
    assert_eq!(configuration.clouds[0].guard, GuardPolicy::default());
    assert!(configuration.clouds[0].selector.is_some());
    let mention = &configuration.clouds[1].mentions[0];
    assert_eq!(mention.path, "clouds[1].settings.accessToken");
    assert_eq!(
        mention.reference.to_string(),
        "the key access-token of the Secret cloudscale"
    );
    assert_eq!(
        configuration.manager,
        [
            ("cluster-name", vec!["shop".to_owned()]),
            ("concurrent-service-syncs", vec!["4".to_owned()])
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_place_path_and_hint() {
    let text = "\
kind: Config
clouds:
  - name: Geneva
    provider: exoscal
    settings: {}
  - name: rented
    provider: cloudscale
    nodeSelectr: a=b
    settings:
      accessToken: hunter2
      apiTimeout: 0
      api_url: https://x
  - name: rented
    provider: exoscale
    nodeSelector: 'a in ('
    settings:
      global:
        zone: [ch-gva-2]
        trace: 'true'
      instances: {overrides: [{name: a, addresses: [{type: IP, address: 1.2.3.4}]}]}
manager:
  mode: manage
  concurrent-node-sync: 3
  kube-api-burst: many
  node-monitor-period: soon
  cloud-provider: exoscale
";
    let all = problems(text);
    // Which cloud serves Services is not said either.
    let (missing, reported): (Vec<String>, Vec<String>) =
        all.into_iter().partition(|it| it.contains("defaultCloud"));
    let wanted = [
        "1:7: kind: \"Config\" is not allowed; allowed is Configuration",
        "3:11: clouds[0].name: \"Geneva\" is not allowed; allowed is 1 to 63 lower-case",
        "4:15: clouds[0].provider: \"exoscal\" is not allowed; allowed is cloudscale, exoscale, talos, \
         xenorchestra, triton, static; did you mean exoscale?",
        "8:5: clouds[1].nodeSelectr: is no key here; the keys are account, guard, loadBalancers, name, nodeSelector, \
         provider, settings; did you mean nodeSelector?",
        "10:20: clouds[1].settings.accessToken: a secret does not stand here; say where it is",
        "11:19: clouds[1].settings.apiTimeout: \"0\" is not allowed; allowed is a whole number from 1 to 3600",
        "12:7: clouds[1].settings.api_url: is no key here",
        "13:11: clouds[2].name: rented is the name of another cloud already, at 6:11",
        "15:19: clouds[2].nodeSelector: unable to parse selector",
        "18:15: clouds[2].settings.global.zone: a list cannot stand here; allowed is a text",
        "19:16: clouds[2].settings.global.trace: \"true\" is not allowed; allowed is true or false, without",
        "20:60: clouds[2].settings.instances.overrides[0].addresses[0].type: \"IP\" is not allowed",
        "23:3: manager.concurrent-node-sync: is no key here",
        "24:19: manager.kube-api-burst: \"many\" is not allowed; allowed is a whole number from",
        "25:24: manager.node-monitor-period: \"soon\" is not allowed; allowed is a duration",
        "26:3: manager.cloud-provider: is no key here",
    ];
    for (reported, wanted) in reported.iter().zip(wanted) {
        assert!(reported.starts_with(wanted), "{reported}\nis not\n{wanted}");
    }
    let hints = [
        (6, "did you mean apiUrl?"),
        (12, "did you mean concurrent-node-syncs?"),
    ];
    for (number, hint) in hints {
        assert!(reported[number].ends_with(hint), "{}", reported[number]);
    }
    assert_eq!(
        (missing.len(), reported.len()),
        (1, wanted.len()),
        "{reported:#?}"
    );
    assert!(
        !reported.iter().any(|it| it.contains("hunter2")),
        "{reported:#?}"
    );
}

#[test]
fn the_cloud_of_services_without_a_class_is_said_where_there_are_several() {
    let two = format!("clouds:\n{}{}", cloudscale("a"), cloudscale("b"));
    let reported = problems(&two);
    assert_eq!(reported.len(), 1);
    assert!(
        reported[0].contains("services.defaultCloud: is missing")
            && reported[0].ends_with("a, b, or none"),
        "{reported:?}"
    );
    let with = |word: &str| read(&format!("{two}services: {{defaultCloud: {word}}}\n"));
    assert_eq!(with("none").unwrap().default_cloud, None);
    let b = CloudName::parse("b").unwrap();
    assert_eq!(with("b").unwrap().default_cloud, Some(b));
    assert!(with("c").is_err());
    // One alone serves them all, and one without load balancers none.
    let one = read(&format!("clouds:\n{}", cloudscale("a"))).unwrap();
    assert_eq!(one.default_cloud, CloudName::parse("a").ok());
    let talos = read("clouds: [{name: t, provider: talos, settings: {endpoints: a}}]").unwrap();
    assert_eq!(talos.default_cloud, None);
    let none = format!("clouds:\n{}", cloudscale("none"));
    assert!(problems(&none)[0].contains("means no cloud"));
}

#[test]
fn a_file_without_clouds_is_none() {
    for text in [
        "",
        "# nothing\n",
        "clouds: []\n",
        "clouds:\n",
        "manager: {}\n",
        "[]",
        "a",
    ] {
        let reported = problems(text);
        assert_eq!(reported.len(), 1, "{text:?}: {reported:?}");
    }
}

#[test]
fn references_say_one_place() {
    for (reference, wanted) in [
        (
            "{file: /a, environment: B}",
            "exactly one of file, environment and secret",
        ),
        ("{}", "exactly one of"),
        ("{secret: {name: a}}", "accessToken.secret.key: is missing"),
        ("{secret: a}", "allowed is keys and values"),
        ("{fle: /a}", "did you mean file?"),
        ("{file: ''}", "it is empty"),
    ] {
        let text = format!(
            "clouds: [{{name: a, provider: cloudscale, settings: {{accessToken: {reference}}}}}]"
        );
        let reported = problems(&text);
        assert!(
            reported.len() == 1 && reported[0].contains(wanted),
            "{reference}: {reported:?}"
        );
    }
}

/// What a provider's original would have been given for the only cloud of a text.
fn given(text: &str, secrets: &[(&str, &str)]) -> ProviderInput {
    let configuration = read(text).unwrap_or_else(|it| panic!("{it:?}"));
    let resolved: Resolved = secrets
        .iter()
        .map(|(name, secret)| {
            let reference = reference::Reference::Environment((*name).to_owned());
            (reference, bowline_core::Secret::new(*secret))
        })
        .collect();
    configuration.clouds[0].input(&resolved)
}

#[test]
fn every_provider_reads_its_settings_as_it_reads_its_originals() {
    let exoscale = given(
        "clouds: [{name: a, provider: exoscale, settings: {global: {apiKey: EXO0123456789abcdef01234567,
          apiSecret: {environment: S}, zone: ch-gva-2, trace: true, sksAgentRunners: [node-csr-validation]},
          instances: {overrides: [{name: /n-.*/, external: true}]},
          loadBalancer: {localPolicyHealthCheck: http}}}]",
        &[("S", "shh")],
    );
    let environment = |name: &str| exoscale.environment.get(name);
    let file = exoscale.text().unwrap();
    let config = bowline_exoscale::Config::read(environment, file.as_deref()).unwrap();
    assert!(config.trace && config.node_csr_validation && !config.instances.overrides.is_empty());
    assert_eq!(config.zone.unwrap().value, "ch-gva-2");
    let bowline_exoscale::config::CredentialSource::Given(pair) = config.credentials else {
        panic!("the pair is given");
    };
    assert_eq!(pair.secret.reveal(), "shh");

    let cloudscale = given(
        "clouds: [{name: a, provider: cloudscale, settings: {accessToken: {environment: T},
          apiTimeout: 7, ownershipTags: false, driftCheckPeriod: 0s}}]",
        &[("T", "token")],
    );
    let environment = |name: &str| cloudscale.environment.get(name);
    let config = bowline_cloudscale::Config::read(environment).unwrap();
    assert_eq!(config.timeout.value.as_secs(), 7);
    assert!(!config.ownership_tags.value && config.drift_check_period.value.is_none());
    assert!(cloudscale.file.is_none());

    let xenorchestra = given(
        "clouds: [{name: a, provider: xenorchestra, settings: {url: 'https://xoa.test', username: 010,
          password: {environment: P}, insecure: true, addressInclude: [10.0.0.0/8], events: false,
          servers: [{name: b, url: 'https://b.test', token: {environment: T}}]}}]",
        &[("P", "p\"\\u0000 w"), ("T", "t")],
    );
    let file = xenorchestra.text().unwrap();
    let config = bowline_xenorchestra::Config::read(|_| None, file.as_deref()).unwrap();
    assert_eq!(config.servers.len(), 2);
    let bowline_xenorchestra::config::Login::Password { user, password } = &config.servers[0].login
    else {
        panic!("a user with a password");
    };
    assert_eq!((user.as_str(), password.reveal()), ("010", "p\"\\u0000 w"));
    assert!(config.servers[0].insecure && !config.events);

    let talos = given(
        "clouds: [{name: a, provider: talos, settings: {talosconfig: /c, endpoints: [a, b],
          global: {preferIPv6: true}, transformations: [{name: r, labels: {a/b: '{{ .Zone }}', n: on},
          nodeSelector: [{matchExpressions: [{key: zone, operator: In, values: [1]}]}]}]}}]",
        &[],
    );
    let file = talos.text().unwrap().unwrap();
    let config = bowline_talos::Config::read(&file).unwrap();
    assert!(config.prefer_ipv6);
    assert_eq!(config.findings, []);
    assert_eq!(talos.environment.get("TALOS_ENDPOINTS").unwrap(), "a,b");
    assert_eq!(talos.environment.get("TALOSCONFIG").unwrap(), "/c");

    let triton = given(
        "clouds: [{name: a, provider: triton, settings: {global: {tritonEndpoint: 'https://t.test',
          tritonAccount: a, tritonPrivateKey: {file: /k}, qps: 3}, routes: {networks: [x, y]},
          loadBalancer: {mode: none}}}]",
        &[],
    );
    let file = triton.text().unwrap().unwrap();
    assert!(file.contains(r#""tritonPrivateKeyFile":"/k""#), "{file}");
    assert!(file.contains(r#""networks":["x","y"]"#), "{file}");
}

/// Every key that a provider's original has, its settings have.
#[test]
fn no_key_of_an_original_is_forgotten() {
    fn paths(kind: &Kind, path: &str, all: &mut Vec<String>) {
        match kind {
            Kind::Object(fields) => {
                for field in fields {
                    let path = match path {
                        "" => field.name.clone(),
                        path => format!("{path}.{}", field.name),
                    };
                    all.push(path.clone());
                    paths(&field.kind, &path, all);
                }
            }
            Kind::List(inner) => paths(inner, &format!("{path}[]"), all),
            _ => {}
        }
    }
    // An old key of Talos that a key of ours stands for, and rows for several keys.
    let left_out = [
        "global.endpoints",
        "servers[].url, …",
        "transformations[].annotations`, `.labels",
    ];
    let rows = [
        (bowline_exoscale::KIND, &bowline_exoscale::config::KEYS[..]),
        (
            bowline_xenorchestra::KIND,
            &bowline_xenorchestra::config::KEYS[..],
        ),
        (bowline_talos::KIND, bowline_talos::config::keys()),
    ];
    for (provider, rows) in rows {
        let mut all = Vec::new();
        paths(&(provider.settings)(), "", &mut all);
        for row in rows.iter().filter(|row| !left_out.contains(&row.name)) {
            assert!(
                all.iter().any(|it| it == row.name),
                "{}: {}",
                provider.name,
                row.name
            );
        }
    }
    let variables = bowline_cloudscale::config::VARIABLES.len();
    let mut all = Vec::new();
    paths(&(bowline_cloudscale::KIND.settings)(), "", &mut all);
    // The variable of the token's file is a reference here.
    assert_eq!(all.len(), variables - 1);
}

#[track_caller]
fn compare(page: &str, wanted: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let path = path.join(page);
    if std::env::var_os("BOWLINE_WRITE_DOCS").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/reference/{page} is not what the source says; write it anew with \
         BOWLINE_WRITE_DOCS=1 cargo test -p bowline --lib config"
    );
}

#[test]
fn the_published_schema_and_page_are_what_the_source_says() {
    compare("bowline.schema.json", &publish::json_schema());
    compare("configuration.md", &publish::reference_page());
    let flags = bowline_controllers::options::reference_markdown(crate::flags::table());
    compare("flags.md", &flags);
}

/// Everything that providers find wrong with the only cloud of a text, secrets aside.
fn said_by_the_provider(text: &str) -> (Vec<String>, Vec<String>) {
    let configuration = read(text).unwrap_or_else(|it| panic!("{it:?}"));
    let found = check::settings_of(&configuration.clouds[0], &Resolved::new());
    let problems = found.problems.iter().map(ToString::to_string).collect();
    (problems, found.remarks)
}

#[test]
fn what_providers_find_wrong_is_told_at_its_place() {
    for (text, place, words) in [
        (
            "clouds:\n- name: a\n  provider: exoscale\n  settings:\n    global:\n      apiKey: EXO1\n      \
             apiSecret: {environment: S}\n      zone: Not A Zone\n",
            "8:13: clouds[0].settings.global.zone: ",
            "\"Not A Zone\" is not allowed",
        ),
        (
            "clouds:\n- name: a\n  provider: cloudscale\n  settings:\n    accessToken: {environment: T}\n    \
             apiUrl: ftp://x\n",
            "6:13: clouds[0].settings.apiUrl: ",
            "CLOUDSCALE_API_URL",
        ),
        (
            "clouds:\n- name: a\n  provider: xenorchestra\n  settings:\n    url: https://x\n    \
             token: {environment: T}\n    addressInclude: [many]\n",
            "7:21: clouds[0].settings.addressInclude: ",
            "no CIDR",
        ),
        (
            "clouds:\n- name: a\n  provider: talos\n  settings:\n    transformations:\n    - name: r\n      \
             labels: {a: '{{ .Zone'}\n",
            "",
            "",
        ),
        (
            "clouds:\n- name: a\n  provider: triton\n  settings:\n    global:\n      tritonEndpoint: https://t\n      \
             tritonAccount: a\n      tritonPrivateKey: {environment: K}\n      qps: none\n",
            "9:12: clouds[0].settings.global.qps: ",
            "\"none\"",
        ),
    ] {
        let (problems, remarks) = said_by_the_provider(text);
        assert_eq!(
            problems.len() + usize::from(remarks.len() > 1),
            1,
            "{problems:?} {remarks:?}"
        );
        assert!(
            problems[0].starts_with(place) && problems[0].contains(words),
            "{problems:?}"
        );
    }
}

fn migrated(
    command: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> migrate::Migrated {
    use bowline_controllers::options::{Request, parse};
    let provider = crate::providers::by_command(command).unwrap();
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let Ok(Request::Run(line)) = parse(
        crate::flags::table(),
        command,
        Some(provider.name),
        &arguments,
    ) else {
        panic!("it runs");
    };
    let variable = |name: &str| {
        let found = environment.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let original = migrate::Original {
        provider,
        line: &line,
        environment: &variable,
        file,
    };
    let made = migrate::migrate(&original, &CloudName::parse("mine").unwrap(), None).unwrap();
    assert_eq!(made.problems, [], "{}", made.text);
    for secret in ["hunter2", "hunter3"] {
        let reported = made.remarks.iter().any(|it| it.contains(secret));
        assert!(!reported && !made.text.contains(secret), "{}", made.text);
    }
    made
}

#[test]
fn an_originals_command_line_environment_and_file_become_a_configuration_that_says_the_same() {
    let made = migrated(
        "exoscale-cloud-controller-manager",
        &[
            "--leader-elect-resource-name=x",
            "--controllers=*,-route",
            "--v=4",
            "--node-monitor-period=9s",
        ],
        &[
            ("EXOSCALE_API_KEY", "EXO1"),
            ("EXOSCALE_ZONE", "ch-gva-2"),
            ("EXOSCALE_TRACE", "1"),
        ],
        Some(
            "global: {apiSecret: hunter2, zone: de-fra-1, apiEndpoint: 'https://x/v2'}\n\
             instances: {overrides: [{name: n, external: yes}]}\nold: 1\n",
        ),
    );
    let configuration = read(&made.text).unwrap();
    let cloud = &configuration.clouds[0];
    let places: Vec<String> = cloud
        .mentions
        .iter()
        .map(|it| it.reference.to_string())
        .collect();
    assert_eq!(
        places,
        [
            "the variable EXOSCALE_API_KEY",
            "the key global.apiSecret of the Secret mine"
        ]
    );
    let given = cloud.input(&Resolved::new());
    let file = given.text().unwrap().unwrap();
    for words in [
        r#""zone":"ch-gva-2""#,
        r#""external":true"#,
        r#""apiEndpoint":"https://x/v2""#,
    ] {
        assert!(file.contains(words), "{file}");
    }
    assert!(given.environment.get("EXOSCALE_TRACE").is_some());
    let flags: Vec<&str> = configuration
        .manager
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(
        flags,
        [
            "controllers",
            "leader-elect-resource-name",
            "node-monitor-period",
            "v"
        ]
    );
    assert!(
        made.remarks
            .iter()
            .any(|it| it.starts_with("old (3:1 of the file)"))
    );
}

#[test]
fn every_original_can_be_migrated() {
    let made = migrated(
        "cloudscale-cloud-controller-manager",
        &[],
        &[
            ("CLOUDSCALE_ACCESS_TOKEN", "hunter2"),
            ("CLOUDSCALE_OWNERSHIP_TAGS", "f"),
        ],
        None,
    );
    assert!(
        made.text.contains("CLOUDSCALE_ACCESS_TOKEN") && made.text.contains("ownershipTags: false")
    );
    let [remark] = made.remarks.as_slice() else {
        panic!("{:?}", made.remarks);
    };
    for words in [
        "settings.accessToken",
        "the variable CLOUDSCALE_ACCESS_TOKEN",
        "extraEnv",
        "{secret: {name: mine, key: accessToken}}",
    ] {
        assert!(remark.contains(words), "{remark}");
    }

    let made = migrated(
        "xenorchestra-cloud-controller-manager",
        &[],
        &[("XOA_URL", "https://not.looked.at")],
        Some(
            "url: https://xoa\nusername: u\npassword: hunter2\ninsecure: on\nservers: [{name: b, url: 'https://b', token: hunter3}]\n",
        ),
    );
    assert!(
        made.text.contains("insecure: true") && !made.text.contains("looked"),
        "{}",
        made.text
    );
    assert_eq!(made.remarks.len(), 2, "{:?}", made.remarks);

    let made = migrated(
        "talos-cloud-controller-manager",
        &["--use-service-account-credentials"],
        &[("TALOSCONFIG", "/t")],
        Some(
            "global: {endpoints: [10.0.0.1], preferIPv6: true}\ntransformations:\n- labels: {a: '{{ .Zone }}'}\n",
        ),
    );
    let given = read(&made.text).unwrap().clouds[0].input(&Resolved::new());
    assert_eq!(
        given.environment.get("TALOS_ENDPOINTS").unwrap(),
        "10.0.0.1"
    );

    let made = migrated(
        "triton-cloud-controller-manager",
        &[],
        &[("SDC_ACCOUNT", "acme"), ("SDC_KEY_FILE", "/k")],
        Some(
            "[Global]\ntriton-endpoint = https://t\ntriton-account = other\nqps = 3\n[LoadBalancer]\nmode = none\n",
        ),
    );
    let file = read(&made.text).unwrap().clouds[0]
        .input(&Resolved::new())
        .text()
        .unwrap()
        .unwrap();
    for words in [
        r#""tritonAccount":"acme""#,
        r#""qps":"3""#,
        r#""mode":"none""#,
        r#""/k""#,
    ] {
        assert!(file.contains(words), "{file}");
    }
}

#[test]
fn a_secret_that_triton_is_to_follow_is_migrated() {
    let made = migrated(
        "triton-cloud-controller-manager",
        &[
            "--triton-credentials-secret=kube-system/triton-credentials",
            "--triton-account=acme",
        ],
        &[],
        Some("# One data center.\nglobal: {tritonEndpoint: 'https://a'}\n"),
    );
    let given = read(&made.text).unwrap().clouds[0].input(&Resolved::new());
    assert_eq!(
        given.flags["triton-credentials-secret"],
        "kube-system/triton-credentials"
    );
    let file = given.text().unwrap().unwrap();
    for words in ["https://a", r#""tritonAccount":"acme""#] {
        assert!(file.contains(words), "{file}");
    }
    let reported = made.remarks.iter();
    assert!(
        reported.clone().any(|it| it.contains("credentialsSecret")),
        "{reported:?}"
    );
}

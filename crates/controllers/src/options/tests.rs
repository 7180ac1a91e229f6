//! The table against the specification, and the parser against its rules.

use super::*;

fn arguments(line: &[&str]) -> Vec<String> {
    line.iter().map(|&argument| argument.to_owned()).collect()
}

fn run(line: &[&str]) -> CommandLine {
    match parse(
        Table::default(),
        "cloud-controller-manager",
        Some("demo"),
        &arguments(line),
    ) {
        Ok(Request::Run(command)) => *command,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn error(line: &[&str]) -> String {
    match parse(
        Table::default(),
        "cloud-controller-manager",
        Some("demo"),
        &arguments(line),
    ) {
        Err(error) => error.message,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn problems(line: &[&str]) -> String {
    run(line)
        .options
        .validate()
        .map_or_else(|invalid| invalid.to_string(), |()| String::new())
}

/// Every flag of the specification, and of ours, with its default, as the FLAG lines show it.
const SPECIFIED: &[(&str, &str)] = &[
    ("allocate-node-cidrs", "false"),
    ("allow-untagged-cloud", "false"),
    ("authentication-kubeconfig", ""),
    ("authentication-skip-lookup", "false"),
    ("authentication-token-webhook-cache-ttl", "10s"),
    ("authentication-tolerate-lookup-failure", "false"),
    (
        "authorization-always-allow-paths",
        "[/healthz,/readyz,/livez]",
    ),
    ("authorization-kubeconfig", ""),
    ("authorization-webhook-cache-authorized-ttl", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "10s"),
    ("bind-address", "0.0.0.0"),
    ("cert-dir", ""),
    ("cidr-allocator-type", "RangeAllocator"),
    ("client-ca-file", ""),
    ("cloud-config", ""),
    ("cloud-provider", ""),
    ("cluster-cidr", ""),
    ("cluster-name", "kubernetes"),
    ("concurrent-node-lifecycle-syncs", "1"),
    ("concurrent-node-status-updates", "0"),
    // The framework's is 1, with 20 requests per second: ours adapts to the API server.
    ("concurrent-node-syncs", "-1"),
    // The framework's is 1: one slow load balancer holds up all others.
    ("concurrent-service-syncs", "5"),
    ("configure-cloud-routes", "true"),
    ("contention-profiling", "false"),
    ("controller-start-interval", "0s"),
    ("controllers", "[*]"),
    ("disable-http2-serving", "false"),
    ("enable-leader-migration", "false"),
    ("external-cloud-volume-plugin", ""),
    ("feature-gates", ""),
    ("help", "false"),
    ("hold-leases", "[]"),
    ("http2-max-streams-per-connection", "0"),
    ("kube-api-burst", "30"),
    (
        "kube-api-content-type",
        "application/vnd.kubernetes.protobuf",
    ),
    ("kube-api-qps", "-1"),
    ("kubeconfig", ""),
    ("leader-elect", "true"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-resource-lock", "leases"),
    ("leader-elect-resource-name", "cloud-controller-manager"),
    ("leader-elect-resource-namespace", "kube-system"),
    ("leader-elect-retry-period", "2s"),
    ("leader-migration-config", ""),
    ("log-flush-frequency", "5s"),
    ("log-json-info-buffer-size", "0"),
    ("log-json-split-stream", "false"),
    ("log-text-info-buffer-size", "0"),
    ("log-text-split-stream", "false"),
    ("logging-format", "text"),
    ("master", ""),
    ("min-resync-period", "12h0m0s"),
    ("node-cidr-mask-size", "0"),
    ("node-cidr-mask-size-ipv4", "0"),
    ("node-cidr-mask-size-ipv6", "0"),
    ("node-monitor-period", "5s"),
    ("node-status-update-frequency", "5m0s"),
    ("node-sync-period", "0s"),
    ("permit-address-sharing", "false"),
    ("permit-port-sharing", "false"),
    ("profiling", "true"),
    // Ours.
    ("remove-orphaned-load-balancers", "false"),
    ("requestheader-allowed-names", "[]"),
    ("requestheader-client-ca-file", ""),
    ("requestheader-extra-headers-prefix", "[x-remote-extra-]"),
    ("requestheader-group-headers", "[x-remote-group]"),
    ("requestheader-uid-headers", "[]"),
    ("requestheader-username-headers", "[x-remote-user]"),
    ("route-reconciliation-period", "10s"),
    ("secure-port", "10258"),
    ("service-cluster-ip-range", ""),
    ("tls-cert-file", ""),
    ("tls-cipher-suites", "[]"),
    ("tls-curve-preferences", "[]"),
    ("tls-min-version", ""),
    ("tls-private-key-file", ""),
    ("tls-sni-cert-key", "[]"),
    ("use-service-account-credentials", "false"),
    ("v", "0"),
    ("version", "false"),
    ("vmodule", ""),
    ("webhook-bind-address", "0.0.0.0"),
    ("webhook-cert-dir", ""),
    ("webhook-disable-http2-serving", "false"),
    ("webhook-secure-port", "10260"),
    ("webhook-tls-cert-file", ""),
    ("webhook-tls-cipher-suites", "[]"),
    ("webhook-tls-curve-preferences", "[]"),
    ("webhook-tls-min-version", ""),
    ("webhook-tls-private-key-file", ""),
    ("webhook-tls-sni-cert-key", "[]"),
    ("webhooks", "[]"),
];

/// What no original has.
const OURS: &[(&str, &str)] = &[
    ("account-fingerprint", ""),
    ("cluster-uid", ""),
    ("config", ""),
    ("load-balancer-adoption", "never"),
    ("mode", "manage"),
    ("reserved-names", "[]"),
    ("show-owners", "none"),
];

#[test]
fn the_command_line_goes_before_what_a_file_presets() {
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(ToString::to_string).collect() };
    let presets = [
        ("controllers", texts(&["*", "-service-lb-controller"])),
        ("concurrent-node-syncs", texts(&["7"])),
        ("cluster-name", texts(&["of-the-file"])),
    ];
    let line = texts(&[
        "--controllers=cloud-node-controller",
        "--cluster-name=of-the-line",
    ]);
    let Ok(Request::Run(line)) = parse_over(Table::default(), ("bowline", None), &presets, &line)
    else {
        panic!("it runs");
    };
    let options = &line.options;
    assert_eq!(options.controllers.selection, ["cloud-node-controller"]);
    assert_eq!(options.controllers.node_syncs, 7);
    assert_eq!(options.cloud.cluster_name, "of-the-line");
    assert!(!line.values.given("concurrent-node-syncs"));
    let Ok(Request::Run(line)) = parse_over(Table::default(), ("bowline", None), &presets, &[])
    else {
        panic!("it runs");
    };
    let selection = &line.options.controllers.selection;
    assert_eq!(selection, &["*", "-service-lb-controller"]);
    let wrong = [("v", texts(&["much"]))];
    let error = parse_over(Table::default(), ("bowline", None), &wrong, &[]).unwrap_err();
    assert!(error.message.starts_with("--v: "), "{}", error.message);
}

#[test]
fn every_row_has_the_default_of_the_specification_and_none_is_missing() {
    let shown: Vec<(&str, String)> = Values::defaults(Table::default(), None)
        .iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    let shown: Vec<(&str, &str)> = shown
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let (ours, specified): (Vec<_>, Vec<_>) = shown.into_iter().partition(|row| OURS.contains(row));
    assert_eq!(ours, OURS);
    assert_eq!(specified, SPECIFIED);
}

/// Another value than the default, for every kind of flag.
fn other_value(flag: &Flag) -> &'static str {
    match flag.kind {
        Kind::Text => "other",
        Kind::Integer | Kind::Integer32 => "7",
        Kind::Float => "1.5",
        Kind::Switch if flag.default == "true" => "false",
        Kind::Switch => "true",
        Kind::Duration => "77s",
        Kind::List => "a,b",
        Kind::Leases => "kube-system/a,b",
        Kind::Namespaces => "infra,edge",
        Kind::IntegerList => "23,29",
        Kind::Repeated => "a.crt,a.key:example.test",
        Kind::Gates => "WatchListClient=true",
        Kind::Levels => "lease*=4",
        Kind::Address => "127.0.0.1",
        Kind::Size => "4Ki",
        Kind::Version => "raw",
    }
}

#[test]
fn every_used_flag_reaches_the_options_and_every_flag_its_line() {
    let untouched = run(&[]);
    for flag in FLAGS
        .iter()
        .filter(|flag| flag.effect != FlagEffect::Removed)
    {
        if matches!(flag.name, "help" | "version") {
            continue;
        }
        let command = run(&[&format!("--{}={}", flag.name, other_value(flag))]);
        if flag.effect == FlagEffect::Used {
            assert_ne!(
                command.options, untouched.options,
                "--{} is used",
                flag.name
            );
        }
        let changed: Vec<_> = flag_lines(&command.values)
            .into_iter()
            .zip(flag_lines(&untouched.values))
            .filter(|(after, before)| after != before)
            .collect();
        assert_eq!(changed.len(), 1, "--{}: {changed:?}", flag.name);
        assert!(
            changed[0]
                .0
                .starts_with(&format!("FLAG: --{}=\"", flag.name)),
            "{changed:?}"
        );
        assert!(command.values.given(flag.name));
        assert_eq!(
            command.warnings.len(),
            usize::from(flag.deprecated.is_some()),
            "{}",
            flag.name
        );
    }
}

#[test]
fn flag_names_are_unique_and_explained() {
    let mut names = std::collections::BTreeSet::new();
    for flag in FLAGS {
        assert!(names.insert(flag.name), "--{} twice", flag.name);
        assert!(flag.help.ends_with('.'), "--{}: {}", flag.name, flag.help);
        assert_eq!(
            flag.effect == FlagEffect::Removed,
            flag.category == Category::Removed
        );
    }
}

#[test]
fn flag_lines_show_final_values_by_name() {
    let lines = flag_lines(&run(&["--v=3", "--controllers=a,b c", "--cluster-name=x\"y"]).values);
    assert!(lines.is_sorted_by_key(|line| line.split('=').next()));
    for expected in [
        r#"FLAG: --v="3""#,
        r#"FLAG: --controllers="[a,b c]""#,
        r#"FLAG: --cluster-name="x\"y""#,
        r#"FLAG: --cloud-provider="demo""#,
        r#"FLAG: --min-resync-period="12h0m0s""#,
        r#"FLAG: --kube-api-qps="-1""#,
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected} in {lines:#?}"
        );
    }
}

#[test]
fn values_may_stand_behind_the_name_or_an_equals_sign() {
    for line in [
        &["--cluster-name", "c"][..],
        &["--cluster-name=c"],
        &["--cluster_name=c"],
        &["--cluster_name", "c"],
        &["--cluster-name=b", "--cluster-name=c"],
    ] {
        assert_eq!(run(line).options.cloud.cluster_name, "c", "{line:?}");
    }
    assert_eq!(run(&["--cluster-name="]).options.cloud.cluster_name, "");
    assert_eq!(
        run(&["--cluster-name", "--v=1"]).options.cloud.cluster_name,
        "--v=1"
    );
    for line in [
        &["-v", "3"][..],
        &["-v=3"],
        &["-v3"],
        &["--v", "3"],
        &["--v=0x3"],
    ] {
        assert_eq!(run(line).options.logging.verbosity, 3, "{line:?}");
    }
}

#[test]
fn a_switch_stands_alone_or_takes_its_value_behind_an_equals_sign() {
    assert!(!run(&["--leader-elect=false"]).options.election.enabled);
    assert!(!run(&["--leader-elect=F"]).options.election.enabled);
    assert!(
        run(&["--leader-elect=false", "--leader-elect"])
            .options
            .election
            .enabled
    );
    assert_eq!(
        error(&["--leader-elect", "false"]),
        r#""cloud-controller-manager" does not take any arguments, got ["false"]"#
    );
}

#[test]
fn the_first_occurrence_of_a_list_replaces_the_default_and_later_ones_append() {
    let paths = |line: &[&str]| run(line).options.authorization.always_allow_paths;
    assert_eq!(paths(&[]), ["/healthz", "/readyz", "/livez"]);
    assert_eq!(
        paths(&["--authorization-always-allow-paths=/a,/b"]),
        ["/a", "/b"]
    );
    assert_eq!(
        paths(&[
            "--authorization-always-allow-paths=/a",
            "--authorization-always-allow-paths",
            "/b,/c"
        ]),
        ["/a", "/b", "/c"]
    );
    assert!(paths(&["--authorization-always-allow-paths="]).is_empty());
    assert_eq!(
        run(&[r#"--controllers="a,b",c"#])
            .options
            .controllers
            .selection,
        ["a,b", "c"]
    );
    let pairs = &["--tls-sni-cert-key=a,b", "--tls-sni-cert-key=c,d:x,y"];
    assert_eq!(
        run(pairs).options.serving.tls.named_certificates,
        ["a,b", "c,d:x,y"]
    );
}

#[test]
fn framework_case_114_underscores_count_as_hyphens() {
    let options = run(&["--cloud_provider=other"]).options;
    assert_eq!(options.cloud.provider, "other");
}

#[test]
fn a_command_line_that_does_not_parse_says_why() {
    for (line, expected) in [
        (&["--x"][..], "unknown flag: --x"),
        (&["--x=1"], "unknown flag: --x"),
        (&["-x"], "unknown shorthand flag: 'x' in -x"),
        (&["--=x"], "bad flag syntax: --=x"),
        (&["---x"], "bad flag syntax: ---x"),
        (&["--kubeconfig"], "flag needs an argument: --kubeconfig"),
        (&["-v"], "flag needs an argument: 'v' in -v"),
        (
            &["x", "", "y z"],
            r#""cloud-controller-manager" does not take any arguments, got ["x" "" "y z"]"#,
        ),
        (
            &["--", "--v"],
            r#""cloud-controller-manager" does not take any arguments, got ["--v"]"#,
        ),
        (
            &["--secure-port=x"],
            r#"invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax"#,
        ),
        (
            &["--secure-port="],
            r#"invalid argument "" for "--secure-port" flag: strconv.ParseInt: parsing "": invalid syntax"#,
        ),
        (
            &["--kube-api-burst=3000000000"],
            r#"invalid argument "3000000000" for "--kube-api-burst" flag: strconv.ParseInt: parsing "3000000000": value out of range"#,
        ),
        (
            &["--kube-api-qps=x"],
            r#"invalid argument "x" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "x": invalid syntax"#,
        ),
        (
            &["--leader-elect=maybe"],
            r#"invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (
            &["-vx"],
            r#"invalid argument "x" for "-v, --v" flag: strconv.ParseInt: parsing "x": invalid syntax"#,
        ),
        (
            &["--bind-address=x"],
            r#"invalid argument "x" for "--bind-address" flag: failed to parse IP: "x""#,
        ),
        (
            &["--tls-curve-preferences=x"],
            r#"invalid argument "x" for "--tls-curve-preferences" flag: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            &["--tls-sni-cert-key=x"],
            r#"invalid argument "x" for "--tls-sni-cert-key" flag: expected comma separated certificate and key file paths"#,
        ),
        (
            &["--feature-gates=Nonsense=true"],
            r#"invalid argument "Nonsense=true" for "--feature-gates" flag: unrecognized feature gate: Nonsense"#,
        ),
        (
            &["--feature-gates=AllBeta"],
            r#"invalid argument "AllBeta" for "--feature-gates" flag: missing bool value for AllBeta"#,
        ),
        (
            &["--vmodule=x"],
            r#"invalid argument "x" for "--vmodule" flag: syntax error: expect comma-separated list of filename=N"#,
        ),
        (&["--version=1"], ""),
    ] {
        if expected.is_empty() {
            assert!(matches!(
                parse(Table::default(), "p", None, &arguments(line)),
                Ok(Request::Version)
            ));
        } else {
            assert_eq!(error(line), expected);
        }
    }
}

#[test]
fn a_mistyped_flag_gets_a_suggestion() {
    for (line, expected) in [
        (
            "--cloud-provder=x",
            "Error: unknown flag: --cloud-provder\nDid you mean --cloud-provider?\n",
        ),
        (
            "--leader_election",
            "Error: unknown flag: --leader_election\nDid you mean --leader-elect?\n",
        ),
        ("--frobnicate", "Error: unknown flag: --frobnicate\n"),
    ] {
        let error = parse(Table::default(), "p", None, &arguments(&[line])).unwrap_err();
        assert_eq!(error.lines(), expected);
        assert!(error.shows_usage);
    }
}

#[test]
fn removed_flags_warn_once_and_do_nothing() {
    let untouched = run(&[]).options;
    let removed: Vec<_> = FLAGS
        .iter()
        .filter(|flag| flag.effect == FlagEffect::Removed)
        .collect();
    assert_eq!(removed.len(), 16);
    for flag in removed {
        let name = format!("--{}", flag.name);
        let line = if flag.kind.stands_alone() {
            vec![name.clone(), format!("{name}=false")]
        } else {
            vec![name.clone(), "0".to_owned(), format!("{name}=1")]
        };
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let command = run(&line);
        assert_eq!(command.options, untouched);
        assert_eq!(
            command.warnings,
            [format!("Flag {name} has been removed; it has no effect")]
        );
    }
}

#[test]
fn deprecated_flags_and_gates_that_are_gone_warn() {
    assert_eq!(
        run(&[
            "--allow-untagged-cloud",
            "--feature-gates=StableLoadBalancerNodeSet=false,AllAlpha=true"
        ])
        .warnings,
        [
            "Flag --allow-untagged-cloud has been deprecated, no provider here needs it, and it can be left out",
            "feature gate StableLoadBalancerNodeSet no longer exists; it has no effect and can be left out",
        ]
    );
}

#[test]
fn help_and_version_are_answers_and_not_runs() {
    for line in [
        &["--help"][..],
        &["-h"],
        &["--help", "--version"],
        &["-hv3"],
    ] {
        match parse(Table::default(), "bowline", None, &arguments(line)) {
            Ok(Request::Help(text)) => {
                assert!(text.starts_with("The cloud controller manager "));
                assert!(text.contains("\n\nUsage:\n  bowline [flags]\n"), "{text}");
            }
            other => panic!("{line:?}: {other:?}"),
        }
    }
    assert!(matches!(
        parse(Table::default(), "p", None, &arguments(&["--version"])),
        Ok(Request::Version)
    ));
    assert!(matches!(
        parse(Table::default(), "p", None, &arguments(&["--version=raw"])),
        Ok(Request::RawVersion)
    ));
    assert!(matches!(
        parse(
            Table::default(),
            "p",
            None,
            &arguments(&["--version=false"])
        ),
        Ok(Request::Run(_))
    ));
    assert!(
        parse(
            Table::default(),
            "p",
            None,
            &arguments(&["--help", "--bogus"])
        )
        .is_err()
    );
}

#[test]
fn the_help_text_names_every_flag_once_and_fits() {
    let text = usage(Table::default(), "cloud-controller-manager", Some("demo"));
    for flag in FLAGS {
        let head = format!("--{}", flag.name);
        let named = text
            .lines()
            .filter(|line| !line.starts_with("          "))
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
            .filter(|word| word.split(['[', '=']).next() == Some(head.as_str()))
            .count();
        assert_eq!(named, 1, "{head}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 90));
    assert!(text.contains(r#"(default "demo")"#) && text.contains("(default 12h0m0s)"));
    let page = reference_markdown(Table::default());
    for flag in FLAGS {
        assert!(
            page.contains(&format!("`--{}` |", flag.name)),
            "--{}",
            flag.name
        );
    }
}

#[test]
fn proof_case_46_an_unknown_controller_is_an_error_that_names_the_nearest() {
    for (given, meant) in [
        ("cloud-node-lifecycel", "cloud-node-lifecycle"),
        ("-cloud-node-lifecycel", "cloud-node-lifecycle"),
        ("service-lb-controler", "service-lb-controller"),
    ] {
        let name = given.trim_start_matches('-');
        assert_eq!(
            problems(&[&format!("--controllers=*,{given}")]),
            format!("{name:?} is not in the list of known controllers; did you mean {meant}?")
        );
    }
}

#[test]
fn framework_case_113_an_unknown_controller_is_an_error() {
    assert_eq!(
        problems(&["--controllers=bogus"]),
        r#""bogus" is not in the list of known controllers"#
    );
    assert_eq!(problems(&["--controllers=*,-service"]), "");
}

#[test]
fn more_than_two_ranges_of_services_are_an_error_whether_they_are_used_or_not() {
    let flag = "--service-cluster-ip-range=10.0.0.0/16,fd00::/112";
    assert_eq!(problems(&[flag]), "");
    let text = "NodeIPAM controller values are not properly set.";
    assert_eq!(problems(&[&format!("{flag},10.1.0.0/16")]), text);
}

#[test]
fn framework_case_121_configz_shows_final_values_and_canonical_names() {
    let options = run(&[
        "--node-status-update-frequency=10m",
        "--controllers=cloud-node",
    ])
    .options;
    let document = options.configz(None);
    let config = &document["cloudcontrollermanager.config.k8s.io"];
    assert_eq!(config["NodeStatusUpdateFrequency"], "10m0s");
    assert_eq!(
        config["Generic"]["Controllers"],
        serde_json::json!(["cloud-node-controller"])
    );
    assert_eq!(config["Generic"]["LeaderElection"]["leaseDuration"], "15s");
    assert_eq!(config["Generic"]["ClientConnection"]["qps"], -1.0);
    assert_eq!(config["KubeCloudShared"]["CloudProvider"]["Name"], "demo");
    assert_eq!(config["KubeCloudShared"]["ConfigureCloudRoutes"], true);
    assert_eq!(config["NodeController"]["ConcurrentNodeStatusUpdates"], -1);
    assert_eq!(config["kind"], "CloudControllerManagerConfiguration");
    let keys: Vec<_> = config.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 8);
}

#[test]
fn framework_case_122_only_leases_lock_and_only_when_electing() {
    let lock = "--leader-elect-resource-lock=endpoints";
    assert_eq!(problems(&[lock]), r#"resourceLock value must be "leases""#);
    assert_eq!(problems(&[lock, "--leader-elect=false"]), "");
}

#[test]
fn framework_case_123_without_workers_there_is_no_start() {
    for none in ["--concurrent-node-syncs=0", "--concurrent-node-syncs=-2"] {
        let must = "concurrent-node-syncs must be a positive number";
        assert_eq!(problems(&[none]), must);
    }
    assert_eq!(problems(&["--concurrent-node-syncs=-1"]), "", "it adapts");
    assert_eq!(
        problems(&["--concurrent-node-status-updates=-1"]),
        "concurrent-node-status-updates cannot be a negative number"
    );
}

#[test]
fn framework_case_134_several_problems_stand_on_one_line() {
    assert_eq!(
        problems(&[
            "--controllers=bogus,-foo",
            "--leader-elect-resource-lock=endpoints"
        ]),
        r#"[resourceLock value must be "leases", "bogus" is not in the list of known controllers, "foo" is not in the list of known controllers]"#
    );
}

#[test]
fn leases_that_are_held_besides_are_named_once_and_checked() {
    let flags = [
        "--hold-leases=b,other/a,kube-system/b",
        "--hold-leases=cloud-controller-manager,other/cloud-controller-manager",
    ];
    let election = run(&flags).options.election;
    let held = election.held_leases();
    let held: Vec<String> = held.iter().map(ToString::to_string).collect();
    // The own one is held anyway; one of its name elsewhere is another.
    let expected = ["kube-system/b", "other/a", "other/cloud-controller-manager"];
    assert_eq!(held, expected);
    assert_eq!(run(&["--hold-leases="]).options.election.hold.len(), 0);
    for bad in ["A", "a/b/c", "a,,b", "a, b"] {
        let reported = error(&[&format!("--hold-leases={bad}")]);
        assert!(reported.contains(&format!(
            "invalid argument {bad:?} for \"--hold-leases\" flag"
        )));
        assert!(reported.contains("must be NAMESPACE/NAME"), "{reported}");
    }
    assert_eq!(
        problems(&["--hold-leases=a", "--leader-elect=false"]),
        "--hold-leases needs leader election: it cannot be given with --leader-elect=false"
    );
    let many: Vec<String> = (0..17).map(|number| format!("l{number}")).collect();
    assert_eq!(
        problems(&[&format!("--hold-leases={}", many.join(","))]),
        "--hold-leases names 17 leases; at most 16 can be held"
    );
    assert_eq!(
        problems(&[&format!("--hold-leases={}", many[1..].join(","))]),
        ""
    );
}

#[test]
fn framework_case_135_timings_limits_and_units_are_checked() {
    let lease = "--leader-elect-lease-duration=5s";
    assert_eq!(
        problems(&[lease]),
        "leaseDuration must be greater than renewDeadline"
    );
    assert_eq!(problems(&[lease, "--leader-elect=false"]), "");
    assert_eq!(
        problems(&["--leader-elect-retry-period=9s"]),
        "renewDeadline must be greater than retryPeriod*JitterFactor"
    );
    // Ours has no limit unless one is asked for, and then a burst means nothing.
    assert_eq!(problems(&["--kube-api-burst=0"]), "");
    assert_eq!(
        problems(&["--kube-api-burst=0", "--kube-api-qps=20"]),
        "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
    );
    assert_eq!(problems(&["--kube-api-burst=0", "--kube-api-qps=-1"]), "");
    assert_eq!(
        error(&["--node-monitor-period=5"]),
        r#"invalid argument "5" for "--node-monitor-period" flag: time: missing unit in duration "5""#
    );
}

#[test]
fn every_problem_is_told_once_and_in_order() {
    for (line, expected) in [
        (&[][..], ""),
        (&["--cloud-provider="], "--cloud-provider cannot be empty"),
        (
            &["--secure-port=70000"],
            "--secure-port 70000 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        (
            &["--secure-port=-1"],
            "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        (
            &["--webhook-secure-port=70000"],
            "--webhook-secure-port 70000 must be between 0 and 65535, inclusive. A value of 0 disables the webhook endpoint entirely.",
        ),
        (
            &["--webhook-secure-port=10258"],
            "--webhook-secure-port cannot be the same value as --secure-port",
        ),
        (&["--webhook-secure-port=0", "--secure-port=0"], ""),
        (
            &["--webhooks=w"],
            r#""w" is not in the list of known webhooks"#,
        ),
        (&["--tls-min-version=1.2"], r#"unknown tls version "1.2""#),
        (&["--tls-min-version=1.2", "--secure-port=0"], ""),
        (
            &[
                "--tls-min-version=VersionTLS13",
                "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA",
                "--tls-curve-preferences=29,23",
            ],
            "",
        ),
        (
            &["--tls-cipher-suites=X"],
            "Cipher suite X not supported or doesn't exist",
        ),
        (
            &["--tls-curve-preferences=99"],
            "curve preference 99 not supported or doesn't exist",
        ),
        (&["--logging-format=json"], ""),
        (
            &["--logging-format=xml"],
            r#"format: Invalid value: "xml": Unsupported log format"#,
        ),
        (
            &["--node-monitor-period=0"],
            "--node-monitor-period must be greater than zero",
        ),
        (
            &["--controllers=b,b,-b"],
            r#""b" is not in the list of known controllers"#,
        ),
        (
            &[
                "--cloud-provider=",
                "--webhooks=w",
                "--secure-port=-1",
                "--controllers=b",
            ],
            r#"["b" is not in the list of known controllers, --secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port, "w" is not in the list of known webhooks, --cloud-provider cannot be empty]"#,
        ),
    ] {
        assert_eq!(problems(line), expected, "{line:?}");
    }
}

#[test]
fn a_preset_provider_may_be_overridden() {
    assert_eq!(run(&[]).options.cloud.provider, "demo");
    assert_eq!(
        run(&["--cloud-provider=other"]).options.cloud.provider,
        "other"
    );
    let Ok(Request::Run(command)) = parse(Table::default(), "p", None, &[]) else {
        panic!()
    };
    assert_eq!(
        command.options.validate().unwrap_err().to_string(),
        "--cloud-provider cannot be empty"
    );
}

#[test]
fn flags_of_single_clouds_are_read_explained_and_handed_on_as_given() {
    const OWN: &[Flag] = &[
        Flag::own("Demo", "demo-endpoint", false, "Where it is."),
        Flag::own("Demo", "demo-insecure", true, "Nothing is checked."),
    ];
    let table = Table::with(OWN);
    let read = |line: &[&str]| parse(table, "p", None, &arguments(line));
    let Ok(Request::Run(command)) = read(&["--demo_endpoint", "x", "--demo-insecure"]) else {
        panic!("not read");
    };
    let own: Vec<(&str, &str)> = command
        .options
        .cloud
        .own
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(own, [("demo-endpoint", "x"), ("demo-insecure", "true")]);
    let Ok(Request::Run(command)) = read(&[]) else {
        panic!("not read");
    };
    assert!(command.options.cloud.own.is_empty());
    let wrong = read(&["--demo-endpont=x"]).unwrap_err();
    assert_eq!(wrong.suggestion.as_deref(), Some("--demo-endpoint"));
    assert_eq!(
        error(&["--demo-endpoint=x"]),
        "unknown flag: --demo-endpoint"
    );
    for text in [usage(table, "p", None), reference_markdown(table)] {
        let headings = ["Cloud provider", "Demo", "--demo-endpoint", "Generic"];
        let places: Vec<usize> = headings.iter().map(|it| text.find(it).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}

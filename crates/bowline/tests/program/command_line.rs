//! What a user can get wrong on the command line, and what helps.

use std::io::Read;
use std::process::Stdio;

use crate::process::{bowline, program, run};

#[test]
fn an_unknown_flag_shows_the_usage_then_the_error_and_a_suggestion() {
    let ended = run(bowline(&["--leader-elct=false"]));
    ended.failed_with(&[
        "Error: unknown flag: --leader-elct\n",
        "Did you mean --leader-elect?",
    ]);
    assert!(
        ended.stderr.starts_with("Usage:\n  bowline [flags]\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_bad_value_names_the_flag_the_value_and_what_is_wrong() {
    for (argument, words) in [
        (
            "--node-monitor-period=5",
            &["\"5\"", "--node-monitor-period", "missing unit in duration"][..],
        ),
        ("--leader-elect=maybe", &["\"maybe\"", "--leader-elect"]),
        (
            "--concurrent-node-syncs=many",
            &["\"many\"", "--concurrent-node-syncs"],
        ),
        ("--bind-address=here", &["\"here\"", "--bind-address"]),
        (
            "--feature-gates=Nonsense=true",
            &["unrecognized feature gate: Nonsense"],
        ),
        ("--v", &["flag needs an argument: --v"]),
    ] {
        let ended = run(bowline(&["--cloud-provider=cloudscale", argument]));
        ended.failed_with(words);
        assert!(ended.stderr.starts_with("Usage:"), "{argument}");
    }
}

#[test]
fn values_that_do_not_fit_together_are_told_all_at_once() {
    let ended = run(bowline(&[
        "--controllers=bogus,-foo",
        "--leader-elect-resource-lock=endpoints",
        "--secure-port=70000",
        "--tls-min-version=VersionTLS99",
    ]));
    ended.failed_with(&[
        "resourceLock value must be \"leases\"",
        "\"bogus\" is not in the list of known controllers",
        "\"foo\" is not in the list of known controllers",
        "--secure-port 70000 must be between 0 and 65535",
        "--cloud-provider cannot be empty",
        "VersionTLS99",
    ]);
    assert_eq!(ended.error().lines().count(), 1);
}

#[test]
fn framework_case_113_an_unknown_controller_ends_the_program() {
    let ended = run(bowline(&[
        "--cloud-provider=cloudscale",
        "--controllers=bogus",
    ]));
    ended.failed_with(&[]);
    assert_eq!(
        ended.error(),
        "Error: \"bogus\" is not in the list of known controllers\n"
    );
}

#[test]
fn an_unknown_provider_is_named_with_those_that_are_known() {
    run(bowline(&["--cloud-provider=clodscale"])).failed_with(&[
        "unknown cloud provider \"clodscale\"",
        "--cloud-provider",
        "known are: cloudscale",
    ]);
    run(bowline(&["--cloud-provider=external"]))
        .failed_with(&["--cloud-provider=external is for kubelets", "cloudscale"]);
    let ended = run(bowline(&[]));
    ended.failed_with(&[]);
    assert_eq!(ended.error(), "Error: --cloud-provider cannot be empty\n");
}

#[test]
fn an_unknown_command_is_named_with_those_that_are_known() {
    run(bowline(&["sanbox"])).failed_with(&[
        "unknown command \"sanbox\"",
        "plan, sandbox, simulate, triton, version, help",
        "Did you mean sandbox?",
    ]);
    run(bowline(&["xyzzy"])).failed_with(&["unknown command \"xyzzy\""]);
    run(bowline(&["--cloud-provider=cloudscale", "xyzzy"]))
        .failed_with(&["\"bowline\" does not take any arguments, got [\"xyzzy\"]"]);
}

#[test]
fn the_version_is_told_in_one_line() {
    for arguments in [&["--version"][..], &["version"]] {
        let ended = run(bowline(arguments));
        assert_eq!(ended.code, Some(0));
        assert_eq!(
            ended.stdout,
            format!("Bowline v{}\n", env!("CARGO_PKG_VERSION"))
        );
        assert_eq!(ended.stderr, "");
    }
    let raw = run(bowline(&["--version=raw"]));
    assert_eq!(raw.code, Some(0));
    assert!(raw.stdout.contains(env!("CARGO_PKG_VERSION")), "{raw:?}");
}

#[test]
fn help_begins_with_what_to_do_and_lists_every_flag() {
    for arguments in [&["--help"][..], &["-h"], &["help"]] {
        let ended = run(bowline(arguments));
        assert_eq!(ended.code, Some(0), "{arguments:?}");
        assert_eq!(ended.stderr, "");
        let first: String = ended.stdout.lines().take(22).collect::<Vec<_>>().join("\n");
        for word in [
            "bowline sandbox",
            "--cloud-provider=cloudscale",
            "Commands:",
            "simulate",
        ] {
            assert!(
                first.contains(word),
                "{word} is not near the beginning: {first}"
            );
        }
        for flag in crate::flags::table().flags() {
            let name = format!("--{}", flag.name);
            assert!(ended.stdout.contains(&name), "{name} is not in the help");
        }
        let widest = ended.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?} columns");
    }
}

#[cfg(feature = "sandbox")]
#[test]
fn each_command_has_a_help_of_its_own() {
    for (arguments, words) in [
        (
            &["sandbox", "--help"][..],
            &["Usage: bowline sandbox", "--once", "--nodes", "2 to 2000"][..],
        ),
        (&["help", "sandbox"], &["Usage: bowline sandbox", "--seed"]),
        (
            &["plan", "--help"],
            &[
                "Usage: bowline plan",
                "NAMESPACE/NAME",
                "--all",
                "Exit codes:",
            ],
        ),
        (
            &["help", "plan"],
            &["--cluster-name", "2  there are changes"],
        ),
        (
            &["simulate", "--help"],
            &[
                "Usage: bowline simulate",
                "cloudscale",
                "kubernetes",
                "/_sim/",
            ],
        ),
        (
            &["simulate", "cloudscale", "--help"],
            &["--listen", "--fixture", "127.0.0.1:18080"],
        ),
        (
            &["simulate", "kubernetes", "--help"],
            &["--listen", "--kubeconfig"],
        ),
    ] {
        let ended = run(bowline(arguments));
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        for word in words {
            assert!(
                ended.stdout.contains(word),
                "{word} is not in {}",
                ended.stdout
            );
        }
    }
}

/// As `bowline --help | head -1` does it: the reader goes away after the first line.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [&["--help"][..], &["--version"], &["help"]] {
        let mut command = bowline(arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        let status = child.wait().unwrap();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert_eq!(
            (status.code(), errors.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn leases_to_hold_are_refused_with_the_flag_the_value_and_what_is_allowed() {
    for bad in ["Kube-System/a", "a/b/c", "kube-system/", "a b"] {
        let ended = run(bowline(&[
            "--cloud-provider=cloudscale",
            &format!("--hold-leases=kube-system/fine,{bad}"),
        ]));
        let value = format!("\"{bad}\" is no Lease");
        let words = ["--hold-leases", &value, "must be NAMESPACE/NAME, or NAME"];
        ended.failed_with(&words);
        assert!(ended.stderr.starts_with("Usage:"), "{bad}");
    }
    run(bowline(&[
        "--cloud-provider=cloudscale",
        "--hold-leases=a",
        "--leader-elect=false",
    ]))
    .failed_with(&[
        "--hold-leases needs leader election",
        "--leader-elect=false",
    ]);
}

/// The names of the originals, each a link to the program, as in the image.
fn originals() -> (tempfile::TempDir, Vec<(String, std::path::PathBuf)>) {
    let folder = tempfile::tempdir().unwrap();
    let names = include_str!("../../../../deploy/commands").split_whitespace();
    let link = |name: &str| {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), &link).unwrap();
        (name.to_owned(), link)
    };
    let links: Vec<_> = names.map(link).collect();
    assert_eq!(links.len(), 5, "five originals");
    (folder, links)
}

#[test]
fn under_an_originals_name_it_is_that_original() {
    let (_folder, links) = originals();
    for (name, link) in links {
        let provider = name.strip_suffix("-cloud-controller-manager").unwrap();
        let help = run(program(&link, &["--help"]));
        assert_eq!(help.code, Some(0), "{name}");
        assert!(help.stdout.contains(&format!("{name} [flags]")));
        let preset = format!("(default \"{provider}\")");
        assert!(help.stdout.contains(&preset), "{name}");
        // There are no commands under that name, as in the original.
        let refused = format!("\"{name}\" does not take any arguments, got [\"sandbox\"]");
        run(program(&link, &["sandbox"])).failed_with(&[&refused]);
        run(program(&link, &["--nonsense"])).failed_with(&["unknown flag: --nonsense"]);
    }
}

#[test]
fn under_an_originals_name_a_configuration_counts_and_not_the_name() {
    let (folder, links) = originals();
    let file = folder.path().join("bowline.yaml");
    let text = "clouds:\n- {name: a, provider: cloudscale, settings: {accessToken: {environment: NOT_HERE}}}\n\
                - {name: b, provider: exoscale, settings: {global: {zone: ch-gva-2, apiKey: {environment: NOR_HERE}, \
                apiSecret: {environment: NOR_HERE}}}}\nservices: {defaultCloud: none}\n";
    std::fs::write(&file, text).unwrap();
    let config = format!("--config={}", file.display());
    for (name, link) in links {
        let ended = run(program(
            &link,
            &[&config, "--master=http://127.0.0.1:1", "--secure-port=0"],
        ));
        // Both of its clouds are asked for, whatever the name.
        ended.failed_with(&["NOT_HERE: it is not set", "NOR_HERE: it is not set"]);
        let provider = name.strip_suffix("-cloud-controller-manager").unwrap();
        let said = format!("--cloud-provider={provider}");
        run(program(&link, &[&config, &said]))
            .failed_with(&["--config and --cloud-provider exclude each other"]);
        run(program(&link, &[&config, "--cloud-config=/etc/cloud.conf"]))
            .failed_with(&["--config and --cloud-config exclude each other"]);
    }
}

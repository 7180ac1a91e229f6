//! Kubeconfigs, certificates, addresses, ports, and cloudscale's environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Running, bowline, run};

/// A folder with one file in it.
fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn kubeconfig(server: &str, authority: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'{authority}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n"
    )
}

/// A manager of cloudscale with a token, and further arguments.
fn manager(arguments: &[&str]) -> Command {
    let mut command = bowline(&["--cloud-provider=cloudscale"]);
    command
        .args(arguments)
        .env("CLOUDSCALE_ACCESS_TOKEN", "token");
    command
}

fn with_kubeconfig(path: &Path) -> Command {
    manager(&[
        &format!("--kubeconfig={}", path.display()),
        "--secure-port=0",
    ])
}

#[test]
fn without_a_kubeconfig_and_outside_a_pod_the_flags_are_named() {
    let ended = run(manager(&[]));
    ended.failed_with(&["--kubeconfig", "--master", "KUBERNETES_SERVICE_HOST"]);
    let twice = ended
        .error()
        .matches("environment variable not found")
        .count();
    assert!(twice <= 1, "{}", ended.error());
}

#[test]
fn an_unreadable_kubeconfig_is_named() {
    let ended = run(with_kubeconfig(Path::new("/nonexistent/admin.conf")));
    ended.failed_with(&["/nonexistent/admin.conf", "No such file or directory"]);
    assert_eq!(
        ended.error().matches("No such file").count(),
        1,
        "{}",
        ended.error()
    );
}

#[test]
fn a_malformed_kubeconfig_is_named_with_line_and_column() {
    for (text, words) in [
        (
            "apiVersion: v1\nkind: Config\nclusters: [\n  foo: bar: baz\n",
            &["line 4", "column 11"][..],
        ),
        (
            "apiVersion: v1\nkind: Config\nclusters: 7\n",
            &["line 3", "column 11"],
        ),
    ] {
        let (_folder, path) = file("admin.conf", text);
        let ended = run(with_kubeconfig(&path));
        ended.failed_with(&["admin.conf"]);
        ended.failed_with(words);
    }
}

#[test]
fn a_kubeconfig_that_does_not_fit_together_is_named() {
    for (text, words) in [
        (
            kubeconfig("https://127.0.0.1:1", "")
                .replace("current-context: c", "current-context: d"),
            &["admin.conf", "context"][..],
        ),
        (
            kubeconfig("https://127.0.0.1:1", ", certificate-authority-data: '%%'"),
            &["admin.conf", "certificate authority", "base64"],
        ),
        (
            kubeconfig(
                "https://127.0.0.1:1",
                ", certificate-authority: /nonexistent/ca.pem",
            ),
            &["admin.conf", "/nonexistent/ca.pem"],
        ),
        (kubeconfig("not a url", ""), &["admin.conf", "url"]),
    ] {
        let (_folder, path) = file("admin.conf", &text);
        run(with_kubeconfig(&path)).failed_with(words);
    }
}

#[test]
fn a_master_that_is_no_url_is_shown_with_an_example() {
    run(manager(&["--master=ftp://x"])).failed_with(&[
        "--master",
        "\"ftp://x\"",
        "https://api.example:6443",
    ]);
}

/// Takes ten seconds of real time: that is how long the program waits for the API server.
#[test]
fn framework_case_119_without_an_api_server_the_program_ends_and_names_the_address() {
    // Nobody listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let master = format!("--master=http://127.0.0.1:{port}");
    let ended = run(manager(&[
        &master,
        "--leader-elect=false",
        "--secure-port=0",
    ]));
    ended.failed_with(&[
        &format!("API server 127.0.0.1:{port} is not healthy after 10s"),
        "Connection refused",
    ]);
}

/// With leader election the original would die; a standby waits for its API server.
#[test]
fn with_election_an_absent_api_server_is_told_once_and_tried_again() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let master = format!("--master=http://127.0.0.1:{port}");
    let mut running = Running::start(manager(&[
        &master,
        "--secure-port=0",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=100ms",
    ]));
    let line = running.logs("cannot compete for the lease");
    assert!(line.contains(&format!("127.0.0.1:{port}")), "{line}");
    // Something listens now and sees it try again, twice; it answers nothing.
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    for _ in 0..2 {
        drop(listener.accept().unwrap());
    }
    running.signal("TERM");
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = ended.stderr.matches("Connection refused").count();
    assert_eq!(refused, 0, "reported once: {}", ended.stderr);
}

#[test]
fn a_malformed_leader_migration_file_is_named_with_line_and_column() {
    let text = "apiVersion: controllermanager.config.k8s.io/v1\n\
                kind: LeaderMigrationConfiguration\nleaderNme: x\n";
    let (_folder, path) = file("migration.yaml", text);
    let migrate = |path: &Path| {
        run(manager(&[
            "--master=http://127.0.0.1:1",
            "--secure-port=0",
            "--enable-leader-migration",
            &format!("--leader-migration-config={}", path.display()),
        ]))
    };
    migrate(&path).failed_with(&[
        "failed to parse leader migration configuration",
        "migration.yaml",
        "line 3 column 1",
        "leaderNme",
        "expected one of",
        "leaderName",
    ]);
    migrate(Path::new("/nonexistent/migration.yaml"))
        .failed_with(&["/nonexistent/migration.yaml", "No such file or directory"]);
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = run(manager(&[
        "--master=http://127.0.0.1:1",
        "--bind-address=127.0.0.1",
        &format!("--secure-port={port}"),
    ]));
    ended.failed_with(&[
        &format!("127.0.0.1:{port}"),
        "--secure-port",
        "Address already in use",
    ]);
}

#[test]
fn unusable_settings_of_the_server_are_named() {
    for (argument, words) in [
        (
            "--client-ca-file=/nonexistent/ca.pem",
            &["/nonexistent/ca.pem", "No such file"][..],
        ),
        (
            "--authorization-always-allow-paths=/a*b",
            &[
                "--authorization-always-allow-paths",
                "\"/a*b\"",
                "trailing *",
            ],
        ),
        (
            "--authentication-kubeconfig=/nonexistent/x",
            &["/nonexistent/x", "No such file"],
        ),
    ] {
        run(manager(&[
            "--master=http://127.0.0.1:1",
            "--bind-address=127.0.0.1",
            argument,
        ]))
        .failed_with(words);
    }
}

#[test]
fn unusable_certificates_are_named() {
    let (_folder, path) = file("tls.pem", "nonsense");
    let (certificate, key) = (path.display().to_string(), path.display().to_string());
    let ended = run(manager(&[
        "--master=http://127.0.0.1:1",
        "--secure-port=1",
        &format!("--tls-cert-file={certificate}"),
        &format!("--tls-private-key-file={key}"),
    ]));
    ended.failed_with(&["tls.pem"]);
}

#[test]
fn cloudscale_case_16_without_a_token_the_program_ends_and_names_the_variable() {
    for token in [None, Some(""), Some(" \n")] {
        let mut command = bowline(&["--cloud-provider=cloudscale", "--master=http://127.0.0.1:1"]);
        // The name of the vendor's other tools is not taken, and the message says so.
        command.env("CLOUDSCALE_API_TOKEN", "token-of-another-tool");
        if let Some(token) = token {
            command.env("CLOUDSCALE_ACCESS_TOKEN", token);
        }
        let ended = run(command);
        ended.failed_with(&[
            "CLOUDSCALE_ACCESS_TOKEN",
            "CLOUDSCALE_API_TOKEN is not read",
        ]);
        assert!(!ended.stderr.contains("token-of-another-tool"));
    }
}

#[test]
fn unusable_settings_of_cloudscale_are_told_together_and_without_secrets() {
    let mut command = manager(&["--master=http://127.0.0.1:1"]);
    command
        .env("CLOUDSCALE_ACCESS_TOKEN", "two words")
        .env("CLOUDSCALE_API_URL", "https://user:hunter2@api.example/")
        .env("CLOUDSCALE_DRIFT_CHECK_PERIOD", "often")
        .env("CLOUDSCALE_MATCH_BY_ADDRESS", "perhaps");
    let ended = run(command);
    ended.failed_with(&[
        "CLOUDSCALE_ACCESS_TOKEN: the token has characters that no token has",
        "CLOUDSCALE_API_URL",
        "CLOUDSCALE_DRIFT_CHECK_PERIOD",
        "\"often\"",
        "CLOUDSCALE_MATCH_BY_ADDRESS",
        "\"perhaps\"",
        "true or false",
    ]);
    assert!(!ended.stderr.contains("hunter2") && !ended.stderr.contains("two words"));
}

#[test]
fn a_token_file_that_cannot_be_read_is_named() {
    let mut command = bowline(&["--cloud-provider=cloudscale", "--master=http://127.0.0.1:1"]);
    command.env("CLOUDSCALE_ACCESS_TOKEN_FILE", "/nonexistent/token");
    run(command).failed_with(&[
        "CLOUDSCALE_ACCESS_TOKEN_FILE",
        "/nonexistent/token",
        "No such file or directory",
    ]);
}

#[test]
fn cloudscale_case_17_an_unusable_timeout_is_only_a_warning() {
    let mut command = manager(&["--master=http://127.0.0.1:1", "--secure-port=0"]);
    command.env("CLOUDSCALE_API_TIMEOUT", "5s");
    let mut running = Running::start(command);
    let line = running.logs("CLOUDSCALE_API_TIMEOUT");
    for word in ["WARN", "\"5s\"", "whole number of seconds", "using 20 s"] {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    running.logs("Bowline starts");
    running.signal("TERM");
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn cloudscale_case_19_a_cloud_config_is_ignored_with_a_warning() {
    let mut running = Running::start(manager(&[
        "--cloud-config=/nope",
        "--allow-untagged-cloud",
        "--master=http://127.0.0.1:1",
        "--secure-port=0",
    ]));
    let line = running.logs("--cloud-config");
    assert!(line.contains("WARN") && line.contains("/nope"), "{line}");
    running.logs("Bowline starts");
    running.signal("TERM");
    assert_eq!(running.end().code, Some(0));
}

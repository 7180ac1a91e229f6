//! `bowline config migrate`: originals become a configuration, one or all of them.

use std::path::Path;

use crate::config::{check, file};
use crate::process::{Ended, bowline, run};

/// What an original is reported.
struct Original {
    command: &'static str,
    flags: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    file: Option<&'static str>,
}

const fn original(command: &'static str) -> Original {
    Original {
        command,
        flags: &[],
        environment: &[],
        file: None,
    }
}

const SECRET: &str = "hunter2";

const ORIGINALS: &[Original] = &[
    Original {
        flags: &["--cluster-name=shop", "--v=3"],
        environment: &[
            ("CLOUDSCALE_ACCESS_TOKEN", SECRET),
            ("CLOUDSCALE_API_TIMEOUT", "30"),
        ],
        ..original("cloudscale-cloud-controller-manager")
    },
    Original {
        environment: &[("CLOUDSCALE_ACCESS_TOKEN_FILE", "/etc/token")],
        ..original("cloudscale-cloud-controller-manager")
    },
    Original {
        flags: &["--leader-elect=true", "--allow-untagged-cloud"],
        environment: &[
            ("EXOSCALE_API_KEY", "EXOkey"),
            ("EXOSCALE_API_SECRET", SECRET),
            ("EXOSCALE_API_ZONE", "ch-gva-2"),
        ],
        ..original("exoscale-cloud-controller-manager")
    },
    Original {
        environment: &[("EXOSCALE_API_ZONE", "de-fra-1")],
        file: Some("global: {apiKey: EXOkey, apiSecret: hunter2}\ninstances: {disabled: true}\n"),
        ..original("exoscale-cloud-controller-manager")
    },
    Original {
        flags: &["--controllers=cloud-node,node-csr-approval", "--v=2"],
        environment: &[("TALOS_ENDPOINTS", "10.0.0.1,10.0.0.2")],
        file: Some(
            "global: {approveNodeCSR: true}\ntransformations: [{name: a, labels: {a: b}}]\n",
        ),
        ..original("talos-cloud-controller-manager")
    },
    Original {
        file: Some("url: https://xoa.example.com\ntoken: hunter2\ninsecure: true\n"),
        ..original("xenorchestra-cloud-controller-manager")
    },
    Original {
        environment: &[
            ("XOA_URL", "https://xoa.example.com"),
            ("XOA_TOKEN", SECRET),
        ],
        ..original("xenorchestra-cloud-controller-manager")
    },
    Original {
        flags: &["--triton-credentials-secret=kube-system/triton-credentials"],
        ..original("triton-cloud-controller-manager")
    },
    Original {
        environment: &[("SDC_KEY_FILE", "/etc/key")],
        file: Some("[Global]\ntriton-endpoint = https://t.example.com\ntriton-account = acme\n"),
        ..original("triton-cloud-controller-manager")
    },
    Original {
        environment: &[("SDC_PRIVATE_KEY", SECRET)],
        file: Some(
            "# One.\nglobal: {tritonAccount: acme, tritonEndpoint: 'https://a.example.com', tritonPrivateKeyFile: /etc/key}\n",
        ),
        ..original("triton-cloud-controller-manager")
    },
];

impl Original {
    fn migrate(&self, folder: &Path, words: &[&str]) -> Ended {
        let mut command = bowline(&["config", "migrate"]);
        command.args(words).arg(self.command).args(self.flags);
        command.envs(self.environment.iter().copied());
        if let Some(text) = self.file {
            let path = folder.join("cloud-config");
            std::fs::write(&path, text).unwrap();
            command.arg(format!("--cloud-config={}", path.display()));
        }
        let ended = run(command);
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", self.command);
        for text in [&ended.stdout, &ended.stderr] {
            assert!(!text.contains(SECRET), "{text}");
        }
        ended
    }
}

#[test]
fn what_each_original_is_told_in_each_way_becomes_a_right_configuration() {
    for original in ORIGINALS {
        let folder = tempfile::tempdir().unwrap();
        let ended = original.migrate(folder.path(), &[]);
        let (_folder, path) = file(&ended.stdout);
        let checked = check(&path);
        assert_eq!(checked.code, Some(0), "{checked:?}\n{}", ended.stdout);
    }
}

#[test]
fn all_originals_become_one_configuration_and_no_two_share_a_secret_or_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bowline.yaml");
    let into = format!("--into={}", path.display());
    let mut reported = String::new();
    for (number, original) in ORIGINALS.iter().enumerate() {
        let name = format!("--name=cloud-{number}");
        let ended = original.migrate(folder.path(), &[&into, &name]);
        assert_eq!(ended.stdout, "");
        reported += &ended.stderr;
        let checked = check(&path);
        assert_eq!(checked.code, Some(0), "{checked:?}");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let checked = check(&path);
    for words in [
        "cloud cloud-0 (cloudscale); Services without a class, and of class bowline.dev/cloud-0",
        "cloud cloud-3 (exoscale); Services of class bowline.dev/cloud-3",
        "cloud cloud-9 (triton)",
    ] {
        assert!(
            checked.stdout.contains(words),
            "{words}: {}",
            checked.stdout
        );
    }
    for words in [
        "services.defaultCloud: cloud-0 goes on serving Services without a class",
        "manager.v: stays 3; this original has 2",
        "settings.credentialsSecret: what the Secret kube-system/triton-credentials holds",
    ] {
        assert!(reported.contains(words), "{words}: {reported}");
    }
}

#[test]
fn another_account_of_the_same_kind_does_not_get_the_first_one_s_variable_and_needs_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bowline.yaml");
    let into = format!("--into={}", path.display());
    let exoscale = &ORIGINALS[2];
    exoscale.migrate(folder.path(), &[&into]);
    let mut command = bowline(&["config", "migrate", &into, exoscale.command]);
    command.envs(exoscale.environment.iter().copied());
    run(command).failed_with(&[
        "there is a cloud of the name \"exoscale\" already",
        "--name",
    ]);
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(
        before.contains("environment: EXOSCALE_API_SECRET"),
        "{before}"
    );
    let ended = exoscale.migrate(
        folder.path(),
        &["--name", "second", "--into", path.to_str().unwrap()],
    );
    let words = "store the original's as key global.apiSecret of a Secret second";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text.matches("environment: EXOSCALE_API_SECRET").count(),
        1,
        "{text}"
    );
    // What is wrong is not added to.
    std::fs::write(&path, "clouds: 7\n").unwrap();
    let mut command = bowline(&["config", "migrate", "--name=third", &into, exoscale.command]);
    command.envs(exoscale.environment.iter().copied());
    run(command).failed_with(&["the configuration to add to is not valid"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "clouds: 7\n");
}

use super::*;
use bowline_test_kit::says;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    Config::read(|name| map.get(name).map(|value| (*value).to_owned()))
}

fn with_token(name: &str, value: &str) -> Result<Config, ConfigErrors> {
    read(&[("CLOUDSCALE_ACCESS_TOKEN", "tok"), (name, value)])
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let config = read(&[("CLOUDSCALE_ACCESS_TOKEN", "tok")]).unwrap();
    assert_eq!(config.token, TokenSource::Given(Secret::new("tok")));
    assert_eq!(config.api_url.value.to_string(), API_URL.default);
    assert_eq!(
        config.timeout.value.as_secs().to_string(),
        API_TIMEOUT.default
    );
    for (setting, row) in [
        (&config.match_by_address, MATCH_BY_ADDRESS),
        (&config.ownership_tags, OWNERSHIP_TAGS),
        (&config.service_source_ranges, SERVICE_SOURCE_RANGES),
    ] {
        assert_eq!(setting.value.to_string(), row.default);
        assert_eq!(setting.origin, Origin::Default);
    }
    assert_eq!(
        config.drift_check_period.value,
        Some(Duration::from_secs(600))
    );
    assert_eq!(
        config.cluster_name_annotation.value,
        CLUSTER_NAME_ANNOTATION.default
    );
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn every_row_is_read_and_every_read_has_its_row() {
    let asked = RefCell::new(BTreeSet::new());
    let _ = Config::read(|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    let rows: BTreeSet<String> = VARIABLES.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(*asked.borrow(), rows);
    for row in VARIABLES {
        assert!(reference().contains(&format!("| `{}` |", row.name)));
        assert!(!format!("{}{}", row.meaning, row.allowed).contains('|'));
    }
}

#[test]
fn cloudscale_case_16_a_missing_token_is_an_error_that_names_the_variable() {
    for environment in [
        &[][..],
        &[("CLOUDSCALE_ACCESS_TOKEN", "")],
        &[("CLOUDSCALE_ACCESS_TOKEN", " \n")],
        &[
            ("CLOUDSCALE_ACCESS_TOKEN", ""),
            ("CLOUDSCALE_ACCESS_TOKEN_FILE", ""),
        ],
    ] {
        let errors = read(environment).unwrap_err();
        assert_eq!(errors.0, [ConfigError::NoToken]);
        assert!(errors.to_string().contains("CLOUDSCALE_ACCESS_TOKEN "));
    }
}

#[test]
fn cloudscale_case_17_an_unusable_timeout_is_reported_and_the_default_holds() {
    for (value, seconds, warns) in [
        ("5", 5, false),
        (" 45 ", 45, false),
        ("3600", 3600, false),
        ("", 20, false),
        ("0", 20, true),
        ("-3", 20, true),
        ("abc", 20, true),
        ("5s", 20, true),
        ("20000", 20, true),
    ] {
        let config = with_token("CLOUDSCALE_API_TIMEOUT", value).unwrap();
        assert_eq!(
            config.timeout.value,
            Duration::from_secs(seconds),
            "{value}"
        );
        assert_eq!(!config.warnings.is_empty(), warns, "{value}");
        for warning in config.warnings {
            says(&warning, "CLOUDSCALE_API_TIMEOUT");
            says(&warning, value);
        }
    }
    let unset = read(&[("CLOUDSCALE_ACCESS_TOKEN", "tok")]).unwrap();
    assert_eq!(unset.timeout.value, Duration::from_secs(20));
}

#[test]
fn cloudscale_case_18_the_url_is_taken_with_and_without_its_version() {
    for (value, root) in [
        ("http://127.0.0.1:18080/v1/", "http://127.0.0.1:18080/"),
        ("http://127.0.0.1:18080/v1", "http://127.0.0.1:18080/"),
        ("http://127.0.0.1:18080", "http://127.0.0.1:18080/"),
        ("http://127.0.0.1:18080/sim/", "http://127.0.0.1:18080/sim"),
        (
            "http://127.0.0.1:18080/sim/v1",
            "http://127.0.0.1:18080/sim",
        ),
        ("", "https://api.cloudscale.ch/"),
    ] {
        let config = with_token("CLOUDSCALE_API_URL", value).unwrap();
        assert_eq!(config.api_url.value.to_string(), root, "{value}");
    }
}

#[test]
fn cloudscale_case_19_a_config_file_is_ignored_with_a_warning() {
    let warning = cloud_config_warning("/etc/x");
    says(&warning, "--cloud-config=/etc/x is ignored");
}

#[test]
fn a_wrong_url_is_an_error_that_does_not_show_it() {
    for value in [
        "api.cloudscale.ch",
        "ftp://api.cloudscale.ch/",
        "https://user:hunter2@api.cloudscale.ch/",
        "https://api.cloudscale.ch/?a=b",
        "http://[::1/",
    ] {
        let text = with_token("CLOUDSCALE_API_URL", value)
            .unwrap_err()
            .to_string();
        assert!(text.starts_with("CLOUDSCALE_API_URL: "), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_token_is_trimmed_and_never_shown() {
    let config = read(&[("CLOUDSCALE_ACCESS_TOKEN", " \thunter2-x\r\n")]).unwrap();
    assert_eq!(config.token, TokenSource::Given(Secret::new("hunter2-x")));
    assert!(!format!("{config:?}").contains("hunter2"));
    for wrong in ["hunter2 hunter2", "hunter2\nx", "hunter2\u{e9}"] {
        let text = read(&[("CLOUDSCALE_ACCESS_TOKEN", wrong)])
            .unwrap_err()
            .to_string();
        assert!(text.starts_with("CLOUDSCALE_ACCESS_TOKEN: "), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    let odd = read(&[("CLOUDSCALE_ACCESS_TOKEN", "hunter2/+=")]).unwrap();
    assert_eq!(odd.warnings.len(), 1);
    assert!(!odd.warnings[0].contains("hunter2"));
}

#[test]
fn a_token_file_wins_and_keeps_the_variable_in_reserve() {
    let path = PathBuf::from("/var/run/token");
    let alone = read(&[("CLOUDSCALE_ACCESS_TOKEN_FILE", "/var/run/token")]).unwrap();
    let both = with_token("CLOUDSCALE_ACCESS_TOKEN_FILE", "/var/run/token").unwrap();
    for (config, fallback) in [(alone, None), (both, Some(Secret::new("tok")))] {
        let path = path.clone();
        assert_eq!(config.token, TokenSource::File { path, fallback });
    }
}

#[test]
fn the_other_switches_are_checked_now_and_kept_for_later() {
    for (name, value, fine) in [
        ("CLOUDSCALE_OWNERSHIP_TAGS", "false", true),
        ("CLOUDSCALE_OWNERSHIP_TAGS", "no", false),
        ("CLOUDSCALE_SERVICE_SOURCE_RANGES", "0", true),
        ("CLOUDSCALE_SERVICE_SOURCE_RANGES", "off", false),
        ("CLOUDSCALE_MATCH_BY_ADDRESS", "True", true),
        ("CLOUDSCALE_MATCH_BY_ADDRESS", "tRUE", false),
        ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "0", true),
        ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "1h30m", true),
        ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "600", false),
        ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "-1m", false),
        (
            "CLOUDSCALE_CLUSTER_NAME_ANNOTATION",
            "example.org/cluster",
            true,
        ),
        ("CLOUDSCALE_CLUSTER_NAME_ANNOTATION", "Not A Key", false),
    ] {
        match with_token(name, value) {
            Ok(_) => assert!(fine, "{name}={value} was accepted"),
            Err(errors) => {
                let text = errors.to_string();
                assert!(
                    !fine && text.contains(name) && text.contains(value),
                    "{text}"
                );
            }
        }
    }
    let off = with_token("CLOUDSCALE_DRIFT_CHECK_PERIOD", "0s").unwrap();
    assert_eq!(off.drift_check_period.value, None);
    let on = with_token("CLOUDSCALE_MATCH_BY_ADDRESS", "1").unwrap();
    assert!(on.match_by_address.value);
    assert_eq!(
        on.match_by_address.origin,
        Origin::Config("CLOUDSCALE_MATCH_BY_ADDRESS".into())
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let errors = read(&[
        ("CLOUDSCALE_API_URL", "nonsense"),
        ("CLOUDSCALE_OWNERSHIP_TAGS", "maybe"),
    ])
    .unwrap_err();
    assert_eq!(errors.0.len(), 3, "{errors}");
}

use super::*;
use bowline_test_kit::rows;
use std::collections::BTreeMap;

fn of(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let map: BTreeMap<&str, &str> = variables.iter().copied().collect();
    Config::read(|name| map.get(name).map(|it| (*it).to_owned()), None)
}

fn file(text: &str) -> Result<Config, ConfigError> {
    let environment = |name: &str| {
        assert!(name.starts_with("POD_"), "{name} was asked for");
        None
    };
    Config::read(environment, Some(text))
}

fn only(config: Result<Config, ConfigError>) -> ServerConfig {
    let mut servers = config.unwrap().servers;
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

fn text(config: Result<Config, ConfigError>) -> String {
    config.unwrap_err().to_string()
}

fn token(text: &str) -> Login {
    Login::Token(Secret::new(text))
}

const URL: &str = "url: https://xo.example.net\n";

#[test]
fn xenorchestra_case_01_url_and_token_are_enough() {
    let server = only(file("url: https://xo.example.net\ntoken: \"abc\"\n"));
    assert_eq!(server.url.to_string(), "https://xo.example.net/");
    assert_eq!(server.login, token("abc"));
    assert_eq!((server.insecure, server.timeout), (false, CLIENT_TIMEOUT));
    assert_eq!(CLIENT_TIMEOUT.as_secs(), 30);
}

#[test]
fn xenorchestra_case_02_a_token_beside_a_password_is_an_error() {
    let wanted = "token is not allowed when username and password are set";
    assert_eq!(text(file("token: a\nusername: u\npassword: p\n")), wanted);
    let all = [("XOA_TOKEN", "a"), ("XOA_USER", "u"), ("XOA_PASSWORD", "p")];
    assert_eq!(text(of(&all)), wanted);
}

#[test]
fn xenorchestra_case_03_a_user_without_a_password_means_the_token() {
    let server = only(file(&format!("{URL}token: a\nusername: u\n")));
    assert_eq!(server.login, token("a"));
    let server = only(file(&format!("{URL}password: p\nusername: u\n")));
    let wanted = Login::Password {
        user: "u".into(),
        password: Secret::new("p"),
    };
    assert_eq!(server.login, wanted);
}

#[test]
fn xenorchestra_case_04_who_we_are_is_missed_before_where_the_server_is() {
    let wanted = "either token or username/password are required for authentication";
    assert_eq!(text(of(&[])), wanted);
    assert_eq!(text(file("{}")), wanted);
    assert_eq!(text(file("username: u")), wanted);
    assert_eq!(text(of(&[("XOA_PASSWORD", "p")])), wanted);
}

#[test]
fn xenorchestra_case_76_a_word_that_begins_like_a_url_is_none() {
    for url in ["http", "httpfoo"] {
        let wrong = text(file(&format!("token: a\nurl: {url}\n")));
        assert_eq!(wrong, "url is required", "{url}");
    }
}

#[test]
fn xenorchestra_case_05_a_url_that_is_none_is_missing() {
    for url in [
        "",
        "xo.example.net",
        "wss://xo.example.net",
        "HTTPS://xo.example.net",
        "http://",
        "http:xo.example.net",
        "https://user:hunter2@xo.example.net",
    ] {
        let wrong = text(file(&format!("token: a\nurl: \"{url}\"\n")));
        assert_eq!(wrong, "url is required", "{url}");
    }
}

#[test]
fn xenorchestra_case_06_texts_are_taken_as_they_stand() {
    for (written, wanted) in [
        ("123456", "123456"),
        ("0123", "0123"),
        ("true", "true"),
        ("1e3", "1e3"),
        ("0x1F", "0x1F"),
        ("2026-01-01", "2026-01-01"),
        ("\" x \"", "x"),
    ] {
        let server = only(file(&format!("{URL}token: {written}\n")));
        assert_eq!(server.login, token(wanted), "{written}");
    }
    for nothing in ["null", "~", ""] {
        let wrong = text(file(&format!("{URL}token: {nothing}\n")));
        assert!(wrong.starts_with("either token"), "{nothing}: {wrong}");
    }
}

#[test]
fn xenorchestra_case_07_insecure_takes_the_old_words_and_no_quoted_ones() {
    for (written, wanted) in [
        ("true", Some(true)),
        ("false", Some(false)),
        ("yes", Some(true)),
        ("on", Some(true)),
        ("y", Some(true)),
        ("Y", Some(true)),
        ("\"yes\"", Some(true)),
        ("no", Some(false)),
        ("off", Some(false)),
        ("n", Some(false)),
        ("N", Some(false)),
        ("\"true\"", None),
        ("1", None),
        ("maybe", None),
        ("[]", None),
        ("~", Some(false)),
    ] {
        let config = file(&format!("{URL}token: a\ninsecure: {written}\n"));
        let got = config.ok().map(|config| config.servers[0].insecure);
        assert_eq!(got, wanted, "{written}");
    }
}

#[test]
fn xenorchestra_case_08_the_environment_takes_go_s_words() {
    let given = [("XOA_URL", "https://xo.example.net"), ("XOA_TOKEN", "a")];
    let with = |word: &'static str| of(&[&given[..], &[("XOA_INSECURE", word)]].concat());
    assert_eq!(text(with("maybe")), "invalid XOA_INSECURE value: \"maybe\"");
    for word in ["1", "t", "T", "TRUE", "true", "True"] {
        assert!(only(with(word)).insecure, "{word}");
    }
    for word in ["", "0", "f", "F", "FALSE", "false", "False"] {
        assert!(!only(with(word)).insecure, "{word}");
    }
    assert!(with("yes").is_err());
}

#[test]
fn xenorchestra_case_09_with_a_file_the_environment_is_not_asked() {
    let server = only(file(&format!("{URL}token: of-the-file\n")));
    assert_eq!(server.login, token("of-the-file"));
}

#[test]
fn xenorchestra_case_10_unknown_keys_mean_nothing_and_only_the_first_document_counts() {
    let server = only(file(&format!(
        "{URL}token: a\ntest: false\nnew: {{a: [1]}}\n"
    )));
    assert_eq!(server.login, token("a"));
    let two = only(file(&format!("{URL}token: a\n---\ntoken: b\n")));
    assert_eq!(two.login, token("a"));
}

#[test]
fn xenorchestra_case_11_the_url_may_have_a_path() {
    let server = only(file("url: https://xo.example.net/base/\ntoken: a\n"));
    let rest = server.url.with_suffix("rest/v0");
    assert_eq!(rest.to_string(), "https://xo.example.net/base/rest/v0");
}

#[test]
fn xenorchestra_case_12_white_space_around_values_goes() {
    let server = only(of(&[
        ("XOA_URL", " https://xo.example.net\n"),
        ("XOA_TOKEN", "abc\n"),
    ]));
    assert_eq!(server.login, token("abc"));
    assert_eq!(server.url.to_string(), "https://xo.example.net/");
    let server = only(file(
        "url: \" https://xo.example.net\\n\"\ntoken: \"abc\\n\"\n",
    ));
    assert_eq!(server.login, token("abc"));
}

#[test]
fn xenorchestra_case_13_the_timeout_is_a_duration() {
    let seconds = |written: &str| {
        only(file(&format!("{URL}token: a\nclientTimeout: {written}\n")))
            .timeout
            .as_secs()
    };
    assert_eq!((seconds("60s"), seconds("1m30s")), (60, 90));
    assert_eq!((seconds("~"), seconds("0s")), (30, 30));
    let given = [("XOA_URL", "https://xo.example.net"), ("XOA_TOKEN", "a")];
    let with = |word: &'static str| of(&[&given[..], &[("XOA_CLIENT_TIMEOUT", word)]].concat());
    assert_eq!(only(with("15s")).timeout.as_secs(), 15);
    assert_eq!(only(with("0")).timeout.as_secs(), 30);
    assert!(text(with("abc")).starts_with("invalid XOA_CLIENT_TIMEOUT value: "));
    for wrong in ["abc", "60"] {
        let wrong = file(&format!("{URL}token: a\nclientTimeout: {wrong}\n"));
        assert!(text(wrong).starts_with("invalid clientTimeout: "));
    }
}

#[test]
fn xenorchestra_case_75_a_file_that_is_none_is_an_error() {
    let eof = "the cloud config file cannot be read: EOF";
    assert_eq!(text(file("")), eof);
    assert_eq!(text(file("# nothing\n")), eof);
    for wrong in [
        "token: hunter2\ntoken: b\n",
        "token: [hunter2]\n",
        "token: {a: b}",
    ] {
        let text = text(file(&format!("{URL}{wrong}")));
        assert!(text.starts_with("the cloud config file"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(
        text(file("URL: https://xo.example.net\ntoken: a\n")),
        "url is required"
    );
}

#[test]
fn several_servers_are_a_list_beside_the_original_s_keys() {
    let servers = "servers:\n- {name: paris, url: https://p.example.net, token: p}\n\
                   - {name: lyon, url: https://l.example.net, username: u, password: q, insecure: true}\n";
    let names =
        |config: Config| -> Vec<String> { config.servers.into_iter().map(|it| it.name).collect() };
    assert_eq!(names(file(servers).unwrap()), ["paris", "lyon"]);
    let with_main = format!("{URL}token: a\n{servers}");
    assert_eq!(names(file(&with_main).unwrap()), ["main", "paris", "lyon"]);
    assert!(file(&with_main).unwrap().servers[2].insecure);
    for [written, wanted] in rows(
        "- {name: a, url: https://x}              | servers[0]: either token
         - {name: main, url: https://x, token: t} | servers[0]: invalid name
         - {url: https://x, token: t}             | servers[0]: invalid name",
    ) {
        let wrong = text(file(&format!("servers:\n{written}\n")));
        assert!(wrong.starts_with(wanted), "{wrong}");
    }
}

#[test]
fn what_is_beyond_the_original_is_off_unless_it_is_asked_for() {
    let config = file(&format!("{URL}token: a\n")).unwrap();
    assert_eq!(
        (&config.nodes, config.events),
        (&NodeConfig::default(), true)
    );
    let config = file(&format!(
        "{URL}token: a\naddressMode: classify\naddressExclude: [10.0.0.0/8]\nzoneSource: pool\n\
         typeMemory: static\ntagLabelPrefix: k8s/label=\nevents: no\n"
    ))
    .unwrap();
    let nodes = config.nodes;
    assert_eq!(nodes.addresses.mode, AddressMode::Classify);
    assert_eq!(nodes.addresses.exclude, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(
        (nodes.zone, nodes.memory),
        (ZoneSource::Pool, TypeMemory::Static)
    );
    assert_eq!(nodes.tag_prefix.as_deref(), Some("k8s/label="));
    assert!(!config.events);
    for [written, wanted] in rows(
        r#"addressMode: all      | invalid addressMode: "all" is none of compat, internal, classify
           addressInclude: [ten] | invalid addressInclude: "ten" is no CIDR"#,
    ) {
        assert_eq!(text(file(&format!("{URL}token: a\n{written}\n"))), wanted);
    }
}

#[test]
fn no_secret_is_shown() {
    let config = file(&format!("{URL}username: u\npassword: hunter2\n")).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

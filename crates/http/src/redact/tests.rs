use super::*;

#[test]
fn names_that_mean_secrets() {
    for name in [
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "X-Auth-Token",
        "api_key",
        "apiKey",
        "otp",
        "access_token",
        "clientSecret",
        "PASSWORD",
        "private-key",
        "x-signature",
    ] {
        assert!(names_a_secret(name), "{name}");
    }
    for name in ["name", "hotplug", "uuid", "status", "author", "key", "zone"] {
        assert!(!names_a_secret(name), "{name}");
    }
}

#[test]
fn json_is_hidden_by_key_at_any_depth() {
    let body = br#"{"a":[{"token":"t1","n":1}],"credentials":{"x":"t2"},"detail":"no"}"#;
    assert_eq!(
        Redactor::default().body(body),
        r#"{"a":[{"n":1,"token":"[secret]"}],"credentials":"[secret]","detail":"no"}"#
    );
}

#[test]
fn what_is_not_json_is_hidden_by_pairs() {
    let rows = [
        (
            r#"{"token": "a\"b", "x": "y""#,
            r#"{"token": "[secret]", "x": "y""#,
        ),
        (
            "Authorization: Bearer abc\r\nServer: x",
            "Authorization: [secret]\r\nServer: x",
        ),
        (
            "a page: <p>password = hunter2</p>",
            "a page: <p>password = [secret]</p>",
        ),
        (
            "<title>password = hunter2</title> password = hunter3",
            r#"a page of 52 bytes titled "password = [secret]""#,
        ),
        (
            "go to https://u:p@h/x?otp=12&a=b",
            "go to https://[secret]@h/x?otp=[secret]&a=b",
        ),
        (
            r#"{"a": 1, "credentials": {"x": "t2"}, "#,
            r#"{"a": 1, "credentials": [secret]"#,
        ),
        ("the token is wrong", "the token is wrong"),
        ("no secrets", "no secrets"),
    ];
    for (body, wanted) in rows {
        assert_eq!(Redactor::default().body(body.as_bytes()), wanted);
    }
}

#[test]
fn registered_values_are_hidden_in_every_usual_form() {
    let redactor = Redactor::default();
    redactor.register(&Secret::new("a b\"c/D\n"));
    for text in [
        "x a b\"c/D y",
        r#"a b\"c/D"#,
        "a%20b%22c%2FD",
        "a+b%22c%2FD",
        "YSBiImMvRA==",
    ] {
        assert!(redactor.text(text).contains(HIDDEN), "{text}");
    }
    redactor.register(&Secret::new(""));
    assert_eq!(redactor.text("plain"), "plain");
}

#[test]
fn unknown_headers_are_not_shown() {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "text/html".parse().unwrap());
    headers.insert("x-whatever", "hunter2".parse().unwrap());
    let shown = format!("{:?}", Redactor::default().headers(&headers));
    assert_eq!(
        shown,
        r#"{"content-type": "text/html", "x-whatever": "[secret]"}"#
    );
}

#[test]
fn an_excerpt_is_cut_after_hiding_and_between_characters() {
    let redactor = Redactor::default();
    redactor.register(&Secret::new("s3cr3t-s3cr3t"));
    let body = format!("{}s3cr3t-s3cr3t", "é".repeat(146));
    let shown = redactor.body(body.as_bytes());
    assert!(
        shown.ends_with("é[secret]") && !shown.contains("s3cr"),
        "{shown}"
    );
    assert_eq!(excerpt("éé", 3), "é…");
}

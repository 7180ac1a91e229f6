//! No template and no pattern can hang, panic or fill the memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_templates::{
    Functions, GoRegex, LONGEST_TEMPLATE, LONGEST_TEXT, Record, Template, Value,
};
use proptest::prelude::*;

fn data() -> Value {
    let tags: BTreeMap<String, String> =
        (0..40).map(|n| (format!("k{n}"), "v".repeat(n))).collect();
    Value::Record(Arc::new(Record {
        name: "data",
        fields: vec![
            ("Region", Value::text("eu-1")),
            ("Tags", Value::Map(Arc::new(tags))),
        ],
    }))
}

fn render(source: &str) -> Result<String, String> {
    let functions = Arc::new(Functions::builtin());
    let template = Template::parse(source, &functions).map_err(|error| error.to_string())?;
    template.render(&data()).map_err(|error| error.to_string())
}

#[test]
fn what_would_not_end_is_an_error() {
    for (source, why) in [
        ("{{ range 9999999999 }}{{ end }}".to_owned(), "more than 10000 steps"),
        (
            "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}".to_owned(),
            "32 levels deep",
        ),
        ("{{ printf \"%99999999d\" 1 }}".to_owned(), "longer than 65536 bytes"),
        ("{{ printf \"%.99999999999999999999f\" 1.0 }}{{ range 9000 }}{{ printf \"%4000s\" \"\" }}{{ end }}".to_owned(), "longer than"),
        (
            "{{ $x := \"ab\" }}{{ range 30 }}{{ $x = print $x $x }}{{ end }}".to_owned(),
            "longer than 65536 bytes",
        ),
        (format!("{}1{}", "{{ (".to_owned() + &"(".repeat(99), ")".repeat(100) + "}}"), "64 levels"),
        ("{{ if true }}".repeat(99) + &"{{ end }}".repeat(99), "64 levels"),
        ("x".repeat(LONGEST_TEMPLATE + 1), "longer than 65536 bytes"),
    ] {
        let error = render(&source).unwrap_err();
        assert!(error.contains(why), "{error} does not say {why:?}");
    }
}

#[test]
fn a_long_chain_of_else_if_is_not_deep() {
    let chain = "{{ if eq 1 2 }}a".to_owned()
        + &"{{ else if eq 1 2 }}b".repeat(500)
        + "{{ else }}c{{ end }}";
    assert_eq!(render(&chain).unwrap(), "c");
}

#[test]
fn errors_say_where() {
    assert_eq!(
        render("a\nb{{ .Nope }}").unwrap_err(),
        "2:4: can't evaluate field Nope in type data"
    );
    assert_eq!(
        render("a\n{{ nofunc }}").unwrap_err(),
        "2: function \"nofunc\" not defined"
    );
}

#[test]
fn a_template_says_which_fields_it_reads() {
    let functions = Arc::new(Functions::builtin());
    let reads = |source: &str| Template::parse(source, &functions).unwrap().reads("Region");
    for yes in [
        "{{ .Region }}",
        "{{ if .Zone }}{{ $.Region }}{{ end }}",
        "{{ define \"a\" }}{{ .Region }}{{ end }}",
        "{{ (print .).Region }}",
        "{{ . }}",
        "{{ printf \"%v\" $ }}",
        "{{ template \"a\" . }}",
        "{{ $x := . }}{{ $x.Zone }}",
    ] {
        assert!(reads(yes), "{yes}");
    }
    for no in [
        "Region",
        "{{ .Zone }}",
        "{{ with .Zone }}{{ . }}{{ end }}",
        "{{ range .Tags }}{{ . }}{{ end }}",
        "{{ \"Region\" }}",
    ] {
        assert!(!reads(no), "{no}");
    }
}

/// Pieces of templates, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{{"),
        Just("}}"),
        Just("{{-"),
        Just("-}}"),
        Just(" "),
        Just("if"),
        Just("else"),
        Just("end"),
        Just("range"),
        Just("with"),
        Just("define"),
        Just("template"),
        Just("block"),
        Just("break"),
        Just("$x"),
        Just(":="),
        Just("="),
        Just("|"),
        Just("("),
        Just(")"),
        Just(","),
        Just("."),
        Just(".Region"),
        Just(".Tags"),
        Just("\"a\""),
        Just("`r`"),
        Just("'c'"),
        Just("1"),
        Just("99999999"),
        Just("-"),
        Just("nil"),
        Just("true"),
        Just("print"),
        Just("printf"),
        Just("\"%99999d %-5s %+q\""),
        Just("index"),
        Just("slice"),
        Just("eq"),
        Just("and"),
        Just("é"),
        Just("\\"),
        Just("\n"),
        Just("/*"),
        Just("*/"),
        Just("\""),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_is_a_template_or_an_error(source in pieces()) {
        if let Ok(text) = render(&source) {
            prop_assert!(text.len() <= LONGEST_TEXT);
        }
    }

    #[test]
    fn any_action_is_rendered_or_an_error(inner in "\\PC{0,30}") {
        let _ = render(&format!("{{{{ {inner} }}}}"));
    }

    #[test]
    fn a_text_without_actions_stays_as_it_is(text in "[^{]*") {
        prop_assert_eq!(render(&text).unwrap(), text);
    }

    #[test]
    fn any_text_is_an_expression_or_an_error(
        pattern in "[ab.^$*+?{}()|\\[\\]\\\\dwsbBQEpLxu0-9,:<>P=!iUm&~é-]{0,20}",
        text in "[ab\\n é1-]{0,20}",
    ) {
        if let Ok(regex) = GoRegex::new(&pattern) {
            prop_assert_eq!(regex.is_match(&text), regex.find(&text).is_some());
            prop_assert_eq!(regex.group(&text, 0), regex.find(&text));
            let kept = regex.replace_all(&text, "$0");
            prop_assert_eq!(kept.as_deref(), Ok(text.as_str()));
        }
    }

    #[test]
    fn an_escaped_text_matches_itself(text in "\\PC{0,20}") {
        prop_assume!(!text.contains("\\E") && !text.ends_with('\\'));
        let regex = GoRegex::new(&format!("^\\Q{text}\\E$")).unwrap();
        prop_assert!(regex.is_match(&text));
    }
}

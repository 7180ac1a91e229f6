//! The template language with the functions of rules.

use bowline_templates::{Template, Value};

use crate::instances::machine::{PlatformMetadata, SystemInformation};
use crate::transform::{facts, functions};

/// What a template gives, or which kind of error.
fn outcome(template: &str, values: &Value) -> Result<String, &'static str> {
    let template = Template::parse(template, &functions::FUNCTIONS).map_err(|_| "parse")?;
    template.render(values).map_err(|_| "execution")
}

/// Each row is a template and what it gives.
#[track_caller]
fn gives(values: &Value, rows: &str) {
    for row in rows.lines().filter(|row| !row.trim().is_empty()) {
        let (template, wanted) = row.split_once('⇒').unwrap();
        let outcome = outcome(template.trim(), values);
        assert_eq!(outcome.as_deref(), Ok(wanted.trim()), "{template}");
    }
}

fn vector_values() -> Value {
    let metadata = PlatformMetadata {
        hostname: "web-a1-frontend".into(),
        region: "eu-1".into(),
        provider_id: "p".into(),
        instance_id: "i-0a+b/c'd".into(),
        spot: true,
        tags: [("team".to_owned(), "core".to_owned())].into(),
        ..PlatformMetadata::default()
    };
    let system = SystemInformation {
        serial_number: "ds=nocloud;i=1234;h=x".into(),
        sku_number: "c2-m4".into(),
        uuid: "11111111-2222-3333-4444-555555555555".into(),
        ..SystemInformation::default()
    };
    facts::template_values(&metadata, &system)
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "the specification's table, row by row"
)]
fn talos_case_51_all_rows_of_the_vector_table() {
    let values = vector_values();
    gives(
        &values,
        r#"
        {{ regexFindString "^web-([a-z0-9]+)-(.*)$" .Hostname 1 }} ⇒ a1
        {{ regexFindString "^web-([a-z0-9]+)-(.*)$" .Hostname 0 }} ⇒ web-a1-frontend
        {{ regexFindString "^web-([a-z0-9]+)-(.*)$" .Hostname 3 }} ⇒
        {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }} ⇒ -W-xxW-
        {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "$1W" }} ⇒ ---
        {{ trimSuffix "lo" "hello" }} ⇒ hel
        {{ trimSuffix "hello" "lo" }} ⇒ lo
        {{ replace "l" "L" "hello" }} ⇒ heLLo
        {{ replace "hello" "l" "L" }} ⇒ L
        {{ .Hostname | replace "-" "_" }} ⇒ web_a1_frontend
        {{ contains "lo" "hello" }} ⇒ true
        {{ contains "hello" "lo" }} ⇒ false
        {{ coalesce .InstanceType .SKUNumber }} ⇒ c2-m4
        {{ .Zone | default "none" }} ⇒ none
        {{ .Spot | ternary "yes" "no" }} ⇒ yes
        {{ getValue .SerialNumber "i" }} ⇒ 1234
        {{ getValue "k=a=b" "k" }} ⇒ a
        {{ getValue "i=1; j=2" "j" }} ⇒
        {{ slice .UUID 0 8 }} ⇒ 11111111
        {{ printf "%s-%d" .Region 3 }} ⇒ eu-1-3
        {{ len .Region }} ⇒ 4
        {{ $x := .Region }}{{ $x }}-{{ $x | upper }} ⇒ eu-1-EU-1
        {{ range $k, $v := .Tags }}{{ $k }}={{ $v }};{{ end }} ⇒ team=core;
        {{ print "a" 1 2 "b" }} ⇒ a1 2b
        {{ with .Zone }}{{ . }}{{ else }}nozone{{ end }} ⇒ nozone
        {{ .InstanceID }} ⇒ i-0a+b/c'd
        x{{ .Tags.nope }}y ⇒ xy
        x{{ coalesce .Zone .InstanceType }}y ⇒ xy
        {{ index .Tags "nope" }} ⇒
        {{ .Tags.nope | default "d" }} ⇒ d
        {{ coalesce .Tags.nope .Tags.team }} ⇒ core
        {{ eq .Tags.nope "" }} ⇒ false
        {{ upper "straße" }} ⇒ STRAßE
        {{ lower "ÀÉ" }} ⇒ àé
        {{ len "é" }} ⇒ 2
        {{ range 3 }}{{ . }}{{ end }} ⇒ 012
        {{ with .Zone }}a{{ else with .Region }}{{ . }}{{ end }} ⇒ eu-1
        {{ $x := "a" }}{{ if true }}{{ $x = "b" }}{{ end }}{{ $x }} ⇒ b
        {{ .Tags.team | upper | printf "%s/%s" .Region }} ⇒ eu-1/CORE
        {{ printf "%d" "x" }} ⇒ %!d(string=x)
        {{ printf "a" 1 }} ⇒ a%!(EXTRA int=1)
        {{ printf "%q %05d %x %-5s|" "a" 42 255 "b" }} ⇒ "a" 00042 ff b    |
        {{ 'a' }} {{ 0x10 }} {{ 1e3 }} {{ 1.50 }} ⇒ 97 16 1000 1.5
        {{ index "abc" 1 }} ⇒ 98
        {{ regexFind "[a[b]" "x[y" }} ⇒ [
        {{ regexFind "\\w+" "é1" }} ⇒ 1
        x{{ regexFind "^a$" "a\n" }} ⇒ x
        {{ regexReplaceAll "a" "bab" "$$" }} ⇒ b$b
        {{ define "a" }}[{{ . }}]{{ end }}{{ template "a" .Region }} ⇒ [eu-1]
        {{ block "b" .Region }}({{ . }}){{ end }} ⇒ (eu-1)
        {{ .Tags }} ⇒ map[team:core]
        {{ empty .Zone }} {{ empty .Tags }} {{ empty nil }} ⇒ true false true
        {{ replace "" "-" "ab" }} ⇒ -a-b-
        "#,
    );
    for (template, wanted) in [
        (
            r#"{{ if .SerialNumber }}proxmox://region-1/{{ getValue .SerialNumber "i" }}{{ else }}{{ .ProviderID }}{{ end }}"#,
            "proxmox://region-1/1234",
        ),
        (r#"{{- " a " -}} x {{- " b" }}"#, " a x b"),
        (r#"{{ printf "%5.2f" 3.14159 }}"#, " 3.14"),
        (r#"{{ println 1 "a" "b" }}"#, "1 a b\n"),
    ] {
        assert_eq!(outcome(template, &values).as_deref(), Ok(wanted));
    }
    for template in [
        "{{ .Nope }}",
        "{{ .hostname }}",
        "{{ upper .Spot }}",
        r#"{{ ternary "a" "b" "x" }}"#,
        r#"{{ b64dec "aGVsbG8" }}"#,
        r#"{{ default "d" }}"#,
        "{{ upper .Tags.nope }}",
        r#"{{ contains "a" .Tags.nope }}"#,
        r#"{{ eq .Spot "true" }}"#,
        "{{ eq 1 1.0 }}",
        "{{ slice .UUID 0 99 }}",
        "{{ range .Zone }}x{{ end }}",
        r#"{{ upper "a" "b" }}"#,
        r#"{{ regexFind "[" "x" }}"#,
        r#"{{ regexFindString "w" .Hostname -1 }}"#,
        "{{ .Tags.team.x }}",
    ] {
        assert_eq!(outcome(template, &values), Err("execution"), "{template}");
    }
    for template in [
        "{{ nofunc }}",
        "my-{{ .Spot",
        "{{ break }}",
        "{{ end }}",
        "{{ if .Spot }}x",
        "{{ with $x := .Region }}{{ end }}{{ $x }}",
        "{{ \"a }}",
    ] {
        assert_eq!(outcome(template, &values), Err("parse"), "{template}");
    }
}

#[test]
fn the_other_functions_have_their_argument_order_and_their_edges() {
    let values = vector_values();
    gives(
        &values,
        r#"
        {{ trimPrefix "he" "hello" }} ⇒ llo
        {{ trimPrefix "l" "llo" }} ⇒ lo
        {{ trim "\u00a0 a\n" }} ⇒ a
        {{ hasPrefix "he" "hello" }} {{ hasSuffix "he" "hello" }} ⇒ true false
        {{ "hello" | hasSuffix "lo" }} ⇒ true
        {{ b64enc "hello" }} {{ b64dec "aGVs\nbG8=" }} ⇒ aGVsbG8= hello
        {{ b64dec "aGVsbG9=" }} ⇒ hello
        {{ getValue "" "" }}{{ getValue "a;b=1" "a" }} ⇒
        {{ getValue "a=1;a=2" "a" }} ⇒ 1
        {{ lower "İΣ" }} {{ upper "ŉᾳᾀ" }} ⇒ iσ ŉᾼᾈ
        {{ default 3 0 }} {{ default 3 4 }} {{ default "d" false }} ⇒ 3 4 d
        {{ empty 0 }} {{ empty false }} {{ empty .Tags.nope }} {{ empty "a" }} ⇒ true true true false
        {{ coalesce }}{{ coalesce 0 false 7 }} ⇒ 7
        {{ .PlatformMetadataSpec.Region }} {{ .SystemInformationSpec.SKUNumber }} ⇒ eu-1 c2-m4
        {{ .BIOSVersion }}{{ .Version }} ⇒
        "#,
    );
    for template in [
        r#"{{ b64dec "/w==" }}"#,
        r#"{{ b64dec "a b=" }}"#,
        "{{ replace \"a\" \"b\" }}",
    ] {
        assert_eq!(outcome(template, &values), Err("execution"), "{template}");
    }
    // No tags: the map itself is empty.
    let bare = facts::template_values(&PlatformMetadata::default(), &SystemInformation::default());
    assert_eq!(outcome("{{ empty .Tags }}", &bare).as_deref(), Ok("true"));
}

//! What Talos rules are written in: Go templates and regular expressions.

use std::net::{IpAddr, Ipv4Addr};

use bowline_core::Node;
use bowline_talos::Config;
use bowline_talos::instances::machine::{PlatformMetadata, SystemInformation};
use bowline_templates::{Functions, GoRegex, Template, Value};
use jiff::Timestamp;
use serde_json::json;

/// A template, as the label of a rule and by itself.
pub(crate) fn templates(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    if let Ok(template) = Template::parse(text, &Functions::builtin().into()) {
        let rendered = template.render(&Value::text("a text"));
        assert_eq!(rendered, template.render(&Value::text("a text")));
        let length = rendered.map_or(0, |text| text.len());
        assert!(length <= bowline_templates::LONGEST_TEXT, "{length} bytes");
    }
    let rule = json!({"transformations": [{
        "annotations": {"example.com/a": text},
        "labels": {"example.com/l": text},
        "platformMetadata": {"Zone": text},
    }]});
    let Ok(config) = Config::read(&rule.to_string()) else {
        return;
    };
    let node = Node::default();
    let machine = PlatformMetadata {
        platform: "metal".to_owned(),
        hostname: "worker-1.example.com".to_owned(),
        instance_type: "c1.small".to_owned(),
        provider_id: "metal://1".to_owned(),
        tags: [("team".to_owned(), "blue".to_owned())].into(),
        ..PlatformMetadata::default()
    };
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5));
    let described = bowline_talos::recognise(&config, &node, &machine, address, Timestamp::MAX);
    if let Ok(described) = described {
        let system = SystemInformation {
            uuid: "4c4c4544-0000-0000-0000-000000000000".to_owned(),
            ..SystemInformation::default()
        };
        let _ = described.describe(&config, &node, &system, &[], None);
    }
}

/// A pattern, a line with a replacement, and a text.
pub(crate) fn patterns(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    let (pattern, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (replacement, text) = rest.split_once('\n').unwrap_or(("<$1>", rest));
    let Ok(regex) = GoRegex::new(pattern) else {
        return;
    };
    let found = regex.find(text);
    assert_eq!(regex.is_match(text), found.is_some());
    assert_eq!(regex.group(text, 0), found);
    regex.group(text, 1);
    let replaced = regex.replace_all(text, replacement);
    if found.is_none() {
        assert_eq!(replaced.as_deref(), Ok(text), "nothing to replace");
    }
}

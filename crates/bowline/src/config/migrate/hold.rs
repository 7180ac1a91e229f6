//! The leases of originals that become one configuration: whoever takes the place of all holds the leases of all.

use bowline_controllers::election::LeaseName;
use bowline_controllers::options::{ElectionOptions, FLAGS};
use serde_json::{Map, Value as Json, json};

const ELECT: &str = "leader-elect";
const NAME: &str = "leader-elect-resource-name";
const NAMESPACE: &str = "leader-elect-resource-namespace";
const HOLD: &str = "hold-leases";

/// Whether a flag says under which lease a manager works. Each original has its own, so they do not mix.
pub(super) fn is_about_leases(flag: &str) -> bool {
    [ELECT, NAME, NAMESPACE].contains(&flag)
}

/// Lets the manager of that section hold the lease of one more original, unless it is the manager's own.
pub(super) fn add(
    section: &mut Map<String, Json>,
    original: &ElectionOptions,
    remarks: &mut Vec<String>,
) {
    if !original.enabled {
        let remark = "this original has --leader-elect=false, so that no lease keeps it from working at the same \
                      time: stop it before the manager starts";
        remarks.push(format!("manager.{HOLD}: {remark}"));
        return;
    }
    let lease = original.lease();
    let own = LeaseName {
        namespace: text(section, NAMESPACE),
        name: text(section, NAME),
    };
    if lease == own {
        return;
    }
    if section.get(ELECT) == Some(&json!(false)) {
        section.remove(ELECT);
        remarks.push(format!(
            "manager.{ELECT}: leases are held only by who has one, so that false is left out"
        ));
    }
    let mut held = texts(section.get(HOLD));
    let named = lease.to_string();
    if !held.contains(&named) {
        remarks.push(format!(
            "manager.{HOLD}: {named} is held besides {own}, so that this original never works at the same time"
        ));
        held.push(named);
    }
    section.insert(HOLD.to_owned(), json!(held));
}

/// What a section says about a flag, or its default.
fn text(section: &Map<String, Json>, name: &str) -> String {
    let said = section.get(name).and_then(Json::as_str);
    let default = || FLAGS.iter().find(|flag| flag.name == name);
    said.or_else(|| default().map(|flag| flag.default))
        .unwrap_or_default()
        .to_owned()
}

/// A list, or one text with commas.
fn texts(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::Array(items)) => items
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
        Some(Json::String(text)) => text.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use bowline_controllers::options::{Request, parse};

    use super::*;

    fn election(flags: &[&str]) -> ElectionOptions {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let asked = parse(crate::flags::table(), "bowline", Some("talos"), &flags);
        let Ok(Request::Run(line)) = asked else {
            panic!("{asked:?}");
        };
        line.options.election
    }

    #[test]
    fn the_lease_of_another_original_is_held_besides() {
        let talos = "--leader-elect-resource-name=cloud-controller-manager-talos";
        let elsewhere = "--leader-elect-resource-namespace=other";
        for (section, flags, expected, remarks) in [
            // Both have the default.
            (json!({}), &[][..], json!({}), 0),
            (
                json!({}),
                &[talos],
                json!({"hold-leases": ["kube-system/cloud-controller-manager-talos"]}),
                1,
            ),
            (
                json!({"leader-elect-resource-name": "bowline"}),
                &[],
                json!({
                    "leader-elect-resource-name": "bowline",
                    "hold-leases": ["kube-system/cloud-controller-manager"],
                }),
                1,
            ),
            (
                json!({"hold-leases": "a,b/c"}),
                &[elsewhere],
                json!({"hold-leases": ["a", "b/c", "other/cloud-controller-manager"]}),
                1,
            ),
            (
                json!({"hold-leases": ["other/cloud-controller-manager"]}),
                &[elsewhere],
                json!({"hold-leases": ["other/cloud-controller-manager"]}),
                0,
            ),
            (
                json!({"leader-elect": false}),
                &[talos],
                json!({"hold-leases": ["kube-system/cloud-controller-manager-talos"]}),
                2,
            ),
            (json!({}), &["--leader-elect=false"], json!({}), 1),
        ] {
            let Json::Object(mut into) = section.clone() else {
                panic!("{section}");
            };
            let mut reported = Vec::new();
            add(&mut into, &election(flags), &mut reported);
            assert_eq!(Json::Object(into), expected, "{section} {flags:?}");
            assert_eq!(reported.len(), remarks, "{section} {flags:?}: {reported:?}");
        }
    }
}

//! The manifest for several clouds.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::shipped::documents;
use super::understood;
use crate::config::{check, file};

const PATH: &str = "deploy/several.yaml";

fn object(kind: &str, name: &str) -> Value {
    let all = documents(PATH).into_iter();
    let mut found = all.filter(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn pod(workload: &Value) -> PodSpec {
    serde_json::from_value(workload["spec"]["template"]["spec"].clone()).unwrap()
}

#[test]
fn the_configuration_is_right_and_mounted_so_that_changes_arrive_without_a_restart() {
    let config = object("ConfigMap", "bowline");
    let (_folder, path) = file(config["data"]["bowline.yaml"].as_str().unwrap());
    let checked = check(&path);
    assert_eq!(checked.code, Some(0), "{checked:?}");

    let workload = object("DaemonSet", "bowline");
    // What would make other pods of another configuration.
    let annotations = &workload["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(*annotations, Value::Null);
    let pod = pod(&workload);
    let container = &pod.containers[0];
    let line = understood(container.args.as_ref().unwrap());
    line.options.validate().unwrap();
    let [mount] = &container.volume_mounts.as_ref().unwrap()[..] else {
        panic!("one mount");
    };
    assert_eq!(
        line.options.cloud.config,
        format!("{}/bowline.yaml", mount.mount_path)
    );
    // A single file would be mounted once and for all.
    assert_eq!((&mount.sub_path, &mount.sub_path_expr), (&None, &None));
    let [volume] = &pod.volumes.as_ref().unwrap()[..] else {
        panic!("one volume");
    };
    assert_eq!(volume.name, mount.name);
    assert_eq!(volume.config_map.as_ref().unwrap().name, "bowline");
}

#[test]
fn the_account_may_read_the_secrets_that_the_configuration_names_and_no_other() {
    let rules = object("Role", "bowline:secrets")["rules"].clone();
    let names = json!(["cloudscale", "exoscale-credentials"]);
    assert_eq!(
        rules,
        json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get"] }])
    );
    let all = documents(PATH);
    let rules = all.iter().filter_map(|it| it["rules"].as_array()).flatten();
    let about_secrets = rules.filter(|it| it["resources"] == json!(["secrets"]));
    assert_eq!(about_secrets.count(), 1);
}
